"""What was found out about files (hashes, counts), kept until they change: contents change a result, paths do not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spikelm.catalog.checkpoint_files import on_hub, pinned, weights_file, weights_folder
from spikelm.catalog.revisions import branch_warning, commit_of, is_commit
from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import write_atomic
from spikelm.store.checksums import broken_seal, file_hash, seal
from spikelm.store.hashing import digest

#: files beside the weights that say what a model does with a text
SETTINGS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model")
MARIAN = ("source.spm", "target.spm", "vocab.json")  # a Marian's tokenizer
READING = 1  # raise when the same files no longer give the same rows or documents


def place_of(cache: Path, files: Iterable[list[Path]], settings: dict[str, Any]) -> Path:
    """Where a fact on these files is kept: another size, time of change or setting is another place."""
    paths = (path for group in files for path in group)
    stats = [[str(path.absolute()), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    return cache / "hashes" / digest([READING, stats, settings])


def recall(place: Path | None) -> Any:
    """What was kept there, or None."""
    if place is None or not place.is_file() or broken_seal(place):
        return None
    text = place.read_text().strip()
    return json.loads(text) if text.startswith("{") else text or None


def remember(place: Path | None, fact: Any) -> Any:
    """Keep a hash (text) or several facts (a mapping), and give it back."""
    if place is not None:
        with disk_errors(place.parent):
            place.parent.mkdir(parents=True, exist_ok=True)
        text = (json.dumps(fact) if isinstance(fact, dict) else fact) + "\n"
        seal(place, hashlib.sha256(text.encode()).hexdigest())
        write_atomic(place, text)
    return fact


def cached_file_hash(path: Path, cache: Path) -> str:
    """`file_hash`, from the cache when the file has not changed."""
    place = place_of(cache, [[path]], {"file": True})
    return recall(place) or remember(place, file_hash(path))


def weights_identity(path: str, cache: Path, with_settings: bool = False) -> str:
    """Which weights: those of a pinned name by it, all others by their hash, since a place cannot change a result.

    A model that may be measured as it is, is also what the files beside its weights say (`with_settings`): its
    positions, its tokenizer, its marks.
    """
    if pinned(path):
        return f"hub:{path}"
    folder = weights_folder(path)
    weights = cached_file_hash(weights_file(folder), cache)
    if not with_settings:
        return weights
    names = (*SETTINGS, *MARIAN) if (folder / MARIAN[0]).is_file() else SETTINGS
    beside = [folder / name for name in names]
    return digest([weights, {file.name: cached_file_hash(file, cache) for file in beside if file.is_file()}])


def weights_record(path: str, cache: Path) -> dict[str, str]:
    """What a result says of the weights it started from: a branch of the hub may move, hash and commit tell."""
    folder = weights_folder(path)
    commit = commit_of(folder)
    record = {"path": path, "sha256": cached_file_hash(weights_file(folder), cache)}
    return {**record, "commit": commit} if commit else record


def weights_warning(path: str) -> str:
    """What is to be said of weights on the hub that are named by a branch; empty of all others."""
    name, _, revision = path.partition("@")
    if not on_hub(path) or is_commit(revision):
        return ""
    commit = commit_of(weights_folder(path))
    return branch_warning(name, revision or None, commit, f"backbone.path={name}@{commit}")
