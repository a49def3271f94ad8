"""Autocast on the fake device with CUDA's rules: which operations take half precision, and which single."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

KEY = torch._C.DispatchKey.AutocastPrivateUse1
#: as ATen's lists for CUDA (aten/src/ATen/autocast_mode.h), as far as models here use them
HALF = ("linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "scaled_dot_product_attention")
SINGLE = (
    "layer_norm",
    "nll_loss",
    "mse_loss",
    "kl_div",
    "cosine_similarity",
    "exp",
    "log",
    "pow.Tensor_Scalar",
    "norm.Scalar",
)
SINGLE_RESULT = ("softmax.int", "log_softmax.int", "sum", "sum.dim_IntList", "cumsum")

_library = torch.library.Library("aten", "IMPL")  # registrations live as long as it does
_rest = torch.library.Library("_", "IMPL")
_halves: dict[int, tuple[Tensor, Tensor]] = {}  # of leaves, as torch's autocast caches them


def _half(x: Any) -> Any:
    if not isinstance(x, Tensor) or x.dtype != torch.float32:
        return x
    dtype = torch.get_autocast_dtype("fgpu")
    if not (x.is_leaf and x.requires_grad):
        return x.to(dtype)
    if id(x) not in _halves or _halves[id(x)][0] is not x:
        _halves[id(x)] = (x, x.to(dtype))
    return _halves[id(x)][1]


def _single(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.bfloat16, torch.float16) else x


def _register(name: str, cast: Any) -> None:
    packet, _, overload = name.partition(".")
    operation = getattr(getattr(torch.ops.aten, packet), overload or "default")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(KEY)):
            return operation(*tree_map(cast, args), **tree_map(cast, kwargs))

    _library.impl(name, kernel, "AutocastPrivateUse1")


def forget() -> None:
    """What leaving torch's autocast does to its cache."""
    _halves.clear()


_rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
for _name in HALF:
    _register(_name, _half)
for _name in (*SINGLE, *SINGLE_RESULT):
    _register(_name, _single)
