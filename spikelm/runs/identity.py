"""What makes a run that run: everything in its config that decides its result, and nothing else.

Each field of the config says which kinds of run it decides (spikelm/config/settings/fields.py). What comes from files
is in the identity by the hash of its content, and what comes from other runs by their ids.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from spikelm.catalog.kinds import LM, UNLABELLED
from spikelm.config.settings.fields import decided
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import NeuronSpec
from spikelm.config.settings.task import TaskConfig, window_and_stride
from spikelm.data.sources.source_identity import source_identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.file_facts import weights_identity
from spikelm.store.hashing import run_id

FORMAT = 2  # raise it when the same config no longer gives the same result


def id_of(config: Config) -> str:
    """The 16 digits of a config's run."""
    return run_id(identity(config))


def identity(config: Config) -> dict[str, Any]:
    """The content that is hashed."""
    run, cache = config.run, Path(config.runs_dir) / ".cache"
    path = config.backbone.path
    return {
        "format": FORMAT,
        "task": decided(_task(config), run),
        "source": _source(config, cache),
        "backbone": decided(config.backbone, run),
        "starts from": weights_identity(path, cache, with_settings=config.kind.untrained) if path else None,
        "neuron": {**decided(_neuron(config), run), "T": config.time_steps},
        "weights": decided(config.weights, run),
        "variant": decided(config.variant, run) if config.converted else None,
        # Operators came later than the first runs: as the model has them, they are no part of an id.
        **{group: decided(spec, run) for group, spec in config.operators.items()},
        "stage": decided(config.stage, run),
        "distill": decided(config.distill, run) if config.reads_distill else None,
        "seed": config.seed,
        "select": config.select if config.task.kind not in UNLABELLED and not config.only_converts else None,
        "measure": decided(config.measure, run),
        "trainer": decided(config.trainer, run),
        "needs": {role: id_of(needed) for role, needed in prerequisites(config).items()},
        **({"convert": _conversion(config)} if config.only_converts else {}),
    }


def _neuron(config: Config) -> NeuronSpec:
    """The neuron; a k that it does not read is as if nobody had said one."""
    spec = config.neuron
    return spec.having(k=Config.k) if "k" in spec.arguments and not spec.reads_k else spec


def _task(config: Config) -> TaskConfig:
    """The task; windows that are said as they are anyway are those of a task that says nothing of them."""
    if config.task.kind != LM:
        return config.task
    length = config.stage.max_length
    window, stride = window_and_stride(config.task, length)
    return replace(config.task, window=0 if window == length else window, stride=0 if stride == window else stride)


def _conversion(config: Config) -> dict[str, Any]:
    """How a model is converted; without a rotation there are no signs to draw."""
    record = decided(config.convert, config.run)
    return {key: value for key, value in record.items() if key != "rotation_seed" or config.convert.rotation != "none"}


def _source(config: Config, cache: Path) -> dict[str, Any]:
    """The text a run reads, with the rows of other tasks that it reads beside it."""
    other_tasks = config.distill.rows.other_tasks if config.distills else 0
    read_beside = config.unlabelled_rows or other_tasks
    return source_identity(config.task, config.source, cache, read_beside, config.reads_training_rows)
