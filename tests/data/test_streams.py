"""A corpus larger than memory: read, hashed, tokenised and drawn from in pieces, whatever its size."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spikelm.config.compose import load_config
from spikelm.data.batches import blocks
from spikelm.data.batches.mlm_nsp import PretrainingBatches
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText, content_hash
from spikelm.data.sources.streams import Documents, Stream, chunks, in_turns
from spikelm.data.tokens.cache import encoded_documents
from spikelm.data.tokens.packed import PackedDocuments, write_documents
from spikelm.data.tokens.wordpiece import train_wordpiece

WORDS = "a cat sat on the mat and looked at old red birds"


def generated(count: int) -> Documents:
    """Documents made up as they are asked for: 20 sentences of 12 words."""

    def make() -> Iterator[list[str]]:
        words = WORDS.split()
        for number in range(count):
            yield [" ".join(words[(number * s + w * w) % len(words)] for w in range(12)) for s in range(20)]

    return Documents(make, count)


def peak(count: int, folder: Path) -> tuple[int, int]:
    """Most bytes held while a corpus of `count` documents is hashed, tokenised and read, and the bytes of its ids."""
    tokenizer = train_wordpiece([WORDS], 60)
    documents = generated(count)
    tracemalloc.start()
    text = LoadedText({"train": documents}, content_hash(["train", document] for document in documents))
    packed = encoded_documents(text, "train", tokenizer, folder)
    batches = PretrainingBatches(packed, tokenizer, seed=0, batch=8, max_length=32)
    for step in range(0, batches.steps_per_epoch * 2, batches.steps_per_epoch // 7):
        assert batches[step]["input_ids"].shape[1] <= 32
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(packed) == len(documents) == count
    return most, packed.ids.nbytes


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 100)
    peak(200, tmp_path / "warm")  # imports and caches of the libraries
    small, ids_of_small = peak(200, tmp_path / "small")
    large, ids_of_large = peak(1600, tmp_path / "large")
    assert ids_of_large == 8 * ids_of_small
    assert large - small < 0.1 * (ids_of_large - ids_of_small), (small, large)


def test_a_long_local_file_is_not_held(tmp_path: Path) -> None:
    sentence = "It was a long day and nobody came home. "

    def survey(count: int) -> tuple[int, int]:
        folder = tmp_path / str(count)
        folder.mkdir()
        with (folder / "train.txt").open("w") as file:
            for number in range(count):
                file.write(f"Document {number}. {sentence * 40}\n\n")
        source = load_config(["task=pretrain", "source=local", f"source.root={folder}"]).source
        tracemalloc.start()
        text = load_documents(source, tmp_path / "cache")
        assert sum(1 for _ in text.splits["train"]) == len(text.splits["train"])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(text.splits["train"]) + len(text.splits["validation"]) == count
        return most, (folder / "train.txt").stat().st_size

    survey(60)
    (small, size_of_small), (large, size_of_large) = survey(100), survey(1000)
    assert large - small < 0.1 * (size_of_large - size_of_small)


def test_blocks_hold_every_document_once_an_epoch_and_any_step_can_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 10)
    tokens = np.arange(4, dtype=np.int32)
    packed = PackedDocuments.of([[tokens + 1000 * (d + 1) + 10 * s for s in range(6)] for d in range(35)])
    tokenizer = train_wordpiece(["a few words"], 50)
    batches = PretrainingBatches(packed, tokenizer, 0, 4, 24)
    assert batches.blocks == 4
    for epoch in (0, 1):
        members = [batches._members(epoch, block) for block in range(4)]
        assert sorted(np.concatenate(members).tolist()) == list(range(35))
    assert not np.array_equal(batches._members(0, 0), batches._members(1, 0))
    walked = [batches[step]["input_ids"] for step in range(batches.steps_per_epoch * 2)]
    fresh = PretrainingBatches(packed, tokenizer, 0, 4, 24)
    for step in reversed(range(len(walked))):
        assert (fresh[step]["input_ids"] == walked[step]).all()
    for step in range(4):
        batches._load(step)
        first, stranger = packed.ids[batches._rows[:, 0]] // 1000, packed.ids[batches._rows[:, 2]] // 1000
        assert set(first - 1) <= set(batches._members(0, step).tolist())
        assert ((first != stranger) == batches._rows[:, 4]).all()


def test_chunks_written_one_by_one_are_the_whole(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    documents = [[rng.integers(0, 99, n % 4 + 1).astype(np.int32) for n in range(d % 5 + 1)] for d in range(23)]
    whole = PackedDocuments.of(documents)
    for size in (1, 7, 23, 99):
        folder = tmp_path / str(size)
        folder.mkdir()
        write_documents(folder, chunks(documents, size))
        found = PackedDocuments.open(folder)
        for name in ("ids", "sentences", "documents"):
            arrays = getattr(found, name), getattr(whole, name)
            assert np.array_equal(*arrays)
            assert arrays[0].dtype == arrays[1].dtype
    assert [s.tolist() for s in found[-1]] == [s.tolist() for s in documents[-1]]
    with pytest.raises(IndexError):
        found[23]


def test_streams_take_turns_and_can_be_read_again() -> None:
    assert list(in_turns([iter("abc"), iter("x"), iter("12")])) == ["a", "x", "1", "b", "2", "c"]
    stream = Stream(lambda: iter("ab"))
    assert [list(stream), list(stream)] == [["a", "b"]] * 2
    assert list(chunks("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
