"""Dataset repositories of the hub, in a mirror, in the hub's cache or fetched: their files, rows and documents."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from spikelm.config.schema import HubText, SourceConfig
from spikelm.data.sources.row_files import Layout, Table, from_records
from spikelm.data.sources.streams import Document, chunks, in_turns
from spikelm.data.sources.task_files import SHARD, listing
from spikelm.data.sources.text_files import plain_sentences
from spikelm.errors import DataError

BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".txt": "text"}  # ending -> datasets' reader
_COMMIT = re.compile(r"[0-9a-f]{40}")
COLUMN = "text"
SENTENCES = 100  # of a document, where rows are sentences and nothing says where a book ends
HELD_OUT_EVERY = 20  # documents: a stream has no last twentieth before its end
HELD_OUT_MOST = 10_000
Files = dict[str, list[Path]]


def hub_files(repo: str, config: str | None, splits: Sequence[str], revision: str | None, mirror: str | None) -> Files:
    """The files of each split of a configuration at a revision, in order and complete."""
    if mirror:
        folder = Path(mirror) / repo
        if not folder.is_dir():
            raise DataError(f"the mirror has no {repo}: {folder} is not a folder", _fix(repo, config, revision))
        _check_commit(folder, repo, config, revision)
        return _complete(folder, config, splits, _fix(repo, config, revision))
    if _is_commit(revision) and (folder := _snapshot(repo, config, revision, local=True)):
        # A commit cannot change: when the cache has all that the names count, the hub is not asked.
        found = {split: _split_files(folder, config, split) for split in splits}
        if all(_counted(files) == len(files) for files in found.values()):
            return found
    return _complete(_snapshot(repo, config, revision), config, splits, _fix(repo, config, revision))


def hub_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file, streamed by `datasets`."""
    import datasets
    import pyarrow

    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are told here, once
    builder = BUILDERS[path.suffix.lower()]
    try:
        found = datasets.load_dataset(builder, data_files=[glob.escape(str(path))], split="train", streaming=True)
        yield from found
    except (pyarrow.ArrowException, datasets.exceptions.DatasetsError, OSError, ValueError) as error:
        kind = {"json": "JSON lines", "text": "UTF-8 text"}.get(builder, "a Parquet file")
        raise DataError(f"{path} is not {kind}: {_first_line(error)}", "fetch the file again") from error


def hub_table(path: Path, layout: Layout) -> Table:
    """The wanted columns of a file's rows."""
    table = from_records(path, hub_rows(path), layout)
    if not table.rows:
        raise DataError(f"{path} has no rows")
    return table


def text_repositories(source: SourceConfig) -> list[HubText]:
    """The repositories that the text is taken from."""
    if not source.text:
        raise DataError("source=hub has no pretraining text", "source.text=[{repo: OWNER/NAME, config: NAME}]")
    return source.text


def repository_files(source: SourceConfig) -> list[list[Path]]:
    """The files of each repository."""
    return [
        hub_files(text.repo, text.config, (text.split,), text.revision, source.mirror)[text.split]
        for text in text_repositories(source)
    ]


def labelled_documents(source: SourceConfig, files: Sequence[Sequence[Path]]) -> Iterator[tuple[str, Document]]:
    """At most source.documents documents of all repositories in turns, each with its split: every 20th is held out."""
    repositories = zip(text_repositories(source), files, strict=True)
    documents = in_turns([read_repository(text, paths) for text, paths in repositories])
    for index, document in enumerate(islice(documents, source.documents)):
        yield "validation" if held_out(index) else "train", document


def held_out(index: int) -> bool:
    """Whether a document, by its place in the stream, is for validation."""
    return index % HELD_OUT_EVERY == HELD_OUT_EVERY - 1 and index < HELD_OUT_EVERY * HELD_OUT_MOST


def read_repository(text: HubText, paths: Sequence[Path]) -> Iterator[Document]:
    """A document a row, its lines being paragraphs; or, where rows are sentences, SENTENCES rows in a row."""
    texts = chain.from_iterable(map(_texts, paths))
    if text.rows == "sentences":
        return chunks((line for row in texts if (line := " ".join(row.split()))), SENTENCES)
    return (document for row in texts if (document := _article(row)))


def _article(text: str) -> Document:
    return [sentence for line in text.split("\n") if line.strip() for sentence in plain_sentences(line.strip())]


def _texts(path: Path) -> Iterator[str]:
    for index, row in enumerate(hub_rows(path)):
        text = row.get(COLUMN)
        if not isinstance(text, str):
            there = f"{COLUMN} is {text!r}" if COLUMN in row else f"no column {COLUMN!r}; there is {', '.join(row)}"
            raise DataError(f"{path} row {index}: {there}, expected text in {COLUMN!r}")
        yield text


def _is_commit(revision: str | None) -> bool:
    return bool(revision and _COMMIT.fullmatch(revision))


def _split_files(folder: Path, config: str | None, split: str) -> list[Path]:
    """config/split-00000-of-00002.parquet, config/split.parquet or config/split/0000.parquet; or in data/."""
    for place in [folder / config] if config else [folder, folder / "data"]:
        for names in (place.glob(f"{split}-*"), place.glob(f"{split}.*"), (place / split).glob("*")):
            if found := sorted(path for path in names if path.suffix.lower() in BUILDERS and path.is_file()):
                return found
    return []


def _counted(files: Iterable[Path]) -> int | None:
    """How many files there are by their own names, which may not say so."""
    counts = {int(shard["count"]) for path in files if (shard := SHARD.fullmatch(path.stem))}
    return max(counts, default=None)


def _complete(folder: Path, config: str | None, splits: Iterable[str], fix: str) -> Files:
    found = {split: _split_files(folder, config, split) for split in splits}
    for split, files in found.items():
        place = folder / (config or "")
        if not files:
            there = listing(place) if place.is_dir() else "no such folder"
            looked = f"{split}-*, {split}.* and {split}/* with {', '.join(BUILDERS)}"
            raise DataError(f"{place} has no file for {split}: looked for {looked}; there is {there}", fix)
        if (count := _counted(files)) not in (None, len(files)):
            raise DataError(f"{place}: {split} is {count} files, but only {len(files)} of them are there", fix)
    return found


def _snapshot(repo: str, config: str | None, revision: str | None, local: bool = False) -> Any:
    """The folder of the repository in the hub's cache, brought up to date unless `local` or offline."""
    import datasets
    from huggingface_hub import snapshot_download

    patterns = [f"{config}/*"] if config else [f"*{ending}" for ending in BUILDERS]
    offline = datasets.config.HF_HUB_OFFLINE  # HF_HUB_OFFLINE or HF_DATASETS_OFFLINE
    try:
        folder = snapshot_download(
            repo, repo_type="dataset", revision=revision, allow_patterns=patterns, local_files_only=local or offline
        )
    except (OSError, ValueError) as error:
        if local:
            return None
        why = "HF_HUB_OFFLINE is set, and it is not in the hub's cache" if offline else _first_line(error)
        at = f" at revision {revision}" if revision else ""
        fix = "use source=embedded, or " + _fix(repo, config, revision)
        raise DataError(f"{repo}{at} could not be loaded: {why}", fix) from error
    return Path(folder)


def _check_commit(folder: Path, repo: str, config: str | None, revision: str | None) -> None:
    """A mirror made by `hf download` says which commit it holds: it must be the one that the run's id names."""
    notes = folder / ".cache" / "huggingface" / "download" / (config or "")
    for path in sorted(notes.rglob("*.metadata")) if _is_commit(revision) else []:
        commit = path.read_text().partition("\n")[0].strip()
        if _is_commit(commit) and commit != revision:
            raise DataError(
                f"{folder} holds {repo} at commit {commit}, the pinned one is {revision}", _fix(repo, config, revision)
            )


def _fix(repo: str, config: str | None, revision: str | None) -> str:
    part = f" --include '{config}/*'" if config else ""
    at = f" --revision {revision}" if revision else ""
    return f"hf download {repo} --repo-type dataset{at}{part} --local-dir DIR/{repo} and source.mirror=DIR"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
