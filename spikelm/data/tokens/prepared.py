"""Whether text that takes long to tokenise is prepared, found out from sizes and notes, never by reading it."""

from __future__ import annotations

from pathlib import Path

from spikelm.catalog.quantities import gigabytes
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.data.sources.documents import TextFiles, files_at_hand
from spikelm.data.sources.unlabelled_rows import hash_with_rows, task_row_documents
from spikelm.data.tokens.cache import documents_folder
from spikelm.data.tokens.prepare import SPLITS
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.store.file_facts import recall

LARGE = 1e9  # bytes of files: some minutes of one process
FEW = 100_000  # documents that are soon read, whatever the size of their files


def missing_survey(source: SourceConfig, cache: Path) -> str | None:
    """Text that is large and was never counted and hashed, in words; None where there is none."""
    if not _many(source):
        return None
    text = files_at_hand(source, cache)
    if text is None:
        return "the pretraining text of the hub, which is not on this machine yet"
    return None if _size(text) <= LARGE or recall(text.place) is not None else _in_words(text)


def missing_tokens(source: SourceConfig, backbone: BackboneConfig, cache: Path, task_rows: int) -> str | None:
    """Text that is large and not tokenised as a run with these settings reads it; None where there is none."""
    if not _many(source):
        return None
    text = files_at_hand(source, cache)
    if text is None or _size(text) <= LARGE or (survey := recall(text.place)) is None:
        return missing_survey(source, cache)
    content = survey["content_hash"]
    if task_rows:
        content = hash_with_rows(content, task_row_documents(source, task_rows))
    tokenizer = load_tokenizer(source, backbone, cache)
    there = all(documents_folder(cache, content, split, tokenizer).is_dir() for split in SPLITS)
    return None if there else f"{_in_words(text)}, with this tokenizer"


def _many(source: SourceConfig) -> bool:
    return source.name != "embedded" and source.documents > FEW


def _size(text: TextFiles) -> int:
    return sum(path.stat().st_size for group in text.files for path in group)


def _in_words(text: TextFiles) -> str:
    return f"{gigabytes(_size(text) / 1e9)} of pretraining text in {sum(map(len, text.files))} files"
