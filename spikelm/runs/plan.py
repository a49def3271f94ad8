"""dry_run=true: what a run would do (size, work, memory, energy, prerequisites), computed without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.energy import ceiling_mj, energy_mj
from spikelm.config.devices import device_count
from spikelm.config.settings.schema import Config
from spikelm.config.settings.stages import StageConfig
from spikelm.measure.workload import (
    device_share,
    generated_terms,
    head_terms,
    measured_terms,
    row_flops,
    row_tokens,
    trained_parameters,
)
from spikelm.runs.experiment import open_run
from spikelm.runs.labels import title
from spikelm.runs.prerequisites import prerequisites

OPTIMIZERS = {"adamw": "AdamW", "adagrad": "Adagrad"}
WIDTH = 136  # of the table of a sweep's plans


@dataclass(frozen=True)
class Plan:
    """The numbers of a dry run; None where only the data can tell."""

    parameters: int | None
    steps: int | None
    tokens: int | None
    flops: float | None
    memory_gb: float | None
    energy_ann_mj: float | None
    energy_ceiling_mj: float | None
    energy_generated_mj: float | None = None  # of the longest text with its beams, by the ANN
    energy_head_mj: float | None = None  # of the LM head, which stays real-valued


@dataclass(frozen=True)
class NeededRun:
    """A run that a planned one starts from or learns from."""

    role: str  # pretrained or teacher
    task: str
    run_id: str
    state: str


@dataclass(frozen=True)
class PlannedRun:
    """A dry run: which run it is, which runs it needs, and its numbers."""

    run_id: str
    state: str
    directory: str
    system: str
    task: str
    epochs: int | None
    time_steps: int
    needs: list[NeededRun]
    plan: Plan


def planned_run(record: Mapping[str, Any]) -> PlannedRun:
    """Back from what `asdict` made of it."""
    needs = [NeededRun(**one) for one in record["needs"]]
    return PlannedRun(**{**record, "needs": needs, "plan": Plan(**record["plan"])})


def planned_steps(config: Config) -> int | None:
    """Optimiser steps, where the config or the published number of rows tells them."""
    stage, rows = config.stage, config.task.official_rows.get("train")
    if stage.steps is not None:
        return stage.steps
    if config.source.name != "hub" or not rows or not stage.epochs:
        return None
    return stage.epochs * -(-min(rows, config.source.train_rows or rows) // stage.batch)


def make_plan(config: Config) -> Plan:
    """Size and work of the config's own run."""
    stage, pairs = config.stage, config.task.kind == "seq2seq"
    parameters = trained_parameters(config)
    if parameters is None:  # its size and work are known when its model is built
        steps = planned_steps(config)
        return Plan(None, steps, steps * stage.batch * row_tokens(config) if steps else None, None, None, None, None)
    steps, counted = planned_steps(config), measured_terms(config)
    return Plan(
        parameters=parameters,
        steps=steps,
        tokens=steps * stage.batch * row_tokens(config) if steps else None,
        flops=row_flops(config) * stage.batch * steps if steps else None,
        memory_gb=device_share(config).memory_gb,
        energy_ann_mj=energy_mj(counted),
        energy_ceiling_mj=ceiling_mj(measured_terms(config, spiking=True), config.time_steps) if config.fires else None,
        energy_generated_mj=energy_mj(generated_terms(config)) if pairs else None,
        energy_head_mj=energy_mj(head_terms(config)) if pairs else None,
    )


def plan_run(config: Config) -> PlannedRun:
    """The plan of a run and of the runs it needs; nothing is started or written."""
    run = open_run(config)
    before = [(role, needed, open_run(needed)) for role, needed in prerequisites(config).items()]
    return PlannedRun(
        run_id=run.id,
        state=run.state,
        directory=str(run.directory),
        system=title(config),
        task=config.task.name,
        epochs=config.stage.epochs,
        time_steps=config.time_steps,
        needs=[NeededRun(role, needed.task.name, found.id, found.state) for role, needed, found in before],
        plan=make_plan(config),
    )


def show_plan(config: Config, planned: PlannedRun, console: Console) -> None:
    """Print the plan of one run."""
    heading = f"{planned.task} · {planned.system} · dry run"
    table = Table(title=heading, title_justify="left", box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column("what")
    table.add_column("value", overflow="fold")
    rows = {
        "run": f"{planned.run_id} ({planned.state})",
        **_model_rows(config, planned.plan),
        **_work_rows(config, planned),
        **_energy_rows(config, planned.plan),
        **{f"needs the {one.role} run": f"{one.task} {one.run_id} ({one.state})" for one in planned.needs},
    }
    for what, value in rows.items():
        table.add_row(what, value)
    console.print(table)


def _model_rows(config: Config, plan: Plan) -> dict[str, str]:
    size = f", {plan.parameters:,} parameters" if plan.parameters else ""
    return {
        "backbone": config.backbone.name + size,
        **({"starts from": config.backbone.path} if config.backbone.path else {}),
        "neuron": f"{config.neuron.name}, T={config.time_steps}",
        **({"weights": config.weights.name} if config.quantized else {}),
    }


def _work_rows(config: Config, planned: PlannedRun) -> dict[str, str]:
    """Steps, optimiser, tokens, operations and memory of the training."""
    stage, devices, plan = config.stage, device_count(config), planned.plan
    pairs, task = config.task.kind == "seq2seq", config.task
    epochs = f"{stage.epochs} epochs of the data" if stage.epochs else ""
    steps = f"{plan.steps:,}{f' ({epochs})' if epochs else ''}" if plan.steps else epochs or "none"
    per_device = "" if devices == 1 else f" ({_per_device(stage.batch, devices)} on each of {devices} devices)"
    longest = f"{task.source_length} to {task.target_length}" if pairs else f"{stage.max_length}"
    at_most = "at most " if stage.epochs else ""  # rows are seldom as long as they may be
    with_teacher = ", teacher" if any(run.role == "teacher" for run in planned.needs) else ""
    counted = f" (encoder, decoder, LM head{with_teacher})" if pairs else ""
    rows = {
        "steps": f"{steps}, batch {stage.batch}{per_device}, up to {longest} tokens",
        "optimiser": ", ".join(
            [
                OPTIMIZERS[stage.optimizer.name],
                f"lr {stage.lr:g} {stage.schedule.shape}",
                f"warm-up {stage.schedule.warmup:g}",
                f"decay {stage.optimizer.weight_decay:g}{_released_schedule(stage)}",
            ]
        ),
        "tokens": f"{at_most}{plan.tokens:,}" if plan.tokens else "by the data",
        "training FLOPs" if pairs else "training FLOPs (encoder)": (
            f"{at_most}{plan.flops:.2e}{counted}" if plan.flops else "by the data"
        ),
    }
    if plan.memory_gb is not None:
        rows["training memory, about"] = f"{plan.memory_gb:.1f} GB{'' if devices == 1 else ' per device'}"
    return rows


def _energy_rows(config: Config, plan: Plan) -> dict[str, str]:
    """What one inference costs, as far as the sizes tell."""
    rows = {}
    if plan.energy_ann_mj is not None:
        rows["energy of one inference, ANN"] = f"{plan.energy_ann_mj:.4g} mJ fp32"
    if plan.energy_ceiling_mj is not None:
        rows["energy, every neuron firing"] = f"{plan.energy_ceiling_mj:.4g} mJ fp32, times the firing rate"
    if plan.energy_generated_mj is not None:
        beams, tokens = config.task.generate.beams, config.task.generate.max_length
        longest_text = f"{plan.energy_generated_mj:.4g} mJ fp32 for {tokens} tokens, {beams} beams"
        rows["energy of a generated text, ANN"] = f"at most {longest_text}"
        rows["energy of the LM head, apart"] = f"{plan.energy_head_mj:.4g} mJ fp32"
    return rows


def show_plans(planned_runs: Sequence[PlannedRun], console: Console) -> None:
    """One row per planned run, with a line for each run it needs: the end of a sweep of dry runs."""
    table = Table(title=f"{len(planned_runs)} planned runs", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("system", "T", "task"):
        table.add_column(column, no_wrap=True)
    for column in ("parameters", "steps", "tokens", "FLOPs", "GB", "mJ ANN", "ceiling"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    for planned in planned_runs:
        plan = planned.plan
        table.add_row(
            planned.system,
            str(planned.time_steps),
            planned.task.removeprefix("glue/"),
            f"{plan.parameters / 1e6:.1f}M" if plan.parameters else "–",
            f"{plan.steps:,}" if plan.steps else f"{planned.epochs} epochs",
            f"{plan.tokens:.2e}" if plan.tokens else "–",
            f"{plan.flops:.1e}" if plan.flops else "–",
            f"{plan.memory_gb:.1f}" if plan.memory_gb else "–",
            f"{plan.energy_ann_mj:.4g}" if plan.energy_ann_mj else "–",
            "–" if plan.energy_ceiling_mj is None else f"{plan.energy_ceiling_mj:.4g}",
            "\n".join(f"{one.task} {one.run_id[:8]} ({one.state})" for one in planned.needs) or "–",
        )
    # Whatever the width of the terminal: a folded row is not read.
    wide = console if console.width >= WIDTH else Console(file=console.file, width=WIDTH)
    wide.print(table)
    meaning = "GB: training memory of one device, about. ceiling: mJ of an inference in which every neuron fires."
    console.print(f"  {meaning} needs: the runs it starts or learns from.", soft_wrap=True)


def _per_device(batch: int, devices: int) -> str:
    return f"{batch // devices}" if batch % devices == 0 else f"{batch // devices} or {batch // devices + 1}"


def _released_schedule(stage: StageConfig) -> str:
    """What a schedule comes to that is not stepped exactly once per update."""
    if stage.schedule.speed == stage.schedule.stretch == 1 or not stage.steps:
        return ""
    end = round(stage.schedule.stretch * stage.steps / stage.schedule.speed)
    return f"; the rate is 0 from update {end:,}" if end < stage.steps else f"; made for {end:,} updates"
