"""spikelm-harness: the command of lm-evaluation-harness, which then knows `--model spikelm`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.errors import ConfigError

HARNESS = Manual(
    "spikelm-harness",
    "lm-evaluation-harness on the language models of spikelm",
    "The command lm_eval with all its words and options, and with the model spikelm, which is a run or a folder with a "
    "plain or spiking decoder. It needs the extra lm-eval. A version of lm_eval that looks for models among the "
    "installed packages (0.4.13 does not yet) finds this one by itself.\n\n"
    "`spikelm-harness run --help` shows the options of lm_eval.",
    {
        "spikelm-harness --model spikelm --model_args run=3f2a --tasks hellaswag,arc_easy": "a run on public tasks, "
        "whose rows come from the hub",
        "spikelm-harness --model spikelm --model_args run=DIR --include_path examples/lm_eval --tasks "
        "spikelm_microworld": "the model in a folder on the task in examples/lm_eval",
        "spikelm-harness ls tasks": "the tasks of the harness",
    },
    {0: "done", 1: "the run is not finished, or its weights are gone", 2: f"{MISTAKE}; or no such run"},
    ("docs/guide/lm_eval.md",),
)


def harness_main(argv: Sequence[str]) -> int:
    """Our own manual, or lm_eval with our model."""
    if not argv or argv[0] in ("-h", "--help", "--version"):
        parser = ManualParser(HARNESS)
        parser.add_argument("words", metavar="WORD", nargs="*", help="the words and options of lm_eval")
        parser.parse_args(argv or ["--help"])
    if missing := [name for name in ("lm_eval", "accelerate") if find_spec(name) is None]:
        raise ConfigError(f"{missing[0]} is not installed", 'pip install "spikelm[lm-eval]"')
    from lm_eval.__main__ import cli_evaluate

    import spikelm.cli.harness.scored_model  # noqa: F401  (registers the model)

    before, sys.argv = sys.argv, ["lm_eval", *argv]
    try:
        cli_evaluate()
    finally:
        sys.argv = before
    return 0
