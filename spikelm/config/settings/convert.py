"""Conversion without training: neurons are put into a trained plain model, and data alone sets their amplitudes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.fields import setting
from spikelm.errors import ConfigError
from spikelm.rules import Rule

COUNT = Rule(whole=True, least=1)
NOT_NEGATIVE = Rule(whole=True, least=0)
SETTLES = ".STBIF"  # what the class of a neuron ends in whose network over time comes to rest


@dataclass
class ConvertConfig:
    """Whether a run is a conversion or starts from one, and how the conversion is made.

    A conversion is decided by all of this; a run that starts from one is decided by the id of the conversion.
    """

    mode: str = setting("none", Rule(choices=("none", "only", "first")))
    batches: int = setting(8, COUNT)  # of training rows or text, whose mean sets the amplitudes
    batch: int = setting(32, COUNT)  # rows of each
    rotation: str = setting("none", Rule(choices=("none", "hadamard")))  # in front of the neurons
    rotation_seed: int = setting(0, NOT_NEGATIVE)  # of its signs
    settle: int = setting(0, NOT_NEGATIVE)  # most steps of the network over time of ST-BIF neurons; 0: not looked at


def check_convert(config: Any) -> None:
    """Whether the model, the task and the neuron can be converted as asked."""
    convert: ConvertConfig = config.convert
    if convert.mode == "none":
        return
    said = f"convert={convert.mode}"
    if not config.converted:
        raise ConfigError(
            f"{said} puts neurons into a plain model, and neuron={config.neuron.name} is none",
            "choose another neuron, for example neuron=residual",
        )
    if config.task.kind == "pretrain":
        raise ConfigError(
            f"{said} needs a trained plain model, and task=pretrain trains from scratch",
            "task=general_distill converts the pretrained model",
        )
    if config.kind.neuron == "spiking":
        raise ConfigError(f"{said}: {config.kind.title} has no plain form that could be converted", "convert=none")
    if convert.mode == "first" and config.distill.start.weights == "previous":
        raise ConfigError(
            "convert=first and distill.start.weights=previous are two starts", "distill.start.weights=teacher"
        )
    if convert.batch < (config.trainer.devices or 1):
        raise ConfigError(f"convert.batch={convert.batch} cannot be shared by trainer.devices={config.trainer.devices}")
    if convert.rotation != "none":
        _check_rotation(config)
    if convert.settle and not config.neuron.target.endswith(SETTLES):
        raise ConfigError(
            f"convert.settle={convert.settle} steps ST-BIF neurons until they rest, not neuron={config.neuron.name}",
            "neuron=stbif, or convert.settle=0",
        )
    if convert.settle and convert.mode == "first":
        raise ConfigError(
            f"convert.settle={convert.settle} looks at a conversion and changes nothing of it, so nothing of this run",
            "convert=only, or convert.settle=0",
        )


def _check_rotation(config: Any) -> None:
    said = f"convert.rotation={config.convert.rotation}"
    if not config.spiking:
        raise ConfigError(f"{said} stands in front of neurons, and there are none", "convert.rotation=none")
    if config.variant != VariantConfig():
        raise ConfigError(f"{said} does not go together with a variant of the attention", "convert.rotation=none")
    heads = config.backbone.options.get("head_size") or config.backbone.hidden // config.backbone.heads
    if heads % 2:
        raise ConfigError(f"{said} needs heads of an even size, and these have {heads}", "convert.rotation=none")
