"""What a command line of spikelm-run asks for, checked and, where that is all, answered before Hydra takes over."""

from __future__ import annotations

import errno
import itertools
import os
import textwrap
from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra._internal.utils import get_args_parser

from spikelm.config.checks import typed
from spikelm.config.compose import compose_config, group_names
from spikelm.config.overrides import variants
from spikelm.config.paths import default_runs_dir
from spikelm.config.plugins import option_file, option_names
from spikelm.config.shown import applicable
from spikelm.errors import ConfigError
from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import plain
from spikelm.sweeps.job_file import jobs_asked_for, telling

HIDDEN = ("table", "system", "at", "hydra")  # groups that --help lists apart, or not at all
HELP = """\
spikelm-run trains and measures one spiking (or plain) language model; a finished run is never run twice.

  spikelm-run                                                      first run: embedded data, offline, minutes
  spikelm-run task=glue/rte neuron=lif T=4                         choose task, neuron, time steps
  spikelm-run -m task=glue/rte,glue/mrpc neuron=lif,bispike T=1,4  a sweep (all combinations)
  spikelm-run -m hydra/sweeper=jobs hydra.sweeper.file=jobs.txt    a line of overrides for each job
  spikelm-run -m hydra/launcher=parallel ...                       jobs side by side, as many as the cores allow
  spikelm-run -m hydra/launcher=slurm ...                          jobs of a Slurm cluster (docs/guide/slurm.md)
  spikelm-run --cfg job                                            show what the run will use, and nothing else

Groups (group=option)
{groups}

Systems (system=NAME): a row of a table of the paper
{systems}

Root keys
  k=2            threshold over the mean |membrane| (bispike): a larger k fires less
  T=1            time steps
  seed=42        of this run
  select=last    which epoch is reported: last, best_dev, or released (as the paper's code: docs/paper/recipes.md)
  force=false    true runs a finished run again
  dry_run=false  true says what would be done (size, work, memory, energy, prerequisites) and stops
  runs_dir=...   where runs go (SPIKELM_RUNS sets it too); now {runs}

Pretraining text, prepared without a GPU: spikelm-prepare. Tables and lists of runs: spikelm-report.
Energy term by term: spikelm-energy. Hydra's own flags: --hydra-help."""


def help_text() -> str:
    """What --help prints: made from conf/, so that it cannot go stale."""
    shown = [group for group in sorted(group_names()) if group not in HIDDEN]
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
    first, *others = variants(args.overrides, args.multirun)
    jobs = jobs_asked_for(args.overrides)
    wanted = [*([*job, *first] for job in telling(jobs)), *([*jobs[0], *other] for other in others)]
    configs = [typed(compose_config(overrides, args.config_dir)) for overrides in wanted]
    if args.cfg == "job" and not args.package:
        print(yaml.safe_dump(plain(applicable(configs[0])), sort_keys=False, allow_unicode=True), end="")
        return False
    if not args.cfg:
        for folder in {config.runs_dir for config in configs}:
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
