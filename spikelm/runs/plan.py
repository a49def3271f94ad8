"""dry_run=true: what a run would do (size, work, memory, energy, prerequisites), computed without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.energy import ceiling_mj, energy_mj
from spikelm.catalog.kinds import LM, UNLABELLED
from spikelm.catalog.quantities import counted, duration, gigabytes, millijoules, significant
from spikelm.config.devices import device_count, device_memory
from spikelm.config.settings.schema import Config
from spikelm.config.settings.stages import StageConfig
from spikelm.measure.fitting import smaller_settings
from spikelm.measure.flops import teacher_is_asked
from spikelm.measure.workload import (
    USABLE_MEMORY,
    Share,
    device_share,
    generated_terms,
    head_terms,
    measured_terms,
    row_tokens,
    trained_parameters,
)
from spikelm.runs.cost import KEPT_CHECKPOINTS, Cost, cost_of, planned_steps, saved_parameters, speed_of
from spikelm.runs.experiment import open_run
from spikelm.runs.labels import title
from spikelm.runs.prerequisites import prerequisites
from spikelm.runs.timings import timings_of

OPTIMIZERS = {"adamw": "AdamW", "adagrad": "Adagrad"}
WIDTH = 170  # of the table of a sweep's plans
BY_DATA = "by the data"  # where only the data can tell
NOT_ESTIMATED = "not estimated"
UNCOUNTED = "matmuls alone: neurons, norms, reading, evaluation and generation come on top"


@dataclass(frozen=True)
class Plan:
    """The numbers of a dry run; None where only the data can tell."""

    parameters: int | None
    tokens: int | None
    share: Share
    device_gb: float | None  # memory of one device
    cost: Cost
    speed: str  # at which the cost's hours are, in words
    earlier_hours: float | None = None  # by earlier runs
    energy_ann_mj: float | None = None
    energy_ceiling_mj: float | None = None
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
class FirstRuns:
    """All unfinished runs that have to be made before a run, those of its prerequisites included."""

    count: int
    gpu_hours: float  # of those that are estimated
    unknown: int  # of those whose hours only the data can tell


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
    first: FirstRuns
    plan: Plan


def planned_run(record: Mapping[str, Any]) -> PlannedRun:
    """Back from what `asdict` made of it."""
    needs = [NeededRun(**one) for one in record["needs"]]
    numbers = record["plan"]
    plan = Plan(**{**numbers, "share": Share(**numbers["share"]), "cost": Cost(**numbers["cost"])})
    return PlannedRun(**{**record, "needs": needs, "first": FirstRuns(**record["first"]), "plan": plan})


def make_plan(config: Config) -> Plan:
    """Size and work of the config's own run."""
    steps = planned_steps(config)
    seconds = timings_of(Path(config.runs_dir)).about(config)
    plan = Plan(
        parameters=saved_parameters(config),
        tokens=steps * config.stage.batch * row_tokens(config) if steps else None,
        share=device_share(config),
        device_gb=device_memory(config),
        cost=cost_of(config),
        speed=str(speed_of(config.trainer)),
        earlier_hours=None if seconds is None else seconds / 3600,
    )
    # The energy of other kinds is counted when their model is built.
    if trained_parameters(config) is None and config.task.kind != LM:
        return plan
    pairs = config.task.kind == "seq2seq"
    return replace(
        plan,
        energy_ann_mj=energy_mj(measured_terms(config)),
        energy_ceiling_mj=ceiling_mj(measured_terms(config, spiking=True), config.time_steps) if config.fires else None,
        energy_generated_mj=energy_mj(generated_terms(config)) if pairs else None,
        energy_head_mj=energy_mj(head) if (head := head_terms(config)) else None,
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
        first=_first_runs(config),
        plan=make_plan(config),
    )


def _first_runs(config: Config) -> FirstRuns:
    """What has to be made before a run, each once."""
    hours: dict[str, float | None] = {}

    def visit(later: Config) -> None:
        for needed in prerequisites(later).values():
            run = open_run(needed)
            if run.id not in hours and not run.finished:
                hours[run.id] = cost_of(needed).gpu_hours
                visit(needed)

    visit(config)
    estimated = [value for value in hours.values() if value is not None]
    return FirstRuns(len(hours), sum(estimated), len(hours) - len(estimated))


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
        **({} if planned.plan.cost.steps == 0 else _device_rows(config, planned.plan)),
        **_cost_rows(config, planned),
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
        **{group: spec.name for group, spec in config.operators.items()},
    }


def _work_rows(config: Config, planned: PlannedRun) -> dict[str, str]:
    """Steps, optimiser and tokens of the training."""
    stage, task, plan = config.stage, config.task, planned.plan
    if config.only_converts:
        rotation = "" if config.convert.rotation == "none" else f", behind a rotation ({config.convert.rotation})"
        rows = counted(config.convert.batches * config.convert.batch, "row")
        return {"conversion": f"no training; at most {rows} set the amplitudes{rotation}"}
    steps = plan.cost.steps
    if steps == 0:
        return {"steps": "none: the weights are measured as they are"}
    epochs = f"{stage.epochs} epochs of the data" if stage.epochs else ""
    all_steps = f"{steps:,}{f' ({epochs})' if epochs else ''}" if steps else epochs
    longest = f"{task.source_length} to {task.target_length}" if task.kind == "seq2seq" else f"{stage.max_length}"
    return {
        "steps": f"{all_steps}, batch {stage.batch}, up to {longest} tokens",
        "optimiser": ", ".join(
            [
                OPTIMIZERS[stage.optimizer.name],
                f"lr {stage.lr:g} {stage.schedule.shape}",
                f"warm-up {stage.schedule.warmup:g}",
                f"decay {stage.optimizer.weight_decay:g}{_released_schedule(stage)}",
            ]
        ),
        **({"rows of the data, at most": most} if (most := _most_rows(config)) else {}),
        "tokens": f"{_at_most(config)}{plan.tokens:,}" if plan.tokens else BY_DATA,
    }


def _most_rows(config: Config) -> str:
    """How many rows of the data are read, where not all are."""
    source = config.source
    if config.task.kind in (*UNLABELLED, LM) or not (source.train_rows or source.dev_rows):
        return ""
    limits = {"to train on": source.train_rows, "to evaluate": source.dev_rows}
    return " and ".join(f"{count:,} {what}" for what, count in limits.items() if count)


def _at_most(config: Config) -> str:
    """Rows of a task are seldom as long as they may be."""
    return "at most " if config.stage.epochs else ""


def _device_rows(config: Config, plan: Plan) -> dict[str, str]:
    """How the batch is shared out, and what that needs of one device's memory."""
    share, memory = plan.share, plan.share.memory_gb
    rows = {"batch": shared_batch(config.stage.batch, device_count(config), share)}
    if memory is None:
        return {**rows, "training memory": NOT_ESTIMATED}
    of = f" of {plan.device_gb:g} GB" if plan.device_gb else ""
    rows["training memory, about"] = f"{gigabytes(memory)}{of} per device{'' if plan.device_gb else _smaller(config)}"
    if share.fits is False:
        rows["does not fit"] = _refusal(config, share, plan.device_gb or 0.0)
    return rows


def _smaller(config: Config) -> str:
    return "; trainer.device_memory=GB takes as many rows at a time as fit" if not config.trainer.micro_batch else ""


def shared_batch(batch: int, devices: int, share: Share) -> str:
    """A batch as devices times parts times rows: 512 = 8 devices x 4 parts x 16 rows."""
    factors = [counted(devices, "device")]
    factors += [f"{share.accumulate} parts"] if share.accumulate > 1 else []
    most = "" if devices * share.accumulate * share.micro_batch == batch else "at most "
    factors.append(f"{most}{counted(share.micro_batch, 'row')}")
    return f"{batch} = {' x '.join(factors)}"


def _refusal(config: Config, share: Share, device_gb: float) -> str:
    """What is said of a run of which not even the smallest part fits, and the settings with which it does."""
    rows = "one row at a time" if share.micro_batch == 1 else f"{share.micro_batch} rows at a time"
    usable = gigabytes(USABLE_MEMORY * device_gb)
    needs = f"{rows} needs {gigabytes(share.memory_gb or 0)} of the {usable} that {device_gb:g} GB leave"
    fitting = smaller_settings(config)
    if not fitting:
        return f"{needs}; no setting of the trainer makes it fit: a larger device, or shorter rows"
    return f"{needs}; it fits with {', or with '.join(fitting)}"


def _cost_rows(config: Config, planned: PlannedRun) -> dict[str, str]:
    """Operations, hours and disk."""
    cost, first = planned.plan.cost, planned.first
    flops = BY_DATA if cost.flops is None else f"{_at_most(config)}{cost.flops:.3g}{_counted(config)}"
    rows = {"training FLOPs": "none: it is not trained" if cost.steps == 0 else flops}
    if cost.gpu_hours and cost.wall_hours:
        devices = device_count(config)
        wall = f", {duration(3600 * cost.wall_hours)} on {devices} devices" if devices > 1 else ""
        rows["GPU time, about"] = f"{duration(3600 * cost.gpu_hours)}{wall} ({UNCOUNTED})"
        rows["at a speed of"] = planned.plan.speed
    if planned.plan.earlier_hours is not None:
        rows["time by earlier runs"] = duration(3600 * planned.plan.earlier_hours)
    if cost.running_gb is not None and cost.finished_gb is not None:
        kept = f"{KEPT_CHECKPOINTS} checkpoints, and a third while it is written"
        training = "" if cost.steps == 0 else f"{gigabytes(cost.running_gb)} while it trains ({kept}), "
        rows["disk"] = f"{training}{gigabytes(cost.finished_gb)} afterwards"
    else:
        rows["disk"] = NOT_ESTIMATED
    if first.count:
        together = f", together {duration(3600 * first.gpu_hours)} of a GPU" if first.gpu_hours else ""
        unknown = f", {first.unknown} of which only the data tells" if first.unknown else ""
        rows["runs needed first"] = f"{first.count}{together}{unknown}"
    return rows


def _counted(config: Config) -> str:
    """What the operations are of."""
    parts = ["forward and backward"]
    parts += [f"T={config.time_steps}"] if config.time_steps > 1 else []
    parts += ["activations computed again"] if device_share(config).checkpointing else []
    parts += ["the teacher's forward"] if teacher_is_asked(config) else []
    return f" ({', '.join(parts)})"


def _energy_rows(config: Config, plan: Plan) -> dict[str, str]:
    """What one inference costs, as far as the sizes tell."""
    rows = {}
    if plan.energy_ann_mj is not None:
        rows["energy of one inference, ANN"] = f"{millijoules(plan.energy_ann_mj)} fp32"
    if plan.energy_ceiling_mj is not None:
        rows["energy, every neuron firing"] = f"{millijoules(plan.energy_ceiling_mj)} fp32, times the firing rate"
    if plan.energy_generated_mj is not None:
        beams, tokens = config.task.generate.beams, config.task.generate.max_length
        longest_text = f"{millijoules(plan.energy_generated_mj)} fp32 for {tokens} tokens, {beams} beams"
        rows["energy of a generated text, ANN"] = f"at most {longest_text}"
    if plan.energy_head_mj is not None:
        rows["energy of the LM head, apart"] = f"{millijoules(plan.energy_head_mj)} fp32"
    return rows


def show_plans(planned_runs: Sequence[PlannedRun], console: Console) -> None:
    """One row per planned run, with a line for each run it needs: the end of a sweep of dry runs."""
    table = Table(title=f"{len(planned_runs)} planned runs", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("system", "T", "task"):
        table.add_column(column, no_wrap=True)
    for column in ("size", "steps", "FLOPs", "GPU time", "parts x rows", "memory", "disk", "mJ ANN", "ceiling"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    for planned in planned_runs:
        plan, cost, share = planned.plan, planned.plan.cost, planned.plan.share
        table.add_row(
            planned.system,
            str(planned.time_steps),
            planned.task.removeprefix("glue/"),
            _millions(plan.parameters) if plan.parameters else "–",
            f"{cost.steps:,}" if cost.steps else f"{planned.epochs} epochs" if planned.epochs else "none",
            f"{cost.flops:.1e}" if cost.flops else "–",
            duration(3600 * cost.gpu_hours) if cost.gpu_hours else "–",
            f"{share.accumulate} x {share.micro_batch}{' !' if share.fits is False else ''}",
            gigabytes(share.memory_gb) if share.memory_gb else "–",
            gigabytes(cost.running_gb) if cost.running_gb else "–",
            significant(plan.energy_ann_mj) if plan.energy_ann_mj else "–",
            "–" if plan.energy_ceiling_mj is None else significant(plan.energy_ceiling_mj),
            "\n".join(f"{one.task} {one.run_id[:8]} ({one.state})" for one in planned.needs) or "–",
        )
    # Whatever the width of the terminal: a folded row is not read.
    wide = console if console.width >= WIDTH else Console(file=console.file, width=WIDTH)
    wide.print(table)
    speeds = " or ".join(dict.fromkeys(planned.plan.speed for planned in planned_runs))
    meaning = (
        f"GPU time: at {speeds}, {UNCOUNTED}. parts x rows: how one device computes its share of a batch "
        "(! does not fit). memory: of one device in training, about. disk: while it trains. ceiling: mJ of an "
        "inference in which every neuron fires. needs: the runs it starts or learns from. –: only the data or the "
        "built model tells."
    )
    console.print(f"  {meaning}", soft_wrap=True)


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f}M" if count >= 1e6 else f"{significant(count / 1e6, 2)}M"


def _released_schedule(stage: StageConfig) -> str:
    """What a schedule comes to that is not stepped exactly once per update."""
    if stage.schedule.speed == stage.schedule.stretch == 1 or not stage.steps:
        return ""
    end = round(stage.schedule.stretch * stage.steps / stage.schedule.speed)
    return f"; the rate is 0 from update {end:,}" if end < stage.steps else f"; made for {end:,} updates"
