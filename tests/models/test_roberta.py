"""RoBERTa from config to export: one entry of sites, one of kinds and one YAML make it a backbone of everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AutoModelForSequenceClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
)

import spikelm.export  # noqa: F401 (registers the exported classes)
from spikelm.catalog.checkpoint_files import read_kind, read_sizes
from spikelm.cli.audit_command import audit_main
from spikelm.cli.energy.energy_command import energy_main
from spikelm.cli.export import export_main
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import pad
from spikelm.errors import ConfigError
from spikelm.measure.workload import parameter_count as planned
from spikelm.models.bert import build_pretraining_model, parameter_count
from spikelm.runs.experiment import Finished, open_run, run_experiment
from spikelm.spiking import load_pretrained

QUIET = Console(quiet=True)
SMALL = ("scale=smoke", "backbone=roberta_tiny", "source.train_rows=64", "source.dev_rows=32", "finetune.epochs=1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def config_of(runs: Path, *overrides: str) -> Config:
    return load_config([*SMALL, f"runs_dir={runs}", "neuron=bispike", *overrides])


def smoke(runs: Path, *overrides: str) -> Finished:
    return run_experiment(config_of(runs, *overrides), QUIET)


def test_masked_words_alone_are_pretrained(runs: Path) -> None:
    finished = smoke(runs, "task=pretrain")
    result = finished.result
    assert set(result.metrics) == {"loss", "mlm_loss", "mlm_accuracy"}
    assert 0 < result.metrics["mlm_loss"] < 20
    assert result.spike_driven.verdict == "fully"
    model: Any = load_pretrained(finished.directory / "model")
    assert type(model).__name__ == "SpikingRobertaForMaskedLM"
    assert result.parameters == parameter_count(model)
    longer = smoke(runs, "task=pretrain", "pretrain.steps=60", "pretrain.lr=3e-3").result
    assert longer.metrics["mlm_loss"] < result.metrics["mlm_loss"]


def test_every_position_can_be_used_and_the_padding_has_one_of_its_own(runs: Path) -> None:
    config = config_of(runs, "task=pretrain", "neuron=ann")
    model: Any = build_pretraining_model(config, 100).eval()
    assert model.config.max_position_embeddings == config.backbone.positions + 1
    longest = torch.randint(1, 100, (1, config.backbone.positions))
    assert model(input_ids=longest).logits.shape == (1, config.backbone.positions, 100)
    alone, longer = longest[:, :5], torch.randint(1, 100, (1, 9))
    both = pad([(row[0].numpy(), row[0].numpy() * 0) for row in (alone, longer)])
    torch.testing.assert_close(model(**both).logits[0, :5], model(alone).logits[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("neuron", ["ann", "bispike"])
def test_planned_parameters_are_those_of_the_model(neuron: str, runs: Path) -> None:
    config = config_of(runs, "task=pretrain", f"neuron={neuron}")
    size, vocab = config.backbone, config.backbone.vocab
    assert planned(size, pretraining=True) == parameter_count(build_pretraining_model(config, vocab))
    settings: Any = build_pretraining_model(config, vocab).config
    settings.num_labels = 3
    assert planned(size, pretraining=False, num_labels=3) == parameter_count(RobertaForSequenceClassification(settings))


def test_it_is_fine_tuned_measured_audited_and_exported(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished = smoke(runs, "task=glue/rte", "T=2")
    result = finished.result
    rates = result.firing_rate
    assert result.spike_driven.verdict == "fully"
    assert result.spike_driven.real_valued == ["classifier.dense", "classifier.out_proj"]
    assert 0 < rates.mean < 1
    assert len(rates.per_site) == 2 * 6
    assert 0 < result.energy_mj.fp32 < result.energy_ann_mj.fp32
    assert result.pretrained == open_run(config_of(runs, "task=pretrain", "T=2")).id
    assert audit_main([str(finished.directory), "--runs-dir", str(runs)]) == 0
    folder = finished.directory / "exported-fp32"
    assert export_main([str(finished.directory), "--runs-dir", str(runs), "--out", str(folder)]) == 0
    report = json.loads((folder / "export.json").read_text())
    assert report["exported"] == report["recorded"] == report["trained"]
    assert report["double_precision_difference"] < 1e-9
    model: Any = AutoModelForSequenceClassification.from_pretrained(folder)
    assert model.config.plain == "RobertaForSequenceClassification"
    assert model.pooler is None
    capsys.readouterr()


@pytest.mark.parametrize(
    "options",
    [
        ("distill=full", "distill.losses.attention=1"),
        ("distill=general", "distill.teacher.cache=true"),
        ("distill.losses.scores=1",),
    ],
)
def test_a_student_learns_from_its_teacher(options: tuple[str, ...], runs: Path) -> None:
    result = smoke(runs, "task=glue/rte", *options).result
    assert result.teacher == open_run(config_of(runs, "task=glue/rte", "neuron=ann")).id
    teacher: Any = load_pretrained(open_run(config_of(runs, "task=glue/rte", "neuron=ann")).directory / "model")
    assert type(teacher).__name__ == "RobertaForSequenceClassification"


def test_general_distillation_imitates_its_layers(runs: Path) -> None:
    finished = smoke(runs, "task=general_distill")
    assert set(finished.result.metrics) == {"loss", "last_loss", "cosine"}
    assert type(load_pretrained(finished.directory / "model")).__name__ == "SpikingRobertaModel"


def byte_tokenizer() -> Tokenizer:
    """Letters as RoBERTa frames them: <s> a </s></s> b </s>, the padding's id is 1, no segments."""
    letters = "abcdefghijklmnopqrstuvwxyz.,'?! -"
    vocabulary = {piece: index for index, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint as the hub has them: one segment, padding 1, two positions that no token uses."""
    folder = tmp_path_factory.mktemp("roberta")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = RobertaConfig(vocab_size=40, max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, **sizes)
    torch.manual_seed(0)
    RobertaForMaskedLM(config).save_pretrained(folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def test_a_saved_roberta_is_a_backbone(saved: Path, runs: Path) -> None:
    assert read_kind(str(saved)) == "roberta"
    assert read_sizes(str(saved), "roberta")["positions"] == 64
    path = ("backbone=hf", f"backbone.path={saved}")
    plain = smoke(runs, *path, "task=glue/rte", "neuron=ann").result
    assert plain.pretrained is None
    student = smoke(runs, *path, "task=glue/rte", "distill=general").result
    assert student.spike_driven.verdict == "fully"
    assert student.teacher == plain.run_id


def test_what_it_cannot_do_is_said_before_anything_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"task=sum/xsum is not valid for RoBERTa"):
        config_of(runs, "task=sum/xsum")
    with pytest.raises(ConfigError, match=r"next sentence"):
        config_of(runs, "task=pretrain", "distill.pretrain=true")
    assert energy_main(["backbone=roberta_tiny", "--length", "64"]) == 0
    assert "roberta_tiny: 2 layers" in capsys.readouterr().out
