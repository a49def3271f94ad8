"""Sweeps from a file of jobs: what is run, in which order, and what is said of a file that is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins

from spikelm.cli.command_line import precheck
from spikelm.errors import ConfigError
from spikelm.sweeps.job_file import jobs_asked_for, read_jobs, telling, write_jobs

SWEEP = ("-m", "hydra/sweeper=jobs")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    jobs = [["task=glue/rte", "neuron=lif"], ["task=pretrain", "runs_dir='a folder'", "k=2"]]
    (tmp_path / "jobs").write_text("# of two\n\n" + write_jobs(jobs))
    assert read_jobs(tmp_path / "jobs") == jobs


def test_each_line_is_a_job_with_every_combination_of_the_command_line(tmp_path: Path) -> None:
    Plugins.instance()  # loads all plugins anew, when it is asked first: another class would be an old one
    from hydra_plugins.spikelm_jobs import JobsSweeper

    (tmp_path / "jobs").write_text("T=1 task=a\nT=4\n")
    common = OverridesParser.create().parse_overrides(["seed=1,2", "k=3"])
    (batch,) = JobsSweeper(str(tmp_path / "jobs")).split_arguments(common, None)
    assert batch == [
        ["T=1", "task=a", "seed=1", "k=3"],
        ["T=1", "task=a", "seed=2", "k=3"],
        ["T=4", "seed=1", "k=3"],
        ["T=4", "seed=2", "k=3"],
    ]


def test_few_jobs_tell_all_overrides() -> None:
    jobs = [["a=1", "b=1"], ["a=1", "b=2"], ["a=2", "b=1"], ["a=2", "b=2"], ["a=2", "b=1", "c=1"]]
    assert telling(jobs) == [jobs[0], jobs[1], jobs[2], jobs[4]]
    beside = [["n=1", "n.x=1"], ["n=2", "a=1"], ["n=2", "n.x=1", "a=1"]]
    assert telling(beside) == beside, "n.x may be no key of the second n"
    assert telling([[]]) == [[]], "no file: the command line alone"
    assert jobs_asked_for(["task=pretrain"]) == [[]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file"),
        ("task='glue", "cannot be read: No closing quotation"),
        ("# nothing\n", "no job in"),
        ("task=pretrain\ntask=glue/rta\n", "did you mean glue/rte"),
        ("task=pretrain\nT=-1\n", "T=-1"),
        ("neuron=bispike neuron.reset=paper\nneuron=lif\nneuron=lif neuron.reset=paper\n", "neuron.reset"),
        ("neuron._target_=os.system\n", "os.system"),
    ],
)
def test_a_bad_file_is_named_before_anything_runs(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        precheck([*SWEEP, f"hydra.sweeper.file={file}", "scale=smoke", f"runs_dir={tmp_path / 'runs'}"])
    assert not (tmp_path / "runs").exists()


def test_a_file_has_to_be_named_and_a_sweep_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none is named"):
        precheck(SWEEP)
    with pytest.raises(ConfigError, match="is for sweeps"):
        precheck(SWEEP[1:])


def test_jobs_of_a_file_leave_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spikelm.cli.main import run

    (tmp_path / "jobs").write_text("task=pretrain neuron=ann\ntask=glue/rte neuron=lif T=2\n")
    options = ["scale=smoke", "dry_run=true", f"runs_dir={tmp_path / 'runs'}", f"hydra.sweep.dir={tmp_path / 'sweep'}"]
    monkeypatch.setattr("sys.argv", ["spikelm-run", *SWEEP, f"hydra.sweeper.file={tmp_path / 'jobs'}", *options])
    run()
    records = [json.loads((tmp_path / "sweep" / str(number) / "job.json").read_text()) for number in (0, 1)]
    assert [record["overrides"][0] for record in records] == ["task=pretrain", "task=glue/rte"]
    assert {record["status"] for record in records} == {"planned"}
