"""Two processes on the CPU: the same model as one, one result, clear ends, exact resuming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from spikelm.config.compose import load_config
from spikelm.errors import ConfigError, SpikeLMError, TrainingError
from spikelm.runs.experiment import open_run, run_experiment

QUIET = Console(quiet=True)
PROJECT = Path(__file__).resolve().parents[2]
BASE = ("scale=smoke", "trainer.accelerator=cpu", "backbone.dropout=0", "backbone.attention_dropout=0")
TWO = "trainer.devices=2"
FSDP = "trainer.strategy=fsdp"
CRASH = """
import spikelm.data.tokens.tokenizer
def load_tokenizer(*args):
    raise AssertionError("nobody foresaw this")
spikelm.data.tokens.tokenizer.load_tokenizer = load_tokenizer
"""


def weights(runs: Path, *overrides: str) -> dict[str, torch.Tensor]:
    finished = run_experiment(load_config([*BASE, *overrides, f"runs_dir={runs}"]), QUIET)
    return load_file(finished.directory / "model" / "model.safetensors")


def start(runs: Path, *overrides: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spikelm.cli.main", *BASE, *overrides, f"runs_dir={runs}"]
    around = {**os.environ, "PYTHONPATH": str(PROJECT), **env}
    return subprocess.Popen(command, env=around, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# An amplitude is a mean, which two processes round otherwise than one: now and then a spike at its edge differs.
@pytest.mark.parametrize(("neuron", "close"), [("lif", 1e-5), pytest.param("bispike", 5e-5, marks=pytest.mark.slow)])
def test_two_devices_pretrain_the_model_of_one(neuron: str, close: float, tmp_path: Path) -> None:
    args = ("task=pretrain", f"neuron={neuron}", "T=2", "pretrain.steps=5")
    one, two = weights(tmp_path / "1", *args), weights(tmp_path / "2", *args, TWO)
    for name in one:
        alpha = name.endswith("alpha")
        torch.testing.assert_close(two[name], one[name], rtol=1e-6 if alpha else 0, atol=close, msg=name)
    assert len(list((tmp_path / "2").glob("pretrain/*/result.json"))) == 1
    runs = [open_run(load_config([*BASE, *args, f"runs_dir={tmp_path / n}"])) for n in "12"]
    rows = [{(at, name): value for at, name, value in run.metrics()} for run in runs]
    assert rows[1] == pytest.approx(rows[0], rel=1e-3, abs=1e-3)
    assert len(runs[1].metrics()) == len(rows[1]), "every value is recorded once"


@pytest.mark.slow
@pytest.mark.parametrize("select", ["last", "best_dev"])
def test_two_devices_fine_tune_the_model_of_one(select: str, tmp_path: Path) -> None:
    # 37 rows in batches of 4: the last batch of an epoch is one row, which one rank has alone.
    args = ("task=glue/mrpc", "neuron=lif", "source.train_rows=37", "finetune.batch=4", f"select={select}")
    one, two = weights(tmp_path / "1", *args), weights(tmp_path / "2", *args, TWO)
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-4, msg=name)


def wait_for_checkpoint(run_dir: Path, process: subprocess.Popen[str]) -> None:
    while not list(run_dir.glob("pretrain/*/checkpoints/step-*.ckpt")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for workers in /proc")
@pytest.mark.parametrize("victim", ["parent", "worker"])
def test_a_killed_run_ends_at_once_and_goes_on_exactly(victim: str, tmp_path: Path) -> None:
    args = ("task=pretrain", "neuron=bispike", "T=2", "pretrain.steps=80", "trainer.checkpoint_every=3", TWO)
    process = start(tmp_path / "cut", *args)
    wait_for_checkpoint(tmp_path / "cut", process)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(process.pid if victim == "parent" else workers[1], signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    if victim == "worker":
        assert process.returncode == 1
        assert "killed by signal 9" in errors
    deadline = time.monotonic() + 15
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()], "no worker trains on alone"
    run = open_run(load_config([*BASE, *args, f"runs_dir={tmp_path / 'cut'}"]))
    assert run.state == ("failed" if victim == "worker" else "interrupted")
    cut, whole = weights(tmp_path / "cut", *args), weights(tmp_path / "whole", *args)
    assert all(torch.equal(cut[name], whole[name]) for name in whole)
    steps = [(at, name) for at, name, _ in run.metrics()]
    assert len(steps) == len(set(steps)), "no step is recorded twice"


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_run_goes_on_with_another_number_of_devices(before: int, after: int, tmp_path: Path) -> None:
    args = ("task=pretrain", "neuron=lif", "T=2", "pretrain.steps=24", "trainer.checkpoint_every=3")
    process = start(tmp_path / "cut", *args, f"trainer.devices={before}")
    wait_for_checkpoint(tmp_path / "cut", process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    cut = weights(tmp_path / "cut", *args, f"trainer.devices={after}")
    assert len(list((tmp_path / "cut").glob("pretrain/*"))) == 1, "one run, whatever it was trained on"
    run = open_run(load_config([*BASE, *args, f"runs_dir={tmp_path / 'cut'}"]))
    steps = [(at, name) for at, name, _ in run.metrics()]
    assert len(steps) == len(set(steps)), "no step is recorded twice"
    whole = weights(tmp_path / "whole", *args)
    for name in whole:
        torch.testing.assert_close(cut[name], whole[name], rtol=0, atol=1e-4, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("select", ["last", "best_dev"])
def test_a_model_in_shards_is_the_model_of_one_device(select: str, tmp_path: Path) -> None:
    args = ("task=glue/mrpc", "neuron=lif", "T=2", "source.train_rows=37", "finetune.batch=4", f"select={select}")
    one, two = weights(tmp_path / "1", *args), weights(tmp_path / "2", *args, TWO, FSDP)
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.slow
def test_texts_of_different_lengths_are_generated_in_shards(tmp_path: Path) -> None:
    args = ("task=mt/wmt16_enro", "neuron=ann", "source.dev_rows=9")
    one, two = weights(tmp_path / "1", *args), weights(tmp_path / "2", *args, TWO, FSDP)
    for name in one:
        torch.testing.assert_close(two[name], one[name], rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.slow
def test_a_checkpoint_of_shards_goes_on_on_one_device_and_back(tmp_path: Path) -> None:
    args = ("task=pretrain", "neuron=lif", "T=2", "pretrain.steps=24", "trainer.checkpoint_every=3")
    for more in ((TWO, FSDP), (), (TWO, FSDP)):
        process = start(tmp_path / "cut", *args, *more)
        there = set((tmp_path / "cut").glob("pretrain/*/checkpoints/step-*.ckpt"))
        while not set((tmp_path / "cut").glob("pretrain/*/checkpoints/step-*.ckpt")) - there:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 75, errors
    cut, whole = weights(tmp_path / "cut", *args), weights(tmp_path / "whole", *args)
    for name in whole:
        torch.testing.assert_close(cut[name], whole[name], rtol=0, atol=1e-4, msg=name)


def test_shards_need_several_devices(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="over several devices"):
        weights(tmp_path, "task=pretrain", "neuron=ann", FSDP)


@pytest.mark.parametrize(("launcher", "jobs"), [("joblib", -1), ("joblib", 2), ("parallel", 2)])
def test_devices_are_not_shared_by_jobs_side_by_side(launcher: str, jobs: int) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    sweep = [f"hydra/launcher={launcher}", f"hydra.launcher.n_jobs={jobs}"]
    with pytest.raises(ConfigError, match=r"they would share them\s.*hydra/launcher=slurm"):
        load_config([*sweep, TWO])
    load_config([*sweep, "trainer.devices=1"])
    load_config([f"hydra/launcher={launcher}", "hydra.launcher.n_jobs=1", TWO])


@pytest.mark.usefixtures("eight_gpus")
def test_jobs_side_by_side_have_gpus_of_their_own_where_there_are_enough() -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    for words in (["parallel"], ["parallel", "hydra.launcher.n_jobs=4"], ["joblib", "hydra.launcher.n_jobs=4"]):
        load_config([f"hydra/launcher={words[0]}", *words[1:], "trainer.devices=2"])
    for jobs, said in (("5", "5 jobs side by side"), ("-1", "as many jobs as cores side by side")):
        with pytest.raises(ConfigError, match=rf"{said} with trainer\.devices=2 are more than the 8 GPUs here"):
            load_config(["hydra/launcher=joblib", f"hydra.launcher.n_jobs={jobs}", "trainer.devices=2"])
    sweep = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    with pytest.raises(ConfigError, match="they would share them"):
        load_config([*sweep, "trainer.devices=2", "trainer.accelerator=cpu"])


@pytest.mark.slow
def test_a_workers_error_is_the_runs(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"not finite|first seen at"):
        weights(
            tmp_path,
            "task=pretrain",
            "neuron=ann",
            "pretrain.lr=1e30",
            "pretrain.schedule.warmup=0",
            "pretrain.optimizer.clip=null",
            TWO,
        )


@pytest.mark.slow
def test_a_workers_crash_is_one_line_and_its_traceback_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(CRASH)  # read by every Python that starts
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{PROJECT}")
    with pytest.raises(SpikeLMError, match=r"rank 0 of 2") as caught:
        weights(tmp_path, "task=pretrain", "neuron=ann", TWO)
    assert "\n" not in caught.value.what
    (kept,) = tmp_path.glob("pretrain/*/traceback.txt")
    assert "nobody foresaw this" in kept.read_text()


@pytest.mark.slow
def test_ranks_launched_from_outside(tmp_path: Path) -> None:
    """As torchrun starts them: every rank runs the whole command line."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29717", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    args = ("task=glue/rte", "neuron=bispike")
    both = [start(tmp_path / "out", *args, **meeting, RANK=rank, LOCAL_RANK=rank) for rank in "01"]
    said = [process.communicate(timeout=200) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert "accuracy" in said[0][0]
    assert said[1][0] == "", "only the first rank speaks"
    results = list((tmp_path / "out").glob("*/*/result.json"))
    assert len(results) == 2, "the pretrained run and the fine-tuning"
    assert {json.loads(path.read_text())["config"]["trainer"]["devices"] for path in results} == {2}
    inside = weights(tmp_path / "in", *args, TWO)
    outside = weights(tmp_path / "out", *args)
    assert all(torch.equal(inside[name], outside[name]) for name in inside)


def test_a_sweep_is_not_launched_from_outside(tmp_path: Path) -> None:
    process = start(tmp_path, "-m", "T=1,2", WORLD_SIZE="2", RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29718")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "a sweep cannot be launched by torchrun" in errors
