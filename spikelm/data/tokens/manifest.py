"""What a preparation of pretraining text made, as a record: counts and hashes of the text, its files and its shards.

The same text and settings give the same bytes, however often the preparation was interrupted: the record has neither
times nor names of machines.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from spikelm.store.atomic import write_atomic
from spikelm.store.checksums import broken_seal, seal

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Counts:
    """Documents, sentences and tokens of a shard, or of all before it."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.documents + other.documents, self.sentences + other.sentences, self.tokens + other.tokens)


@dataclass(frozen=True)
class ShardPart:
    """What a shard has of one split, and the sha256 of its bytes in the three arrays of that split."""

    counts: Counts
    sha256: str


Shard = dict[str, ShardPart]  # by split


@dataclass(frozen=True)
class InputFile:
    """A file that the text was read from."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class PreparedSettings:
    """What decides the arrays and the shards beside the files."""

    source: str  # local or hub
    documents: int  # at most
    task_rows: int  # training rows of each GLUE task behind the text
    repositories: list[dict[str, str | None]]  # of the hub
    shard_characters: int


@dataclass(frozen=True)
class PreparedSplit:
    """A split as a run reads it."""

    folder: str  # of the cache's folder `encoded`
    counts: Counts


@dataclass(frozen=True)
class Manifest:
    """A prepared text."""

    format: int
    spikelm: str  # the version
    settings: PreparedSettings
    tokenizer_sha256: str
    vocabulary: int
    content_hash: str
    inputs: list[InputFile]
    splits: dict[str, PreparedSplit]
    shards: list[Shard]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Keep the record, with a checksum beside it."""
    text = json.dumps(asdict(manifest), indent=1) + "\n"
    seal(folder / MANIFEST, hashlib.sha256(text.encode()).hexdigest())
    write_atomic(folder / MANIFEST, text)


def read_manifest(folder: Path) -> Manifest | None:
    """The record in a folder; None where there is none, or none that is whole."""
    path = folder / MANIFEST
    if not path.is_file() or broken_seal(path):
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["format"] != FORMAT:
        return None
    splits = {
        split: PreparedSplit(entry["folder"], Counts(**entry["counts"])) for split, entry in record["splits"].items()
    }
    return Manifest(
        **{
            **record,
            "settings": PreparedSettings(**record["settings"]),
            "inputs": [InputFile(**entry) for entry in record["inputs"]],
            "splits": splits,
            "shards": [read_shard(entry) for entry in record["shards"]],
        }
    )


def read_shard(record: dict[str, Any]) -> Shard:
    """Back from what `asdict` made of its parts."""
    return {split: ShardPart(Counts(**part["counts"]), part["sha256"]) for split, part in record.items()}


def is_prepared(cache: Path, folder: Path) -> bool:
    """Whether tokenised documents were made by a preparation, whose record is there."""
    records = (read_manifest(path.parent) for path in (cache / "prepared").glob(f"*/{MANIFEST}"))
    names = (split.folder for record in records if record for split in record.splits.values())
    return folder.name in names
