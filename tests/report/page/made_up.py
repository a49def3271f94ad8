"""Made-up runs as the store would hold them, without composing or training anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from made_up_result import ENVIRONMENT, made_up

from spikelm.catalog.energy import encoder_terms, energy_mj, mean_rate, spiking_energy_mj
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.running import MeasureConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.specs import NeuronSpec
from spikelm.config.settings.task import TaskConfig
from spikelm.store.hashing import digest
from spikelm.store.result import Result
from spikelm.store.store import Run

BACKBONE = BackboneConfig(name="bert_mini", layers=2, hidden=96, heads=8, intermediate=384)
KINDS = ("qkv_in", "key_out", "value_out", "attn_out_in", "ffn1_in", "ffn2_in")


def run_id(number: int) -> str:
    return digest(["made up", number])[:16]


def config(task: str, neuron: str, scale: str, source: str, seed: int) -> Config:
    return Config(
        task=TaskConfig(name=task, kind="classification"),
        neuron=NeuronSpec("" if neuron == "ann" else "spikelm.neurons.lif.LIF", name=neuron),
        backbone=BACKBONE,
        source=SourceConfig(name=source),
        measure=MeasureConfig(samples=64, length=64),
        scale=scale,
        T=4,
        seed=seed,
    )


def result(id: str, config: Config, system: str, score: float, **more: Any) -> Result:
    """A result whose energy is that of its rates."""
    terms = encoder_terms(2, 96, 384, 64)
    rates = {f"encoder.layer.{layer}.{kind}": 0.1 * (1 + layer + n) for layer in (0, 1) for n, kind in enumerate(KINDS)}
    ann = {kind: energy_mj(terms, kind) for kind in ("fp32", "fp16")}  # type: ignore[arg-type]
    spiking = config.spiking
    ours = {kind: spiking_energy_mj(terms, rates, 4, kind) for kind in ann} if spiking else ann  # type: ignore[arg-type]
    rate: dict[str, Any] = {"mean": None, "per_site": {}}
    if spiking:
        rate = {"mean": mean_rate(terms, rates), "per_site": rates, "initial_per_site": dict.fromkeys(rates, 0.5)}
    known = {
        "run_id": id,
        "metrics": {"accuracy": score},
        "constant_predictor": {"accuracy": 50.0},
        "energy_mj": ours,
        "energy_ann_mj": ann,
        "firing_rate": rate,
        "source": {"name": config.source.name, "rows": {"train": 100}, "content_hash": "0" * 64},
        "config": config,
        "scale": config.scale,
        "task": config.task.name,
        "system": system,
        "seed": config.seed,
        "parameters": 318051,
    }
    return made_up(**{**known, **more})


def write(
    root: Path, number: int, task: str = "glue/rte", neuron: str = "lif", scale: str = "mini",
    source: str = "embedded", system: str = "LIF-BERT", score: float = 60.0, steps: int = 20, **more: Any,
) -> Run:  # fmt: skip
    """A finished run with a curve."""
    id = run_id(number)
    saved = config(task, neuron, scale, source, number)
    label = f"{neuron}-{scale}-{source}-s{number}"
    run = Run(root, root / task.replace("/", "-") / f"{label}-{id[:8]}", id)
    run.start(saved, ENVIRONMENT)
    for step in range(steps):
        run.append_metrics(20 * step, {"train/loss": 2.0 / (1 + step), "dev/accuracy": 50.0 + step})
    run.finish(result(id, saved, system, score, **more))
    return run


def bulk(root: Path, runs: int) -> None:
    """Many runs, written plainly: an fsync a file would take longer than what is timed."""
    tasks = [f"glue/{task}" for task in ("mnli", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte")]
    for number in range(runs):
        task, neuron = tasks[number % 8], ("ann", "lif", "bispike")[number % 3]
        saved = config(task, neuron, "mini", "embedded", number)
        id = run_id(number)
        folder = root / task.replace("/", "-") / f"{neuron}-s{number}-{id[:8]}"
        folder.mkdir(parents=True)
        finished = f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}+00:00"
        told = result(id, saved, neuron.upper(), 50.0 + number % 40, finished_at=finished)
        (folder / "result.json").write_text(json.dumps(told.to_record()))
        (folder / "status.json").write_text(json.dumps({"run_id": id, "state": "finished"}))
        rows = [f"{20 * step},train/loss,{2 / (1 + step)}" for step in range(100)]
        (folder / "metrics.csv").write_text("step,name,value\n" + "\n".join(rows) + "\n")
