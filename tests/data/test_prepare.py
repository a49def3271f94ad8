"""Text prepared by shards is what a run makes by itself, whatever interrupted the preparation."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from spikelm.config.compose import load_config
from spikelm.config.settings.source import SourceConfig
from spikelm.data.sources.documents import TextFiles, load_documents, source_files
from spikelm.data.tokens import cache as cache_module
from spikelm.data.tokens import pool, prepare
from spikelm.data.tokens.cache import encoded_documents
from spikelm.data.tokens.manifest import MANIFEST, read_manifest
from spikelm.data.tokens.prepare import Preparation, damage, finished, prepare_text
from spikelm.data.tokens.shards import JOURNAL, Journal
from spikelm.data.tokens.wordpiece import train_wordpiece
from spikelm.errors import DataError, SpikeLMError
from spikelm.store.checksums import SUMS

WORDS = ["a", "cat", "sat", "on", "the", "mat", "and", "looked", "at", "old", "red", "birds", "in", "rain"]
DOCUMENTS = 60


def silent(documents: int, characters: int) -> None:
    """Progress that nobody looks at."""


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "SHARD", 2000)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_wordpiece([" ".join(WORDS)], 60)


@pytest.fixture
def source(tmp_path: Path) -> SourceConfig:
    rng = np.random.default_rng(0)
    folder = tmp_path / "text"
    folder.mkdir()

    def paragraph() -> str:
        return " ".join(f"The {' '.join(rng.choice(WORDS, rng.integers(2, 14)))}." for _ in range(rng.integers(1, 12)))

    for name in ("one", "two"):
        (folder / f"{name}.txt").write_text("\n\n".join(paragraph() for _ in range(DOCUMENTS // 2)) + "\n")
    return load_config(["task=pretrain", "source=local", f"source.root={folder}"]).source


def preparation(source: SourceConfig, tokenizer: Tokenizer, cache: Path, task_rows: int = 0) -> Preparation:
    return Preparation(source, source_files(source, cache), tokenizer, cache, task_rows)


def arrays(cache: Path) -> dict[str, bytes]:
    """Every file of every tokenised split."""
    return {
        str(path.relative_to(cache)): path.read_bytes() for path in (cache / "encoded").rglob("*") if path.is_file()
    }


def by_a_run(source: SourceConfig, tokenizer: Tokenizer, cache: Path) -> dict[str, bytes]:
    text = load_documents(source, cache)
    for split in text.splits:
        encoded_documents(text, split, tokenizer, cache)
    return arrays(cache)


def prepared(source: SourceConfig, tokenizer: Tokenizer, cache: Path, workers: int = 0) -> tuple[bytes, Path]:
    """The bytes of the manifest of a whole preparation, and its place."""
    ready = preparation(source, tokenizer, cache)
    prepare_text(ready, workers, silent)
    return (ready.folder / MANIFEST).read_bytes(), ready.folder


@pytest.mark.parametrize("workers", [0, 2])
def test_shards_are_the_arrays_and_the_hash_of_a_run(
    workers: int, source: SourceConfig, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = by_a_run(source, tokenizer, tmp_path / "run")
    text = load_documents(source, tmp_path / "run")
    ready = preparation(source, tokenizer, tmp_path / "prepared")
    manifest = prepare_text(ready, workers, silent)
    assert arrays(tmp_path / "prepared") == expected, "every byte, the checksums' as well"
    assert len(manifest.shards) > 5
    assert manifest.content_hash == text.content_hash
    for split, documents in text.splits.items():
        counts = manifest.splits[split].counts
        assert (
            counts.documents == len(documents) == sum(s[split].counts.documents for s in manifest.shards if split in s)
        )
        assert counts.sentences == sum(map(len, documents))
    assert [entry.name for entry in manifest.inputs] == ["one.txt", "two.txt"]
    assert sorted(path.name for path in ready.folder.iterdir()) == [MANIFEST, f"{MANIFEST}.sha256"]

    def refuse(*args: Any) -> Any:
        raise AssertionError("read or tokenised again")

    monkeypatch.setattr(cache_module, "encode_documents", refuse)
    monkeypatch.setattr("spikelm.data.sources.documents._survey", refuse)
    assert by_a_run(source, tokenizer, tmp_path / "prepared") == expected


def stop_after(shards: int, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Let the next preparation end before or after the note of its n-th shard."""
    add = Journal.add
    added = 0

    def counted(self: Journal, shard: Any) -> None:
        nonlocal added
        if added == shards and when == "before":
            raise KeyboardInterrupt
        add(self, shard)
        added += 1
        if added == shards and when == "after":
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "add", counted)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_preparation_goes_on(
    when: str, source: SourceConfig, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = prepared(source, tokenizer, tmp_path / "whole")
    encoded = 0
    encode = pool.encode_shard

    def counted(*args: Any) -> Any:
        nonlocal encoded
        encoded += 1
        return encode(*args)

    monkeypatch.setattr(pool, "encode_shard", counted)
    for shards in (2, 3):
        with monkeypatch.context() as patch:
            stop_after(shards, patch, when)
            with pytest.raises(KeyboardInterrupt):
                prepare_text(preparation(source, tokenizer, tmp_path / "cut"), 0, silent)
    ready = preparation(source, tokenizer, tmp_path / "cut")
    with (ready.folder / JOURNAL).open("a") as journal:
        journal.write('{"train": {"counts": {"docum')  # a line that a power cut left
    assert finished(ready) is None
    manifest = prepare_text(ready, 0, silent)
    assert (ready.folder / MANIFEST).read_bytes() == expected
    assert arrays(tmp_path / "cut") == arrays(tmp_path / "whole")
    assert encoded == len(manifest.shards) + (2 if when == "before" else 0), "what was noted is not tokenised again"


def test_a_shard_that_is_damaged_before_the_end_is_made_again(
    source: SourceConfig, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = prepared(source, tokenizer, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_after(4, patch, "after")
        with pytest.raises(KeyboardInterrupt):
            prepare_text(preparation(source, tokenizer, tmp_path / "cut"), 0, silent)
    ready = preparation(source, tokenizer, tmp_path / "cut")
    flip(ready.folder / "train" / "sentences.npy", 400)
    assert (prepare_text(ready, 0, silent), (ready.folder / MANIFEST).read_bytes())[1] == expected
    assert arrays(tmp_path / "cut") == arrays(tmp_path / "whole")


def flip(path: Path, place: int) -> None:
    """Change one byte."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("harm", "name"),
    [
        (lambda path: flip(path, 700), "ids.npy"),
        (lambda path: flip(path, 300), "sentences.npy"),
        (lambda path: flip(path, 3), "documents.npy"),
        (cut_short, "ids.npy"),
        (Path.unlink, "documents.npy"),
        (lambda path: flip(path, 5), SUMS),
    ],
    ids=["ids", "sentences", "head", "cut short", "gone", "checksums"],
)
def test_damage_is_found_and_only_that_is_made_again(
    harm: Callable[[Path], None],
    name: str,
    source: SourceConfig,
    tokenizer: Tokenizer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifest, folder = prepared(source, tokenizer, tmp_path)
    whole = arrays(tmp_path)
    ready = preparation(source, tokenizer, tmp_path)
    record = read_manifest(folder)
    assert record is not None
    assert not damage(ready, record)
    target = ready.finished_parts(record)["train"]
    harm(target / name)
    assert damage(ready, record)
    text = load_documents(source, tmp_path)
    with pytest.raises(DataError, match="spikelm-prepare"):
        encoded_documents(text, "train", tokenizer, tmp_path)
    assert target.is_dir(), "a run does not throw it away"
    encoded: list[int] = []
    encode = pool.encode_shard
    monkeypatch.setattr(pool, "encode_shard", lambda *args: (encoded.append(1), encode(*args))[1])
    prepare_text(ready, 0, silent)
    assert arrays(tmp_path) == whole
    assert (folder / MANIFEST).read_bytes() == manifest
    assert len(encoded) <= len(record.shards) // 2 or name == "documents.npy"


def test_a_kill_between_the_record_and_the_moves_is_made_good(
    source: SourceConfig, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = prepared(source, tokenizer, tmp_path / "whole")

    def stop(*args: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "seal_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare_text(preparation(source, tokenizer, tmp_path / "cut"), 0, silent)
    ready = preparation(source, tokenizer, tmp_path / "cut")
    assert finished(ready) is None
    monkeypatch.setattr(pool, "encode_shard", stop)
    prepare_text(ready, 0, silent)
    assert (ready.folder / MANIFEST).read_bytes() == expected
    assert arrays(tmp_path / "cut") == arrays(tmp_path / "whole")
    shutil.rmtree(ready.finished_parts(prepare_text(ready, 0, silent))["validation"])
    assert finished(ready) is None, "arrays that somebody removed are made anew"


def test_other_text_is_another_preparation(source: SourceConfig, tokenizer: Tokenizer, tmp_path: Path) -> None:
    ready = preparation(source, tokenizer, tmp_path)
    folders = {
        ready.folder,
        preparation(replace(source, documents=40), tokenizer, tmp_path).folder,
        preparation(source, train_wordpiece(["other words"], 60), tmp_path).folder,
        preparation(source, tokenizer, tmp_path, task_rows=3).folder,
    }
    path = ready.text.files[0][0]
    path.write_text(path.read_text() + "\nOne more.\n")
    folders.add(preparation(source, tokenizer, tmp_path).folder)
    assert len(folders) == 5


def test_rows_of_tasks_lie_behind_the_text(tokenizer: Tokenizer, tmp_path: Path, source: SourceConfig) -> None:
    folder = Path(str(source.root)) / "RTE"
    folder.mkdir()
    rows = [f"{n}\ta cat sat {n}.\tthe mat.\tentailment" for n in range(9)]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n")
    ready = preparation(source, tokenizer, tmp_path / "prepared", task_rows=5)
    manifest = prepare_text(ready, 0, silent)
    text = load_documents(source, tmp_path / "run", task_rows=5)
    assert text.task_rows == 5
    assert manifest.content_hash == text.content_hash == load_documents(source, tmp_path / "prepared", 5).content_hash
    for split in text.splits:
        encoded_documents(text, split, tokenizer, tmp_path / "run")
    assert arrays(tmp_path / "prepared") == arrays(tmp_path / "run")


def test_a_full_disk_says_so_and_the_preparation_goes_on(
    source: SourceConfig, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = prepared(source, tokenizer, tmp_path / "whole")
    write, written = prepare.write_part, 0

    def full(*args: Any) -> Any:
        nonlocal written
        written += 1
        if written > 3:
            raise OSError(28, "No space left on device")
        return write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(prepare, "write_part", full)
        with pytest.raises(SpikeLMError, match=r"cannot write to .*: No space left on device") as told:
            prepare_text(preparation(source, tokenizer, tmp_path / "cut"), 0, silent)
    assert "the same command goes on" in str(told.value)
    assert prepared(source, tokenizer, tmp_path / "cut")[0] == expected


def test_text_of_one_split_alternates_with_the_other_as_the_hub_has_it(tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Every 20th document held out, in a stream with both: the shards have parts of both splits."""
    path = tmp_path / "file.txt"
    path.write_text("stands for a repository")
    documents = [[f"the cat sat on {WORDS[n % 14]}", "and looked at rain in the mat"] * (n % 7 + 1) for n in range(200)]

    def labelled() -> Iterator[tuple[str, list[str]]]:
        for index, document in enumerate(documents):
            yield "validation" if index % 20 == 19 else "train", document

    files = TextFiles([[path]], tmp_path / "hashes" / "fact", labelled, lambda rows: {}, lambda: 200)
    source = SourceConfig(name="hub", documents=1000)
    manifest = prepare_text(Preparation(source, files, tokenizer, tmp_path), 0, silent)
    assert manifest.splits["validation"].counts.documents == 10
    assert sum(len(shard) == 2 for shard in manifest.shards) > 2
    ids = np.load(tmp_path / "encoded" / manifest.splits["validation"].folder / "ids.npy")
    encoded = [tokenizer.encode(s, add_special_tokens=False).ids for d in documents[19::20] for s in d]
    assert ids.tolist() == [id for sentence in encoded for id in sentence]
