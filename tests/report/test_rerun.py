"""The command of a run composes to the run's own id, by way of the words a shell makes of it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.report.query.rerun import Commands, rerun_command
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.hashing import run_id


def id_of(words: list[str], root: Path) -> str:
    return run_id(identity(load_config([*words, f"runs_dir={root}"])))


@pytest.mark.parametrize(
    "overrides",
    [
        ["task=glue/rte", "system=spikelm_t1", "scale=smoke", "seed=7", "finetune.lr=3e-4"],
        ["task=glue/cola", "neuron=bispike", "k=3", "neuron.direction=uni", "select=best_dev", "general.batch=4"],
        ["task=sum/xsum", "neuron=lif", "T=4", "task.generate.beams=3", "trainer.precision=bf16-mixed"],
        ["task=glue/rte", "neuron=lif", "trainer.compile=neurons"],
        ["task=glue/rte", "neuron=ann", "norm=bspn", "norm.warmup=7", "attention=ptsoftmax"],
        ["task=glue/rte", "system=sorbet_bert", "norm=layernorm", "attention.gradient=released"],
    ],
)  # fmt: skip
def test_the_command_makes_the_same_run(overrides: list[str], tmp_path: Path) -> None:
    config = load_config([*overrides, f"runs_dir={tmp_path}"])
    program, *words = shlex.split(rerun_command(config))
    assert program == "spikelm-run"
    assert id_of(words, tmp_path) == run_id(identity(config))
    assert len(words) <= 5 + len(overrides), "it says what differs, not every key"


@pytest.mark.parametrize(
    ("overrides", "role"),
    [
        (["task=glue/rte", "neuron=lif", "distill=full", "finetune.lr=1e-4"], "teacher"),
        (["task=sum/xsum", "system=bertsumabs"], "pretrained"),  # pretrained as a BERT of another name
    ],
)
def test_a_run_that_another_needs_has_a_command_of_its_own(overrides: list[str], role: str, tmp_path: Path) -> None:
    needed = prerequisites(load_config([*overrides, f"runs_dir={tmp_path}"]))[role]
    words = shlex.split(rerun_command(needed))[1:]
    assert id_of(words, tmp_path) == run_id(identity(needed))


def test_without_time_there_is_no_command_and_without_sense_an_empty_one() -> None:
    config = load_config(["task=glue/rte", "neuron=lif", "T=1"])
    assert Commands({}, seconds=-1).command(config) is None
    assert Commands({}).command(replace(config, task=replace(config.task, name="glue/none"))) == ""
    assert Commands({}).command(Config()) == ""
