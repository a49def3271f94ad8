"""A run from config to result: contents, determinism, resuming, sharing of prerequisites."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.errors import TrainingError
from spikelm.runs.experiment import Finished, _tracker, open_run, run_experiment
from spikelm.store.result import Result
from spikelm.store.store import Run

QUIET = Console(quiet=True)


def smoke(runs: Path, *overrides: str) -> Result:
    return made(runs, *overrides).result


def made(runs: Path, *overrides: str) -> Finished:
    return run_experiment(load_config(["scale=smoke", f"runs_dir={runs}", *overrides]), QUIET)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("neuron", ["ann", "lif", "lif_atan", "psn", "bispike", "bispike_learnable"])
def test_every_neuron_runs_end_to_end(neuron: str, runs: Path) -> None:
    result = smoke(runs, f"neuron={neuron}", "T=2", "task=glue/mnli")
    assert set(result.metrics) == {"accuracy", "accuracy_mm"}
    assert result.spike_driven.verdict == ("none" if neuron == "ann" else "fully")
    assert result.source.name == "embedded"
    assert result.source.rows == {"train": 96, "validation_matched": 48, "validation_mismatched": 48}
    assert result.pretrained
    if neuron == "ann":
        assert result.firing_rate.mean is None
        assert result.energy_mj == result.energy_ann_mj
    else:
        sites = result.firing_rate.per_site
        assert len(sites) == 2 * 6
        assert set(result.firing_rate.initial_per_site) == set(sites)


@pytest.mark.parametrize("task", ["cola", "sst2", "mrpc", "stsb", "qqp", "qnli", "rte"])
def test_every_task_runs(task: str, runs: Path) -> None:
    result = smoke(runs, f"task=glue/{task}", "neuron=ann", "finetune.epochs=1")
    assert list(result.metrics) == list(result.constant_predictor)


def test_two_runs_of_one_config_are_identical(tmp_path: Path) -> None:
    a, b = (smoke(tmp_path / name, "task=glue/stsb", "neuron=bispike", "T=2") for name in ("a", "b"))
    assert a.metrics == b.metrics
    assert a.energy_mj == b.energy_mj
    assert a.firing_rate == b.firing_rate
    assert a.source == b.source


def test_a_result_without_its_weights_is_made_again_when_they_are_needed(tmp_path: Path) -> None:
    """As after copying reference results into a store."""
    first = smoke(tmp_path, "task=glue/rte", "neuron=ann")
    (before,) = tmp_path.glob("pretrain/*")
    alone = (before / "result.json").read_bytes()
    shutil.rmtree(before)
    before.mkdir()
    (before / "result.json").write_bytes(alone)
    said = Console(record=True, width=500, quiet=False, file=io.StringIO())
    config = load_config(["scale=smoke", f"runs_dir={tmp_path}", "task=glue/rte", "neuron=ann", "force=true"])
    again = run_experiment(config, said).result
    assert again.metrics == first.metrics
    assert (before / "model").is_dir()
    told = said.export_text()
    assert f"{before}: result only, and its weights are needed: the run is made again" in told
    assert "checksum" not in told, "nothing is damaged"
    assert (before / "result.json.earlier-1").read_bytes() == alone


class Stop(Exception):
    """Ends a training in the middle, as a kill would."""


@pytest.mark.parametrize(("task", "workers"), [("pretrain", 2), ("glue/rte", 0)])
def test_an_interrupted_run_ends_as_the_whole_one(
    task: str, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spikelm.training.modules import GlueModule, PretrainModule

    args = (f"task={task}", "neuron=bispike", "T=2", "trainer.checkpoint_every=3")
    whole = smoke(tmp_path / "whole", *args)
    cls = PretrainModule if task == "pretrain" else GlueModule
    if task != "pretrain":
        smoke(tmp_path / "cut", "task=pretrain", *args[1:])
    step = cls.step_loss

    def dies(self: Any, batch: Any) -> Any:
        if self.global_step == 7 and self.training:
            raise Stop
        return step(self, batch)

    config = load_config(["scale=smoke", f"runs_dir={tmp_path / 'cut'}", f"trainer.workers={workers}", *args])
    with monkeypatch.context() as patched:
        patched.setattr(cls, "step_loss", dies)
        with pytest.raises(Exception, match="Stop"):
            run_experiment(config, QUIET)
    run = open_run(config)
    assert run.state == "failed"
    kept = sorted(path.name for path in run.checkpoints.glob("*.ckpt"))
    assert kept == ["step-3.ckpt", "step-6.ckpt"]
    resumed = run_experiment(config, QUIET).result
    assert resumed.metrics == whole.metrics
    assert resumed.firing_rate.per_site == whole.firing_rate.per_site
    steps = [(at, name) for at, name, _ in run.metrics()]
    assert len(steps) == len(set(steps)), "no step is recorded twice"


def test_a_finished_run_keeps_its_model_and_no_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = ("task=pretrain", "neuron=ann", "trainer.checkpoint_every=3")
    run = open_run(load_config(["scale=smoke", f"runs_dir={tmp_path}", *args]))
    with monkeypatch.context() as killed:  # between the result and their removal
        killed.setattr(Run, "forget_checkpoints", lambda run: None)
        result = smoke(tmp_path, *args)
    left = sorted(run.checkpoints.iterdir())
    assert len(left) == 4, "two, with their checksums"
    weights = run.model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert smoke(tmp_path, *args) == result
    assert sorted(run.checkpoints.iterdir()) == left, "they may be needed: the model is damaged"
    weights.write_bytes(whole)
    assert smoke(tmp_path, *args) == result
    assert not run.checkpoints.exists()
    again = smoke(tmp_path, *args, "force=true")
    assert not run.checkpoints.exists()
    assert again.metrics == result.metrics
    assert run.finished
    assert weights.is_file()


@pytest.mark.usefixtures("kept_checkpoints")
def test_a_run_that_is_finished_again_from_a_checkpoint_has_all_of_its_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from spikelm.cli.verify import verify_main

    args = ("task=pretrain", "neuron=ann", "trainer.checkpoint_every=3", "trainer.log_every=1")
    result = smoke(tmp_path, *args)
    run = open_run(load_config(["scale=smoke", f"runs_dir={tmp_path}", *args]))
    metrics = run.directory / "metrics.csv"
    whole = metrics.read_bytes()
    shutil.rmtree(run.model)
    for path in (metrics, run.directory / "result.json"):
        path.unlink()
    assert smoke(tmp_path, *args).metrics == result.metrics
    assert metrics.read_bytes() == whole
    assert verify_main(["--runs-dir", str(tmp_path)]) == 0
    header, *rows = whole.decode().splitlines(keepends=True)
    (run.directory / "result.json").unlink()  # with one, its checksum tells as well
    last = [row for row in rows if int(row.split(",")[0]) >= result.steps - 1]
    metrics.write_text("".join([header, *last]))
    capsys.readouterr()
    assert verify_main(["--runs-dir", str(tmp_path)]) == 1
    assert f"{metrics}: begins at step {result.steps - 1}, without the loss of step 1" in capsys.readouterr().out
    metrics.write_text("".join([header, *(row for row in last if "train/" not in row)]))
    assert verify_main(["--runs-dir", str(tmp_path)]) == 1, "an evaluation alone is no whole training"


def test_a_corrupt_result_is_put_aside_when_the_run_is_made_again(tmp_path: Path) -> None:
    args = ("task=pretrain", "neuron=ann")
    first = made(tmp_path, *args)
    (first.directory / "result.json").write_text("{")
    assert smoke(tmp_path, *args).metrics == first.result.metrics
    assert (first.directory / "result.json.corrupt-1").read_text() == "{"


def test_a_damaged_model_without_checkpoints_is_trained_again(runs: Path) -> None:
    before = smoke(runs, "task=pretrain", "neuron=lif")
    run = open_run(load_config(["scale=smoke", f"runs_dir={runs}", "task=pretrain", "neuron=lif"]))
    weights = run.model / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:100])
    smoke(runs, "task=glue/rte", "neuron=lif")
    assert weights.read_bytes() == whole
    assert (run.result() or before).metrics == before.metrics


def test_force_runs_again_and_best_dev_is_kept_apart(runs: Path) -> None:
    args = ("task=glue/cola", "neuron=ann")
    first = smoke(runs, *args)
    again = smoke(runs, *args, "force=true")
    assert again.finished_at >= first.finished_at
    assert again.metrics == first.metrics
    best = smoke(runs, *args, "select=best_dev")
    assert best.run_id != first.run_id
    curve = [value for _, name, value in open_best(runs, *args).metrics() if name == "dev/matthews"]
    assert best.metrics["matthews"] == max(curve)


def open_best(runs: Path, *args: str) -> Any:
    return open_run(load_config(["scale=smoke", f"runs_dir={runs}", *args, "select=best_dev"]))


def test_amplitudes_of_pretraining_survive_fine_tuning(runs: Path) -> None:
    from safetensors.torch import load_file

    tuned = made(runs, "neuron=bispike", "T=2", "task=glue/mnli")
    pretrained = made(runs, "neuron=bispike", "T=2", "task=pretrain")
    before, after = (load_file(one.directory / "model" / "model.safetensors") for one in (pretrained, tuned))
    alphas = [name for name in before if name.endswith("spike_in.alpha") or name.endswith("spike_out.alpha")]
    assert len(alphas) == 2 * 6
    assert all(torch.equal(before[name], after[name]) for name in alphas)
    weight = "bert.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(before[weight], after[weight])


def test_a_loss_that_is_not_finite_stops_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        smoke(
            tmp_path,
            "task=pretrain",
            "neuron=ann",
            "pretrain.lr=1e30",
            "pretrain.schedule.warmup=0",
            "pretrain.optimizer.clip=null",
        )
    assert "not finite" in str(caught.value) or "first seen at" in str(caught.value)
    assert "pretrain.lr" in caught.value.fix


def test_records_hold_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "planted" + "0123456789abcdef" * 2
    for name in ("WANDB_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, secret)
    finished = made(tmp_path, "task=pretrain", "neuron=ann")
    assert secret not in json.dumps(finished.result.to_record())
    for path in finished.directory.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_what_a_tracker_says_is_a_warning_whose_path_can_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Callable[[str], None]] = []
    monkeypatch.setattr("spikelm.runs.experiment.make_tracker", lambda run, mode, notify: said.append(notify))
    config = load_config(["scale=smoke", f"runs_dir={tmp_path}"])
    console = Console(width=40, file=io.StringIO())
    _tracker(config, open_run(config), console)
    path = f"/{'a-long-folder/' * 9}[1]"
    said[0](f"upload later with: wandb sync {path}")
    assert console.file.getvalue() == f"warning: upload later with: wandb sync {path}\n"  # type: ignore[attr-defined]
