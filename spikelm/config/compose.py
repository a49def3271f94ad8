"""Composing configs with Hydra, with every mistake turned into one line that names the nearest valid word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_store import ConfigStore
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from spikelm.config.check_specs import check_neuron
from spikelm.config.checks import all_keys, resolved, typed
from spikelm.config.devices import uses_gpu
from spikelm.config.option_files import compose_plain
from spikelm.config.paths import config_dir, default_runs_dir
from spikelm.config.plugins import config_dirs, config_files, option_names
from spikelm.config.redact import refuse_secrets
from spikelm.config.resolvers import register_resolvers
from spikelm.config.search_path import register_search_path
from spikelm.config.settings.fields import nearest
from spikelm.config.settings.schema import Config, structured
from spikelm.config.settings.specs import NeuronSpec
from spikelm.config.trust import refuse_targets
from spikelm.errors import ConfigError
from spikelm.machine.gpus import gpus


def register_schema() -> None:
    """Make the structured config known to Hydra under the name that conf/config.yaml starts from."""
    _register(default_runs_dir())
    register_resolvers()
    register_search_path()


@lru_cache(maxsize=1)
def _register(runs_dir: str) -> None:
    """Once, and again when another store is named: it is a default of the schema."""
    ConfigStore.instance().store(name="schema", node=structured(runs_dir))


def load_config(overrides: Sequence[str]) -> Config:
    """Compose and check one config from command-line style overrides."""
    refuse_secrets(overrides)
    register_schema()
    try:
        cfg = compose_plain(overrides)
    except Exception:  # words about Hydra itself, or a mistake: Hydra's own way composes the one and tells the other
        return typed(compose_config(overrides))
    return resolved(cfg)


def load_neuron(name: str, **arguments: Any) -> NeuronSpec:
    """The neuron that `neuron=NAME` chooses, with these values of its arguments, checked as the command line does."""
    if name not in (names := option_names("neuron")):
        raise ConfigError(f"{name!r} is not a known neuron{nearest(name, names)}", f"choose among: {', '.join(names)}")
    neuron = load_config([f"neuron={name}"]).neuron.having(**arguments)
    check_neuron(neuron, name)
    return neuron


def compose_config(overrides: Sequence[str], search_path: str | None = None) -> DictConfig:
    """What Hydra composes of overrides, without Hydra's own part.

    The loader is asked itself, not `hydra.compose`: a job of Hydra's may compose as well, and keeps its own state.
    """
    refuse_secrets(overrides)
    register_schema()
    extra = [f"hydra.searchpath=[{Path(search_path).absolute().as_uri()}]"] if search_path else []
    try:
        loader = ConfigLoaderImpl(create_config_search_path(str(config_dir())))
        cfg = loader.load_configuration("config", [*overrides, *extra], RunMode.RUN, from_shell=False)
        _refuse_shared_devices(cfg)
        with open_dict(cfg):
            of_hydra = OmegaConf.to_container(cfg.pop("hydra"), resolve=False)
        refuse_targets({"hydra": of_hydra})
        return cfg
    except ConfigError:
        raise
    except Exception as error:  # Hydra raises its own, OmegaConf's, and now and then a ValueError
        raise ConfigError(_message(error, overrides)) from error


def _refuse_shared_devices(cfg: DictConfig) -> None:
    """Jobs of joblib share one machine. Each has GPUs of its own (spikelm/sweeps/gpu_slots.py), if there are enough."""
    devices, launcher = cfg.trainer.devices or 1, cfg.hydra.launcher
    if devices == 1 or "joblib" not in str(launcher.get("_target_", "")) or launcher.n_jobs == 1:
        return
    if uses_gpu(cast(Config, cfg)):
        if launcher.n_jobs > 0 and launcher.n_jobs * devices <= len(gpus()):
            return
        many = f"{launcher.n_jobs} jobs" if launcher.n_jobs > 0 else "as many jobs as cores"
        raise ConfigError(
            f"{many} side by side with trainer.devices={devices} are more than the {len(gpus())} GPUs here",
            f"hydra.launcher.n_jobs={max(1, len(gpus()) // devices)}, or hydra/launcher=parallel, which counts them",
        )
    raise ConfigError(
        f"trainer.devices={devices} in a sweep whose jobs run side by side on one machine: they would share them",
        "hydra/launcher=basic runs one job after the other, hydra/launcher=slurm gives each job devices of its own",
    )


def group_names() -> set[str]:
    """The groups of conf/ and of the plugins that have options."""
    folders = (path for folder in config_dirs() for path in folder.iterdir() if path.is_dir())
    return {path.name for path in folders if any(path.rglob("*.yaml"))}


def _message(error: Exception, overrides: Sequence[str]) -> str:
    """Hydra's errors in one line; what it leaves out (the near miss) is looked up in conf/ and the schema."""
    text = str(error)
    if found := re.search(r"Could not (?:find|load) 'hydra/launcher/(joblib|submitit_\w+)'", text):
        return f'the launcher {found[1]} is not installed\n  fix: pip install "spikelm[launchers]"'
    if found := re.search(r"Could not find '([^']+)'", text):
        group, _, option = found[1].partition("/")
        by_scale = re.fullmatch(r"at/([^/]+)/([^/]+)", option)
        if by_scale and not any(override.startswith(f"{group}=") for override in overrides):
            family, scale = by_scale.groups()
            return (
                f"scale={scale} has no {group} of the family {family}\n  fix: {group}={family}_mini, or another scale"
            )
        return f"{group}={option} is not a known {group}{nearest(option, option_names(group))}"
    if found := re.search(r"Key '([^']+)' is not in struct|Could not override '([^']+)'", text):
        key = _full_key(text) or found[1] or found[2]
        return f"unknown key {key}{nearest(key, [*all_keys(), *group_names(), *_neuron_keys()])}"
    told = f"{text}\n{error.__cause__ or ''}"
    if re.search(r"Invalid type assigned: \w+ is not a subclass of", told):
        group = _full_key(told)
        members = [key for key in all_keys() if key.startswith(f"{group}.") and key.count(".") == group.count(".") + 1]
        return f"{group} is a group of settings: {', '.join(members)}"
    lines = [line.strip() for line in [*str(error.__cause__ or "").splitlines(), *text.splitlines()] if line.strip()]
    key = _full_key(text) or _full_key(str(error.__cause__ or ""))
    for override in overrides:
        if key and override.lstrip("+~").startswith(f"{key}="):
            return f"{override} is not valid; {lines[0]}"
    return lines[0] if lines else type(error).__name__


def _full_key(text: str) -> str:
    found = re.search(r"full_key: (\S+)", text)
    return found[1] if found else ""


def _neuron_keys() -> list[str]:
    keys: set[str] = set()
    for group in ("neuron", "weights"):
        for path in config_files(group):
            keys |= {f"{group}.{key}" for key in re.findall(r"^(\w+):", path.read_text(), re.MULTILINE)}
    hidden = ("defaults", "name", "_target_", "bits", "spikes")
    return [key for key in keys if not key.endswith(hidden)]
