"""recipe=paper and recipe=as_released: what they set, the learning rate they give, that both run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from spikelm.config.compose import load_config
from spikelm.models.bert import build_pretraining_model
from spikelm.runs.experiment import open_run, run_experiment
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import teacher_of
from spikelm.spiking import load_pretrained
from spikelm.store.hashing import run_id
from spikelm.training.best_epoch import best_keeper, released_metric, reported_scores
from spikelm.training.optimization import learning_rate, optimizer_and_schedule, total_steps, warmup_steps

QUIET = Console(quiet=True)


def of(*overrides: str) -> str:
    return run_id(identity(load_config(list(overrides))))


def test_the_papers_recipe_is_what_scale_paper_pretrains_with() -> None:
    assert of("scale=paper", "task=pretrain") == of("scale=paper", "task=pretrain", "recipe=paper")
    epochs = {
        t: load_config(["scale=paper", f"task=glue/{t}", "recipe=paper"]).finetune.epochs for t in ("mnli", "rte")
    }
    assert epochs == {"mnli": 6, "rte": 20}
    smoke = load_config(["scale=smoke", "recipe=paper"])
    assert (smoke.pretrain.optimizer.weight_decay, smoke.select, smoke.recipe) == (0.01, "last", "paper")


def test_the_released_recipe_sets_what_the_code_does() -> None:
    config = load_config(["scale=paper", "task=glue/mnli", "recipe=as_released"])
    assert (config.pretrain.optimizer.weight_decay, config.finetune.optimizer.weight_decay, config.finetune.epochs) == (
        0.0,
        0.0,
        5,
    )
    assert (config.backbone.activation, config.backbone.transform_activation) == ("gelu", "relu")
    assert config.select == "released"
    ids = {of("scale=paper", "task=glue/mnli", *recipe) for recipe in ([], ["recipe=paper"], ["recipe=as_released"])}
    assert len(ids) == 3


def test_the_laptops_students_are_taught_by_its_plain_model() -> None:
    words = ["scale=smoke", "recipe=laptop", "task=glue/rte"]
    student = load_config([*words, "system=spikelm_residual_d2", "convert=first", "distill=imitate"])
    plain = load_config([*words, "system=bert"])
    assert (student.finetune.steps, student.finetune.epochs, student.finetune.lr) == (300, None, 5e-4)
    assert (plain.finetune.steps, plain.finetune.epochs, plain.finetune.lr) == (None, 2, 1e-4)
    assert plain.finetune.optimizer.fused
    assert run_id(identity(teacher_of(student))) == run_id(identity(plain))


def accelerate_rates(peak: float, warmup: int, total: int, updates: int, processes: int) -> list[float]:
    """Learning rate of each update as accelerate steps a scheduler: once a process, after every update."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)

    def linear(step: int) -> float:
        return step / max(1, warmup) if step < warmup else max(0.0, (total - step) / max(1, total - warmup))

    schedule = LambdaLR(optimizer, linear)
    rates = []
    for _ in range(updates):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        for _ in range(processes):
            schedule.step()
    return rates


@pytest.mark.parametrize("scale", ["smoke", "mini", "minilm"])
def test_the_rate_of_every_update_is_accelerates(scale: str, tmp_path: Path) -> None:
    files = [f"source.root={tmp_path}", "backbone=bert_base"] if scale == "minilm" else []
    stage = load_config([f"scale={scale}", *files, "task=pretrain", "recipe=as_released"]).pretrain
    total = total_steps(stage, 1)
    theirs = accelerate_rates(stage.lr, warmup_steps(stage, total), 5 * total, total, 8)
    optimizer, schedule = optimizer_and_schedule(nn.Linear(2, 2), stage, total)
    for expected in theirs:
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected, rel=1e-12, abs=0.0)
        optimizer.step()
        schedule.step()
    assert theirs[-1] == 0.0


def test_the_papers_scale_has_the_golden_points() -> None:
    stage = load_config(["scale=paper", "task=pretrain", "recipe=as_released"]).pretrain
    assert stage.steps == 100_000, "the checkpoint that is fine-tuned"
    points = {update: learning_rate(stage, 100_000, update) for update in (0, 624, 625, 626, 62_499, 62_500, 99_999)}
    assert points[0] == 0.0
    assert points[624] == pytest.approx(4992 / 5000)
    assert points[625] == 1.0
    assert points[626] == pytest.approx((500_000 - 5008) / 495_000)
    assert points[62_499] == pytest.approx(8 / 495_000)
    assert points[62_500] == points[99_999] == 0.0
    plain = load_config(["scale=paper", "task=pretrain", "recipe=paper"]).pretrain
    assert [learning_rate(plain, 100_000, at) for at in (2500, 5000, 100_000)] == [0.5, 1.0, 0.0]


def test_relu_reaches_the_mlm_transform_only_and_is_saved(tmp_path: Path) -> None:
    for neuron in ("ann", "bispike"):
        config = load_config(["scale=smoke", f"neuron={neuron}", "task=pretrain", "recipe=as_released"])
        model = build_pretraining_model(config, 100)
        model.save_pretrained(tmp_path / neuron)
        for found in (model, load_pretrained(tmp_path / neuron)):
            x = torch.tensor([-0.5])
            assert found.cls.predictions.transform.transform_act_fn(x) == 0.0
            assert found.bert.encoder.layer[0].intermediate.intermediate_act_fn(x) < 0.0
    plain = build_pretraining_model(load_config(["scale=smoke", "task=pretrain"]), 100)
    assert plain.cls.predictions.transform.transform_act_fn(torch.tensor([-0.5])) < 0.0


def test_epochs_are_compared_by_the_first_key_of_the_hf_metric() -> None:
    first = {t: released_metric(load_config([f"task=glue/{t}"]).task) for t in ("mrpc", "qqp", "stsb", "cola", "rte")}
    assert first == {"mrpc": "accuracy", "qqp": "accuracy", "stsb": "pearson", "cola": "matthews", "rte": "accuracy"}
    assert best_keeper(load_config(["task=pretrain", "recipe=as_released"])) is None


def test_mismatched_mnli_is_the_last_epochs() -> None:
    best, last = {"accuracy": 80.0, "accuracy_mm": 81.0}, {"accuracy": 70.0, "accuracy_mm": 71.0}
    config = load_config(["task=glue/mnli", "recipe=as_released"])
    assert reported_scores(config, best, last) == {"accuracy": 80.0, "accuracy_mm": 71.0}
    assert reported_scores(load_config(["task=glue/mnli", "select=best_dev"]), best, last) == best


def test_the_released_recipe_runs_end_to_end(tmp_path: Path) -> None:
    options = ["scale=smoke", "recipe=as_released", "task=glue/mnli", f"runs_dir={tmp_path}", "finetune.epochs=3"]
    result = run_experiment(load_config(options), QUIET).result
    assert (result.recipe, result.select) == ("as_released", "released")
    curve = {name: v for name, v in curves(open_run(load_config(options)).metrics()).items() if name.startswith("dev/")}
    assert result.metrics["accuracy"] == max(curve["dev/accuracy"])
    assert result.metrics["accuracy_mm"] == curve["dev/accuracy_mm"][-1]
    pretrained = run_experiment(load_config([*options, "task=pretrain"]), QUIET).result
    assert pretrained.run_id == result.pretrained
    assert pretrained.select == "last"
    rates = curves(open_run(load_config([*options, "task=pretrain"])).metrics())["train/lr"]
    assert rates[-1] == 0.0


def curves(rows: list[tuple[int, str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for _, name, value in rows:
        found.setdefault(name, []).append(value)
    return found
