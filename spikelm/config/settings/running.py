"""How a run is carried out, measured and tracked."""

from __future__ import annotations

from dataclasses import dataclass

from spikelm.config.settings.fields import NO_RUN, setting
from spikelm.rules import Rule

COUNT = Rule(whole=True, least=1)


@dataclass
class MeasureConfig:
    """What the energy, firing rates and audit are measured on."""

    samples: int = setting(64, COUNT)
    length: int = setting(128, COUNT)


@dataclass
class TrainerConfig:
    """How it runs; only `precision` and `compile` can change a result, in its last digits."""

    accelerator: str = setting("auto", Rule(choices=("auto", "cpu", "gpu", "cuda", "mps")), NO_RUN)
    devices: int = setting(1, COUNT, NO_RUN)  # processes that share each batch, one per device
    strategy: str = setting("ddp", Rule(choices=("ddp", "fsdp")), NO_RUN)  # fsdp: parameters and optimiser in shards
    precision: str = setting("32-true", Rule(choices=("32-true", "bf16-mixed", "16-mixed")))
    workers: int = setting(0, Rule(whole=True, least=0), NO_RUN)
    threads: int | None = setting(None, Rule(whole=True, least=1, optional=True), NO_RUN)  # of each process
    keep_heap: bool = setting(False, decides=NO_RUN)  # freed memory stays with the process: spikelm/machine/cpu.py
    progress: bool = setting(True, decides=NO_RUN)
    log_every: int = setting(20, COUNT, NO_RUN)
    checkpoint_every: int = setting(200, COUNT, NO_RUN)
    # neurons: their kernels; model: the blocks of a BERT, neurons inside (docs/speed.md)
    compile: str = setting("off", Rule(choices=("off", "neurons", "model")))
    activation_checkpointing: bool = setting(False, decides=NO_RUN)  # less memory, same result


@dataclass
class TrackerConfig:
    """Weights & Biases."""

    mode: str = setting("offline", Rule(choices=("online", "offline", "disabled")), NO_RUN)
    project: str = setting("spikelm", decides=NO_RUN)
    entity: str | None = setting(None, decides=NO_RUN)
    group: str | None = setting(None, decides=NO_RUN)
