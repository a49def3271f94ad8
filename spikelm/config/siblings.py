"""Backbones of one scale: a task with pairs of texts takes the encoder-decoder that goes with the scale's BERT."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from spikelm.config.plugins import option_file
from spikelm.config.schema import BackboneConfig
from spikelm.errors import ConfigError


def take_sibling(config: Any) -> None:
    """Put the sibling of a BERT in its place where the task has pairs; keys that were overridden stay overridden.

    conf/backbone/bert_mini.yaml: pairs: {sum: bart_mini, mt: mbart_mini}
    """
    backbone = config.backbone
    if config.task.kind != "seq2seq" or backbone.kind != "bert":
        return
    family = config.task.name.partition("/")[0]
    if family not in _own(backbone.name).get("pairs", {}):  # bert_3l is made from bert_base, but has no sibling
        raise ConfigError(
            f"{config.task.name} needs an encoder-decoder; backbone={backbone.name} is a BERT", "backbone=bart_mini"
        )
    before, sibling = _read(backbone.name), _read(backbone.pairs[family])
    for key in backbone:
        if OmegaConf.is_missing(backbone, key):
            continue
        # What the composed config says and its file does not was said by the user or by another group.
        if key in ("name", "kind", "pairs") or backbone[key] == before[key]:
            backbone[key] = sibling[key]


def _own(name: str) -> Any:
    """What a backbone's file says itself; nothing for one that has no file here."""
    path = option_file("backbone", name)
    return OmegaConf.load(path) if path else OmegaConf.create()


def _read(name: str) -> Any:
    return OmegaConf.merge(OmegaConf.structured(BackboneConfig), _own(name))
