"""The table of kinds: every name in it is there, every task of a kind has its stage, and nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest
import transformers
import yaml

from spikelm.catalog.kinds import KINDS, architecture, own_class
from spikelm.config.paths import config_dir
from spikelm.models.architecture import Architecture
from spikelm.rivals.spikegpt.rwkv import SpikeGPTForCausalLM
from spikelm.training.stage import BUILDERS

OF_BERT_AND_BART = {"bert": {"text_pairs"}, "bart": {"pretraining", "general", "fine_tuning"}}  # each other's tasks


@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_is_there_and_every_task_has_its_stage(kind: str) -> None:
    entry, made = KINDS[kind], architecture(kind)
    assert isinstance(made, Architecture)
    assert made.classes or entry.causal, "whose classes are transformers' own"
    missing = {BUILDERS[task] for task in entry.tasks if getattr(made, BUILDERS[task]) is None}
    pairs_only = OF_BERT_AND_BART["bart"] if entry.seq2seq else set()
    assert missing == OF_BERT_AND_BART.get(kind, pairs_only)
    assert ("pretrain" in entry.tasks) >= (made.batches is not None)


def test_no_class_of_ours_has_the_name_of_one_of_transformers() -> None:
    for kind in (kind for kind, entry in KINDS.items() if not entry.transformers):
        assert not [cls.__name__ for cls in architecture(kind).classes if hasattr(transformers, cls.__name__)]


def test_every_backbone_has_a_kind_that_is_known() -> None:
    kinds = {"auto"}  # that of the weights
    for path in [*(config_dir() / "backbone").glob("*.yaml"), *(config_dir() / "system").glob("*.yaml")]:
        said = yaml.safe_load(path.read_text())
        kinds.add(said.get("backbone", said).get("kind", "bert"))
    assert kinds - {"auto"} == set(KINDS), "and every kind is used"


def test_classes_are_found_by_the_name_in_a_checkpoint() -> None:
    assert own_class("SpikeGPTForCausalLM") is SpikeGPTForCausalLM
    assert own_class("BertModel") is None, "it is transformers'"


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_a_decoder_needs_no_rival(kind: str) -> None:
    code = f"import sys; from spikelm.catalog.kinds import architecture; architecture('{kind}').language_modelling; "
    code += "sys.exit([name for name in sys.modules if name.startswith('spikelm.rivals')] != [])"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_table_is_read_without_torch() -> None:
    code = "import sys, spikelm.catalog.kinds; sys.exit(bool({'torch', 'transformers'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
