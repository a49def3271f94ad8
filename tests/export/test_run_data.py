"""Runs of decoders and of text pairs through spikelm-export: what is compared, what is written, who loads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from spikelm.cli.export import _refuse_config, _refuse_head, export_main
from spikelm.config.compose import load_config
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import load_text_pair_tokenizer
from spikelm.errors import ConfigError
from spikelm.runs.experiment import run_experiment

QUICK = ("scale=smoke", "trainer.threads=1", "distill=none")


def exported(runs: Path, precision: str, *overrides: str) -> tuple[Any, Path, dict[str, Any]]:
    """A finished run, the folder of its export, and export.json."""
    finished = run_experiment(load_config([*QUICK, f"runs_dir={runs}", *overrides]), Console(quiet=True))
    out = runs / f"exported-{precision}"
    assert export_main([str(finished.directory), f"precision={precision}", "--out", str(out)]) == 0
    return finished, out, json.loads((out / "export.json").read_text())


def test_a_decoder_is_exported_and_goes_on_with_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finished, out, report = exported(tmp_path, "fp32", "task=lm/embedded", "backbone=llama_tiny", "neuron=residual")
    metrics = finished.result.metrics
    assert report["trained"] == pytest.approx({name: metrics[name] for name in ("perplexity", "loss", "accuracy")})
    assert report["exported"]["perplexity"] == pytest.approx(metrics["perplexity"], rel=1e-3)
    assert report["compared_on"] == "all tokens in windows of 64"
    assert report["double_precision_difference"] < 1e-12
    assert "the merge in double precision" in capsys.readouterr().out
    (written,) = pipeline("text-generation", model=str(out))("Ana is", max_new_tokens=4, do_sample=False)
    assert written["generated_text"].startswith("Ana is")

    headed = tmp_path / "headed"
    assert export_main([str(finished.directory), "precision=int8", "--int8-head", "--out", str(headed)]) == 0
    report = json.loads((headed / "export.json").read_text())
    assert report["int8_head"]
    assert report["double_precision_difference"] < 1e-12
    head = report["head"]
    assert head["exported"] == report["exported"]
    assert head["trained"] != report["trained"], "its other side is the int8 model with a head in float32"
    assert head["rows"] == report["rows"]
    assert 0 < head["max_difference"] < report["max_difference"]
    assert json.loads((headed / "config.json").read_text())["spikelm_export"]["int8_head"]
    card = (headed / "README.md").read_text()
    assert "| LM head | int8" in card
    assert "--precision int8 --int8-head" in card
    assert f"{head['other_predictions']} of {head['rows']} predictions and" in capsys.readouterr().out


def test_a_translator_is_exported_with_its_tokenizer(tmp_path: Path) -> None:
    finished, out, report = exported(tmp_path, "int8", "task=mt/wmt16_enro")
    config = finished.result.config
    assert set(report["trained"]) == {"loss", "accuracy", "loss_test", "accuracy_test"}
    assert report["exported"]["loss"] == pytest.approx(report["trained"]["loss"], rel=0.01)
    assert report["exported"] != report["trained"]
    assert len(report["texts"]) == 8
    text = load_text_pairs(config.task, config.source)
    ours = load_text_pair_tokenizer(config.task, config.source, config.backbone, text, tmp_path / ".cache")
    tokenizer = AutoTokenizer.from_pretrained(out)
    first = report["texts"][0]
    read = tokenizer(first["source"], return_tensors="pt")
    assert read["input_ids"].tolist() == ours.encode_sources([first["source"]], 99)
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(out)
    ids = model.generate(**read, num_beams=config.task.generate.beams, max_length=config.task.generate.max_length)
    assert tokenizer.decode(ids[0], skip_special_tokens=True) == first["exported"]


@pytest.mark.parametrize(
    ("task", "precision", "why"),
    [("glue/sst2", "int8", "has no LM head"), ("lm/embedded", "fp32", "goes with linears of int8")],
)
def test_an_int8_head_is_refused_before_anything_is_loaded(task: str, precision: str, why: str, tmp_path: Path) -> None:
    backbone = "llama_tiny" if task.startswith("lm") else "bert_tiny"
    with pytest.raises(ConfigError, match=why):
        _refuse_head(load_config([*QUICK, f"runs_dir={tmp_path}", f"task={task}", f"backbone={backbone}"]), precision)


def test_pretraining_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"task=pretrain of backbone\.kind=bert cannot be exported"):
        _refuse_config(load_config([*QUICK[:2], f"runs_dir={tmp_path}", "task=pretrain"]))
