"""A device without data, for tests: tensors that have shape, type and device, on a device that is not the CPU.

`FakeTensorMode` of torch with a Python backend shows on any machine what a GPU would refuse or wait for:

- a tensor on the wrong device is an error of torch;
- a synchronisation (a value that Python reads, a shape that depends on values, a copy between CPU and device) is
  recorded by `Watch`, with the line that asked for it;
- the bytes that are alive, hence the peak of a training step, are counted by `Watch`.

Registering the device changes the process: torch then knows one more backend. It is done in child processes only
(`checks.py`), never in the process of pytest.
"""

from __future__ import annotations

import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import spikelm
from spikelm.spiking import neurons

THIS = ("fake_device.py", "fake_autocast.py")
DEVICE = "fgpu"
backend_registration._setup_privateuseone_for_python_backend(DEVICE)
torch.fgpu.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
torch.fgpu._is_in_bad_fork = lambda: False
torch.fgpu.manual_seed_all = lambda seed: None

aten = torch.ops.aten
COPIES = (aten._to_copy, aten.copy_, aten.copy)
#: operations whose result has as many elements as the values say
DYNAMIC = (aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim, aten.unique_consecutive)


class Watch(TorchDispatchMode):
    """Records the synchronisations on the device, and counts live and peak bytes on it."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[str] = []
        self.live = self.peak = 0
        self._storages: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        packet = func.overloadpacket
        kwargs = kwargs or {}
        if packet is aten._local_scalar_dense:
            if on_device(args[0]):
                self._record("a value is read")
            return 1 if args[0].dtype != torch.bool else False  # False: no layer of a BART is dropped
        if packet is aten.equal and on_device(args[0]):
            self._record("two tensors are compared")
            return True
        if packet in (aten.index, aten.index_put, aten.index_put_, aten._unsafe_index):
            args = (args[0], [self._index(index, args[0]) for index in args[1]], *args[2:])
        if packet in DYNAMIC and on_device(args[0]):
            self._record(f"{packet.__name__} has as many elements as the values say")
            return self._dynamic(packet, args[0])
        out = func(*args, **kwargs)
        if packet in COPIES:
            self._copy(args, out)
        self._count(out)
        return out

    def _index(self, index: Any, x: Tensor) -> Any:
        """A boolean index is recorded, and taken as if all of it were true."""
        if not isinstance(index, Tensor) or not on_device(x):
            return index
        if not on_device(index) and index.dim():
            self._record("an index is copied to the device")
        if index.dtype not in (torch.bool, torch.uint8):
            return index
        self._record("a boolean index")
        if index.dim() > 1:  # one index per axis would be needed: refused, to be seen
            raise ValueError("boolean index of several axes")
        return torch.arange(len(index), device=DEVICE)

    def _dynamic(self, packet: Any, x: Tensor) -> Any:
        if packet is aten.nonzero:
            return torch.empty(x.numel(), x.dim(), dtype=torch.long, device=DEVICE)
        if packet is aten.masked_select:
            return torch.empty(x.numel(), dtype=x.dtype, device=DEVICE)
        return x.flatten(), torch.empty(x.shape, dtype=torch.long, device=DEVICE), torch.empty(0, device=DEVICE)

    def _copy(self, args: tuple, out: Tensor) -> None:
        source = args[1] if len(args) > 1 and isinstance(args[1], Tensor) else args[0]
        if on_device(source) and not on_device(out):
            self._record("a copy to the CPU")
        elif on_device(out) and not on_device(source):
            self._record("a copy from the CPU")

    def _record(self, what: str) -> None:
        self.syncs.append(f"{what}: {asking_line()}")

    def _count(self, out: Any) -> None:
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor) and on_device(tensor):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._storages:
                    self._storages[storage._cdata] = storage.nbytes()
                    self.live += storage.nbytes()
                    self.peak = max(self.peak, self.live)
                    weakref.finalize(storage, self._drop, storage._cdata)

    def _drop(self, key: int) -> None:
        self.live -= self._storages.pop(key, 0)


def on_device(x: Any) -> bool:
    """Whether a tensor lies on the fake device."""
    return isinstance(x, Tensor) and x.device.type == DEVICE


def asking_line() -> str:
    """The innermost line of this project (or its tests), or of transformers, that led to the present operation."""
    own = str(Path(spikelm.__file__).parents[1])
    for frame in reversed(traceback.extract_stack()):
        _, installed, library = frame.filename.partition("site-packages/")
        if library.startswith("transformers/"):
            return f"{library}:{frame.lineno} {frame.line}"
        if not installed and frame.filename.startswith(own) and not frame.filename.endswith(THIS):
            return f"{frame.filename.removeprefix(own)[1:]}:{frame.lineno} {frame.line}"
    return "the backward of torch's autograd"


def on_the_device(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """Fake tensors of the device in place of a model's parameters and buffers; shared ones stay shared.

    Neurons whose amplitude the first batch sets take it as set.
    """
    replaced: dict[int, tuple[Tensor, Tensor]] = {}
    with mode:
        for module in model.modules():
            for table, parameter in ((module._parameters, True), (module._buffers, False)):
                for name, old in list(table.items()):
                    if old is None:
                        continue
                    if id(old) not in replaced:
                        new = torch.empty(old.shape, dtype=old.dtype, device=DEVICE)
                        replaced[id(old)] = (nn.Parameter(new, old.requires_grad) if parameter else new, old)
                    table[name] = replaced[id(old)][0]
    for neuron in neurons(model):
        if hasattr(neuron, "_ready"):
            neuron._ready = True
    return model


def batch_on_device(batch: Any) -> Any:
    """A batch of real CPU tensors as fake tensors of the device; called inside the mode."""
    return tree_map(lambda x: torch.empty(x.shape, dtype=x.dtype, device=DEVICE) if isinstance(x, Tensor) else x, batch)


@contextmanager
def watched(mode: FakeTensorMode) -> Iterator[Watch]:
    """Run inside on fake tensors, watched."""
    with mode, Watch() as watch:
        yield watch


def efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    **_: Any,
) -> Tensor:
    """The kernel that CUDA takes for single precision, masks and dropout: no map is kept for the backward."""
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, -torch.inf)
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, True, dropout_p, is_causal, scale=scale
    )[0]


@contextmanager
def efficient() -> Iterator[None]:
    """torch's attention as CUDA computes it, in place of the plain path that this device would take."""
    before: Callable[..., Tensor] = torch.nn.functional.scaled_dot_product_attention
    torch.nn.functional.scaled_dot_product_attention = efficient_attention  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.nn.functional.scaled_dot_product_attention = before
