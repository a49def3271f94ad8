"""spikelm-predict FOLDER FILE: what an exported classifier, or the model of a run, says of every row of a file."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikelm.catalog.kinds import KINDS, LABELLED
from spikelm.catalog.quantities import counted, duration, significant
from spikelm.cli.manual import MISTAKE, Manual, ManualParser
from spikelm.cli.stores import add_runs_dir
from spikelm.config.paths import default_runs_dir
from spikelm.errors import ConfigError, DataError, SpikeLMError

if TYPE_CHECKING:
    from rich.console import Console

    from spikelm.config.settings.task import TaskConfig
    from spikelm.data.sources.row_files import Layout
    from spikelm.export.classifier import Answer, Classifier, Scores
    from spikelm.store.part_file import PartFile
    from spikelm.store.result import Result

PREDICT = Manual(
    "spikelm-predict",
    "label every row of a file with an exported classifier",
    "Reads rows of JSONL, CSV, TSV or Parquet and writes a line of JSON for each, in their order: the label with the "
    "probabilities of all labels, or the score of a regression. The model is a folder that spikelm-export wrote, or a "
    "finished run. The columns are those of the task; --text and --text-pair name others. All rows are looked at "
    "before the model is loaded, and a row that cannot be read is named by its line.\n\n"
    "With --out the file grows as OUT.part and gets its name when it is whole. A command that was stopped or killed "
    "goes on where the part ends, unless the rows or the model are others. A file of any length takes the same memory.",
    {
        "spikelm-predict FOLDER rows.jsonl": "answers to standard output",
        "spikelm-predict FOLDER rows.csv --text review --out answers.jsonl": "the texts are in the column review",
        "spikelm-predict FOLDER dev.tsv --score --out answers.jsonl --json": "the labels are there: the task's metrics",
        "spikelm-predict 3f2a rows.jsonl --batch 8": "the model of a run, as it was trained",
    },
    {
        0: "done",
        1: "a row cannot be read, or the output is there already or was begun with other rows",
        2: f"{MISTAKE}; or no such run",
        75: "stopped by SIGTERM or SIGUSR1: the same command goes on",
        130: "stopped by Ctrl-C: the same command goes on",
    },
    ("docs/guide/predict.md",),
)
WINDOW = 1024  # rows that are sorted by length and written together, whatever the batch
PATIENCE = 30.0  # seconds between two lines of progress where no terminal shows a bar


@dataclass(frozen=True)
class Scored:
    """The model that answers: the folder of its weights, its task, and the run it is of where it was not exported."""

    folder: Path
    task: TaskConfig
    result: Result | None = None


@dataclass(frozen=True)
class RowFile:
    """The file of rows: which columns are read of it, and how many rows it has."""

    path: Path
    layout: Layout
    task: TaskConfig
    rows: int = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Its rows, checked, one after the other."""
        from spikelm.data.sources.row_files import iter_rows
        from spikelm.data.sources.rows import checked_row

        for where, row in iter_rows(self.path, self.layout):
            if row is not None:  # none is left out by this layout
                yield checked_row(self.task, where, row)


def predict_main(argv: Sequence[str]) -> int:
    """Answer every row of a file."""
    args = _arguments(argv)
    scored = _scored(args.model, args.runs_dir)
    out = Path(args.out).absolute() if args.out else None
    if out is not None and not args.force:
        from spikelm.store.part_file import refuse_finished

        refuse_finished(out)
    file = _row_file(args, scored.task)
    from rich.console import Console

    console = Console(stderr=True)
    with _output(args, scored, file, out) as part:
        classifier = _load(scored)
        scores = None
        if args.score:
            from spikelm.export.classifier import Scores

            scores = Scores(scored.task)
        started = time.perf_counter()
        _answer(classifier, file, part, args.batch, scores, console)
        seconds = time.perf_counter() - started
        kept = part.kept if part else 0
        if part:
            part.finish()
    _tell(args, file, kept, seconds, scores, out)
    return 0


def predict_parser() -> ManualParser:
    """The arguments and options of the command."""
    parser = ManualParser(PREDICT)
    what = "a folder that spikelm-export wrote, a run directory, or the first digits of a run id"
    parser.add_argument("model", metavar="FOLDER", help=what)
    parser.add_argument("file", metavar="FILE", help="rows as .jsonl, .csv, .tsv or .parquet")
    parser.add_argument("--out", metavar="FILE", help="lines of JSON (default: standard output)")
    parser.add_argument("--text", metavar="COLUMN", help="of the text, or the first of two (default: the task's)")
    parser.add_argument("--text-pair", metavar="COLUMN", help="of the second text (default: the task's)")
    parser.add_argument("--label", metavar="COLUMN", help="of the labels, for --score (default: label)")
    parser.add_argument("--score", action="store_true", help="the file has labels: print the task's metrics")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="rows computed together")
    parser.add_argument("--force", action="store_true", help="write --out anew, whatever is there")
    parser.add_argument("--json", action="store_true", help="a record on stdout at the end; needs --out")
    add_runs_dir(parser)
    return parser


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    args = predict_parser().parse_args(argv)
    if args.batch < 1:
        raise ConfigError(f"--batch {args.batch} is not valid; it is a whole number of at least 1", "--batch 32")
    if args.json and not args.out:
        raise ConfigError("--json needs --out: standard output is for the answers", "--json --out answers.jsonl")
    if args.label and not args.score:
        raise ConfigError("--label has no effect without --score", f"--score --label {args.label}")
    if args.force and not args.out:
        raise ConfigError("--force has no effect without --out", "--out answers.jsonl --force")
    if args.out and Path(args.out).resolve() == Path(args.file).resolve():
        raise ConfigError(f"--out {args.out} is the file of the rows", "another name")
    return args


def _scored(name: str, root: Path) -> Scored:
    """An exported folder, or a finished run with its weights; anything else is refused before rows are read."""
    folder = Path(name)
    if folder.name == "model" and (folder.parent / "result.json").is_file():
        folder = folder.parent  # the run knows its task and tokenizer
    elif (folder / "config.json").is_file() or (folder / "export.json").is_file():
        return _labels(Scored(folder.absolute(), _exported_task(folder)))
    elif folder.is_dir() and not any((folder / file).is_file() for file in ("status.json", "result.json")):
        raise ConfigError(
            f"{name} is neither a run nor an exported folder: it has no config.json", "spikelm-export RUN"
        )
    from spikelm.cli.find_run import find_result, weights_of

    found, result = find_result(str(folder), root)
    print(found, file=sys.stderr)
    if not KINDS[result.config.backbone.kind].is_encoder:
        raise _no_labels(result.config.task)
    return _labels(Scored(weights_of(found, result), result.config.task, result))


def _exported_task(folder: Path) -> TaskConfig:
    from spikelm.store.export_record import exported_task

    return exported_task(folder)


def _labels(scored: Scored) -> Scored:
    if scored.task.kind not in LABELLED:
        raise _no_labels(scored.task)
    return scored


def _no_labels(task: TaskConfig) -> ConfigError:
    return ConfigError(f"a model of {task.name} gives no labels", "spikelm-generate lets a model write")


def _row_file(args: argparse.Namespace, task: TaskConfig) -> RowFile:
    """The file with its columns and the number of its rows, every one of which was looked at."""
    from spikelm.data.sources.row_files import READERS, Layout, column_names

    path = Path(args.file)
    if not path.is_file():
        raise DataError(f"{args.file} is not there" if not path.exists() else f"{args.file} is not a file")
    if path.suffix.lower() not in READERS:
        raise DataError(f"{args.file}: the ending says nothing that is known", f"one of {', '.join(READERS)}")
    if args.text_pair and len(task.columns) < 2:
        raise ConfigError(f"--text-pair {args.text_pair}: {task.name} reads one text a row", "leave it out")
    columns = column_names(task.columns, task.file_columns)
    given = (args.text, args.text_pair)
    columns |= {column: (name,) for column, name in zip(task.columns, given, strict=False) if name}
    if args.score:
        columns |= {"label": (args.label,)} if args.label else column_names(["label"], task.file_columns)
    file = RowFile(path, Layout(columns), task)
    try:
        rows = sum(1 for _ in file.read())
    except DataError as error:
        raise DataError(error.what, error.fix or "--text COLUMN and --text-pair COLUMN name other columns") from error
    if not rows:
        raise DataError(f"{path} has no rows")
    return replace(file, rows=rows)


@contextlib.contextmanager
def _output(args: argparse.Namespace, scored: Scored, file: RowFile, out: Path | None) -> Iterator[PartFile | None]:
    """Where the answers go: a file that grows, with what it is made of; None is standard output."""
    if out is None:
        yield None
        return
    from spikelm.store.checksums import file_hash, file_sums
    from spikelm.store.hashing import digest
    from spikelm.store.part_file import growing

    names = ("config.json", "*.safetensors", "tokenizer*.json")
    weights = [path for name in names for path in sorted(scored.folder.glob(name))]
    origins = {
        "model": digest(file_sums(scored.folder, weights)),
        "input": file_hash(file.path),
        "choice of columns": digest({name: list(names) for name, names in file.layout.columns.items()}),
    }
    with growing(out, origins, WINDOW, args.force) as part:
        yield part


def _load(scored: Scored) -> Classifier:
    """The model in float32 with its tokenizer."""
    from transformers.utils import logging

    from spikelm.export.classifier import exported_classifier, on_device

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if scored.result is None:
        return exported_classifier(scored.folder, scored.task)
    from spikelm.data.tokens.tokenizer import load_tokenizer
    from spikelm.data.tokens.wordpiece import fast_tokenizer
    from spikelm.spiking import load_pretrained

    config = replace(scored.result.config, runs_dir=default_runs_dir())  # a tokenizer is kept in the user's own store
    tokenizer = load_tokenizer(config.source, config.backbone, Path(config.runs_dir) / ".cache")
    return on_device(load_pretrained(scored.folder), fast_tokenizer(tokenizer, config.finetune.max_length), scored.task)


def _answer(
    classifier: Classifier, file: RowFile, part: PartFile | None, batch: int, scores: Scores | None, console: Console
) -> None:
    """Answer the rows that are left, a window at a time."""
    from spikelm.data.sources.streams import chunks

    kept, row = part.lines() if part else iter(()), 0
    with _progress(file.rows, console) as told:
        for window in chunks(file.read(), WINDOW):
            answers = _kept(part, kept, len(window)) if part and row < part.kept else None
            if answers is None:
                texts = [[one[column] for column in file.task.columns] for one in window]
                answers = list(classifier.answers(texts, batch, partial(_further, told, row)))
                lines = [answer.line(row + number) for number, answer in enumerate(answers, 1)]
                if part:
                    part.add(lines)
                else:
                    print("\n".join(lines), flush=True)
            if scores:
                scores.add(answers, [one["label"] for one in window])
            row += len(window)
            told(row)


def _further(told: Callable[[int], None], before: int, done: int) -> None:
    """So many rows of a window are done, behind those before it."""
    told(before + done)


def _kept(part: PartFile, lines: Iterator[str], count: int) -> list[Answer]:
    """The next answers of an earlier command."""
    from spikelm.export.classifier import Answer

    try:
        return [Answer.of_line(next(lines)) for _ in range(count)]
    except ValueError as error:
        raise SpikeLMError(f"the part of {part.path} is damaged: {error}", "--force starts anew") from error


@contextlib.contextmanager
def _progress(rows: int, console: Console) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line now and then elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    if not console.is_terminal:
        yield _Lines(rows, console)
        return
    columns = (TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("rows", total=rows)
        yield lambda done: bar.update(task, completed=done)


class _Lines:
    """Says how many rows are done, at most every `PATIENCE` seconds."""

    def __init__(self, rows: int, console: Console) -> None:
        self.rows, self.console = rows, console
        self.last = time.perf_counter()

    def __call__(self, done: int) -> None:
        if time.perf_counter() - self.last >= PATIENCE:
            self.last = time.perf_counter()
            self.console.print(f"{done:,} of {self.rows:,} rows", highlight=False)


def _tell(
    args: argparse.Namespace, file: RowFile, kept: int, seconds: float, scores: Scores | None, out: Path | None
) -> None:
    """The end: on stderr in words, or as a record."""
    new = file.rows - kept
    speed = new / seconds if seconds else 0.0
    metrics = scores.values() if scores else None
    if args.json:
        record = {"rows": file.rows, "kept": kept, "batch": args.batch, "seconds": seconds, "rows_per_second": speed}
        print(json.dumps({**record, "metrics": metrics, "out": str(out)}))
        return
    parts = [f"{counted(new, 'row')} in {duration(seconds)}, {significant(speed)} rows/s"]
    parts += [f"{counted(kept, 'row')} of an earlier command kept"] if kept else []
    if metrics:
        parts.append(", ".join(f"{name} {value:.2f}" for name, value in metrics.items()))
    parts += [f"in {out}"] if out else []
    print("; ".join(parts), file=sys.stderr)
