"""Dry runs: sizes against transformers' own models, the paper's numbers, nothing started."""

from __future__ import annotations

import io
import json
import re
import socket
from dataclasses import asdict

import pytest
import torch
from rich.console import Console
from transformers import BertForPreTraining, BertForSequenceClassification

from spikelm.config.compose import load_config
from spikelm.measure.workload import parameter_count
from spikelm.models.bert import bert_config
from spikelm.runs import plan as plan_module
from spikelm.runs.experiment import open_run
from spikelm.runs.plan import WIDTH, make_plan, plan_run, planned_run, show_plan, show_plans


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
    head = 0.15 * 128 * (768**2 + 768 * 30522)  # of the masked words
    assert plan.cost.flops == pytest.approx(6 * (4 * 11_173_625_856 + head) * 512 * 100_000)
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
    assert plan.cost.steps == 50 * 268  # 8551 rows in batches of 32
    assert make_plan(load_config(["scale=smoke", "task=glue/cola"])).cost.steps is None, (
        "made data has no published size"
    )


def said(*overrides: str) -> str:
    console = Console(record=True, width=140)
    config = load_config(list(overrides))
    show_plan(config, plan_run(config), console)
    return console.export_text()


SPIKELM = ["scale=paper", "task=pretrain", "system=spikelm_t4", "trainer.accelerator=cpu"]


def test_devices_share_the_batch_and_its_memory(runs_dir) -> None:
    assert "512 = 8 devices x 64 rows" in said(*SPIKELM, "trainer.devices=8")
    assert "512 = 3 devices x at most 171 rows" in said(*SPIKELM, "trainer.devices=3")
    one, eight = (make_plan(load_config([*SPIKELM, f"trainer.devices={n}"])) for n in (1, 8))
    assert one.share.memory_gb / 8 < eight.share.memory_gb < one.share.memory_gb / 4, "the weights are on every device"
    assert (one.cost.flops, one.tokens) == (eight.cost.flops, eight.tokens)
    run = [open_run(load_config([*SPIKELM, f"trainer.devices={n}"])).id for n in (1, 8)]
    assert run[0] == run[1], "the same run"


@pytest.mark.parametrize("devices", [1, 2, 8])
@pytest.mark.parametrize("memory", [80, 24])
def test_a_dry_run_says_how_devices_of_a_size_compute_the_batch(devices: int, memory: int, runs_dir) -> None:
    options = [*SPIKELM, f"trainer.devices={devices}", f"trainer.device_memory={memory}"]
    share = make_plan(load_config(options)).share
    assert share.fits
    assert share.memory_gb <= memory
    text = said(*options)
    parts = f" x {share.accumulate} parts" if share.accumulate > 1 else ""
    most = "" if devices * share.accumulate * share.micro_batch == 512 else "at most "
    plural = "s" if devices > 1 else ""
    assert f"512 = {devices} device{plural}{parts} x {most}{share.micro_batch} rows" in text
    assert f"{share.memory_gb:.1f} GB of {memory} GB per device" in text
    assert "does not fit" not in text


def test_where_not_even_one_row_fits_the_plan_says_so_and_what_does_fit(
    runs_dir, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*SPIKELM, "trainer.devices=8", "trainer.device_memory=1"]
    monkeypatch.setattr(plan_module, "smaller_settings", lambda config: [])
    text = " ".join(said(*options).split())
    assert "does not fit one row at a time needs" in text
    assert "a larger device, or shorter rows" in text
    monkeypatch.setattr(plan_module, "smaller_settings", lambda config: ["trainer.strategy=fsdp", "T=1"])
    assert "it fits with trainer.strategy=fsdp, or with T=1" in " ".join(said(*options).split())


def test_hours_are_operations_over_a_stated_speed(runs_dir) -> None:
    options = [*SPIKELM, "trainer.devices=8"]
    text = said(*options, "trainer.matmul=highest")
    assert "275 h, 34.4 h on 8 devices" in text
    assert "14 TFLOP/s per device (70% of an A100's 19.5 in fp32; trainer.tflops=... sets it)" in text
    assert "matmuls alone" in text
    assert "55.0 h, 6.9 h on 8 devices" in said(*options, "trainer.matmul=high")
    assert "of an A100's 312 in bf16" in said(*options, "trainer.precision=bf16-mixed")
    assert "385 h, 48.2 h on 8 devices" in said(*options, "trainer.tflops=10")


def test_disk_is_three_checkpoints_while_it_trains_and_the_model_afterwards(runs_dir) -> None:
    cost = make_plan(load_config(SPIKELM)).cost
    assert cost.finished_gb == pytest.approx(4 * 110_106_428 / 1e9)
    assert cost.running_gb == pytest.approx((1 + 3 * 3) * cost.finished_gb), "weights and two moments, three times"
    best = make_plan(load_config(["scale=paper", "task=glue/rte", "select=best_dev"])).cost
    assert best.running_gb == pytest.approx((1 + 3 * 4) * best.finished_gb), "the best epoch's weights as well"


def test_a_dry_run_counts_the_runs_that_come_first(runs_dir) -> None:
    config = load_config(["scale=paper", "task=glue/rte", "system=spikelm_t4"])
    first = plan_run(config).first
    pretraining = make_plan(load_config(["scale=paper", "task=pretrain", "system=spikelm_t4"])).cost.gpu_hours
    assert (first.count, first.unknown) == (1, 0)
    assert first.gpu_hours == pytest.approx(pretraining)
    assert "runs needed first" in said("scale=paper", "task=glue/rte", "system=spikelm_t4")


@pytest.mark.parametrize("system", ["elmo", "ptgen", "spikegpt", "bertsumabs", "gpt2", "spikebert", "spikingformer_t1"])
def test_rivals_have_hours_and_disk_too(system: str, runs_dir) -> None:
    task = {"elmo": "glue/rte", "spikegpt": "pretrain"}.get(system, "glue/rte" if "form" in system else "sum/xsum")
    task = "glue/rte" if system == "spikebert" else task
    given = ["backbone.path=null"] if system in ("bertsumabs", "gpt2") else []
    plan = make_plan(load_config(["scale=paper", f"system={system}", f"task={task}", *given]))
    assert plan.parameters
    assert plan.cost.running_gb > 0
    assert plan.cost.gpu_hours == 0 if system == "gpt2" else plan.cost.gpu_hours > 0


def test_what_a_sweep_writes_down_is_the_plan_again(runs_dir) -> None:
    planned = plan_run(load_config(["scale=paper", "task=glue/rte", "trainer.tflops=14"]))
    assert planned_run(json.loads(json.dumps(asdict(planned)))) == planned
    console = Console(record=True, width=WIDTH)
    show_plans([planned], console)
    text = console.export_text()
    assert f"{planned.plan.cost.flops:.1e}" in text
    assert "GPU time: at 14 TFLOP/s per device" in text


def test_the_released_schedule_is_spelled_out(runs_dir) -> None:
    assert "the rate is 0 from update 62,500" in said("scale=paper", "task=pretrain", "recipe=as_released")
    assert "from update" not in said("scale=paper", "task=pretrain", "recipe=paper")


XSUM = ["scale=paper", "task=sum/xsum", "neuron=bispike", "T=4"]
STEPS = 20 * -(-204_045 // 128)


def test_the_papers_summarisation_counts_encoder_and_decoder() -> None:
    """Facts section 4: BART_base, 1024 to 128 tokens."""
    plan, stacks, whole = make_plan(load_config(XSUM)), 68_098_719_744, 73_039_970_304
    assert plan.parameters == 139_420_416
    assert plan.cost.steps == STEPS
    assert plan.tokens == STEPS * 128 * (1024 + 128)
    student = 6 * (4 * stacks + (whole - stacks))  # the head once, whatever T
    assert plan.cost.flops == STEPS * 128 * (student + 2 * whole), "the teacher is asked forward only"
    plain = make_plan(load_config([*XSUM, "neuron=ann"]))
    assert plain.cost.flops == STEPS // 4 * 128 * 6 * whole, "a quarter of the epochs: the teacher's recipe"
    assert make_plan(load_config([*XSUM, "distill=none"])).cost.flops == STEPS * 128 * student
    assert plan.energy_ann_mj == pytest.approx(313.254, abs=5e-4)
    assert plan.energy_ceiling_mj == pytest.approx(4 * 0.9 / 4.6 * 313.254, abs=1e-3)
    assert plain.energy_ceiling_mj is None
    assert plan.energy_head_mj == pytest.approx(335.984 - 313.254, abs=1e-3)
    assert plan.energy_generated_mj == pytest.approx(377.61, abs=5e-3), "61 steps, 6 beams, from the cache"
    assert make_plan(load_config(["scale=paper", "task=mt/wmt16_enro"])).parameters == 610_851_840


def test_memory_of_pairs_grows_with_both_lengths_and_the_teacher() -> None:
    def gigabytes(*overrides: str) -> float:
        return make_plan(load_config([*XSUM, *overrides])).share.memory_gb

    whole = gigabytes()
    assert gigabytes("task.source_length=512") < whole / 2, "attention maps are squares"
    assert gigabytes("task.target_length=64") < whole
    assert gigabytes("distill=none") < whole
    copy = 4 * 139_420_416 / 1e9
    few_logits = 64 * 50_265 * 4 * 6 / 1e9  # of 64 tokens at a time, ours and the teacher's, whatever the batch
    fixed = (4 + 1) * copy + few_logits  # Adam's, and the teacher's weights
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


@pytest.mark.parametrize("system", ["bert", "spikelm_t4"])
@pytest.mark.parametrize("task", ["pretrain", "glue/rte", "sum/xsum"])
def test_a_small_plan_has_digits_to_read_and_no_zeros(system: str, task: str, runs_dir) -> None:
    words = [f"system={system}", f"task={task}", "scale=smoke"]
    text = said(*words)
    assert not re.search(r"\b0(\.0+)? (mJ|GB|MB|kB|min|h|s)\b|None", text)
    console = Console(record=True, width=200, file=io.StringIO())
    show_plans([plan_run(load_config(words))], console)
    assert not re.search(r" 0\.0+ |None", console.export_text())


def test_a_plan_says_that_a_scale_reads_few_rows(runs_dir) -> None:
    text = said("task=glue/rte", "scale=smoke", "source.train_rows=96", "source.dev_rows=48")
    assert re.search(r"rows of the data, at most +96 to train on and 48 to evaluate", text)
    assert "rows of the data" not in said("task=pretrain", "scale=smoke")


def test_a_conversion_trains_nothing_and_needs_the_plain_model(capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(["task=glue/sst2", "neuron=residual", "convert=only", "convert.rotation=hadamard"])
    planned = plan_run(config)
    assert planned.plan.cost.steps == 0
    assert [(need.role, need.task) for need in planned.needs] == [("teacher", "glue/sst2")]
    show_plan(config, planned, Console(width=120))
    said = capsys.readouterr().out
    assert "BERT with residual T=1 k=2, converted with rotation" in said
    assert "no training; at most 256 rows set the amplitudes, behind a rotation (hadamard)" in said
    assert "none: it is not trained" in said
    assert "while it trains" not in said
    first = plan_run(load_config(["task=glue/sst2", "neuron=residual", "convert=first"]))
    assert [need.role for need in first.needs] == ["converted"]


def test_the_plan_of_a_decoder_has_its_energy_and_no_rows(runs_dir, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(["scale=smoke", "task=lm/embedded", "neuron=bispike", "T=4"])
    show_plan(config, plan_run(config), Console(width=120))
    printed = capsys.readouterr().out
    # one layer of hidden size 32 and 64 inside; two heads of 8 hold keys and values; 64 tokens
    macs = 64 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64) + 64 * 65 * 32
    assert f"energy of one inference, ANN   {macs * 4.6e-9:.4g} mJ" in printed
    assert f"energy, every neuron firing    {macs * 0.9e-9 * 4:.4g} mJ" in printed
    assert f"energy of the LM head, apart   {64 * 32 * 1000 * 4.6e-9:.4g} mJ" in printed
    assert "training memory, about" in printed
    assert "rows of the data" not in printed, "running text has documents"


def test_the_operations_of_a_decoder_are_those_of_its_blocks_and_its_head(runs_dir) -> None:
    """Facts of a Llama with one layer: every token predicts one of 1000 words, after the mean over the time steps."""
    words = ["scale=smoke", "task=lm/embedded", "neuron=bispike", "T=4"]
    blocks = 64 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 64) + 2 * 64 * 64 * 32  # 64 tokens, whole maps
    head = 64 * 32 * 1000
    cost = make_plan(load_config(words)).cost
    assert cost.flops == 6 * (4 * blocks + head) * cost.steps * load_config(words).stage.batch
    student = make_plan(load_config([*words, "distill=lm"])).cost
    asked = 1 + 2 * (blocks + head) / (6 * (4 * blocks + head))
    assert student.flops == pytest.approx(cost.flops * asked), "the teacher goes forward"


def test_articles_are_no_rows(runs_dir) -> None:
    """WikiText-2 has 600 articles; how many rows they make depends on the tokenizer and the length of a row."""
    words = ["scale=paper", "source=hub", "task=lm/wikitext2", "backbone.path=null", "neuron=ann"]
    plan = make_plan(load_config([*words, "finetune.steps=null", "finetune.epochs=3"]))
    assert (plan.cost.steps, plan.cost.flops, plan.tokens) == (None, None, None)


def test_what_is_not_trained_needs_no_training_memory(runs_dir) -> None:
    words = ["scale=paper", "source=hub", "task=lm/wikitext103", "trainer.accelerator=cpu"]
    assert make_plan(load_config([*words, "neuron=ann"])).share.memory_gb is None
    trained = make_plan(load_config([*words, "neuron=residual", "distill=lm", "finetune.steps=10"])).share
    logits = 3 * 4 * 256 * 1024 * 50257 / 1e9
    assert trained.memory_gb > 3 * logits, "a teacher's beside its own"


def test_weights_that_are_measured_as_they_are_have_no_optimiser(runs_dir, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(["scale=paper", "source=hub", "task=lm/wikitext103", "neuron=ann"])
    show_plan(config, plan_run(config), Console(width=120))
    printed = capsys.readouterr().out
    assert "none: the weights are measured as they are" in printed
    for word in ("AdamW", "while it trains", "1 device"):
        assert word not in printed
