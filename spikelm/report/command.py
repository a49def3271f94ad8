"""spikelm-report: the runs in the store, tables of the paper, and the runs a table needs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spikelm.errors import ConfigError
from spikelm.report.tables import TABLES, load_table
from spikelm.schema import default_runs_dir


def main(argv: Sequence[str]) -> int:
    """Parse and dispatch; without a subcommand the runs are listed."""
    parser = argparse.ArgumentParser(prog="spikelm-report", description="What the store holds.")
    parser.set_defaults(command="runs", runs_dir=default_runs_dir())
    commands = parser.add_subparsers(dest="command", metavar="runs|table|reproduce|scores|curves")
    runs = commands.add_parser("runs", help="list the runs (the default)")
    table = commands.add_parser("table", help="a table of the paper from the runs there are")
    reproduce = commands.add_parser("reproduce", help="run what a table still needs, then print it")
    for command in (table, reproduce):
        command.add_argument("id", help=f"number of the table ({', '.join(map(str, TABLES))}), or all")
        command.add_argument("--scale", default="mini")
        command.add_argument("--source", default="embedded")
        command.add_argument("--seeds", default="42", help="comma-separated; several give mean ± standard deviation")
    reproduce.add_argument("--launcher", default="", help="basic (default) or joblib")
    scores = commands.add_parser("scores", help="the runs of a sweep as one table: a row a system, a column a task")
    curves = commands.add_parser("curves", help="a metric of the runs of a sweep over their steps, as a figure")
    curves.add_argument("--metric", default="train/loss")
    for command in (scores, curves):
        command.add_argument("overrides", nargs="+", help="as after spikelm-run -m; nothing is run")
        command.add_argument("--output", type=Path, help="the file to write; by default under the store")
    for command in (runs, table, reproduce, scores, curves):
        command.add_argument("--runs-dir", default=default_runs_dir())
    args = parser.parse_args(argv)
    root = Path(args.runs_dir)
    if args.command == "runs" or args.command is None:
        from spikelm.report.runs import list_runs

        list_runs(root)
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
    options = [f"scale={args.scale}", f"source={args.source}", f"runs_dir={root}"]
    seeds = _seeds(args.seeds)
    from spikelm.report.render import render_table

    code = 0
    for found in tables:
        if args.command == "reproduce":
            from spikelm.report.reproduce import reproduce_table

            code = max(code, reproduce_table(found, options, seeds, args.launcher))
        render_table(found, options, seeds, root)
    return code


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text} is not a list of whole numbers", "--seeds 1,2,3") from None
