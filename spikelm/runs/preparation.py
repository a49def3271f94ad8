"""What a run and the runs it needs read, made before any of them; and a run that must not wait for it says so."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from rich.console import Console

from spikelm.catalog.kinds import LABELLED, LM, UNLABELLED
from spikelm.config.devices import device_count, uses_gpu
from spikelm.config.settings.schema import Config
from spikelm.data.sources.documents import load_documents, source_files
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.running_text import load_running_text, training_text
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.sources.unlabelled_rows import other_rows
from spikelm.data.tokens.bpe import load_text_pair_tokenizer
from spikelm.data.tokens.cache import encoded_documents, encoded_rows, encoded_text_pairs
from spikelm.data.tokens.prepare import Preparation
from spikelm.data.tokens.prepared import missing_survey, missing_tokens
from spikelm.data.tokens.running_text_tokenizer import end_of_text, load_lm_tokenizer
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.errors import DataError
from spikelm.runs.prerequisites import prerequisites


def with_prerequisites(config: Config) -> Iterator[Config]:
    """A run behind all that it needs."""
    for needed in prerequisites(config).values():
        yield from with_prerequisites(needed)
    yield config


def text_preparation(config: Config) -> Preparation:
    """The pretraining text of a run from files, to be prepared."""
    cache = Path(config.runs_dir) / ".cache"
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    return Preparation(config.source, source_files(config.source, cache), tokenizer, cache, config.unlabelled_rows)


def reads_prepared_text(config: Config) -> bool:
    """Whether a run reads pretraining text from files, tokenised as `Preparation` does it."""
    return config.task.kind in UNLABELLED and config.source.name != "embedded" and not config.kind.own_tokens


def prepare_small(config: Config) -> str:
    """Fetch and tokenise what one process soon has done, as the run would; what that was, for people."""
    task, source, cache = config.task, config.source, Path(config.runs_dir) / ".cache"
    if task.kind == LM:
        running = load_running_text(task, source, cache)
        lm_tokenizer = load_lm_tokenizer(task, source, config.backbone, running, cache)
        read = training_text(running, task.detokenise, end_of_text(lm_tokenizer))
        encoded_documents(read, "train", lm_tokenizer, cache)
        return f"{task.name}: documents of running text, {_said(running.rows)}"
    if config.kind.own_tokens:
        if task.kind == "seq2seq":
            load_text_pairs(task, source)
        return f"{task.name}: {config.kind.title} tokenises its text itself, when it runs"
    if task.kind == "seq2seq":
        pairs = load_text_pairs(task, source)
        pair_tokenizer = load_text_pair_tokenizer(task, source, config.backbone, pairs, cache)
        counts = {split: len(encoded_text_pairs(pairs, split, task, pair_tokenizer, cache)) for split in pairs.splits}
        return f"{task.name}: text pairs, {_said(counts)}"
    tokenizer = load_tokenizer(source, config.backbone, cache)
    if task.kind in LABELLED:
        rows = load_rows(task, source)
        length = config.finetune.max_length
        counts = {split: len(encoded_rows(rows, split, task, tokenizer, length, cache)) for split in rows.splits}
        if config.distills and config.distill.rows.other_tasks:
            other_rows(task, source, config.distill.rows.other_tasks)
        return f"{task.name}: rows, {_said(counts)}"
    text = load_documents(source, cache, config.unlabelled_rows)
    counts = {split: len(encoded_documents(text, split, tokenizer, cache)) for split in text.splits}
    return f"{task.name}: generated documents, {_said(counts)}"


def _said(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in counts.items())


def check_surveyed(config: Config, console: Console) -> None:
    """Before the id of a run is known: local text is in it by its content, which takes long to hash where it is large.

    An error where devices would wait for it, else a warning.
    """
    if config.source.name == "local":
        for run in with_prerequisites(config):
            if run.task.kind in UNLABELLED:
                _complain(config, missing_survey(run.source, Path(run.runs_dir) / ".cache"), console)
                return


def check_prepared(config: Config, console: Console) -> None:
    """Before a run trains: the same for text that is to be tokenised."""
    cache = Path(config.runs_dir) / ".cache"
    if reads_prepared_text(config):
        missing = missing_tokens(config.source, config.backbone, cache, config.unlabelled_rows)
        _complain(config, missing, console)


def _complain(config: Config, missing: str | None, console: Console) -> None:
    if missing is None:
        return
    what, command = f"not prepared: {missing}", _prepare_command()
    if uses_gpu(config) or device_count(config) > 1:
        raise DataError(f"{what}; the devices would wait for it, perhaps for hours", f"first {command}")
    said = f"{what}; this run does it now, in one process, and anew if it is stopped; quicker and resumable: {command}"
    console.print(f"warning: {said}", style="yellow", markup=False, soft_wrap=True)


def _prepare_command() -> str:
    """The command that prepares what this one needs."""
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    return shlex.join(["spikelm-prepare", *words]) + ("" if words else " with the overrides of this run")
