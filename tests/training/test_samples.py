"""spikelm-audit looks at the very rows that the run's own audit looked at, whatever the kind of task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from torch import Tensor

from spikelm.cli.audit_command import audit_main
from spikelm.config.compose import load_config
from spikelm.config.recorded import from_record, to_record
from spikelm.data.batches.by_step import Batch
from spikelm.measure import audit as audit_module
from spikelm.measure import trained_model
from spikelm.runs.experiment import run_experiment
from spikelm.training import run_stage
from spikelm.training.samples import measurement_samples

QUIET = Console(quiet=True)
SMALL = ("scale=smoke", "source.train_rows=48", "source.dev_rows=24", "finetune.epochs=1", "pretrain.steps=2")
TASKS = [
    ("task=glue/mnli", "neuron=bispike"),
    ("task=glue/stsb", "neuron=bispike"),
    ("task=pretrain", "neuron=bispike"),
    ("task=general_distill", "neuron=bispike", "general.steps=2"),
    ("task=sum/xsum", "neuron=bispike", "distill=none"),
    ("task=pretrain", "system=spikegpt"),
    ("task=lm/embedded", "neuron=bispike", "finetune.epochs=null"),
]


def equal(one: Batch, other: Batch) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("overrides", TASKS, ids=" ".join)
def test_the_audit_sees_the_rows_of_the_run(
    overrides: tuple[str, ...], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Tensor]] = []
    real = audit_module.audit

    def watched(model: Any, batch: Batch, *args: Any, **options: Any) -> Any:
        if not options.get("generate"):
            seen.append({name: tensor.clone() for name, tensor in batch.items()})
        return real(model, batch, *args, **options)

    monkeypatch.setattr(audit_module, "audit", watched)
    monkeypatch.setattr(trained_model, "audit", watched)
    stages: list[Any] = []
    monkeypatch.setattr(run_stage, "build_stage", kept(run_stage.build_stage, stages))
    config = load_config([*SMALL, f"runs_dir={runs}", "force=true", *overrides])
    finished = run_experiment(config, QUIET)
    of_the_run = seen[-1]
    assert audit_main([str(finished.directory), "--runs-dir", str(runs)]) == 0
    assert len(seen) >= 2
    assert equal(of_the_run, seen[-1])
    again = measurement_samples(from_record(to_record(config)))
    assert len(again) == len(stages[-1].samples)
    assert all(map(equal, again, stages[-1].samples)), "all of them, not only the audit's"


def kept(build: Callable[..., Any], into: list[Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        into.append(build(*args))
        return into[-1]

    return call
