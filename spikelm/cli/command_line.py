"""What a command line of spikelm-run asks for, checked and, where that is all, answered before Hydra takes over."""

from __future__ import annotations

import argparse
import errno
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml
from hydra._internal.utils import get_args_parser

from spikelm.cli.completion import answer, asking_shell, scripts
from spikelm.cli.manual import TRAINS, Manual, ManualParser, check_config_dir, columns
from spikelm.config.checks import typed
from spikelm.config.compose import compose_config, group_names
from spikelm.config.overrides import variants
from spikelm.config.paths import default_runs_dir
from spikelm.config.plugins import option_file, option_names
from spikelm.config.settings.schema import Config
from spikelm.config.shown import STAGES, applicable, refused, unread
from spikelm.errors import ConfigError
from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import plain
from spikelm.sweeps.job_file import jobs_asked_for, telling

RUN = Manual(
    "spikelm-run",
    "train and measure one spiking (or plain) language model, or a sweep of them",
    "A run is named by what decides its result: task, neuron, backbone, data and settings, each a key=value on the "
    "command line. It is trained, measured (scores, firing rates, energy) and written to the store; runs that it needs "
    "first are made first, a finished run is never run twice, and a run that was stopped goes on.",
    {
        "spikelm-run": "the first run: embedded data, offline, minutes",
        "spikelm-run task=glue/rte neuron=lif T=4": "another task, neuron and number of time steps",
        "spikelm-run task=glue/rte neuron=residual convert=only": "neurons in the plain model, without training",
        "spikelm-run task=glue/rte dry_run=true": "say what would be done, and stop",
        "spikelm-run task=glue/rte --cfg job": "show the settings of the run, and stop",
        "spikelm-run -m task=glue/rte,glue/mrpc neuron=lif,bispike T=1,4": "a sweep: all combinations",
        "spikelm-run -m hydra/sweeper=jobs hydra.sweeper.file=jobs.txt": "a line of overrides for each job",
        "spikelm-run -m hydra/launcher=parallel task=glue/rte seed=1,2": "jobs side by side, as the cores allow",
        "spikelm-run -m hydra/launcher=slurm task=glue/rte seed=1,2": "jobs of a Slurm cluster",
        'eval "$(spikelm-run -sc install=bash)"': "complete words with the Tab key, in this shell",
    },
    TRAINS,
    (
        "docs/guide/data.md, docs/guide/convert.md, docs/guide/distillation.md, docs/guide/slurm.md",
        "docs/paper/recipes.md",
    ),
    lambda: _chapters(),
)
#: what options do; Hydra's others are refused, or are of no use here
OPTIONS = {
    "overrides": "a setting, or an option of a group: k=3 neuron=lif finetune.lr=1e-4",
    "multirun": "a sweep: a,b is each of the two, range(1,4) is 1, 2 and 3",
    "cfg": "show the config instead of running it: the run's (job), Hydra's own, or both",
    "package": "of --cfg: this section alone",
    "resolve": "of --cfg: with every ${...} worked out",
    "info": "show how Hydra composes the config",
    "config_dir": "options of your own, in groups as in conf/",
    "shell_completion": "with install=bash, fish or zsh: print what makes a shell complete the words of this command",
    "hydra_help": "show Hydra's own help",
    "help": "show this page",
    "version": "show the version",
}
METAVARS = {"overrides": "key=value", "config_dir": "DIR"}
ROOT_KEYS = """\
k=2            threshold over the mean |membrane| (bispike): a larger k fires less
T=1            time steps
seed=42        of this run
select=last    which epoch is reported: last, best_dev, or released (as the paper's code: docs/paper/recipes.md)
force=false    true runs a finished run again
dry_run=false  true says what would be done (size, work, memory, energy, prerequisites) and stops
runs_dir=...   the store of the runs (SPIKELM_RUNS sets it too); now {runs}"""


def run_parser() -> ManualParser:
    """Hydra's options with a page of ours."""
    parser = ManualParser(RUN, parents=[get_args_parser()])
    for action in parser._actions:
        action.help = OPTIONS.get(action.dest, argparse.SUPPRESS)
        action.metavar = METAVARS.get(action.dest, action.metavar)
    return parser


def help_text() -> str:
    """What --help prints."""
    return run_parser().format_help()


def _chapters() -> dict[str, str]:
    """What there is to choose from: made from conf/, so that it cannot go stale."""
    groups = [group for group in sorted(group_names()) if group != "system"]
    return {
        "GROUPS (group=option)": columns((group, ", ".join(option_names(group))) for group in groups),
        "SYSTEMS (system=NAME): rows of the paper's tables": columns((n, described(n)) for n in option_names("system")),
        "KEYS": ROOT_KEYS.format(runs=default_runs_dir()),
    }


def described(system: str) -> str:
    """What the comment at the head of a system's file says: a line, with its tables in brackets."""
    path = option_file("system", system)
    lines = path.read_text().splitlines() if path else []
    comments = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return " ".join(line.lstrip("# ") for line in comments if not line.startswith("# @package"))


def precheck(argv: Sequence[str]) -> list[str] | None:
    """Check all a command line asks for, each value of a sweep once.

    The words that Hydra is given (it reads overrides in one piece only, so they come first); None: all is said.
    """
    parser = run_parser()
    args = parser.parse_intermixed_args(argv)
    modes = {"-m": args.multirun, "--run": args.run, "--cfg": args.cfg, "--info": args.info}
    if len(asked := [flag for flag, given in modes.items() if given]) > 1:
        raise ConfigError(f"{asked[0]} and {asked[1]} do not go together", "a sweep is shown by -m ... dry_run=true")
    if args.shell_completion and (shell := asking_shell(args.overrides)):
        print(answer(os.environ.get("COMP_LINE", ""), parser.long_flags(), shell))
        return None
    if args.shell_completion and (told := scripts(args.overrides, _options_of_others())):
        print(told)
    for_hydra = [*args.overrides, *(word for word in argv if word not in args.overrides and word != "--")]
    if args.hydra_help or args.shell_completion or args.info:
        return for_hydra
    check_config_dir(args.config_dir)
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
    for overrides, config in zip(wanted, configs, strict=True):
        for override in overrides:
            if reason := refused(config, override.lstrip("+").partition("=")[0]):
                raise ConfigError(f"{override} would change nothing: {reason}", f"leave {override} out")
    for warning in _without_effect(wanted, configs, args.config_dir):
        print(f"warning: {warning}", file=sys.stderr)
    if args.cfg == "job" and not args.package:
        print(yaml.safe_dump(plain(applicable(configs[0])), sort_keys=False, allow_unicode=True), end="")
        return None
    if not args.cfg:
        for folder in {config.runs_dir for config in configs}:
            if not folder:  # the current folder, which nobody meant
                raise ConfigError("runs_dir= names no folder", "runs_dir=DIR")
            _make_store(Path(folder), args.multirun)
    return for_hydra


def _options_of_others() -> dict[str, list[str]]:
    """The options of commands that have no settings, for the Tab key."""
    from spikelm.cli.export import export_parser
    from spikelm.cli.generate import generate_parser
    from spikelm.cli.predict import predict_parser

    return {parser.prog: parser.long_flags() for parser in (export_parser(), predict_parser(), generate_parser())}


def _without_effect(wanted: Sequence[Sequence[str]], configs: Sequence[Config], config_dir: str | None) -> list[str]:
    """What is said of overrides that make no difference; in a sweep they may make one to other jobs."""
    values: dict[tuple[str, str], list[str]] = {}
    for overrides, config in zip(wanted, configs, strict=True):
        for override in overrides:
            key = override.lstrip("+").partition("=")[0]
            if (reason := unread(config, key)) and not _is_taken_over(override, overrides, config, config_dir):
                values.setdefault((key, reason), []).append(override)
    warnings = []
    for (key, reason), given in values.items():
        told = " and ".join(dict.fromkeys(given))
        several = f"; jobs that differ in {key} alone are one run" if len(set(given)) > 1 else ""
        warnings.append(f"{told} {'have' if several else 'has'} no effect: {reason}{several}")
    return warnings


def _is_taken_over(override: str, overrides: Sequence[str], config: Config, config_dir: str | None) -> bool:
    """Whether a stage that the run has takes a value from one that it has not: a plain model is tuned as a teacher."""
    if override.lstrip("+").partition(".")[0] not in STAGES:
        return False
    try:
        without = typed(compose_config([word for word in overrides if word != override], config_dir))
    except ConfigError:  # it goes with another override: of steps and epochs one is null
        return True
    return applicable(without) != applicable(config)


def _make_store(folder: Path, multirun: bool) -> None:
    """The folder of the runs, which Hydra would make with a traceback where it cannot; a sweep writes to it at once."""
    if os.path.isfile(folder):
        raise ConfigError(f"runs_dir={folder} is a file, not a folder", "runs_dir=DIR")
    try:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            if multirun and not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except (OSError, ValueError) as error:  # a name too long, a loop of links, a NUL
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"runs_dir cannot be the name of a folder: {reason}", "runs_dir=DIR") from error
