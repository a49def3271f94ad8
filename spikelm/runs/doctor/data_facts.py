"""The weights and texts that the runs of a scale read: where they are looked for, and what is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spikelm.catalog.kinds import LM
from spikelm.catalog.quantities import counted
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.config.settings.source import HubText
from spikelm.data.tokens.manifest import MANIFEST, read_manifest
from spikelm.errors import SpikeLMError
from spikelm.machine.services import hub_cache

ROWS_TASK = "task=glue/rte"  # whose files stand for those of all, unless the command names another task


@dataclass(frozen=True)
class DataFacts:
    """What is there, and what is missing with its fix; nothing is missing where all of it is there."""

    there: str
    missing: str = ""
    fix: str = ""


def data_facts(scale: str, runs_dir: Path, overrides: Sequence[str]) -> DataFacts:
    """What a scale reads: files and weights of minilm, the prepared text of paper, the text of a language model."""
    default = ROWS_TASK if scale == "minilm" else "task=pretrain"
    named = any(override.startswith("task=") for override in overrides)
    try:
        config = load_config([f"scale={scale}", *([] if named else [default]), *overrides])
        if config.task.kind == LM:
            return _running_text(config)
        return _files(config) if config.source.name == "local" else _text(config, runs_dir)
    except SpikeLMError as error:
        return DataFacts("", error.what, error.fix or "")


def _files(config: Config) -> DataFacts:
    """The files of the task in a folder of the user's; its weights were looked at when the config was read."""
    from spikelm.data.sources.task_files import task_files, task_root
    from spikelm.data.sources.text_pair_files import text_pair_files

    root, splits = task_root(config.task, config.source), ("train", *config.task.splits)
    if config.task.kind == "seq2seq":
        files = text_pair_files(config.task, root, splits, config.reads_training_rows)
    else:
        files = task_files(config.task, root, splits)
    count = sum(len(paths) for paths in files.values())
    return DataFacts(f"{config.task.name}: {count} files in {config.source.root}; weights of {config.backbone.name}")


def _running_text(config: Config) -> DataFacts:
    """The text files of a language model's task, or its repository; its weights were looked at already."""
    from spikelm.data.sources.documents import text_folder
    from spikelm.data.sources.running_text import running_text_folder, split_text_files

    task, source = config.task, config.source
    if source.name == "embedded":
        return DataFacts("made by the program itself")
    if source.name == "local":
        folder = running_text_folder(task, text_folder(source))
        count = sum(map(len, split_text_files(folder).values()))
        told = f"{task.name}: {counted(count, 'text file')} in {folder}; backbone {config.backbone.name}"
        return DataFacts(told) if count else DataFacts(told, f"{folder} has no text", "source.root=DIR")
    if not task.repo:
        fix = "task.repo=OWNER/NAME, or source=local source.root=DIR"
        return DataFacts("", f"{task.name} names no repository", fix)
    if _is_here(HubText(task.repo), source.mirror):
        return DataFacts(f"{task.name}: {task.repo} is downloaded")
    words = f"scale={config.scale} task={task.name} source=hub"
    return DataFacts("", f"{task.repo} is not downloaded", f"spikelm-prepare {words}")


def _text(config: Config, runs_dir: Path) -> DataFacts:
    """Text that `spikelm-prepare` has tokenised, or else the repositories that it would read."""
    if config.source.name == "embedded":
        return DataFacts("made by the program itself")
    if tokens := prepared_tokens(runs_dir / ".cache", config.source.name):
        return DataFacts(f"{tokens / 1e9:.2f} billion tokens of pretraining text are prepared")
    repositories = config.source.text or []
    here = [text.repo for text in repositories if _is_here(text, config.source.mirror)]
    told = f"{len(here)} of {len(repositories)} repositories downloaded"
    return DataFacts(told, "no prepared pretraining text", f"spikelm-prepare scale={config.scale} task=pretrain")


def _is_here(text: HubText, mirror: str | None) -> bool:
    if mirror:
        return (Path(mirror) / text.repo).is_dir()
    folder = hub_cache() / f"datasets--{text.repo.replace('/', '--')}" / "snapshots"
    return folder.is_dir() and any(folder.iterdir())


def prepared_tokens(cache: Path, source: str) -> int:
    """Tokens of the largest training text of a source that was prepared and is still there; 0 without one."""
    largest = 0
    for path in cache.glob(f"prepared/*/{MANIFEST}"):
        manifest = read_manifest(path.parent)
        if manifest is not None and manifest.settings.source == source:
            train = manifest.splits["train"]
            if (cache / "encoded" / train.folder).is_dir():
                largest = max(largest, train.counts.tokens)
    return largest
