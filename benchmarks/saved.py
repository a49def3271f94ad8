"""What autograd keeps for a backward, counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor


def saved_bytes(call: Callable[[], object], owned: Iterable[Tensor] = ()) -> int:
    """Bytes that autograd keeps of `call` for its backward, each storage once, those of `owned` tensors not counted."""
    known = {tensor.untyped_storage().data_ptr() for tensor in owned}
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()  # held until counted: a freed storage would give its address to the next one
    del result
    return sum(sizes.values())
