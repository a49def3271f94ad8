"""The table of kinds: every name in it is there, every task of a kind has its stage, and nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
import yaml
from transformers import BertModel

from spikelm.catalog.kinds import KINDS, named, own_class
from spikelm.config.paths import config_dir
from spikelm.rivals.spikegpt.rwkv import RwkvForCausalLM
from spikelm.training.stage import FUNCTIONS

OF_BERT_AND_BART = {"bert": {"pairs"}, "bart": {"pretraining", "general", "fine_tuning"}}  # each other's tasks


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_is_there_and_every_task_has_its_stage(kind: str) -> None:
    entry = KINDS[kind]
    for path in (entry.config, entry.encoder, entry.pretraining, entry.classifier, entry.batches):
        assert not path or callable(named(path))
    stages = import_module(f"spikelm.{entry.stages}")
    missing = {FUNCTIONS[task] for task in entry.tasks if not hasattr(stages, FUNCTIONS[task])}
    assert missing == OF_BERT_AND_BART.get(kind.removeprefix("m"), set())


def test_every_backbone_has_a_kind_that_is_known() -> None:
    kinds = {"auto"}  # that of the weights
    for path in [*(config_dir() / "backbone").glob("*.yaml"), *(config_dir() / "system").glob("*.yaml")]:
        said = yaml.safe_load(path.read_text())
        kinds.add(said.get("backbone", said).get("kind", "bert"))
    assert kinds - {"auto"} == set(KINDS), "and every kind is used"


def test_classes_are_found_by_the_name_in_a_checkpoint() -> None:
    assert own_class("RwkvForCausalLM") is RwkvForCausalLM
    assert own_class("BertModel") is None, f"transformers' {BertModel.__name__} is not ours"


def test_the_table_is_read_without_torch() -> None:
    code = "import sys, spikelm.catalog.kinds; sys.exit(bool({'torch', 'transformers'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
