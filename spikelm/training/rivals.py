"""Which stage a backbone that is not a BERT or BART with neurons has for which task: the one place that knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from rich.console import Console

from spikelm.schema import Config
from spikelm.training.builders import Stage

Builder = Callable[[Config, Mapping[str, Path], Console], Stage]
#: kind of backbone -> the module of its stages, each with `pretraining`, `fine_tuning` or `pairs`
MODULES = {"elmo": "bilm", "ptgen": "pointer", "bertsum": "bertsum", "gpt2": "zero_shot"}


def rival_stage(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """The stage of a config; that kind and task fit was checked before (check_kinds.py)."""
    module = import_module(f"spikelm.training.{MODULES[config.backbone.kind]}")
    name = {"pretrain": "pretraining", "seq2seq": "pairs"}.get(config.task.kind, "fine_tuning")
    build: Builder = getattr(module, name)
    return build(config, needed, console)
