"""A teacher's outputs on the training rows, computed once and then mapped from disk (distill.teacher.cache=true)."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from spikelm.data.batches.by_step import Batch, evaluation_batches
from spikelm.data.tokens.encode import EncodedRows
from spikelm.machine.disk import disk_errors
from spikelm.store.checksums import seal_folder, whole_folder
from spikelm.store.hashing import digest
from spikelm.training.distill.students import Teacher

CACHING = 1  # raise when the same teacher and rows no longer give the same arrays
BATCH = 64


class CachedTeacher:
    """Answers like the teacher: logits as they are, hidden states kept as float16 (tokens, layers, hidden)."""

    def __init__(self, teacher: Teacher, teacher_id: str, data: EncodedRows, content: str, cache: Path) -> None:
        self.model = teacher.model
        self.data = data
        folder = cache / "teachers" / digest([CACHING, teacher_id, content, int(data.offsets[-1]), len(data)])
        with disk_errors(cache):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):  # another run waits instead of doing the same
                if not whole_folder(folder):
                    _compute(teacher, data, folder)
        self.logits = torch.from_numpy(np.load(folder / "logits.npy"))
        self.hidden = np.load(folder / "hidden.npy", mmap_mode="r")

    def __call__(self, batch: Batch) -> Any:
        device, length = batch["input_ids"].device, batch["input_ids"].shape[1]
        rows = batch["rows"].tolist()
        states = np.zeros((len(rows), length, *self.hidden.shape[1:]), np.float16)
        for index, row in enumerate(rows):
            start, end = self.data.offsets[row], self.data.offsets[row + 1]
            states[index, : end - start] = self.hidden[start:end]
        layers = torch.from_numpy(states).to(device).float().unbind(2)
        # The embeddings come first in transformers' tuple; no loss looks at them.
        return SimpleNamespace(logits=self.logits[batch["rows"].cpu()].to(device), hidden_states=(None, *layers))


def _compute(teacher: Teacher, data: EncodedRows, folder: Path) -> None:
    """Every row once; the folder appears when both arrays are whole."""
    config = teacher.model.config
    temporary = folder.with_name(f".{folder.name}")
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed: we hold the lock
    temporary.mkdir()
    shape = (int(data.offsets[-1]), config.num_hidden_layers, config.hidden_size)
    hidden = np.lib.format.open_memmap(temporary / "hidden.npy", mode="w+", dtype=np.float16, shape=shape)
    logits = np.zeros((len(data), config.num_labels), np.float32)
    for batch in evaluation_batches(data, BATCH):
        answer = teacher(batch)
        states = torch.stack(answer.hidden_states[1:], dim=2).half().numpy()
        for index, row in enumerate(batch["rows"].tolist()):
            start, end = data.offsets[row], data.offsets[row + 1]
            hidden[start:end] = states[index, : end - start]
            logits[row] = answer.logits[index].float().numpy()
    hidden.flush()
    np.save(temporary / "logits.npy", logits)
    seal_folder(temporary)
    temporary.rename(folder)
