"""How a run is carried out, measured and tracked."""

from __future__ import annotations

from dataclasses import dataclass

from spikelm.config.settings.fields import LEFT_OUT, NO_RUN, setting
from spikelm.rules import Rule

COUNT = Rule(whole=True, least=1)
OPTIONAL_COUNT = Rule(whole=True, least=1, optional=True)


@dataclass
class MeasureConfig:
    """What the energy, firing rates and audit are measured on."""

    samples: int = setting(64, COUNT)
    length: int = setting(128, COUNT)


@dataclass
class TrainerConfig:
    """How it runs; only `precision`, `matmul` and `compile` can change a result, in its last digits."""

    accelerator: str = setting("auto", Rule(choices=("auto", "cpu", "gpu", "cuda", "mps")), NO_RUN)
    # Processes that share each batch, one per device; null: all GPUs for long trainings, one for a fine-tuning of
    # a classifier (spikelm/config/devices.py).
    devices: int | None = setting(None, OPTIONAL_COUNT, NO_RUN)
    device_memory: float | None = setting(None, Rule(above=0, optional=True), NO_RUN)  # GB; null: the device is asked
    # Rows that one device computes at a time; the gradients of a batch's parts are added up. null: as many as fit.
    micro_batch: int | None = setting(None, OPTIONAL_COUNT, NO_RUN)
    strategy: str = setting("ddp", Rule(choices=("ddp", "fsdp")), NO_RUN)  # fsdp: parameters and optimiser in shards
    precision: str = setting("32-true", Rule(choices=("32-true", "bf16-mixed", "16-mixed")))
    # Products of fp32 numbers on a GPU: highest is fp32, high is TF32, which keeps 10 of the 23 bits of a fraction.
    matmul: str = setting("highest", Rule(choices=("highest", "high")), counts_as={"highest": LEFT_OUT})
    workers: int = setting(0, Rule(whole=True, least=0), NO_RUN)
    threads: int | None = setting(None, OPTIONAL_COUNT, NO_RUN)  # of each process
    keep_heap: bool = setting(False, decides=NO_RUN)  # freed memory stays with the process: spikelm/machine/cpu.py
    progress: bool = setting(True, decides=NO_RUN)
    log_every: int = setting(20, COUNT, NO_RUN)
    checkpoint_every: int = setting(200, COUNT, NO_RUN)
    # neurons: their kernels; model: the blocks of a BERT, neurons inside; auto: neurons on a GPU
    # (docs/internals/speed.md)
    compile: str = setting("auto", Rule(choices=("auto", "off", "neurons", "model")), counts_as={"auto": "off"})
    tflops: float | None = setting(None, Rule(above=0, optional=True), NO_RUN)  # of one device, for the plan's hours
    # Compute activations again instead of keeping them: less memory, same result; null: where nothing else fits.
    activation_checkpointing: bool | None = setting(None, decides=NO_RUN)


@dataclass
class TrackerConfig:
    """Weights & Biases."""

    mode: str = setting("offline", Rule(choices=("online", "offline", "disabled")), NO_RUN)
    project: str = setting("spikelm", decides=NO_RUN)
    entity: str | None = setting(None, decides=NO_RUN)
    group: str | None = setting(None, decides=NO_RUN)
