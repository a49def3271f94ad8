"""spikelm-report: the runs in the store, their page, and the tables, figures and claims of the paper made from them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from spikelm.cli import page
from spikelm.cli.manual import ANSWERS, FOUND, TRAINS, Manual, ManualParser
from spikelm.cli.stores import RUN, add_runs_dir, add_to, target
from spikelm.config.plugins import option_names

NUMBERED = [name.removeprefix("table") for name in option_names("table") if name.startswith("table")]
OWN = [name for name in option_names("table") if not name.startswith("table")]  # tables that are not the paper's
FIGURES = option_names("figure")
BY_DEFAULT = "without one parallel where there are only cores to train on, else basic"
READ_MORE = ("docs/guide/report.md, docs/paper/reproduce.md",)
OVERRIDES = (
    "Further key=value arguments are overrides of every run, as for spikelm-run: source.root=DIR finetune.lr=3e-4"
)
REPORT = Manual(
    "spikelm-report",
    "the runs in the store, their page, and the tables, figures and claims of the paper made from them",
    "Everything is made from what spikelm-run wrote; nothing is trained, except by the command reproduce. Without a "
    "command the runs are listed and the page is written: report/index.html of your store.",
    {
        "spikelm-report": "list the runs and write the page",
        "spikelm-report table 3": "table 3 of the paper from your runs, beside the printed numbers",
        "spikelm-report reproduce table3 --plan": "what would have to be run for it, and about how long",
        "spikelm-report COMMAND --help": "the page of one command",
    },
    FOUND,
    READ_MORE,
)


def main(argv: Sequence[str]) -> int:
    """Parse and dispatch; without a subcommand the runs are listed and the page is written."""
    parser = ManualParser(REPORT)
    add_runs_dir(parser)
    parser.set_defaults(run_command=page.overview, to=None)
    commands = parser.add_subparsers(metavar="[COMMAND]", parser_class=ManualParser)

    def command(
        name: str,
        runner: page.Runner,
        about: str,
        description: str,
        examples: Mapping[str, str],
        exits: Mapping[int, str] = ANSWERS,
    ) -> argparse.ArgumentParser:
        manual = Manual(f"spikelm-report {name}", about, description, examples, exits, READ_MORE)
        added: argparse.ArgumentParser = commands.add_parser(name, help=about, manual=manual)
        added.set_defaults(run_command=runner)
        add_runs_dir(added, trains=name == "reproduce", default=argparse.SUPPRESS)
        return added

    command(
        "runs",
        _runs,
        "list the runs",
        "One line for each run of the store: what it is, its state, its score, its id. Nothing is written.",
        {"spikelm-report runs": "all of them", "spikelm-report runs --runs-dir DIR": "those of another store"},
    )
    one = command(
        "run",
        _run,
        "the result of one run, with its samples of generated text",
        "Prints what spikelm-run printed when the run was finished, and all texts that it kept.",
        {"spikelm-report run 3f2a": "the run whose id begins with 3f2a"},
        FOUND,
    )
    one.add_argument("run", metavar="RUN", help=RUN)
    tables = command(
        "table",
        _of_paper("table"),
        "a table of the paper, or one of our own, from the runs there are",
        f"Ours, the paper's and the difference, cell by cell; runs that are missing are named with their command. It "
        f"is written as Markdown, LaTeX, CSV and JSON to tables/ of --to, too.\n\n{OVERRIDES}",
        {
            "spikelm-report table 3": "table 3, of runs at scale=mini with seed 42",
            "spikelm-report table field": "codes of spiking language models beside quantised plain models, ours alone",
            "spikelm-report table decoders": "perplexity and energy of spiking and quantised decoders, ours alone",
            "spikelm-report table all --scale smoke --seeds 1,2,3": "all of the paper's: mean and standard deviation",
            "spikelm-report table 3 --tasks glue/rte,glue/cola k=3": "two tasks alone, of runs with k=3",
        },
    )
    tables.add_argument("--ours", action="store_true", help="without the paper's numbers, for a paper of your own")
    tables.add_argument(
        "id", metavar="TABLE", help=f"its number ({', '.join(NUMBERED)}), {', '.join(OWN)}, or all of the paper's"
    )
    figures = command(
        "figure",
        _of_paper("figure"),
        "a figure of the paper, or of a table of our own, from the runs there are",
        f"Draws it from the runs of the store and writes it to figures/ of --to; runs that are missing are named with "
        f"their command.\n\n{OVERRIDES}",
        {
            "spikelm-report figure fig4": "figure 4",
            "spikelm-report figure energy": "score against energy",
            "spikelm-report figure field": "the same for the systems of the table field",
            "spikelm-report figure decoders": "perplexity against energy, of the table decoders",
        },
    )
    figures.add_argument("id", metavar="FIGURE", help=f"its name ({', '.join(FIGURES)}), or all of the paper's")
    stated = command(
        "claims",
        _of_paper("claims"),
        "statements of the paper, checked on the runs there are",
        f"Each statement is held, failed or not run, with the numbers that say so.\n\n{OVERRIDES}",
        {
            "spikelm-report claims": "on runs at scale=mini with seed 42",
            "spikelm-report claims --energy": "its claims of energy by other estimators, and against quantised twins",
            "spikelm-report claims --json": "as JSON, for programs",
        },
    )
    again = command(
        "reproduce",
        _of_paper("reproduce"),
        "run what a table or figure still needs, then make it",
        f"Only what is not in the store is run; stopped at any moment, the same command goes on. --plan says what that "
        f"would be.\n\n{OVERRIDES}",
        {
            "spikelm-report reproduce table3 --plan": "how many runs table 3 needs, and about how long they take",
            "spikelm-report reproduce fig4 --scale smoke": "run and draw figure 4 in minutes",
            "spikelm-report reproduce field": "run and make the table of the field and its figure",
            "spikelm-report reproduce decoders": "train language models, and make their table and figure",
            "spikelm-report reproduce all --launcher slurm": "everything of the paper, as jobs of a cluster",
        },
        TRAINS,
    )
    again.add_argument(
        "id",
        metavar="WHAT",
        help=f"a table (3 or table3), a figure (fig4), {' or '.join(OWN)} (the table and its figure), or all of the "
        "paper's",
    )
    kept = command(
        "reference",
        _of_paper("reference"),
        "finished runs as result files, and all that is made of them",
        f"Copies the results (not the models) of finished runs, with their tables, figures and claims, into a folder "
        f"that can be kept under version control.\n\n{OVERRIDES}",
        {"spikelm-report reference --to FOLDER": "of the runs at scale=mini with seed 42"},
    )
    kept.add_argument(
        "--further-seeds", default="", metavar="N,N", help="keep the results of these seeds, too; tables stay without"
    )
    kept.add_argument("--to", type=Path, required=True, metavar="DIR", help="the folder to make, or to make anew")
    for added in (tables, figures, stated, again, kept):
        _add_selection(added)
    for added in (tables, figures, stated, again):
        add_to(added)
    stated.add_argument("--json", action="store_true", help="print JSON")
    stated.add_argument("--energy", action="store_true", help="claims of energy, by each estimator of the energy card")
    again.add_argument("--launcher", default="", help=f"basic, parallel, joblib or slurm; {BY_DEFAULT}")
    again.add_argument("--plan", action="store_true", help="say what would be run, and stop")
    scores = command(
        "scores",
        _scores,
        "the runs of a sweep as one table: one row per system, one column per task",
        "Takes the words of a sweep and shows the results of its runs; what is not there yet is left open. Nothing is "
        "run.",
        {"spikelm-report scores task=glue/rte,glue/cola neuron=lif,bispike": "the results of that sweep"},
    )
    curves = command(
        "curves",
        _curves,
        "a metric of the runs of a sweep over their steps, as a figure",
        "Takes the words of a sweep and draws a column of the metrics.csv of its runs. Nothing is run.",
        {"spikelm-report curves task=glue/rte neuron=lif,bispike --metric train/loss": "the losses of two neurons"},
    )
    curves.add_argument("--metric", default="train/loss", metavar="NAME", help="a column of metrics.csv")
    scores.add_argument(
        "--keep", type=Path, metavar="DIR", help="add the result files (not the models) of its runs to this folder"
    )
    for added in (scores, curves):
        added.add_argument("overrides", nargs="+", metavar="key=value", help="as after spikelm-run -m; nothing is run")
        added.add_argument("--output", type=Path, metavar="FILE", help="the file to write; by default one in --to")
        add_to(added)
    page.add_commands(command)
    # Known ones only: argparse takes no positional arguments after options, and overrides may stand anywhere.
    args, rest = parser.parse_known_args(argv)
    takes_overrides = hasattr(args, "seeds")
    if hasattr(args, "overrides"):
        args.overrides += [word for word in rest if "=" in word and not word.startswith("-")]
        rest = [word for word in rest if word not in args.overrides]
    if unknown := [word for word in rest if not takes_overrides or word.startswith("-") or "=" not in word]:
        chosen = commands.choices.get(next((word for word in argv if word in commands.choices), ""), parser)
        chosen.error(f"unrecognized arguments: {unknown[0]}")
    args.rest = rest
    code = args.run_command(args)
    return int(code or 0)


def _of_paper(name: str) -> page.Runner:
    """A command of spikelm/cli/paper.py, which takes a moment to load."""
    return lambda args: getattr(import_module("spikelm.cli.paper"), name)(args)


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """The options that say which runs."""
    parser.add_argument("--scale", default="mini", choices=option_names("scale"), help="of the runs")
    parser.add_argument("--source", default="", choices=option_names("source"), help="the scale's own by default")
    parser.add_argument("--seeds", default="42", metavar="N,N", help="several give mean ± standard deviation")
    parser.add_argument("--tasks", default="", metavar="TASK,TASK", help="only these: glue/rte,glue/cola")


def _runs(args: argparse.Namespace) -> None:
    from spikelm.report.query.run_list import list_runs

    list_runs(args.runs_dir)


def _run(args: argparse.Namespace) -> None:
    from rich.console import Console

    from spikelm.cli.find_run import find_result
    from spikelm.report.show_result import show_result

    found, result = find_result(args.run, args.runs_dir)
    print(found)
    show_result(result, found.run.directory, Console(), samples=len(result.samples))


def _scores(args: argparse.Namespace) -> None:
    from spikelm.report.scores import show_scores

    show_scores(args.overrides, args.runs_dir, args.output, target(args))
    if args.keep:
        from spikelm.report.reproduce.kept_sweep import keep_sweep

        keep_sweep(args.overrides, args.runs_dir, args.keep.absolute())


def _curves(args: argparse.Namespace) -> None:
    from spikelm.report.figures.curves import draw_curves

    draw_curves(args.overrides, args.metric, args.runs_dir, args.output, target(args))
