"""Which tokens a loss counts, as indices that are computed on the CPU before a batch goes to its device.

`x[mask]` has as many rows as the mask has true values, so a GPU is waited for until they are counted, forward and
backward. An index of the same places has a size that is known: `rows_at(x, places)` is `x[mask]` to the last digit.
Indices count through the rows of the batch, so they are computed after it has been cut into the shares of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from spikelm.data.batches.by_step import IGNORED, Batch


def where_true(mask: Tensor) -> Tensor:
    """The flat indices of a mask's true values."""
    return mask.flatten().nonzero().squeeze(1)


def _before_a_token(batch: Batch) -> Tensor:
    """Tokens that are followed by a real one."""
    mask = batch["attention_mask"].bool()
    return where_true(torch.nn.functional.pad(mask[:, 1:], (0, 1)))


def replaceable(ids: Tensor, mask: Tensor) -> Tensor:
    """Which tokens are words: neither pads, nor a row's first token, nor like its last ([CLS] and [SEP])."""
    last = ids.gather(1, mask.sum(1, keepdim=True) - 1)
    words = mask.bool() & (ids != last)
    words[:, 0] = False
    return words


FINDERS: dict[str, Callable[[Batch], Tensor]] = {
    "token_places": lambda batch: where_true(batch["attention_mask"]),  # real tokens
    "label_places": lambda batch: where_true(batch["labels"] != IGNORED),  # tokens that have a label
    "next_places": _before_a_token,
    "word_places": lambda batch: where_true(replaceable(batch["input_ids"], batch["attention_mask"])),
}


def with_places(batch: Batch, names: Sequence[str]) -> Batch:
    """The batch with the places of the given names, found on the CPU."""
    return {**batch, **{name: FINDERS[name](batch) for name in names}}


def places(batch: Batch, name: str) -> Tensor:
    """The places of a name that the batch brings, else found where it lies."""
    return batch[name] if name in batch else FINDERS[name](batch)


def rows_at(x: Tensor, indices: Tensor) -> Tensor:
    """Of x (B, n, ...) the tokens at the given places, (places, ...)."""
    return x.flatten(0, 1).index_select(0, indices)
