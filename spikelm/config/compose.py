"""Composing configs with Hydra, with every mistake turned into one line that names the nearest valid word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import yaml
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_store import ConfigStore
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict

from spikelm.config.check_specs import check_neuron
from spikelm.config.checks import all_keys, resolved, typed, unknown_key
from spikelm.config.devices import uses_gpu
from spikelm.config.option_files import compose_plain
from spikelm.config.paths import config_dir, default_runs_dir
from spikelm.config.plugins import option_names
from spikelm.config.redact import refuse_secrets
from spikelm.config.resolvers import register_resolvers
from spikelm.config.search_path import register_search_path
from spikelm.config.settings.fields import rule_of
from spikelm.config.settings.schema import Composed, Config, structured
from spikelm.config.settings.specs import NeuronSpec
from spikelm.config.suggestions import nearest
from spikelm.config.trust import refuse_targets
from spikelm.errors import ConfigError
from spikelm.machine.gpus import gpus
from spikelm.machine.installed import install_command

REPORTED = ("table", "figure")  # folders of conf/ that spikelm-report reads, and no run


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
        raise _mistake(error, overrides) from error


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


@lru_cache(maxsize=1)
def group_names() -> tuple[str, ...]:
    """The groups that a run chooses an option of, as conf/config.yaml lists them."""
    listed = yaml.safe_load((config_dir() / "config.yaml").read_text())["defaults"]
    chosen = (next(iter(each)) for each in listed if isinstance(each, dict))
    return tuple(name for name in chosen if " " not in name)  # the others are "optional ..." and "override ..."


def _mistake(error: Exception, overrides: Sequence[str]) -> ConfigError:
    """Hydra's errors in one line; what it leaves out (the near miss) is looked up in conf/ and the schema."""
    text = str(error)
    for key, _, value in (override.lstrip("+").partition("=") for override in overrides):
        if key in REPORTED:
            return ConfigError(f"{key} is no setting of a run", f"spikelm-report {key} {value.removeprefix(key)}")
        if key in group_names() and "must be a string" in text and value not in option_names(key):
            return _unknown_option(key, value, overrides)
    if found := re.search(r"Could not (?:find|load) 'hydra/launcher/(joblib|submitit_\w+)'", text):
        package = f"hydra-{found[1].partition('_')[0]}-launcher"
        return ConfigError(f"the launcher {found[1]} is not installed", install_command(package))
    if found := re.search(r"Could not find '([^']+)'", text):
        group, _, option = found[1].partition("/")
        return _unknown_option(group, option, overrides)
    if found := re.search(r"Key '([^']+)' is not in struct|Could not override '([^']+)'", text):
        return _unknown_key(_full_key(text) or found[1] or found[2], overrides)
    told = f"{text}\n{error.__cause__ or ''}"
    if re.search(r"Invalid type assigned: \w+ is not a subclass of", told):
        group = _full_key(told)
        members = [key for key in all_keys() if key.startswith(f"{group}.") and key.count(".") == group.count(".") + 1]
        return ConfigError(f"{group} is a group of settings: {', '.join(members)}")
    lines = [line.strip() for line in [*str(error.__cause__ or "").splitlines(), *text.splitlines()] if line.strip()]
    key = _full_key(text) or _full_key(str(error.__cause__ or ""))
    for override in overrides:
        if key and override.lstrip("+~").startswith(f"{key}="):
            rule = rule_of(Composed, key)
            return ConfigError(f"{override} is not valid; {f'it is {rule}' if rule else lines[0]}")
    return ConfigError(lines[0] if lines else type(error).__name__)


def _unknown_option(group: str, option: str, overrides: Sequence[str]) -> ConfigError:
    """A file that conf/ does not have: an option of a group, or what a scale says of one."""
    by_scale = re.fullmatch(r"at/([^/]+)/([^/]+)", option)
    if by_scale and not any(override.startswith(f"{group}=") for override in overrides):
        family, scale = by_scale.groups()
        return ConfigError(
            f"scale={scale} has no {group} of the family {family}", f"{group}={family}_mini, or another scale"
        )
    meant = nearest(option, option_names(group))
    return ConfigError(
        f"{group}={option} is not a known {group}{meant}", "" if meant else "spikelm-run --help lists them"
    )


def _unknown_key(key: str, overrides: Sequence[str]) -> ConfigError:
    """A key that Hydra does not find."""
    if key.startswith(("neuron.", "weights.", "attention.", "norm.")):  # its class knows more: as if it was added
        try:
            load_config([f"+{word}" if word.startswith(f"{key}=") else word for word in overrides])
        except ConfigError as error:
            return error
    return unknown_key(key)


def _full_key(text: str) -> str:
    found = re.search(r"full_key: (\S+)", text)
    return found[1] if found else ""
