"""Dry runs: sizes against transformers' own models, the paper's numbers, nothing started."""

from __future__ import annotations

import pytest
import torch
from rich.console import Console
from transformers import BertForPreTraining, BertForSequenceClassification

from spikelm.compose import load_config
from spikelm.experiment import open_run
from spikelm.models.bert import bert_config
from spikelm.plan import make_plan, parameter_count, show_plan


@pytest.mark.parametrize("backbone", ["bert_tiny", "bert_mini", "bert_base", "bert_3l"])
def test_parameters_are_those_of_the_model(backbone: str) -> None:
    size = load_config([f"backbone={backbone}"]).backbone
    with torch.device("meta"):
        heads = BertForPreTraining(bert_config(size, size.vocab))
        classifier = BertForSequenceClassification(bert_config(size, size.vocab, num_labels=3))
    assert parameter_count(size, pretraining=True) == heads.num_parameters()
    assert parameter_count(size, pretraining=False, num_labels=3) == classifier.num_parameters()


def test_the_papers_pretraining() -> None:
    plan = make_plan(load_config(["scale=paper", "task=pretrain", "system=spikelm_t4"]))
    assert plan.parameters == 110_106_428
    assert plan.tokens == 100_000 * 512 * 128
    assert plan.flops == 6 * 4 * 11_173_625_856 * 512 * 100_000
    assert plan.energy_ann_mj == pytest.approx(51.40, abs=0.02)
    assert plan.energy_ceiling_mj == pytest.approx(4 * 10.05626, abs=1e-3)


def test_a_dry_run_names_its_prerequisite_and_writes_nothing(runs_dir) -> None:
    config = load_config(["scale=paper", "task=glue/cola", "dry_run=true"])
    console = Console(record=True, width=120)
    show_plan(config, console)
    text = console.export_text()
    assert "needs the pretrained run" in text
    assert "50 epochs" in text
    assert not runs_dir.exists()
    assert open_run(config).state == "new"
