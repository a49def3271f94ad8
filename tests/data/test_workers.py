"""Worker processes change nothing: the same batches in the same order, from any step on."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from spikelm.data.batches import blocks
from spikelm.data.batches.by_step import Batch, RowBatches, StepBatches
from spikelm.data.batches.mlm_nsp import PretrainingBatches
from spikelm.data.tokens.encode import EncodedRows
from spikelm.data.tokens.packed import PackedDocuments, write_documents
from spikelm.data.tokens.wordpiece import train_wordpiece

DOCUMENTS = 30


def packed(folder: Path) -> PackedDocuments:
    rng = np.random.default_rng(0)
    documents = [[rng.integers(5, 40, 4 + n % 5).astype(np.int32) for n in range(8)] for _ in range(DOCUMENTS)]
    folder.mkdir()
    write_documents(folder, iter([documents[:11], documents[11:]]))
    return PackedDocuments.open(folder)


def rows() -> EncodedRows:
    lengths = np.arange(30) % 7 + 2
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.arange(offsets[-1], dtype=np.int32)
    return EncodedRows(ids, np.zeros_like(ids, np.int8), offsets, np.arange(30))


@pytest.fixture(params=["rows", "pretraining", "pretraining in blocks"])
def batches(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StepBatches:
    if request.param == "rows":
        return RowBatches(rows(), seed=1, batch=4)
    if "blocks" in request.param:
        monkeypatch.setattr(blocks, "BLOCK", 8)
    return PretrainingBatches(packed(tmp_path / "packed"), train_wordpiece(["a few words"], 50), 1, 4, 24)


def same(some: list[Batch], other: list[Batch]) -> bool:
    return len(some) == len(other) and all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(some, other, strict=True)
    )


def test_workers_give_the_very_same_batches(batches: StepBatches) -> None:
    total = batches.steps_per_epoch * 2 + 1  # past the end of an epoch
    alone = list(batches.loader(0, total, workers=0))
    assert len(alone) == total
    assert same(list(batches.loader(0, total, workers=2)), alone)
    for start in (1, batches.steps_per_epoch, total - 3):
        assert same(list(batches.loader(start, total, workers=2)), alone[start:]), "resumed at the exact next batch"


def test_workers_start_where_joblib_has_its_own_way_of_starting_processes() -> None:
    joblib = pytest.importorskip("joblib")
    labels = joblib.Parallel(n_jobs=2)(joblib.delayed(_labels)(workers) for workers in (1, 0))
    assert labels[0] == labels[1]


def _labels(workers: int) -> list[list[int]]:
    return [batch["labels"].tolist() for batch in RowBatches(rows(), seed=1, batch=4).loader(0, 5, workers)]


def test_a_worker_started_anew_maps_the_files(tmp_path: Path) -> None:
    documents = packed(tmp_path / "packed")
    sent = pickle.dumps(documents)
    assert len(sent) < 1000 < documents.ids.nbytes
    again = pickle.loads(sent)
    assert isinstance(again.ids.base, np.memmap)
    assert np.array_equal(again.ids, documents.ids)
    in_memory = PackedDocuments.of(documents)
    assert np.array_equal(pickle.loads(pickle.dumps(in_memory)).sentences, documents.sentences)
