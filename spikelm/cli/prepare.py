"""spikelm-prepare: everything that a run reads, fetched and tokenised before it, without a GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spikelm.catalog.quantities import duration
from spikelm.cli.manual import MISTAKE, Manual, ManualParser, check_config_dir
from spikelm.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from spikelm.config.settings.schema import Config
    from spikelm.data.tokens.manifest import Manifest
    from spikelm.data.tokens.prepare import Preparation, Report

EVERY = 30.0  # seconds between two lines of progress in a file

PREPARE = Manual(
    "spikelm-prepare",
    "everything that a run reads, fetched and tokenised before it, without a GPU",
    "Takes the overrides of spikelm-run and makes ready what that run, and the runs it needs first, will read. Call it "
    "on any machine that shares the store (runs_dir) with those that train; killed at any moment, the same command "
    "goes on.\n\n"
    "Pretraining text is a folder of *.txt files, with blank lines between documents (BERT's format) or WikiText's "
    "titles, or a repository of the hub with a column `text`. It is cut into sentences, tokenised without special "
    "tokens, and kept as three arrays: the ids of all tokens, where sentences start, where documents start. Masking "
    "and pairs of sentences are drawn from them during training, anew in each epoch, so nothing else is "
    "prepared. The manifest (counts and hashes of input files and shards) is the same, however often the work was "
    "interrupted.",
    {
        "spikelm-prepare scale=paper task=pretrain": "Wikipedia and BooksCorpus from the hub",
        "spikelm-prepare scale=paper task=glue/mnli system=spikelm_t4": "the same text, and MNLI's rows",
        "spikelm-prepare task=pretrain source=local source.root=GLUE source.text_root=TEXT "
        "source.tokenizer=vocab.txt": "text of your own",
        "spikelm-prepare scale=paper task=pretrain --check": "compare what is prepared with its manifest",
    },
    {0: "done", 1: "--check found something missing or damaged, or the work failed", 2: MISTAKE},
    ("docs/guide/data.md",),
)


def prepare_main(argv: Sequence[str]) -> int:
    """Prepare, or check what is prepared; 1 when a check finds something missing or damaged."""
    parser = ManualParser(PREPARE)
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as for spikelm-run")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that tokenise (default: the usable cores)")
    parser.add_argument("--check", action="store_true", help="read every shard and compare it; change nothing")
    parser.add_argument("--config-dir", metavar="DIR", help="options of your own, as for spikelm-run")
    args = parser.parse_intermixed_args(argv)  # flags may stand anywhere between the overrides
    check_config_dir(args.config_dir)
    if args.workers is not None and args.workers < 1:
        raise ConfigError(f"--workers {args.workers}: at least one process tokenises", "--workers 1")
    from rich.console import Console

    from spikelm.config.checks import typed
    from spikelm.config.compose import compose_config
    from spikelm.machine.cpu import usable_cores

    config = typed(compose_config(args.overrides, args.config_dir))
    console = Console(soft_wrap=True, markup=False, highlight=False)
    if args.check:
        return _check(config, console)
    _prepare(config, args.workers or usable_cores(), console)
    return 0


def _prepare(config: Config, workers: int, console: Console) -> None:
    from spikelm.catalog.checkpoint_files import weights_folder
    from spikelm.data.tokens.prepare import prepare_text
    from spikelm.runs.preparation import prepare_small, reads_prepared_text, text_preparation, with_prerequisites

    ready: set[object] = set()
    for run in with_prerequisites(config):
        if run.backbone.path and run.backbone.path not in ready:
            weights_folder(run.backbone.path)
            ready.add(run.backbone.path)
        if reads_prepared_text(run):
            preparation = text_preparation(run)
            if preparation.folder in ready:
                continue
            ready.add(preparation.folder)
            started = time.monotonic()
            with _progress(preparation, console) as report:
                manifest = prepare_text(preparation, workers, report)
            console.print(_outcome(run, preparation, manifest, time.monotonic() - started))
        elif (key := (run.task.name, run.backbone.kind, run.stage.max_length)) not in ready:
            ready.add(key)
            console.print(prepare_small(run))


def _check(config: Config, console: Console) -> int:
    from spikelm.data.tokens.manifest import MANIFEST
    from spikelm.data.tokens.prepare import damage, finished
    from spikelm.runs.preparation import reads_prepared_text, text_preparation, with_prerequisites

    problems = 0
    preparations = {p.folder: p for p in map(text_preparation, filter(reads_prepared_text, with_prerequisites(config)))}
    for preparation in preparations.values():
        manifest = finished(preparation)
        if manifest is None:
            problems += 1
            console.print("not prepared: the same command without --check does it")
            continue
        path, damaged = preparation.folder / MANIFEST, damage(preparation, manifest)
        for number in damaged.shards:
            console.print(f"shard {number} of {path} is damaged")
        for folder in damaged.folders:
            console.print(f"{folder} is damaged beside its shards")
        if damaged:
            problems += 1
            console.print("the same command without --check makes that again, and nothing else")
        else:
            console.print(f"{len(manifest.shards)} shards are as {path} says")
    if not preparations:
        console.print("the run reads no pretraining text from files")
    return 1 if problems else 0


@contextmanager
def _progress(preparation: Preparation, console: Console) -> Iterator[Report]:
    """Documents and MB per second and the time that is left: a bar on a terminal, now and then a line in a file."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    total, started = preparation.text.count(), time.monotonic()
    documents = characters = 0
    last = started
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=120) as bar:
        task = bar.add_task("reading", total=total)

        def report(more_documents: int, more_characters: int) -> None:
            nonlocal documents, characters, last
            documents, characters = documents + more_documents, characters + more_characters
            seconds = time.monotonic() - started
            speed = f"{documents / seconds:,.0f} documents/s, {characters / seconds / 1e6:.1f} MB/s"
            of_total = f"{documents:,} of {total:,}" if total else f"{documents:,}"
            bar.update(task, completed=documents, description=f"{of_total} documents, {speed}")
            if not console.is_terminal and time.monotonic() - last > EVERY:
                last = time.monotonic()
                left = f", {duration((total - documents) / documents * seconds)} left" if total else ""
                console.print(f"{of_total} documents, {speed}{left}")

        yield report


def _outcome(run: Config, preparation: Preparation, manifest: Manifest, seconds: float) -> str:
    from spikelm.data.tokens.manifest import MANIFEST

    counts = ", ".join(
        f"{entry.counts.documents:,} documents and {entry.counts.tokens:,} tokens for {split}"
        for split, entry in manifest.splits.items()
    )
    size, files = sum(file.bytes for file in manifest.inputs), len(manifest.inputs)
    text = f"{run.task.name}: {size / 1e6:,.0f} MB in {files} files are {counts}, in {len(manifest.shards)} shards"
    return f"{text} ({duration(seconds)} now); {preparation.folder / MANIFEST}"
