"""dry_run=true: what a run would do (size, work, memory, energy, prerequisites), computed without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from spikelm.experiment import open_run
from spikelm.identity import label, prerequisites
from spikelm.measure.energy import ceiling_mj, encoder_terms, energy_mj
from spikelm.schema import BackboneConfig, Config

FLOAT = 4  # bytes


@dataclass(frozen=True)
class Plan:
    """The numbers of a dry run; None where only the data can tell."""

    parameters: int
    steps: int | None
    tokens: int | None
    flops: float | None
    memory_gb: float
    energy_ann_mj: float
    energy_ceiling_mj: float | None


def parameter_count(size: BackboneConfig, pretraining: bool, num_labels: int = 2) -> int:
    """Parameters of BERT with its pretraining heads (decoder tied) or with a classifier; of BART with its tied head."""
    h, i = size.hidden, size.intermediate
    if size.kind != "bert":
        attention, ffn = 4 * (h * h + h) + 2 * h, (h * i + i) + (i * h + h) + 2 * h  # each with its LayerNorm
        embeddings = size.vocab * h + 2 * (size.positions + 2) * h + 2 * 2 * h
        final = 2 * 2 * h if size.kind == "mbart" else 0
        decoder = (size.decoder_layers or size.layers) * (2 * attention + ffn)
        return embeddings + size.layers * (attention + ffn) + decoder + final
    embeddings = (size.vocab + size.positions + 2) * h + 2 * h
    layer = 4 * (h * h + h) + (h * i + i) + (i * h + h) + 2 * 2 * h
    pooler = h * h + h
    heads = (h * h + h + 2 * h + size.vocab) + (2 * h + 2) if pretraining else h * num_labels + num_labels
    return embeddings + size.layers * layer + pooler + heads


def training_memory_gb(config: Config, parameters: int) -> float:
    """Rough: weights, gradients and Adam's two moments, plus what the backward of every layer keeps."""
    size, stage = config.backbone, config.stage
    tokens = stage.batch * stage.max_length * config.time_steps / config.trainer.devices
    # inputs of the linears and norms, q, k, v, attention maps and the FFN's two sides, a float each
    floats = 8 * size.hidden + 2 * size.intermediate + size.heads * stage.max_length
    codes = (4 * size.hidden + size.intermediate) / FLOAT if config.spiking else 0  # one byte a spike
    return (4 * parameters + size.layers * tokens * (floats + codes)) * FLOAT / 1e9


def make_plan(config: Config) -> Plan:
    """Size and work of the config's own run."""
    size, stage = config.backbone, config.stage
    pretraining = config.task.kind == "pretrain"
    labels = len(config.task.labels) if config.task.kind == "classification" else 1
    parameters = parameter_count(size, pretraining, labels)
    terms = encoder_terms(size.layers, size.hidden, size.intermediate, stage.max_length)
    tokens = stage.steps * stage.batch * stage.max_length if stage.steps else None
    # forward and twice that backward, two operations a MAC, T times for a spiking model
    work = 6 * config.time_steps * sum(term.macs for term in terms) * stage.batch
    counted = encoder_terms(size.layers, size.hidden, size.intermediate, config.measure.length)
    return Plan(
        parameters=parameters,
        steps=stage.steps,
        tokens=tokens,
        flops=work * stage.steps if stage.steps else None,
        memory_gb=training_memory_gb(config, parameters),
        energy_ann_mj=energy_mj(counted),
        energy_ceiling_mj=ceiling_mj(counted, config.time_steps) if config.spiking else None,
    )


def show_plan(config: Config, console: Console) -> dict[str, Any]:
    """Print the plan of a run and of the run it needs; nothing is started or written."""
    run, plan = open_run(config), make_plan(config)
    table = Table(title=f"{config.task.name} · {config.system or label(config)} · dry run", title_justify="left")
    table.add_column("what")
    table.add_column("value", justify="right")
    stage = config.stage
    steps = f"{plan.steps:,}" if plan.steps else f"{stage.epochs} epochs of the data"
    rows = {
        "run": f"{run.id} ({run.state})",
        "backbone": f"{config.backbone.name}, {plan.parameters:,} parameters",
        "neuron": f"{config.neuron['name']}, T={config.time_steps}",
        "steps": f"{steps}, batch {stage.batch}, up to {stage.max_length} tokens",
        "optimiser": f"AdamW, lr {stage.lr:g} {stage.schedule}, warm-up {stage.warmup:g}, decay {stage.weight_decay:g}",
        "tokens": f"{plan.tokens:,}" if plan.tokens else "by the data",
        "training FLOPs (encoder)": f"{plan.flops:.2e}" if plan.flops else "by the data",
        "training memory, about": f"{plan.memory_gb:.1f} GB",
        "energy of one inference, ANN": f"{plan.energy_ann_mj:.4g} mJ fp32",
    }
    if plan.energy_ceiling_mj is not None:
        rows["energy, every neuron firing"] = f"{plan.energy_ceiling_mj:.4g} mJ fp32, times the firing rate"
    for role, prerequisite in prerequisites(config).items():
        needed = open_run(prerequisite)
        rows[f"needs the {role} run"] = f"{prerequisite.task.name} {needed.id} ({needed.state})"
    for what, value in rows.items():
        table.add_row(what, value)
    console.print(table)
    return {"run_id": run.id, "directory": str(run.directory), **vars(plan)}
