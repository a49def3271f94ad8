"""spikelm-report: the runs in the store, their page, and the tables, figures and claims of the paper made from them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from spikelm.cli import page
from spikelm.cli.find_run import RUN, find_result
from spikelm.cli.paper import FIGURES, add_selection, claims, figure, reference, reproduce, table
from spikelm.cli.stores import add_runs_dir, add_to, target
from spikelm.config.paths import default_runs_dir
from spikelm.report.tables.paper_table import TABLES

ABOUT = "Further key=value arguments are overrides of every run, as for spikelm-run: source.root=DIR finetune.lr=3e-4"
TABLE_IDS = f"number of the table ({', '.join(map(str, TABLES))}), or all"
FIGURE_IDS = f"which one ({', '.join(FIGURES)}), or all"
BY_DEFAULT = "without one parallel where there are only cores to train on, else basic"


def main(argv: Sequence[str]) -> int:
    """Parse and dispatch; without a subcommand the runs are listed and the page is written."""
    parser = argparse.ArgumentParser(prog="spikelm-report", description="What the store holds.")
    parser.set_defaults(run_command=page.overview, runs_dir=Path(default_runs_dir()), to=None)
    commands = parser.add_subparsers(metavar="COMMAND")

    def command(name: str, runner: object, about: str, epilog: str | None = None) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=about, description=about, epilog=epilog)
        added.set_defaults(run_command=runner)
        add_runs_dir(added, trains=runner is reproduce)
        return added

    command("runs", _runs, "list the runs (without a command: list them and write the page)")
    one = command("run", _run, "the result of one run, with its samples of generated text")
    one.add_argument("run", help=RUN)
    tables = command("table", table, "a table of the paper from the runs there are", ABOUT)
    tables.add_argument("id", help=TABLE_IDS)
    tables.add_argument("--ours", action="store_true", help="without the paper's numbers, for a paper of your own")
    figures = command("figure", figure, "a figure of the paper from the runs there are", ABOUT)
    figures.add_argument("id", help=FIGURE_IDS)
    stated = command("claims", claims, "statements of the paper, checked on the runs there are", ABOUT)
    again = command("reproduce", reproduce, "run what a table or figure still needs, then make it", ABOUT)
    again.add_argument("id", help="a table (3 or table3), a figure (fig4) or all")
    kept = command("reference", reference, "finished runs as result files, and all that is made of them", ABOUT)
    kept.add_argument("--to", type=Path, required=True, metavar="DIR", help="the folder to make, or to make anew")
    for added in (tables, figures, stated, again, kept):
        add_selection(added)
    for added in (tables, figures, stated, again):
        add_to(added)
    stated.add_argument("--json", action="store_true", help="print JSON")
    again.add_argument("--launcher", default="", help=f"basic, parallel, joblib or slurm; {BY_DEFAULT}")
    again.add_argument("--plan", action="store_true", help="say what would be run, and stop")
    scores = command("scores", _scores, "the runs of a sweep as one table: one row per system, one column per task")
    curves = command("curves", _curves, "a metric of the runs of a sweep over their steps, as a figure")
    curves.add_argument("--metric", default="train/loss")
    for added in (scores, curves):
        added.add_argument("overrides", nargs="+", help="as after spikelm-run -m; nothing is run")
        added.add_argument("--output", type=Path, help="the file to write; by default one in --to")
        add_to(added)
    page.add_commands(command)
    # Known ones only: argparse takes no positional arguments after options, and overrides may stand anywhere.
    args, rest = parser.parse_known_args(argv)
    if rest and args.run_command not in (table, figure, claims, reproduce, reference):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    code = args.run_command(args)
    return int(code or 0)


def _runs(args: argparse.Namespace) -> None:
    from spikelm.report.query.run_list import list_runs

    list_runs(args.runs_dir)


def _run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from spikelm.report.show_result import show_result

    found, result = find_result(args.run, args.runs_dir)
    print(found)
    show_result(result, found.run.directory, Console(), samples=len(result.samples))


def _scores(args: argparse.Namespace) -> None:
    from spikelm.report.scores import show_scores

    show_scores(args.overrides, args.runs_dir, args.output, target(args))


def _curves(args: argparse.Namespace) -> None:
    from spikelm.report.figures.curves import draw_curves

    draw_curves(args.overrides, args.metric, args.runs_dir, args.output, target(args))
