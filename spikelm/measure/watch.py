"""Catch every matmul of a forward pass on its way to the backend and look at its operands; note the other operators.

Spikes hold at most {-a_t, 0, a_t} at each time step t, so a matmul with spikes on one side needs additions
only. Nothing is taken from how a model was built. A neuron that unfolds into several spikes is asked for them: they
are looked at in the same way, and only if they add up to what it gave are the products that read it spike-driven.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from spikelm.neurons import Neuron
from spikelm.operators import Operator, ScoreOperator
from spikelm.operators.operator import Arithmetic, all_powers
from spikelm.spiking.kv_cache import StoredCode
from spikelm.spiking.rotation import Rotation

#: backend operations that multiply two matrices, and where their operands are
_OPERANDS = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "vdot", "convolution", "_int_mm", "_scaled_mm"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"), (1, 2)),
}
#: operations that multiply inside without showing their operands: counted as real-valued
_OPAQUE = (
    "_trilinear",
    "mkldnn_rnn_layer",
    "_cudnn_rnn",
    "_native_multi_head_attention",
    "_transformer_encoder_layer_fwd",
)
_COPIES = ("clone", "_to_copy", "_unsafe_view", "index_select")
#: a_t * s is exact in any float format; this forgives a rescaling on the way (SDPA may split its 1/sqrt(d))
_TOLERANCE = 1e-6

_Known = tuple[str, Arithmetic, str]
_SOFTMAX: _Known = ("softmax", "real-valued", "exponentials and divisions")
_RMS_NORM: _Known = ("RMSNorm", "real-valued", "a mean of squares, a square root and a division a token")
_LAYER_NORM: _Known = ("LayerNorm", "real-valued", "a mean, a variance, a square root and a division a token")
_GATE: _Known = ("product with the gate", "real-valued", "a multiplication a value")
_BATCH_NORM: _Known = ("BatchNorm", "real-valued", "a scale for each channel, which a linear before it could take up")
#: backend operations that are operators of a model: their name, their arithmetic and what they do at inference
_OPERATORS: dict[str, _Known] = {
    **dict.fromkeys(("_softmax", "_safe_softmax"), _SOFTMAX),
    "native_layer_norm": _LAYER_NORM,
    "_fused_rms_norm": _RMS_NORM,
    "native_group_norm": ("GroupNorm", "real-valued", "a mean, a variance, a square root and a division a group"),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"), _BATCH_NORM),
    "gelu": ("GELU", "real-valued", "the error function and a multiplication"),
    "silu": ("SiLU", "real-valued", "an exponential, a division and a multiplication"),
    "sigmoid": ("sigmoid", "real-valued", "an exponential and a division"),
    "tanh": ("tanh", "real-valued", "exponentials and a division"),
    "exp": ("exp", "real-valued", "an exponential"),
    "relu": ("ReLU", "shifts and additions", "a comparison"),
}

Part = Literal["encoder", "neuron", "outside"]
Stack = list[tuple[str, nn.Module]]


@dataclass(frozen=True)
class Row:
    """One matmul: where it ran, what it multiplied, and which operand (if any) holds spikes."""

    module: str
    kind: str  # linear, query x key, attention x value, opaque
    op: str
    shapes: tuple[tuple[int, ...], ...]
    macs: int
    part: Part
    operand: str | None  # input (of a linear), left, right, both; with ", summed" or ", unfolded": a sum of spikes
    rate: float | None  # share of non-zero values of the spike operand (the sparser of two), or spikes per value
    silent: bool  # the spike operand is all zero: addition only, but nothing is transmitted

    @property
    def spike_driven(self) -> bool:
        return self.operand is not None


@dataclass(frozen=True)
class OperatorRow:
    """One operator that is no matmul: where it ran, and which arithmetic it needs at inference."""

    module: str
    name: str
    arithmetic: Arithmetic
    does: str
    part: Part


def spike_rate(x: Tensor, T: int) -> float | None:
    """Share of non-zero values of a tensor (T*B, ...) that holds {-a_t, 0, a_t} only; None for any other."""
    steps = T if x.dim() and x.shape[0] % T == 0 else 1
    values = x.reshape(steps, -1)
    if values.shape[1] <= 2:  # too few values to tell a level from a coincidence
        return None
    size = values.abs()
    high, low = size.amax(1), size.masked_fill(size == 0, torch.inf).amin(1)
    one_level = torch.isfinite(high) & (high <= low * (1 + _TOLERANCE))
    constant = (values.amax(1) == values.amin(1)) & (high > 0)  # one value everywhere says nothing
    return float((values != 0).double().mean()) if one_level.all() and not constant.all() else None


def sum_rate(x: Tensor, most: int) -> float | None:
    """Spikes per value of a tensor that adds up to `most` spikes: whole numbers from 0 on; None for any other.

    W (s_1 + s_2 + ...) is W s_1 + W s_2 + ...: additions only, as many as there are spikes.
    """
    if most < 2 or not x.is_floating_point() or x.numel() <= 2 or bool((x == x.flatten()[0]).all()):
        return None
    whole = (x >= 0) & (x <= most) & (x == x.round())
    return float(x.double().mean()) if bool(whole.all()) else None


def unfolded_rate(neuron: Neuron, x: Tensor, output: Tensor) -> float | None:
    """Spikes per value of a neuron's output by its own unfolding; None if that is not what it gave.

    Each virtual step must hold {-a, 0, a} only, a for each time step (or token, where the neuron says so), and the
    steps must add up to the output.
    """
    return steps_rate(neuron.unfolded_parts(x), output, neuron.per_token)


def steps_rate(parts: Iterable[Tensor], output: Tensor, per_token: bool) -> float | None:
    """Spikes per value of an output (T, ...) that is the sum of virtual steps, some at a time; None if it is not."""
    total, fired, many = torch.zeros_like(output), output.new_zeros((), dtype=torch.double), 0
    one_height = output.new_ones((), dtype=torch.bool)
    for steps in parts:  # (V, T, ...)
        if steps.shape[1:] != output.shape:
            return None
        size = steps.abs() if per_token else steps.abs().flatten(2)
        high = size.amax(-1, keepdim=True)
        one_height &= torch.isfinite(high).all() & ((size == 0) | (size >= high * (1 - _TOLERANCE))).all()
        total, many = total + steps.sum(0), many + len(steps)
        fired += (steps != 0).sum()
    largest = output.abs().amax().clamp_min(torch.finfo(output.dtype).tiny)
    same = (total - output).abs().amax() <= 4 * torch.finfo(output.dtype).eps * largest * many
    return float(fired / output.numel()) if bool(one_height & same) else None


@contextmanager
def module_stack(model: nn.Module) -> Iterator[Stack]:
    """The modules that are executing, outermost first, while inside the `with`."""
    stack: Stack = []
    handles = []
    for name, module in model.named_modules():

        def enter(module: nn.Module, args: tuple, name: str = name) -> None:
            stack.append((name, module))

        def leave(module: nn.Module, args: tuple, output: Any) -> None:
            stack.pop()

        handles.append(module.register_forward_pre_hook(enter, prepend=True))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


class MatmulWatch(TorchDispatchMode):
    """Collect a Row for every matmul that runs while it is on.

    Two kinds of tensors can look like spikes and are none, so they are followed: weights and all that is
    computed from weights alone (1-bit weights have one magnitude), and softmax outputs (uniform if the
    scores are: the positions that are not masked then share one value). Sums of unfolded spikes look like real values
    and are none: they are followed from the neuron to the product, through views, copies and a scaling.
    """

    def __init__(self, model: nn.Module, T: int, stack: Stack, prefixes: tuple[str, ...], most: int = 1) -> None:
        super().__init__()
        self.most = most  # spikes that a residual may have added up
        self.rows: list[Row] = []
        self.operators: list[OperatorRow] = []
        self.T, self.stack, self.prefixes = T, stack, prefixes
        self.weights = WeakTensorKeyDictionary(dict.fromkeys((*model.parameters(), *model.buffers())))
        self.softmaxes = WeakTensorKeyDictionary()
        self.codes = WeakTensorKeyDictionary()  # what a neuron gave that unfolds -> its spikes per value
        self.joined = WeakTensorKeyDictionary()  # codes beside other values -> (first channel, channels, rate) of each

    def fired(self, neuron: Any, args: tuple, output: Tensor) -> None:
        """Look at the spikes of which a neuron's output is the sum; a forward hook of neurons that unfold."""
        rate = unfolded_rate(neuron, args[0], output)
        if rate is not None:
            self.codes[output] = rate

    def operated(self, name: str, operator: Any, args: tuple, output: Tensor) -> None:
        """Look at what an operator gave that stands in place of the model's own; a forward hook of such operators."""
        if isinstance(operator, ScoreOperator):
            self.softmaxes[output] = None
        row = OperatorRow(name, operator.title, operator.arithmetic, operator.does, self._part(name))
        if operator.gives_powers and not bool(all_powers(output)):
            row = replace(row, arithmetic="real-valued", does="its output holds other values than powers of two")
        self.operators.append(row)

    def turned(self, name: str, rotation: Rotation, args: tuple, output: Tensor) -> None:
        """Note a rotation; a forward hook of them. Its products with signs are additions, but of real values."""
        does = "additions and subtractions, and one scaling a value"
        self.operators.append(OperatorRow(name, "rotation", "real-valued", does, self._part(name)))

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        with self:
            # Composites (linear, matmul, SDPA) arrive whole under inference mode; take them apart here too.
            out = func.decompose(*args, **kwargs)
        if out is not NotImplemented:
            return out
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if self.stack and isinstance(self.stack[-1][1], Rotation):
            return out  # noted as a whole
        if name in _OPERANDS:
            left, right = (args[position] for position in _OPERANDS[name])
            self._matmul(name, left, right, _macs(name, left, right, out))
        elif name.startswith("_scaled_dot_product"):
            self._attention(name, *args[:3])
        elif name in _OPAQUE:
            self._add(name, "opaque", [], 0, {})
        self._operator(name)
        self._follow(func, name, args, kwargs, out)
        return out

    def _operator(self, op: str) -> None:
        """An operation of the backend that is an operator of the model: not one inside a neuron or another operator."""
        found = _SOFTMAX if op.startswith("_scaled_dot_product") else _OPERATORS.get(op) or self._written_out(op)
        if found and not any(isinstance(module, Neuron | Operator) for _, module in self.stack):
            path = self.stack[-1][0] if self.stack else ""
            self.operators.append(OperatorRow(path, *found, self._part(path)))

    def _written_out(self, op: str) -> _Known | None:
        """What transformers writes out in elementary operations, told by one of them and the class it ran in."""
        owner = type(self.stack[-1][1]).__name__ if self.stack else ""
        if op == "rsqrt" and owner.endswith("Norm"):
            return _LAYER_NORM if owner.endswith("LayerNorm") else _RMS_NORM
        return _GATE if op == "mul" and owner.endswith("MLP") else None

    def _follow(self, func: Any, name: str, args: tuple, kwargs: dict, out: Any) -> None:
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        outputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        if inputs and all(tensor in self.weights for tensor in inputs):
            self.weights.update(dict.fromkeys(outputs))
        if func._schema.is_mutable:
            self._forget_written(func, args, kwargs)
        else:
            self._follow_codes(func, name, inputs, outputs)
        copied = (func.is_view or name in _COPIES) and inputs[0] in self.softmaxes
        if name in ("_softmax", "_safe_softmax") or copied:
            self.softmaxes.update(dict.fromkeys(outputs))

    def _follow_codes(self, func: Any, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        for tensor in inputs:
            self._look_into_cache(tensor)
        if func.is_view and inputs[0] in self.joined:
            self._take_apart(inputs[0], outputs)
        codes = [tensor for tensor in inputs if tensor in self.codes]
        if not codes:
            return
        if (
            func.is_view
            or name in _COPIES
            or (name in ("mul", "div") and inputs[0] is codes[0] and all(other.dim() == 0 for other in inputs[1:]))
        ):
            self.codes.update(dict.fromkeys(outputs, self.codes[codes[0]]))
        elif name == "cat" and len(codes) == len(inputs):  # of past and new tokens
            values = sum(tensor.numel() for tensor in codes)
            self.codes[outputs[0]] = sum(self.codes[tensor] * tensor.numel() for tensor in codes) / max(values, 1)
        elif name == "cat" and sum(tensor.shape[-1] for tensor in inputs) == outputs[0].shape[-1]:
            first = itertools.accumulate((tensor.shape[-1] for tensor in inputs), initial=0)
            self.joined[outputs[0]] = [
                (at, x.shape[-1], self.codes.get(x)) for at, x in zip(first, inputs, strict=False)
            ]

    def _forget_written(self, func: Any, args: tuple, kwargs: dict) -> None:
        """What was written to, maybe through a view, is no longer what a neuron gave."""
        named = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        writes = (argument.name for argument in func._schema.arguments if argument.is_write)
        changed = [leaf for leaf in tree_leaves([named.get(name) for name in writes]) if isinstance(leaf, Tensor)]
        storages = {tensor.untyped_storage().data_ptr() for tensor in changed}
        for tensor in [tensor for tensor in self.codes if tensor.untyped_storage().data_ptr() in storages]:
            self.codes.pop(tensor)

    def _look_into_cache(self, tensor: Tensor) -> None:
        """Whole numbers that were read back from a cache are looked at as their neuron writes them."""
        stored = getattr(tensor, "stored", None)
        if isinstance(stored, StoredCode) and tensor not in self.codes:
            rate = steps_rate([stored.written()], tensor, stored.neuron.per_token)
            if rate is not None:
                self.codes[tensor] = rate

    def _take_apart(self, whole: Tensor, parts: list[Tensor]) -> None:
        """A view of just one of the parts that were put side by side is that part again (GPT-2's q, k and v)."""
        for part in parts:
            at = part.storage_offset() - whole.storage_offset()
            for first, channels, rate in self.joined[whole]:
                same = part.dim() == whole.dim() and part.shape[:-1] == whole.shape[:-1]
                if rate is not None and same and (at, part.shape[-1]) == (first, channels):
                    self.codes[part] = rate

    def _attention(self, op: str, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Fused attention is two matmuls; the weights between them never leave the kernel and are real."""
        self._matmul(op, query, key, query.numel() * key.shape[-2])
        weights = torch.empty((*query.shape[:-1], key.shape[-2]), device="meta")
        self.softmaxes[weights] = None
        self._matmul(op, weights, value, weights.numel() * value.shape[-1])

    def _matmul(self, op: str, left: Tensor, right: Tensor, macs: int) -> None:
        active = {side: x for side, x in (("left", left), ("right", right)) if x not in self.weights}
        if len(active) == 2:
            kind = "attention x value" if left in self.softmaxes else "query x key"
        else:
            kind, active = "linear", dict(zip(["input"], active.values(), strict=False))
        rates = {side: None if x in self.softmaxes else spike_rate(x, self.T) for side, x in active.items()}
        spikes = {side: rate for side, rate in rates.items() if rate is not None}
        if not spikes:
            spikes = {f"{side}, unfolded": self.codes[x] for side, x in active.items() if x in self.codes}
        if not spikes and kind == "linear":
            sums = {f"{side}, summed": sum_rate(x, self.most) for side, x in active.items()}
            spikes = {side: rate for side, rate in sums.items() if rate is not None}
        self._add(op, kind, [left, right], macs, spikes)

    def _add(self, op: str, kind: str, operands: list[Tensor], macs: int, spikes: dict[str, float]) -> None:
        path = self.stack[-1][0] if self.stack else ""
        part = "neuron" if any(isinstance(module, Neuron) for _, module in self.stack) else self._part(path)
        operand = "both" if len(spikes) == 2 else next(iter(spikes), None)
        rate = min(spikes.values(), default=None)
        shapes = tuple(tuple(tensor.shape) for tensor in operands)
        self.rows.append(Row(path, kind, op, shapes, macs, part, operand, rate, silent=rate == 0))

    def _part(self, path: str) -> Part:
        return "encoder" if any(f".{prefix}." in f".{path}." for prefix in self.prefixes) else "outside"


def _macs(op: str, left: Tensor, right: Tensor, out: Tensor) -> int:
    if op == "convolution":  # every output value (or input value, if transposed) meets one filter
        return max(left.numel() // left.shape[1] * right.shape[0], out.numel()) * right[0].numel()
    return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)
