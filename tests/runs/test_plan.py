"""Dry runs: sizes against transformers' own models, the paper's numbers, nothing started."""

from __future__ import annotations

import socket

import pytest
import torch
from rich.console import Console
from transformers import BertForPreTraining, BertForSequenceClassification

from spikelm.config.compose import load_config
from spikelm.measure.workload import parameter_count
from spikelm.models.bert import bert_config
from spikelm.runs.experiment import open_run
from spikelm.runs.plan import make_plan, plan_run, show_plan


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
    show_plan(config, plan_run(config), console)
    text = console.export_text()
    assert "needs the pretrained run" in text
    assert "50 epochs" in text
    assert not runs_dir.exists()
    assert open_run(config).state == "new"


def test_published_rows_give_the_steps_of_a_fine_tuning() -> None:
    plan = make_plan(load_config(["scale=paper", "task=glue/cola"]))
    assert plan.steps == 50 * 268  # 8551 rows in batches of 32
    assert make_plan(load_config(["scale=smoke", "task=glue/cola"])).steps is None, "made data has no published size"


def said(*overrides: str) -> str:
    console = Console(record=True, width=140)
    config = load_config(list(overrides))
    show_plan(config, plan_run(config), console)
    return console.export_text()


def test_devices_share_the_batch_and_its_memory(runs_dir) -> None:
    options = ["scale=paper", "task=pretrain", "system=spikelm_t4"]
    assert "batch 512 (64 on each of 8 devices)" in said(*options, "trainer.devices=8")
    assert "170 or 171 on each of 3 devices" in said(*options, "trainer.devices=3")
    one, eight = (make_plan(load_config([*options, f"trainer.devices={n}"])) for n in (1, 8))
    copy = 4 * one.parameters / 1e9  # weights, gradients and two moments are on every device
    exchanged = 5 * copy  # and the gradients once more where devices exchange them
    assert eight.memory_gb - exchanged == pytest.approx((one.memory_gb - 4 * copy) / 8)
    assert (one.flops, one.tokens) == (eight.flops, eight.tokens)
    run = [open_run(load_config([*options, f"trainer.devices={n}"])).id for n in (1, 8)]
    assert run[0] == run[1], "the same run"


def test_the_released_schedule_is_spelled_out(runs_dir) -> None:
    assert "the rate is 0 from update 62,500" in said("scale=paper", "task=pretrain", "recipe=as_released")
    assert "from update" not in said("scale=paper", "task=pretrain", "recipe=paper")


XSUM = ["scale=paper", "task=sum/xsum", "neuron=bispike", "T=4"]
STEPS = 20 * -(-204_045 // 128)


def test_the_papers_summarisation_counts_encoder_and_decoder() -> None:
    """Facts section 4: BART_base, 1024 to 128 tokens."""
    plan, stacks, whole = make_plan(load_config(XSUM)), 68_098_719_744, 73_039_970_304
    assert plan.parameters == 139_420_416
    assert plan.steps == STEPS
    assert plan.tokens == STEPS * 128 * (1024 + 128)
    student = 6 * (4 * stacks + (whole - stacks))  # the head once, whatever T
    assert plan.flops == STEPS * 128 * (student + 2 * whole), "the teacher is asked forward only"
    plain = make_plan(load_config([*XSUM, "neuron=ann"]))
    assert plain.flops == STEPS // 4 * 128 * 6 * whole, "a quarter of the epochs: the teacher's recipe"
    assert make_plan(load_config([*XSUM, "distill=none"])).flops == STEPS * 128 * student
    assert plan.energy_ann_mj == pytest.approx(313.254, abs=5e-4)
    assert plan.energy_ceiling_mj == pytest.approx(4 * 0.9 / 4.6 * 313.254, abs=1e-3)
    assert plain.energy_ceiling_mj is None
    assert plan.energy_head_mj == pytest.approx(335.984 - 313.254, abs=1e-3)
    assert plan.energy_generated_mj == pytest.approx(377.61, abs=5e-3), "61 steps, 6 beams, from the cache"
    assert make_plan(load_config(["scale=paper", "task=mt/wmt16_enro"])).parameters == 610_851_840


def test_memory_of_pairs_grows_with_both_lengths_and_the_teacher() -> None:
    def gigabytes(*overrides: str) -> float:
        return make_plan(load_config([*XSUM, *overrides])).memory_gb

    whole = gigabytes()
    assert gigabytes("task.source_length=512") < whole / 2, "attention maps are squares"
    assert gigabytes("task.target_length=64") < whole
    assert gigabytes("distill=none") < whole
    copy = 4 * 139_420_416 / 1e9
    fixed = (4 + 1) * copy  # Adam's, and the teacher's weights
    exchanged = fixed + copy  # gradients between devices
    assert gigabytes("trainer.devices=8") - exchanged == pytest.approx((whole - fixed) / 8)


@pytest.mark.parametrize(("task", "backbone"), [("sum/cnn_dm", "bart_base"), ("mt/wmt16_enro", "mbart_large")])
def test_a_dry_run_of_pairs_needs_no_network_and_names_the_teacher(
    task: str, backbone: str, runs_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("a plan asks nobody"))
    text = said("scale=paper", f"task={task}", "neuron=bispike", "T=4")
    assert f"{backbone}, " in text
    assert "starts from facebook/" in " ".join(text.split())
    assert "up to 1024 to 128 tokens" in text
    assert f"needs the teacher run {task} " in " ".join(text.split())
    assert not runs_dir.exists()
