"""What a teacher writes of training sources, generated once and kept (distill.targets=teacher)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from spikelm.data.batches.text_pair_batches import text_pair_batch
from spikelm.data.tokens.encode import EncodedTextPairs
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import write_atomic
from spikelm.store.checksums import broken_seal, file_hash, seal
from spikelm.store.hashing import digest
from spikelm.training.generation import ended

WRITING = 1  # raise when the same teacher and rows no longer give the same texts
BATCH = 32
PART = 8  # batches that are kept together: what an interruption loses at most
Texts = dict[int, list[int]]  # ids by row, </s> included


@dataclass(frozen=True)
class TeacherTexts:
    """A plain model in eval mode, and how it writes."""

    model: Any
    options: Mapping[str, Any]  # of generate()
    most_per_token: float
    most: int  # tokens of a target
    precision: str  # of the training, as trainer.precision has it

    def rewritten(
        self,
        data: EncodedTextPairs,
        rows: Sequence[int],
        tokenizer: TextPairTokenizer,
        identity: str,
        cache: Path,
        progress: Callable[[int, int], None] | None = None,
    ) -> EncodedTextPairs:
        """The pairs with the teacher's texts as the targets of some rows; `identity` names the teacher and the data."""
        told = digest(
            [WRITING, identity, tokenizer.facts, dict(self.options), self.most_per_token, self.most, self.precision]
        )
        folder = cache / "written" / told
        with disk_errors(cache):
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):  # another run waits instead of doing the same
                texts = _kept(folder)
                missing = [row for row in rows if row not in texts]
                if missing and progress:
                    progress(0, len(missing))
                for part in self._parts(data, missing, tokenizer):
                    texts |= part
                    _keep(folder, part)
                    if progress:
                        progress(sum(row in texts for row in missing), len(missing))
        targets = [np.asarray(texts[row], np.int32) if row in texts else data.target(row) for row in range(len(data))]
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in targets])])
        return EncodedTextPairs(data.source_ids, data.source_offsets, np.concatenate(targets), offsets)

    def _parts(self, data: EncodedTextPairs, rows: Sequence[int], tokenizer: TextPairTokenizer) -> Iterator[Texts]:
        """Rows of like length together."""
        lengths = data.source_lengths
        order = sorted(rows, key=lambda row: (int(lengths[row]), row))
        size = BATCH * PART
        for start in range(0, len(order), size):
            part = order[start : start + size]
            texts: Texts = {}
            for first in range(0, len(part), BATCH):
                texts |= self._written(data, part[first : first + BATCH], tokenizer)
            yield texts

    @torch.no_grad()
    def _written(self, data: EncodedTextPairs, rows: Sequence[int], tokenizer: TextPairTokenizer) -> Texts:
        batch = text_pair_batch(data, rows, tokenizer)
        inputs = {name: batch[name].to(self.model.device) for name in ("input_ids", "attention_mask")}
        with self._autocast():
            ids = self.model.generate(**inputs, **self.options, **ended(inputs["attention_mask"], self.most_per_token))
        return {row: self._target(tokens, tokenizer) for row, tokens in zip(rows, ids.tolist(), strict=True)}

    def _target(self, tokens: list[int], tokenizer: TextPairTokenizer) -> list[int]:
        """Without the start token and what follows the end, in the frame of a target."""
        before, after = tokenizer.target_frame
        special = {tokenizer.bos, tokenizer.eos, tokenizer.pad, *before, *after}
        end = tokens.index(tokenizer.eos, 1) if tokenizer.eos in tokens[1:] else len(tokens)
        text = [token for token in tokens[1:end] if token not in special]
        return [*before, *text[: self.most - len(before) - len(after)], *after]

    def _autocast(self) -> AbstractContextManager[Any]:
        half = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(self.precision)
        return torch.autocast(self.model.device.type, half) if half else nullcontext()


def _kept(folder: Path) -> Texts:
    """All parts that are whole."""
    texts: Texts = {}
    for path in sorted(folder.glob("*.json")):
        if not broken_seal(path):
            texts |= {int(row): ids for row, ids in json.loads(path.read_text()).items()}
    return texts


def _keep(folder: Path, texts: Texts) -> None:
    path = folder / f"{digest(sorted(texts))}.json"
    write_atomic(path, json.dumps(texts) + "\n")
    seal(path, file_hash(path))
