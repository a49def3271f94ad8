"""Composing configs with Hydra, with every mistake turned into one line that names the nearest valid word."""

from __future__ import annotations

import errno
import itertools
import os
import re
import textwrap
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict

from spikelm.config.checks import all_keys, typed
from spikelm.config.fields import nearest
from spikelm.config.paths import config_dir, default_runs_dir
from spikelm.config.plugins import config_dirs, config_files, option_file, option_names
from spikelm.config.redact import refuse_secrets
from spikelm.config.resolvers import register_resolvers
from spikelm.config.schema import Composed, Config
from spikelm.config.search_path import register_search_path
from spikelm.config.trust import refuse_targets
from spikelm.errors import ConfigError
from spikelm.machine.disk import disk_errors
from spikelm.sweeps.job_file import jobs_asked_for, telling


def register_schema() -> None:
    """Make the structured config known to Hydra under the name that conf/config.yaml starts from."""
    _register(default_runs_dir())
    register_resolvers()
    register_search_path()


@lru_cache(maxsize=1)
def _register(runs_dir: str) -> None:
    """Once, and again when another store is named: it is a default of the schema."""
    ConfigStore.instance().store(name="schema", node=Composed)


def load_config(overrides: Sequence[str]) -> Config:
    """Compose and check one config from command-line style overrides."""
    return typed(_compose(overrides))


def _compose(overrides: Sequence[str], search_path: str | None = None) -> DictConfig:
    refuse_secrets(overrides)
    register_schema()
    extra = [f"hydra.searchpath=[{Path(search_path).absolute().as_uri()}]"] if search_path else []
    try:
        with initialize_config_dir(str(config_dir()), version_base="1.3"):
            cfg = compose("config", overrides=[*overrides, *extra], return_hydra_config=True)
            _refuse_shared_devices(cfg)
            with open_dict(cfg):
                of_hydra = OmegaConf.to_container(cfg.pop("hydra"), resolve=False)
            refuse_targets({"hydra": of_hydra})
            return cfg
    except ConfigError:
        raise
    except Exception as error:  # Hydra raises its own, OmegaConf's, and now and then a ValueError
        raise ConfigError(_message(error, overrides)) from error
    finally:
        GlobalHydra.instance().clear()


def _refuse_shared_devices(cfg: DictConfig) -> None:
    """Jobs of joblib share one machine: each would take the same first devices."""
    devices, launcher = cfg.trainer.devices, cfg.hydra.launcher
    if devices != 1 and "joblib" in str(launcher.get("_target_", "")) and launcher.n_jobs != 1:
        raise ConfigError(
            f"trainer.devices={devices} in a sweep whose jobs run side by side on one machine: they would share them",
            "hydra/launcher=basic runs one job after the other, hydra/launcher=slurm gives each job devices of its own",
        )


HIDDEN = ("table", "system", "at", "hydra")  # groups that --help lists apart, or not at all
HELP = """\
spikelm-run trains and measures one spiking (or plain) language model; a finished run is never run twice.

  spikelm-run                                                      first run: embedded data, offline, minutes
  spikelm-run task=glue/rte neuron=lif T=4                         choose task, neuron, time steps
  spikelm-run -m task=glue/rte,glue/mrpc neuron=lif,bispike T=1,4  a sweep (all combinations)
  spikelm-run -m hydra/sweeper=jobs hydra.sweeper.file=jobs.txt    a line of overrides for each job
  spikelm-run -m hydra/launcher=parallel ...                       jobs side by side, as many as the cores allow
  spikelm-run -m hydra/launcher=slurm ...                          jobs of a Slurm cluster (docs/slurm.md)
  spikelm-run --cfg job                                            show every key of the composed config

Groups (group=option)
{groups}

Systems (system=NAME): a row of a table of the paper
{systems}

Root keys
  k=2            threshold over the mean |membrane| (bispike): a larger k fires less
  T=1            time steps
  seed=42        of this run
  select=last    which epoch is reported: last, best_dev, or released (as the paper's code: docs/recipes.md)
  force=false    true runs a finished run again
  dry_run=false  true says what would be done (size, work, memory, energy, prerequisites) and stops
  runs_dir=...   where runs go (SPIKELM_RUNS sets it too); now {runs}

Tables and lists of runs: spikelm-report. Energy term by term: spikelm-energy. Hydra's own flags: --hydra-help."""


def help_text() -> str:
    """What --help prints: made from conf/, so that it cannot go stale."""
    shown = [group for group in sorted(_groups()) if group not in HIDDEN]
    groups = [f"  {group:<10} {', '.join(option_names(group))}" for group in shown]
    wrapped = [textwrap.fill(line, 110, subsequent_indent=" " * 13) for line in groups]
    systems = [f"  {name:<18} {described(name)}" for name in option_names("system")]
    return HELP.format(groups="\n".join(wrapped), systems="\n".join(systems), runs=default_runs_dir())


def described(system: str) -> str:
    """What the comment at the head of a system's file says: a line, with its tables in brackets."""
    path = option_file("system", system)
    lines = path.read_text().splitlines() if path else []
    comments = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.lstrip("# ") for line in comments if not line.startswith("# @package"))


def precheck(argv: Sequence[str]) -> bool:
    """Check all a command line asks for, each value of a sweep once, before Hydra takes over; False: all is said."""
    args, _ = get_args_parser().parse_known_args(list(argv))
    if args.help:
        print(help_text())
        return False
    modes = {"-m": args.multirun, "--run": args.run, "--cfg": args.cfg, "--info": args.info}
    if len(asked := [flag for flag, given in modes.items() if given]) > 1:
        raise ConfigError(f"{asked[0]} and {asked[1]} do not go together", "a sweep is shown by -m ... dry_run=true")
    if args.hydra_help or args.shell_completion or args.info:
        return True
    for flag in ("config_path", "config_name", "experimental_rerun"):
        if getattr(args, flag, None):  # another main config knows no schema, and a rerun is a pickle
            raise ConfigError(
                f"--{flag.replace('_', '-')} is not supported", "--config-dir DIR adds options of your own"
            )
    for_sweeps = [word for word in args.overrides if word.startswith(("hydra/launcher=", "hydra/sweeper="))]
    if for_sweeps and not (args.multirun or args.cfg):
        raise ConfigError(f"{for_sweeps[0]} is for sweeps, and would not be used", "add -m")
    first, *others = _variants(args.overrides, args.multirun)
    jobs = jobs_asked_for(args.overrides)
    variants = [*([*job, *first] for job in telling(jobs)), *([*jobs[0], *other] for other in others)]
    folders = {typed(_compose(some, args.config_dir)).runs_dir for some in variants}
    if not args.cfg:
        for folder in folders:
            _make_store(Path(folder), args.multirun)
    return True


def _make_store(folder: Path, multirun: bool) -> None:
    """The folder of the runs, which Hydra would make with a traceback where it cannot; a sweep writes to it at once."""
    try:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if multirun and not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"runs_dir cannot be the name of a folder: {reason}", "runs_dir=DIR") from error


def _variants(overrides: Sequence[str], multirun: bool) -> list[list[str]]:
    """The first value of every sweep together, then each other value once: their sum, not their product."""
    parsed = _parsed(overrides)
    choices = [_values(override) for override in parsed]
    swept = [override for override in parsed if override.is_sweep_override()]
    if swept and not multirun:
        name = swept[0].get_key_element()
        raise ConfigError(f"{swept[0].input_line} names several values of {name}", "add -m for a sweep")
    first = [values[0] for values in choices]
    variants = [first]
    for position, values in enumerate(choices):
        variants += [[*first[:position], value, *first[position + 1 :]] for value in values[1:]]
    return variants


def sweep_values(overrides: Sequence[str]) -> list[list[str]]:
    """For each override of a sweep the overrides it stands for: task=a,b is task=a and task=b."""
    return [_values(override) for override in _parsed(overrides)]


def _parsed(overrides: Sequence[str]) -> list[Override]:
    try:
        return OverridesParser.create().parse_overrides(list(overrides))
    except OverrideParseException as error:
        raise ConfigError(f"{error.override!r} is not an override", "write key=value, group=option") from error


def _values(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [override.input_line or ""]
    key = override.get_key_element()
    try:
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    except HydraException as error:  # interval() and glob() are for sweepers that search
        raise ConfigError(f"{override.input_line} names no list of values", f"{key}=a,b or {key}=range(1,4)") from error


def _groups() -> set[str]:
    folders = (path for folder in config_dirs() for path in folder.iterdir() if path.is_dir())
    return {path.name for path in folders if any(path.rglob("*.yaml"))}


def _message(error: Exception, overrides: Sequence[str]) -> str:
    """Hydra's errors in one line; what it leaves out (the near miss) is looked up in conf/ and the schema."""
    text = str(error)
    if found := re.search(r"Could not (?:find|load) 'hydra/launcher/(joblib|submitit_\w+)'", text):
        return f'the launcher {found[1]} is not installed\n  fix: pip install "spikelm[launchers]"'
    if found := re.search(r"Could not find '([^']+)'", text):
        group, _, option = found[1].partition("/")
        return f"{group}={option} is not a known {group}{nearest(option, option_names(group))}"
    if found := re.search(r"Key '([^']+)' is not in struct|Could not override '([^']+)'", text):
        key = _full_key(text) or found[1] or found[2]
        return f"unknown key {key}{nearest(key, [*all_keys(), *_groups(), *_neuron_keys()])}"
    if re.search(r"Invalid type assigned: \w+ is not a subclass of", text):
        group = _full_key(text)
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
    hidden = ("defaults", "valid", "name", "_target_", "bits", "spikes")
    return [key for key in keys if not key.endswith(hidden)]
