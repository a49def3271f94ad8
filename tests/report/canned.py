"""Results made up by a test: one config a system is composed, nothing is trained and nothing is read from disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from made_up_result import ENVIRONMENT, made_up

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.report.query.selection import Results, SelectedRun, Selection, Wanted
from spikelm.store.hashing import digest
from spikelm.store.result import Result
from spikelm.store.store import Run, safe_name

FIRST = {"spikegpt": "pretrain", "gpt2": "sum/xsum", "ptgen": "sum/xsum", "bertsumabs": "sum/xsum"}
PRINTED = {"cola": "matthews", "stsb": "spearman", "mrpc": "f1", "qqp": "f1"}
GLUE = ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")


@cache
def config_of(system: str, task: str = "") -> Config:
    task = task or FIRST.get(system, "glue/rte")
    return load_config([f"system={system}", f"task={task}", "scale=smoke", "source=embedded"])


class Canned(Results):
    """`known` has a result for (system, task, seed); pretrained runs have seed 42, decoders a config of their own."""

    def __init__(self, known: dict[tuple[str, str, int], Result], root: Path, seeds: Sequence[int] = (42,)):
        super().__init__(Selection("smoke", "embedded", tuple(seeds), root))
        self.known = known

    def find(self, system: str, task: str, seed: int | None = None, extra: Sequence[str] = ()) -> SelectedRun:
        seed = 42 if task == "pretrain" else self.selection.seeds[0] if seed is None else seed
        id = digest([system, task, seed, list(extra)])[:16]
        run = Run(self.selection.root, self.selection.root / safe_name(task) / f"{system}-{id[:8]}", id)
        own = config_of(system, task if task.startswith("lm/") else "")
        config = replace(own, task=replace(own.task, name=task))
        result = self.known.get((system, task, seed))
        return SelectedRun(Wanted(system, task, seed, tuple(extra)), config, run, result)


def result(
    task: str, metrics: dict[str, float], energy: float | None = 1.0, rate: float | None = 0.25, **more: Any
) -> Result:
    """A result with these numbers."""
    halves = {"fp32": energy, "fp16": None if energy is None else energy / 2}
    verdict = {"verdict": "none" if rate is None else "fully", "operations": "MACs" if rate is None else "ACs"}
    verdict |= {"spike_driven": rate is not None, "real_valued": [], "silent": []}
    known = {"task": task, "metrics": metrics, "constant_predictor": metrics, "energy_mj": halves}
    known |= {"firing_rate": {"mean": rate, "per_site": {}}, "spike_driven": verdict}
    return made_up(**{**known, **more})


def glue(system: str, seed: int, score: float, mismatched: float) -> dict[tuple[str, str, int], Result]:
    """Eight finished tasks: `score` everywhere, MNLI-mm apart."""
    found = {}
    for task in GLUE:
        metrics = {PRINTED.get(task, "accuracy"): score}
        if task == "mnli":
            metrics["accuracy_mm"] = mismatched
        found[system, f"glue/{task}", seed] = result(f"glue/{task}", metrics)
    return found


def finish(found: SelectedRun, seconds: float = 60.0, weights: bool = True) -> None:
    """Write the result of a run into its store, as if it had been trained."""
    run = found.run
    if weights:
        (run.directory / "model").mkdir(parents=True)
    run.start(found.config, ENVIRONMENT)
    run.finish(made_up(run_id=run.id, task=found.config.task.name, seconds=seconds, config=found.config, steps=12))
