"""spikelm-report: the runs in the store and their page, tables of the paper, and the runs a table needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spikelm.errors import ConfigError
from spikelm.report.page import commands as page
from spikelm.report.tables import TABLES, load_table
from spikelm.schema import default_runs_dir

#: keys that the command's own options or the table's rows decide
TAKEN = {
    "scale": "--scale",
    "source": "--source",
    "seed": "--seeds",
    "task": "--tasks",
    "runs_dir": "--runs-dir",
    "system": "the table's rows",
}


def main(argv: Sequence[str]) -> int:
    """Parse and dispatch; without a subcommand the runs are listed and the page is written."""
    parser = argparse.ArgumentParser(prog="spikelm-report", description="What the store holds.")
    parser.set_defaults(runs_dir=default_runs_dir())
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    parser.set_defaults(run_command=page.overview)
    runs = commands.add_parser("runs", help="list the runs (without a command: list them and write the page)")
    one = commands.add_parser("run", help="the result of one run, with its samples of generated text")
    one.add_argument("run", help="a run directory, or the first digits of a run id")
    about = (
        "Further key=value arguments are overrides of every run, as for spikelm-run: source.root=DIR finetune.lr=3e-4"
    )
    table = commands.add_parser("table", help="a table of the paper from the runs there are", epilog=about)
    reproduce = commands.add_parser("reproduce", help="run what a table still needs, then print it", epilog=about)
    for command in (table, reproduce):
        command.add_argument("id", help=f"number of the table ({', '.join(map(str, TABLES))}), or all")
        command.add_argument("--scale", default="mini")
        command.add_argument("--source", default="", help="embedded, local or hub; the scale's own by default")
        command.add_argument("--seeds", default="42", help="comma-separated; several give mean ± standard deviation")
        command.add_argument("--tasks", default="", help="only these, comma-separated: glue/rte,glue/cola")
    reproduce.add_argument("--launcher", default="", help="basic (default) or joblib")
    scores = commands.add_parser("scores", help="the runs of a sweep as one table: a row a system, a column a task")
    curves = commands.add_parser("curves", help="a metric of the runs of a sweep over their steps, as a figure")
    curves.add_argument("--metric", default="train/loss")
    for command in (scores, curves):
        command.add_argument("overrides", nargs="+", help="as after spikelm-run -m; nothing is run")
        command.add_argument("--output", type=Path, help="the file to write; by default under the store")
    for command in (runs, one, table, reproduce, scores, curves):
        command.add_argument("--runs-dir", default=default_runs_dir())
        command.set_defaults(run_command=None)

    def added(name: str, runner: page.Runner, about: str) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=about, description=about)
        parser.set_defaults(run_command=runner)
        parser.add_argument("--runs-dir", default=default_runs_dir())
        return parser

    page.add_commands(added)
    # Known ones only: argparse takes no positional arguments after options, and overrides may stand anywhere.
    args, rest = parser.parse_known_args(argv)
    root = Path(args.runs_dir)
    if rest and (args.run_command or args.command == "runs"):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.run_command:
        args.run_command(args)
        return 0
    if args.command == "runs":
        from spikelm.report.runs import list_runs

        list_runs(root)
        return 0
    if args.command == "run":
        _show_run(args.run, root)
        return 0
    if args.command == "scores":
        from spikelm.report.scores import show_scores

        show_scores(args.overrides, root, args.output)
        return 0
    if args.command == "curves":
        from spikelm.report.curves import draw_curves

        draw_curves(args.overrides, args.metric, root, args.output)
        return 0
    tables = [load_table(id) for id in (TABLES if args.id == "all" else [args.id])]
    overrides = _overrides(rest)
    options = [f"scale={args.scale}", *([f"source={args.source}"] if args.source else []), f"runs_dir={root}"]
    if args.source == "local" and not any(override.startswith("source.root=") for override in overrides):
        from spikelm.report.runs import local_root

        overrides.append(f"source.root={local_root(root, args.scale)}")
    options += overrides
    seeds = _seeds(args.seeds)
    if args.tasks:
        tables = [table.only(args.tasks.split(",")) for table in tables]
    from spikelm.report.render import render_table

    code = 0
    for found in tables:
        if args.command == "reproduce":
            from spikelm.report.reproduce import reproduce_table

            code = max(code, reproduce_table(found, options, seeds, args.launcher))
        render_table(found, options, seeds, root)
    return code


def _show_run(name: str, root: Path) -> None:
    from rich.console import Console

    from spikelm.commands import find_result
    from spikelm.report.single import show_result

    result, directory = find_result(name, root)
    show_result({**result, "directory": str(directory)}, Console(), samples=len(result.get("samples", [])))


def _overrides(rest: Sequence[str]) -> list[str]:
    """What is left of the command line, if it is overrides that a table can be made with."""
    for word in rest:
        key, equals, _ = word.partition("=")
        if not equals or key.startswith("-"):
            raise ConfigError(f"{word} is neither an option nor an override", "spikelm-report table --help")
        if key in TAKEN:
            raise ConfigError(f"{word}: {key} of a table's runs comes from {TAKEN[key]}")
    return list(rest)


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text} is not a list of whole numbers", "--seeds 1,2,3") from None
