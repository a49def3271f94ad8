"""Backbones of one scale: a task with pairs of texts takes the encoder-decoder that goes with the scale's BERT."""

from __future__ import annotations

from typing import Any

from omegaconf import DictConfig, OmegaConf

from spikelm.errors import ConfigError
from spikelm.schema import BackboneConfig, config_dir


def take_sibling(config: Any) -> None:
    """Put the sibling of a BERT in its place where the task has pairs; keys that were overridden stay overridden.

    conf/backbone/bert_mini.yaml: pairs: {sum: bart_mini, mt: mbart_mini}
    """
    backbone = config.backbone
    if config.task.kind != "seq2seq" or backbone.kind != "bert":
        return
    family = config.task.name.partition("/")[0]
    if family not in backbone.pairs:
        raise ConfigError(
            f"{config.task.name} needs an encoder-decoder; backbone={backbone.name} is a BERT", "backbone=bart_mini"
        )
    before, sibling = _read(backbone.name), _read(backbone.pairs[family])
    for key in backbone:
        if OmegaConf.is_missing(backbone, key):
            continue
        # What the composed config says and its file does not was said by the user or by another group.
        if key in ("name", "kind", "pairs", "path") or backbone[key] == before[key]:
            backbone[key] = sibling[key]


def _read(name: str) -> DictConfig:
    loaded = OmegaConf.load(config_dir() / "backbone" / f"{name}.yaml")
    found = OmegaConf.merge(OmegaConf.structured(BackboneConfig), loaded)
    if not isinstance(found, DictConfig):
        raise ConfigError(f"conf/backbone/{name}.yaml is not a mapping")
    return found
