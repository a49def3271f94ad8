"""Dataset repositories of the hub, in a mirror, in the hub's cache or fetched: their files, rows and documents."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from spikelm.catalog.kinds import LM
from spikelm.catalog.revisions import branch_warning, commit_of, is_commit
from spikelm.config.settings.source import HubText, SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.row_files import FileRows, Layout, read_rows, rows_from_records
from spikelm.data.sources.streams import Document, chunks, in_turns
from spikelm.data.sources.task_files import SHARD, listing
from spikelm.data.sources.text_files import plain_sentences
from spikelm.errors import DataError
from spikelm.machine.offline import online_fix
from spikelm.machine.services import cannot_fetch

GLUE = "nyu-mll/glue"
BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".txt": "text"}  # ending -> datasets' reader
FIELDS = (".csv", ".tsv")  # read by ourselves: `datasets` would guess types and take "NA" for nothing
ENDINGS = (*BUILDERS, *FIELDS)
COLUMN = "text"  # of a repository of pretraining text
SENTENCES = 100  # of a document, where rows are sentences and nothing says where a book ends
HELD_OUT_EVERY = 20  # documents: a stream has no last twentieth before its end
HELD_OUT_MOST = 10_000
Files = dict[str, list[Path]]


@dataclass(frozen=True)
class Repository:
    """A configuration of a dataset repository at a revision: that is what the hub gives, and all that names it."""

    repo: str
    config: str | None  # none: the files are in the repository itself, or in data/
    revision: str | None  # none: the newest


@dataclass(frozen=True)
class Origin:
    """Which commits were read, by repository, and what is to be said of a revision that may move."""

    commits: dict[str, str]
    warnings: tuple[str, ...] = ()


def task_repository(task: TaskConfig, source: SourceConfig) -> Repository:
    """Where the hub has a task: in its own repository, else as a configuration of the source's GLUE."""
    if task.repo:
        return Repository(task.repo, task.hub, task.revision)
    if task.kind in ("seq2seq", LM) or not task.hub:
        fix = "task.repo=OWNER/NAME, or read it with source=local"
        raise DataError(f"{task.name} has no repository on the hub", fix)
    return Repository(source.glue or GLUE, task.hub, source.revision)


def hub_files(repository: Repository, splits: Sequence[str], mirror: str | None) -> Files:
    """The files of each split of a repository, in order and complete."""
    if mirror:
        folder = Path(mirror) / repository.repo
        if not folder.is_dir():
            raise DataError(f"the mirror has no {repository.repo}: {folder} is not a folder", _fix(repository))
        _check_commit(folder, repository)
        return _complete(folder, repository, splits)
    if is_commit(repository.revision) and (cached := _cached_snapshot(repository)):
        # A commit cannot change: when the cache has all that the names count, the hub is not asked.
        files = {split: _split_files(cached, repository.config, split) for split in splits}
        if all(_counted(paths) == len(paths) for paths in files.values()):
            return files
    return _complete(_snapshot(repository), repository, splits)


def origin(repository: Repository, files: Iterable[Path], mirror: str | None, key: str) -> Origin:
    """The commit that files of a repository are of, as the cache or the mirror tells; `key` sets the revision."""
    folder = Path(mirror) / repository.repo if mirror else None
    notes = _mirrored_commits(folder, repository) if folder else (commit_of(path) for path in files)
    commit = next((commit for commit in notes if commit), None)
    commits = {repository.repo: commit} if commit else {}
    if is_commit(repository.revision):
        return Origin(commits)
    return Origin(commits, (branch_warning(repository.repo, repository.revision, commit, f"{key}={commit}"),))


def task_origin(task: TaskConfig, source: SourceConfig, files: Files) -> Origin:
    """The same of a task's files."""
    key = "task.revision" if task.repo else "source.revision"
    paths = [path for of_split in files.values() for path in of_split]
    return origin(task_repository(task, source), paths, source.mirror, key)


def text_origin(source: SourceConfig, files: Sequence[Sequence[Path]]) -> Origin:
    """The same of the repositories of the pretraining text."""
    commits: dict[str, str] = {}
    warnings: list[str] = []
    for text, paths in zip(text_repositories(source), files, strict=True):
        repository, key = Repository(text.repo, text.config, text.revision), f"source.text of {text.repo}: revision"
        read_from = origin(repository, paths, source.mirror, key)
        commits |= read_from.commits
        warnings += read_from.warnings
    return Origin(commits, tuple(warnings))


def stream_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one file, streamed by `datasets`."""
    import datasets
    import pyarrow

    if path.suffix.lower() not in BUILDERS:
        raise DataError(f"{path} cannot be streamed", f"use a repository with {', '.join(BUILDERS)}")
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # errors are told here, once
    builder = BUILDERS[path.suffix.lower()]
    try:
        yield from datasets.load_dataset(builder, data_files=[glob.escape(str(path))], split="train", streaming=True)
    except (pyarrow.ArrowException, datasets.exceptions.DatasetsError, OSError, ValueError) as error:
        kind = {"json": "JSON lines", "text": "UTF-8 text"}.get(builder, "a Parquet file")
        raise DataError(f"{path} is not {kind}: {_first_line(error)}", "fetch the file again") from error


def read_hub_rows(path: Path, layout: Layout) -> FileRows:
    """The wanted columns of a file's rows."""
    if path.suffix.lower() in FIELDS:
        return read_rows(path, layout)
    file_rows = rows_from_records(path, stream_rows(path), layout)
    if not file_rows.rows:
        raise DataError(f"{path} has no rows")
    return file_rows


def text_repositories(source: SourceConfig) -> list[HubText]:
    """The repositories that the text is taken from."""
    if not source.text:
        raise DataError("source=hub has no pretraining text", "source.text=[{repo: OWNER/NAME, config: NAME}]")
    return source.text


def repository_files(source: SourceConfig) -> list[list[Path]]:
    """The files of each repository."""
    return [
        hub_files(Repository(text.repo, text.config, text.revision), (text.split,), source.mirror)[text.split]
        for text in text_repositories(source)
    ]


def cached_repository_files(source: SourceConfig) -> list[list[Path]] | None:
    """The same without a network: of the mirror or the hub's cache; None where they are not there, or not all."""
    files: list[list[Path]] = []
    for text in text_repositories(source):
        repository = Repository(text.repo, text.config, text.revision)
        folder = Path(source.mirror) / text.repo if source.mirror else _cached_snapshot(repository)
        paths = _split_files(folder, text.config, text.split) if folder else []
        if not paths or _counted(paths) not in (None, len(paths)):
            return None
        files.append(paths)
    return files


def expected_documents(source: SourceConfig, files: Sequence[Sequence[Path]]) -> int | None:
    """About how many documents the repositories have, by the heads of their Parquet files; None for other files."""
    from pyarrow import ArrowException, parquet

    count = 0
    for text, paths in zip(text_repositories(source), files, strict=True):
        if any(path.suffix.lower() != ".parquet" for path in paths):
            return None
        try:
            rows = sum(parquet.read_metadata(path).num_rows for path in paths)
        except (ArrowException, OSError):  # named with its row when it is read
            return None
        count += rows if text.rows == "articles" else -(-rows // SENTENCES)
    return min(count, source.documents)


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
    """One document per row, its lines being paragraphs; or, where rows are sentences, per SENTENCES rows."""
    texts = chain.from_iterable(map(row_texts, paths))
    if text.rows == "sentences":
        return chunks((line for row in texts if (line := " ".join(row.split()))), SENTENCES)
    return (document for row in texts if (document := _article(row)))


def _article(text: str) -> Document:
    return [sentence for line in text.split("\n") if line.strip() for sentence in plain_sentences(line.strip())]


def row_texts(path: Path) -> Iterator[str]:
    """The column of text of every row of a file."""
    for index, row in enumerate(stream_rows(path)):
        text = row.get(COLUMN)
        if not isinstance(text, str):
            problem = f"{COLUMN} is {text!r}" if COLUMN in row else f"no column {COLUMN!r}; there is {', '.join(row)}"
            raise DataError(f"{path} row {index}: {problem}, expected text in {COLUMN!r}")
        yield text


def _split_files(folder: Path, config: str | None, split: str) -> list[Path]:
    """config/split-00000-of-00002.parquet, config/split.parquet or config/split/0000.parquet; or in data/."""
    for place in [folder / config] if config else [folder, folder / "data"]:
        for names in (place.glob(f"{split}-*"), place.glob(f"{split}.*"), (place / split).glob("*")):
            if files := sorted(path for path in names if path.suffix.lower() in ENDINGS and path.is_file()):
                return files
    return []


def _counted(files: Iterable[Path]) -> int | None:
    """How many files there are by their own names, which may not say so."""
    counts = {int(shard["count"]) for path in files if (shard := SHARD.fullmatch(path.stem))}
    return max(counts, default=None)


def _complete(folder: Path, repository: Repository, splits: Iterable[str]) -> Files:
    """The files of each split, of which none may be missing."""
    place = folder / (repository.config or "")
    files = {split: _split_files(folder, repository.config, split) for split in splits}
    for split, paths in files.items():
        if not paths:
            held = listing(place) if place.is_dir() else "no such folder"
            looked = f"{split}-*, {split}.* and {split}/* with {', '.join(ENDINGS)}"
            raise DataError(f"{place} has no file for {split}: looked for {looked}; there is {held}", _fix(repository))
        if (count := _counted(paths)) not in (None, len(paths)):
            raise DataError(
                f"{place}: {split} is {count} files, but only {len(paths)} of them are there", _fix(repository)
            )
    return files


def _cached_snapshot(repository: Repository) -> Path | None:
    """The folder of the repository in the hub's cache as it is, or none."""
    try:
        return _download(repository, local=True)
    except (OSError, ValueError):
        return None


def _snapshot(repository: Repository) -> Path:
    """The folder of the repository in the hub's cache, brought up to date unless offline."""
    reason = cannot_fetch()
    try:
        return _download(repository, local=bool(reason))
    except (OSError, ValueError) as error:
        at = f" at revision {repository.revision}" if repository.revision else ""
        fix = f"{online_fix()}{_fix(repository)}, or source=embedded, which needs no network"
        raise DataError(f"{repository.repo}{at} could not be loaded: {reason or _first_line(error)}", fix) from error


def _download(repository: Repository, local: bool) -> Path:
    from huggingface_hub import snapshot_download

    folder = snapshot_download(
        repository.repo,
        repo_type="dataset",
        revision=repository.revision or None,
        allow_patterns=[f"{repository.config}/*"] if repository.config else [f"*{ending}" for ending in ENDINGS],
        local_files_only=local,
    )
    return Path(folder)


def _check_commit(folder: Path, repository: Repository) -> None:
    """A mirror made by `hf download` says which commit it holds: it must be the one that the run's id names."""
    for commit in _mirrored_commits(folder, repository) if is_commit(repository.revision) else []:
        if commit != repository.revision:
            pinned = f"the pinned one is {repository.revision}"
            raise DataError(f"{folder} holds {repository.repo} at commit {commit}, {pinned}", _fix(repository))


def _mirrored_commits(folder: Path, repository: Repository) -> list[str]:
    """The commits that `hf download` noted beside the files it fetched; none where it left no notes."""
    notes = folder / ".cache" / "huggingface" / "download" / (repository.config or "")
    commits = [path.read_text().partition("\n")[0].strip() for path in sorted(notes.rglob("*.metadata"))]
    return [commit for commit in commits if is_commit(commit)]


def _fix(repository: Repository) -> str:
    part = f" --include '{repository.config}/*'" if repository.config else ""
    at = f" --revision {repository.revision}" if repository.revision else ""
    repo = repository.repo
    return f"hf download {repo} --repo-type dataset{at}{part} --local-dir DIR/{repo} and source.mirror=DIR"


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
