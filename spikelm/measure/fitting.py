"""Settings with which a training fits the memory of its devices, for plans and refusals."""

from __future__ import annotations

from dataclasses import replace

from spikelm.config.devices import device_count
from spikelm.config.settings.schema import Config
from spikelm.measure.workload import device_share


def smaller_settings(config: Config) -> list[str]:
    """Settings with which the estimate fits: fewer rows at a time, less kept for the backward, shards."""
    own, devices = config.trainer, device_count(config)
    spared = replace(own, activation_checkpointing=True)
    bf16 = replace(spared, precision="bf16-mixed")
    checkpointing = "trainer.activation_checkpointing=true"
    trials = {
        "trainer.micro_batch=null": replace(own, micro_batch=None),
        checkpointing: spared,
        f"{checkpointing} trainer.precision=bf16-mixed": bf16,
        **({f"{checkpointing} trainer.strategy=fsdp": replace(spared, strategy="fsdp")} if devices > 1 else {}),
    }
    fitting = []
    for words, trainer in trials.items():
        share = device_share(replace(config, trainer=replace(trainer, micro_batch=None)))
        if config.norm and trainer.activation_checkpointing:  # is refused: its statistics would count a batch twice
            continue
        if trainer != own and share.fits:
            fitting.append(words)
    return fitting[:2]
