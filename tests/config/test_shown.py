"""--cfg job: what is shown is what runs, and nothing that does not apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from spikelm.cli.command_line import precheck
from spikelm.config.compose import load_config
from spikelm.config.shown import applicable


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert precheck(["--cfg", "job", *words]) is None
    found: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return found


def test_what_is_shown_is_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    found, config = shown(capsys, "task=sum/xsum"), load_config(["task=sum/xsum"])
    assert found["backbone"]["name"] == config.backbone.name == "bart_mini"
    assert found["distill"]["losses"]["logits"] == config.distill.losses.logits == 1.0
    assert found["teacher"]["lr"] == config.teacher.lr
    assert found["finetune"]["steps"] == 400
    assert "${" not in yaml.safe_dump(found), "nothing is left to be resolved"


def test_what_does_not_apply_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    spiking = shown(capsys, "task=glue/rte")
    assert not {"general", "teacher", "variant", "previous", "system", "convert"} & set(spiking)
    assert spiking["distill"] == {"name": "none"}
    assert not {"generate", "source_length", "languages"} & set(spiking["task"])
    assert spiking["task"]["splits"] == {"validation": ""}
    plain = shown(capsys, "task=glue/rte", "neuron=ann")
    assert plain["neuron"] == {"name": "ann"}
    assert "amplitudes" not in plain["finetune"]
    assert "finetune" not in shown(capsys, "task=pretrain")
    assert "pretrain" not in shown(capsys, "task=sum/xsum"), "BART is trained from scratch at this scale"
    assert shown(capsys, "task=glue/rte", "distill=general")["general"]["steps"] == 500
    converted = shown(capsys, "task=glue/rte", "convert=only", "distill=full")
    assert converted["convert"] == {
        **{"mode": "only", "batches": 8, "batch": 32},
        **{"rotation": "none", "rotation_seed": 0, "settle": 0},
    }
    assert converted["distill"] == {"name": "full"}, "nothing is learned"
    assert "teacher" in converted, "which is what is converted"


def test_operators_are_shown_where_they_are_not_the_model_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert not {"attention", "norm"} & set(shown(capsys, "task=glue/rte"))
    found = shown(capsys, "task=glue/rte", "attention=ptsoftmax", "norm=bspn", "norm.warmup=10")
    assert found["attention"] == {
        "name": "ptsoftmax",
        "_target_": "spikelm.operators.ptsoftmax.PTSoftmax",
        "gradient": "ste",
    }
    assert found["norm"]["warmup"] == 10


def test_a_value_of_every_shown_key_can_be_overridden(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "task=glue/rte", "system=spikelm_t4")
    assert found["system"] == {"name": "spikelm_t4", "title": "SpikeLM"}
    words = [f"neuron.{key}={value}" for key, value in found["neuron"].items() if isinstance(value, int | float)]
    assert applicable(load_config(["task=glue/rte", "system=spikelm_t4", *words])) == applicable(
        load_config(["task=glue/rte", "system=spikelm_t4"])
    )


def test_the_dropout_of_a_decoder_is_that_of_its_weights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = {"vocab_size": 64, "n_layer": 1, "n_head": 2, "n_embd": 8, "n_positions": 512}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "resid_pdrop": 0.3, **sizes}))
    words = ["task=lm/embedded", "neuron=ann"]
    given = shown(capsys, *words, "backbone=hf", f"backbone.path={tmp_path}")["backbone"]
    assert (given["dropout"], given["attention_dropout"]) == (0.3, 0.1), "which is GPT-2's where the file says nothing"
    scratch = shown(capsys, *words, "backbone=llama_tiny")["backbone"]
    assert "dropout" not in scratch, "a Llama drops no hidden states"
    assert "dropout" in shown(capsys, "task=glue/rte")["backbone"]
