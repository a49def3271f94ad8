"""Scores and curves of a sweep, from a store filled by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_result import ENVIRONMENT, made_up

from spikelm.config.compose import load_config
from spikelm.errors import ConfigError
from spikelm.report.figures.curves import SMOOTHED, curve_names, curves_title, draw_curves, drawn, read_metric, smooth
from spikelm.report.query.sweep_runs import jobs_of
from spikelm.report.reproduce.kept_sweep import keep_sweep
from spikelm.report.scores import MEASURES, show_scores
from spikelm.runs.experiment import open_run
from spikelm.store.store import Store

TASKS = "task=glue/rte,glue/mrpc"


def finish(
    root: Path, overrides: list[str], metrics: dict[str, float], rate: float | None, energy: float, **more: Any
) -> str:
    """Fill a run with a made-up result; its id."""
    config = load_config([*overrides, f"runs_dir={root}"])
    run = open_run(config)
    with run.lock():
        run.start(config, ENVIRONMENT)
        run.append_metrics(1, {"train/loss": 3.0})
        run.append_metrics(2, {"train/loss": 1.0})
        measured: dict[str, Any] = {
            "task": config.task.name,
            "scale": config.scale,
            "metrics": metrics,
            "seconds": 90.0,
            "firing_rate": {"mean": rate, "per_site": {}},
            "energy_mj": {"fp32": energy, "fp16": energy},
            "energy_ann_mj": {"fp32": 4.0, "fp16": 4.0},
        }
        run.finish(made_up(run_id=run.id, config=config, seed=config.seed, **measured, **more))
    return run.id


def test_a_sweep_is_expanded_as_hydra_does_and_equal_runs_come_once(runs_dir: Path) -> None:
    jobs = jobs_of([TASKS, "neuron=ann,bispike", "T=1,4"])
    assert len(jobs) == 2 * (1 + 2), "the ANN has no T"
    assert jobs[0].command == "spikelm-run task=glue/rte neuron=ann T=1"
    with pytest.raises(ConfigError, match="rtee"):
        jobs_of(["task=glue/rtee"])


def test_scores_average_tasks_and_leave_out_what_is_missing(runs_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finish(runs_dir, ["task=glue/rte", "neuron=ann"], {"accuracy": 60.0}, None, 4.0)
    finish(runs_dir, ["task=glue/mrpc", "neuron=ann"], {"accuracy": 70.0, "f1": 80.0}, None, 4.0)
    finish(runs_dir, ["task=glue/rte", "neuron=bispike", "seed=1"], {"accuracy": 50.0}, 0.4, 0.5)
    path = show_scores([TASKS, "neuron=ann,bispike", "seed=42,1"], runs_dir, None)
    lines = path.read_text().splitlines()
    [ann] = [line for line in lines if line.startswith("| BERT |")]
    [spiking] = [line for line in lines if line.startswith("| BERT with bispike T=1 k=2 |")]
    assert ann == "| BERT | 60.0 | 80.0 | 70.0 | 32-32 |  |  | 4.00 | 1/1.0 | 3.0 min |", "F1 of MRPC, as in table 3"
    assert spiking == "| BERT with bispike T=1 k=2 | 50.0 |  |  | 32-ternary | 40.0 | 0.40 | 0.500 | 1/8.0 | 90 s |"
    assert "- `spikelm-run task=glue/rte neuron=bispike seed=1` (50.00, 90 s" in path.read_text()
    assert "5 of 8 runs are not finished" in capsys.readouterr().out


def test_columns_that_do_not_fit_are_printed_below(
    runs_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    show_scores(["task=glue/rte,glue/mrpc", "neuron=ann,bispike"], runs_dir, None)
    printed = capsys.readouterr().out.splitlines()
    rows = [line for line in printed if line.startswith((" system", " BERT"))]
    assert max(len(line) for line in rows) <= 80
    heads = " ".join(line for line in rows if line.startswith(" system"))
    assert all(heading in heads for heading in ("rte", "mrpc", "mean", *MEASURES))


def test_a_system_at_two_T_is_two_rows_not_two_seeds(runs_dir: Path) -> None:
    for system, score in (("spikelm_t1", 50.0), ("spikelm_t4", 60.0)):
        finish(runs_dir, ["task=glue/rte", f"system={system}"], {"accuracy": score}, 0.4, 0.5)
    lines = show_scores(["task=glue/rte", "system=spikelm_t1,spikelm_t4"], runs_dir, None).read_text().splitlines()
    assert any(line.startswith("| SpikeLM T=1 | 50.0 |") for line in lines)
    assert any(line.startswith("| SpikeLM T=4 | 60.0 |") for line in lines)


def test_what_was_swept_beside_tasks_and_seeds_is_another_row(runs_dir: Path) -> None:
    for rate, score in (("1e-3", 50.0), ("1e-4", 60.0)):
        finish(runs_dir, ["task=glue/rte", "neuron=ann", f"finetune.lr={rate}"], {"accuracy": score}, None, 4e-7)
    text = show_scores(
        ["task=glue/rte", "neuron=ann", "finetune.lr=1e-3,1e-4", "seed=42,1"], runs_dir, None
    ).read_text()
    assert "| BERT (finetune.lr=0.001) | 50.0 | 50.0 | 32-32 |  |  | 4.00e-07 |" in text
    assert "| BERT (finetune.lr=0.0001) | 60.0 |" in text


def test_a_loss_of_pretraining_is_no_score_and_in_no_mean(runs_dir: Path) -> None:
    finish(runs_dir, ["task=pretrain", "neuron=ann"], {"loss": 7.0}, None, 4.0)
    finish(runs_dir, ["task=glue/rte", "neuron=ann"], {"accuracy": 60.0}, None, 4.0)
    text = show_scores(["task=glue/rte,pretrain", "neuron=ann"], runs_dir, None).read_text()
    assert "| system | rte | pretrain (loss) | mean |" in text
    assert "| BERT | 60.0 | 7.0 | 60.0 |" in text


def test_curves_of_several_tasks_say_which_is_which(runs_dir: Path) -> None:
    for task in ("glue/rte", "glue/mrpc"):
        for seed in (1, 2):
            finish(
                runs_dir, [f"task={task}", "neuron=ann", f"seed={seed}", "scale=smoke"], {"accuracy": 60.0}, None, 4.0
            )
    swept = [TASKS, "neuron=ann", "seed=1,2", "scale=smoke"]
    names = curve_names(jobs_of(swept))
    assert names == [f"glue/{task}, BERT, seed {seed}" for task in ("rte", "mrpc") for seed in (1, 2)]
    path = draw_curves(swept, "train/loss", runs_dir, None)
    assert path.name == "train-loss-smoke-embedded-glue-rte-glue-mrpc.png"
    assert curves_title(jobs_of(swept)) == "glue/rte, glue/mrpc\nbert_tiny, scale smoke, source embedded"
    [alone] = curve_names(jobs_of(["task=glue/rte", "neuron=ann", "seed=1", "scale=smoke"]))
    assert alone == "BERT"


def test_curves_are_drawn_from_what_was_logged(runs_dir: Path, tmp_path: Path) -> None:
    overrides = ["task=glue/rte", "neuron=ann"]
    with pytest.raises(ConfigError, match="no run"):
        draw_curves(overrides, "train/loss", runs_dir, None)
    finish(runs_dir, overrides, {"accuracy": 60.0}, None, 4.0)
    steps, values = read_metric(open_run(load_config(overrides)), "train/loss")
    assert (steps.tolist(), values.tolist()) == ([1, 2], [3.0, 1.0])
    path = draw_curves(overrides, "train/loss", runs_dir, tmp_path / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "at the end" in path.with_suffix(".svg").read_text()


def test_smoothing_is_a_centred_mean() -> None:
    import numpy as np

    values = np.array([1.0, 2.0, 6.0, 4.0])
    assert smooth(values, 3).tolist() == [1.5, 3.0, 4.0, 5.0]


def test_a_few_values_are_drawn_as_they_are() -> None:
    few, many = np.arange(10.0), np.arange(2.0 * SMOOTHED + 1)
    assert drawn(few).tolist() == few.tolist()
    assert drawn(many)[-1] == many[-(SMOOTHED // 2 + 1) :].mean()


def test_a_mean_over_seeds_is_of_those_that_have_all_tasks(runs_dir: Path) -> None:
    for seed, rte, mrpc in ((1, 50.0, 70.0), (2, 60.0, 80.0), (3, 90.0, None)):
        finish(runs_dir, ["task=glue/rte", "neuron=ann", f"seed={seed}"], {"accuracy": rte}, None, 4.0)
        if mrpc is not None:
            finish(runs_dir, ["task=glue/mrpc", "neuron=ann", f"seed={seed}"], {"f1": mrpc}, None, 4.0)
    text = show_scores([TASKS, "neuron=ann", "seed=1,2,3"], runs_dir, None).read_text()
    # RTE: 66.7 ± 20.8 over three; the mean: 60 and 70 over the two seeds that have both
    assert "| BERT | 66.7±20.8 | 75.0±7.1 | 65.0±7.1 |" in text


def test_a_student_that_was_tuned_on_training_rows_is_kept_with_its_general_run(runs_dir: Path, tmp_path: Path) -> None:
    student = ["task=glue/rte", "neuron=bispike", "source.tune=true"]
    tuned = {"name": "embedded-tune", "rows": {"train": 8}, "content_hash": "ab"}
    general = finish(runs_dir, ["task=general_distill", "neuron=bispike"], {"loss": 0.1}, 0.4, 0.5)
    finish(runs_dir, student, {"accuracy": 60.0}, 0.4, 0.5, pretrained=general, source=tuned)
    index = keep_sweep(student, runs_dir, tmp_path / "kept")
    assert "source=embedded-tune" in index.read_text()
    assert len(list(Store(tmp_path / "kept").runs())) == 2


def test_a_sweep_is_kept_with_what_it_was_made_from_and_read_again(runs_dir: Path, tmp_path: Path) -> None:
    swept, kept = [TASKS, "neuron=ann,bispike", "scale=smoke"], tmp_path / "kept"
    with pytest.raises(ConfigError, match="no run of this sweep is finished"):
        keep_sweep(swept, runs_dir, kept)
    finish(runs_dir, ["task=glue/rte", "neuron=ann", "scale=smoke"], {"accuracy": 60.0}, None, 4.0)
    index = keep_sweep(swept, runs_dir, kept)
    finish(runs_dir, ["task=glue/mrpc", "neuron=bispike", "scale=smoke"], {"f1": 70.0}, 0.4, 0.5)
    keep_sweep(swept, runs_dir, kept)
    assert {run.id for run in Store(kept).runs()} == {run.id for run in Store(runs_dir).runs()}
    assert "| rte | BERT | 42 | 60.00 |  | 4.00 | 1/1.0 | 90 s | [" in index.read_text()
    assert "| mrpc (f1) | BERT with bispike T=1 k=2 | 42 | 70.00 | 0.40 | 0.500 | 1/8.0 | 90 s | [" in index.read_text()
    assert str(tmp_path) not in index.read_text()
    assert not [path for path in kept.rglob("result.json") if str(tmp_path) in path.read_text()]
    finish(runs_dir, ["task=glue/rte", "neuron=ann"], {"accuracy": 60.0}, None, 4.0)
    with pytest.raises(
        ConfigError, match=r"scale mini, source embedded and scale smoke, source embedded, which are never mixed"
    ):
        keep_sweep(["task=glue/rte", "neuron=ann"], runs_dir, kept)
