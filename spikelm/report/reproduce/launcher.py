"""Which launcher starts the runs of a reproduction: the one that was asked for, or what this machine is best at."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from spikelm.config.devices import uses_gpu
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.machine.cpu import side_by_side, usable_cores
from spikelm.machine.gpus import gpus

BASIC = "hydra/launcher=basic"
SETTING = "hydra.launcher."
PLUGIN = "hydra_plugins.hydra_joblib_launcher"
Words = list[str]


def chosen_launcher(asked: str, overrides: Sequence[str]) -> tuple[Words, Words]:
    """Hydra's launcher with its settings, and the overrides without them: no run's id depends on a launcher."""
    settings = [word for word in overrides if word.startswith(SETTING)]
    rest = [word for word in overrides if word not in settings]
    if settings and not asked:
        raise ConfigError(f"{settings[0]} is a setting of a launcher", "--launcher slurm, or LAUNCHER=slurm with make")
    if asked:
        return [f"hydra/launcher={asked}", *settings], rest
    if _on_gpus(rest):
        return ["hydra/launcher=parallel"], rest
    if not _on_cores(rest):
        return [BASIC], rest
    kept_heap = [] if any(word.startswith("trainer=") for word in rest) else ["trainer=cpu"]
    return ["hydra/launcher=parallel", *kept_heap], rest


def jobs_at_once(launcher: Sequence[str], config: Config) -> int:
    """How many runs like one go side by side on this machine; a cluster's queue tells nobody: 1."""
    said = dict(word.split("=", 1) for word in launcher if "=" in word)
    if said.get("hydra/launcher") not in ("parallel", "joblib"):
        return 1
    asked = said.get(f"{SETTING}n_jobs", "")
    if asked.isdigit() and int(asked):
        return int(asked)
    if uses_gpu(config):
        return max(1, len(gpus()) // (config.trainer.devices or 1))
    backbone = config.backbone
    sizes = (size if isinstance(size, int) else None for size in (backbone.layers, backbone.hidden))
    return side_by_side(*sizes)


def _on_gpus(overrides: Sequence[str]) -> bool:
    """Whether this machine has GPUs for several runs at a time."""
    said = dict(word.split("=", 1) for word in overrides if word.startswith("trainer"))
    if {said.get("trainer"), said.get("trainer.accelerator")} & {"cpu", "mps"} or not find_spec(PLUGIN):
        return False
    devices = said.get("trainer.devices", "1")
    return len(gpus()) // (int(devices) if devices.isdigit() and int(devices) else 1) > 1


def _on_cores(overrides: Sequence[str]) -> bool:
    """Whether the runs train on several cores and nothing else: small ones go side by side then."""
    said = dict(word.split("=", 1) for word in overrides if word.startswith("trainer"))
    if said.get("trainer.devices", "1") != "1" or usable_cores() < 2 or not find_spec(PLUGIN):
        return False
    if "cpu" in (said.get("trainer"), said.get("trainer.accelerator")):
        return True
    from torch import accelerator  # takes a second, so only where nothing says it

    return not said.keys() & {"trainer", "trainer.accelerator"} and not accelerator.is_available()
