"""Catch every matmul of a forward pass on its way to the backend: look at its operands, and count what they hold.

Spikes hold at most {-a_t, 0, a_t} at each time step t, so a matmul with spikes on one side needs additions
only. Nothing is taken from how a model was built. A neuron that unfolds into several spikes is asked for them: they
are looked at in the same way, and only if they add up to what it gave are the products that read it spike-driven.
The other operators are noted as well. The audit and the energy card are made of what is seen here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from spikelm.catalog.counts import TOGETHER, Kind, NeuronCount, Part, ProductCount, Reads
from spikelm.neurons import Neuron
from spikelm.neurons.unfolding.coded import CodedNeuron
from spikelm.operators import Operator, ScoreOperator
from spikelm.operators.operator import Arithmetic, all_powers
from spikelm.spiking.kv_cache import StoredCode
from spikelm.spiking.rotation import Rotation
from spikelm.spiking.sites import ARCHITECTURES

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
_ANY = 1 << 20  # more levels than a neuron has that says how many

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


@dataclass(frozen=True)
class Frame:
    """A module that is executing, and the first axis of what it was given."""

    name: str
    module: nn.Module
    leading: int
    values: int


Stack = list[Frame]


@dataclass(frozen=True)
class Row:
    """One matmul: where it ran, what it multiplied, and which operand (if any) holds spikes."""

    count: ProductCount
    op: str
    shapes: tuple[tuple[int, ...], ...]
    operand: str | None  # input (of a linear), left, right, both; with ", summed" or ", unfolded": a sum of spikes
    rate: float | None  # share of non-zero values of the spike operand (the sparser of two), or spikes per value
    silent: bool  # the spike operand is all zero: addition only, but nothing is transmitted

    @property
    def module(self) -> str:
        return self.count.module

    @property
    def kind(self) -> Kind:
        return self.count.kind

    @property
    def part(self) -> Part:
        return self.count.part

    @property
    def macs(self) -> int:
        return self.count.macs

    @property
    def spike_driven(self) -> bool:
        return self.operand is not None


@dataclass(frozen=True)
class Code:
    """What a tensor is that unfolds into spikes."""

    rate: float  # spikes per value
    virtual_steps: int
    levels: int  # values that the spikes of one time step can add up to


@dataclass(frozen=True)
class Operand:
    """One side of a product whose values are activations."""

    tensor: Tensor
    code: Code | None  # None of real values
    word: str  # how a row calls it: input, "right, unfolded"


@dataclass(frozen=True)
class OperatorRow:
    """One operator that is no matmul: where it ran, and which arithmetic it needs at inference."""

    module: str
    name: str
    arithmetic: Arithmetic
    does: str
    part: Part
    values: int  # that it gave
    steps: int  # time steps among them


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


@dataclass(frozen=True)
class Unfolding:
    """What was seen of the virtual steps of a neuron's output."""

    virtual_steps: int
    events: int
    signed: bool  # some spikes are negative
    alike: bool  # all virtual steps are of one height
    rate: float | None  # spikes a value; None if the steps are no spikes, or do not add up to the output


def look_at_steps(parts: Iterable[Tensor], output: Tensor, per_token: bool) -> Unfolding:
    """Look at the virtual steps (V, T, ...) of an output (T, ...), some at a time.

    Each must hold {-a, 0, a} only, a for each time step (or token, where the neuron says so), and they must add up to
    the output.
    """
    total, events, many = torch.zeros_like(output), output.new_zeros((), dtype=torch.long), 0
    one_height, signed = output.new_ones((), dtype=torch.bool), output.new_zeros((), dtype=torch.bool)
    fits, heights = True, []
    for steps in parts:
        size = steps.abs() if per_token else steps.abs().flatten(2)
        high = size.amax(-1, keepdim=True)
        one_height &= torch.isfinite(high).all() & ((size == 0) | (size >= high * (1 - _TOLERANCE))).all()
        signed |= (steps < 0).any()
        events += (steps != 0).sum()
        heights.append(steps.abs().flatten(1).amax(1))
        many += len(steps)
        fits = steps.shape[1:] == output.shape
        if not fits:
            break
        total = total + steps.sum(0)
    spikes = fits and bool(one_height) and _equal(total, output, many)
    fired = torch.cat(heights)
    fired = fired[fired > 0]
    alike = not len(fired) or bool(fired.amax() <= fired.amin() * (1 + 1e-3))
    rate = int(events) / output.numel() if spikes else None
    return Unfolding(many, int(events), bool(signed), alike, rate)


def _equal(total: Tensor, output: Tensor, many: int) -> bool:
    """But for the rounding of a sum of so many."""
    largest = output.abs().amax().clamp_min(torch.finfo(output.dtype).tiny)
    return bool((total - output).abs().amax() <= 4 * torch.finfo(output.dtype).eps * largest * many)


@contextmanager
def module_stack(model: nn.Module) -> Iterator[Stack]:
    """The modules that are executing, outermost first, while inside the `with`."""
    stack: Stack = []
    handles = []
    for name, module in model.named_modules():

        def enter(module: nn.Module, args: tuple, kwargs: dict, name: str = name) -> None:
            given = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.dim())
            first = next(given, None)
            stack.append(Frame(name, module, *((0, 0) if first is None else (first.shape[0], first.numel()))))

        def leave(module: nn.Module, args: tuple, output: Any) -> None:
            stack.pop()

        handles.append(module.register_forward_pre_hook(enter, prepend=True, with_kwargs=True))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


class MatmulWatch(TorchDispatchMode):
    """Collect a Row for every matmul that runs while it is on, and what neurons and other operators gave.

    Two kinds of tensors can look like spikes and are none, so they are followed: weights and all that is
    computed from weights alone (1-bit weights have one magnitude), and softmax outputs (uniform if the
    scores are: the positions that are not masked then share one value). Sums of unfolded spikes look like real values
    and are none: they are followed from the neuron to the product, through views, copies and a scaling.
    """

    def __init__(
        self,
        model: nn.Module,
        T: int,
        stack: Stack,
        prefixes: tuple[str, ...],
        most: int = 1,
        inputs: int = 1,
        decodes: bool = False,
    ) -> None:
        super().__init__()
        self.most = most  # spikes that a residual may have added up
        self.inputs = inputs  # rows of the batch
        self.decodes = decodes  # from a cache
        self.rows: list[Row] = []
        self.operators: list[OperatorRow] = []
        self.neurons: dict[str, NeuronCount] = {}  # by site
        self.looked_up = 0  # values of embeddings
        self.T, self.stack, self.prefixes = T, stack, prefixes
        self.weights = WeakTensorKeyDictionary(dict.fromkeys((*model.parameters(), *model.buffers())))
        self.softmaxes = WeakTensorKeyDictionary()
        self.codes = WeakTensorKeyDictionary()  # what a neuron gave that unfolds -> its Code
        self.joined = WeakTensorKeyDictionary()  # codes beside other values -> (first channel, channels, Code) of each
        self.repeated = WeakTensorKeyDictionary()  # what holds each value several times -> how often

    def fired(self, name: str, neuron: Any, args: tuple, output: Any) -> None:
        """Count the spikes of a neuron, ours or another library's; a forward hook.

        Of one that unfolds, look at the spikes of which its output is the sum.
        """
        given = next(leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor))
        virtual_steps, events, signed = 1, int((given != 0).sum()), bool((given < 0).any())
        if isinstance(neuron, Neuron) and neuron.unfolds:
            seen = look_at_steps(neuron.unfolded_parts(args[0]), given, neuron.per_token)
            virtual_steps, events, signed = seen.virtual_steps, seen.events, seen.signed
            if seen.rate is not None:
                self.codes[given] = Code(seen.rate, virtual_steps, levels_of(neuron, seen))
        site = getattr(neuron, "site", "") or name
        stateful = bool(getattr(neuron, "memory", True)) and (self.T > 1 or not isinstance(neuron, Neuron))
        silent = int((given == 0).sum())
        count = NeuronCount(site, given.numel(), events, silent, virtual_steps, stateful, signed)
        self.neurons[site] = self.neurons[site].plus(count) if site in self.neurons else count

    def operated(self, name: str, operator: Any, args: tuple, output: Tensor) -> None:
        """Look at what an operator gave that stands in place of the model's own; a forward hook of such operators."""
        if isinstance(operator, ScoreOperator):
            self.softmaxes[output] = None
        values = output.numel()
        steps = self.T if self._folded else 1
        row = OperatorRow(name, operator.title, operator.arithmetic, operator.does, self._part(name), values, steps)
        if operator.gives_powers and not bool(all_powers(output)):
            row = replace(row, arithmetic="real-valued", does="its output holds other values than powers of two")
        self.operators.append(row)

    def turned(self, name: str, rotation: Rotation, args: tuple, output: Tensor) -> None:
        """Note a rotation; a forward hook of them. Its products with signs are additions, but of real values."""
        does, steps = "additions and subtractions, and one scaling a value", self.T if self._folded else 1
        row = OperatorRow(name, "rotation", "real-valued", does, self._part(name), output.numel(), steps)
        self.operators.append(row)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        with self:
            # Composites (linear, matmul, SDPA) arrive whole under inference mode; take them apart here too.
            out = func.decompose(*args, **kwargs)
        if out is not NotImplemented:
            return out
        out = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if self.stack and isinstance(self.stack[-1].module, Rotation):
            return out  # noted as a whole
        if name in _OPERANDS:
            left, right = (args[position] for position in _OPERANDS[name])
            pairs = Pairs(left, right) if name != "convolution" else Pairs(left, right, args[3:])
            self._matmul(name, left, right, _macs(left, right, out, pairs), pairs, out)
        elif name.startswith("_scaled_dot_product"):
            self._attention(name, *args[:3])
        elif name in _OPAQUE:
            self._add(name, "opaque", [], 0, {})
        elif name == "embedding":
            self.looked_up += out.numel()
        self._operator(name, args, out)
        self._follow(func, name, args, kwargs, out)
        return out

    def _operator(self, op: str, args: tuple, out: Any) -> None:
        """An operation of the backend that is an operator of the model: not one inside a neuron or another operator."""
        if any(isinstance(frame.module, Operator) or is_neuron(frame.module) for frame in self.stack):
            return
        frame = self.stack[-1] if self.stack else Frame("", nn.Identity(), 0, 0)
        values = next((leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)), 0)
        if op.startswith("_scaled_dot_product"):
            query, key = args[:2]
            found, values = _SOFTMAX, query.numel() // query.shape[-1] * key.shape[-2]
        elif op in _OPERATORS:
            found = _OPERATORS[op]
        elif (written := self._written_out(op)) is not None:
            found, values = written, frame.values if op == "rsqrt" else values
        else:
            return
        steps = self.T if self._folded else 1
        self.operators.append(OperatorRow(frame.name, *found, self._part(frame.name), values, steps))

    def _written_out(self, op: str) -> _Known | None:
        """What transformers writes out in elementary operations, told by one of them and the class it ran in."""
        owner = type(self.stack[-1].module).__name__ if self.stack else ""
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
        copied = bool(inputs) and (func.is_view or name in _COPIES)
        if name in ("_softmax", "_safe_softmax") or (copied and inputs[0] in self.softmaxes):
            self.softmaxes.update(dict.fromkeys(outputs))
        if copied:
            times = self.repeated.get(inputs[0], 1)
            if name == "expand":
                times *= max(1, outputs[0].numel() // max(1, inputs[0].numel()))
            if times > 1:
                self.repeated.update(dict.fromkeys(outputs, times))

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
            spikes = sum(self.codes[tensor].rate * tensor.numel() for tensor in codes)
            longest = max((self.codes[tensor] for tensor in codes), key=lambda code: code.levels)
            self.codes[outputs[0]] = replace(longest, rate=spikes / max(values, 1))
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
            seen = look_at_steps([stored.written()], tensor, stored.neuron.per_token)
            if seen.rate is not None:
                self.codes[tensor] = Code(seen.rate, seen.virtual_steps, levels_of(stored.neuron, seen))

    def _take_apart(self, whole: Tensor, parts: list[Tensor]) -> None:
        """A view of just one of the parts that were put side by side is that part again (GPT-2's q, k and v)."""
        for part in parts:
            at = part.storage_offset() - whole.storage_offset()
            for first, channels, code in self.joined[whole]:
                same = part.dim() == whole.dim() and part.shape[:-1] == whole.shape[:-1]
                if code is not None and same and (at, part.shape[-1]) == (first, channels):
                    self.codes[part] = code

    def _attention(self, op: str, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Fused attention is two matmuls; the weights between them never leave the kernel and are real."""
        scores = torch.empty((*query.shape[:-1], key.shape[-2]), device="meta")
        self.softmaxes[scores] = None
        given = torch.empty((*query.shape[:-1], value.shape[-1]), device="meta")
        macs = query.numel() * key.shape[-2]
        self._matmul(op, query, key, macs, Pairs(query, key, transposed=True), scores, "query x key")
        macs = scores.numel() * value.shape[-1]
        self._matmul(op, scores, value, macs, Pairs(scores, value), given, "attention x value")

    def _matmul(
        self, op: str, left: Tensor, right: Tensor, macs: int, pairs: Pairs, out: Tensor, kind: Kind | None = None
    ) -> None:
        active = {side: x for side, x in (("left", left), ("right", right)) if x not in self.weights}
        if len(active) == 2:
            kind = kind or ("attention x value" if left in self.softmaxes else "query x key")
        else:
            kind, active = "linear", dict(zip(["input"], active.values(), strict=False))
        sides, reads = self._spikes(active, kind)
        spikes = {one.word: one.code.rate for one in sides if one.code}
        count = self._count(kind, reads, sides, left, right, macs, pairs, out)
        self._add(op, kind, [left, right], macs, spikes, count)

    def _spikes(self, active: dict[str, Tensor], kind: Kind) -> tuple[list[Operand], Reads]:
        """The activations of a product, and in which way (if any) some of them are spikes."""
        rates = {side: None if x in self.softmaxes else spike_rate(x, self.T) for side, x in active.items()}
        found: dict[str, Code] = {
            side: Code(rate, 1, 3 if bool((active[side] < 0).any()) else 2)
            for side, rate in rates.items()
            if rate is not None
        }
        reads: Reads = "spikes"
        word = ""
        if not found:
            found = {side: self.codes[x] for side, x in active.items() if x in self.codes}
            reads, word = "unfolded spikes", ", unfolded"
        if not found and kind == "linear":
            sums = {side: sum_rate(x, self.most) for side, x in active.items()}
            found = {side: Code(rate, self.most, self.most + 1) for side, rate in sums.items() if rate is not None}
            reads, word = "summed spikes", ", summed"
        operands = [
            Operand(x, found.get(side), f"{side}{word}" if side in found else side) for side, x in active.items()
        ]
        return operands, reads if found else "real values"

    def _count(
        self,
        kind: Kind,
        reads: Reads,
        sides: list[Operand],
        left: Tensor,
        right: Tensor,
        macs: int,
        pairs: Pairs,
        out: Tensor,
    ) -> ProductCount:
        """What a product takes; `_add` says where it ran."""
        codes = [one for one in sides if one.code]
        steps = self.T if self._folded else 1
        code: Code | None = None
        if codes:  # of two that spike, the sparser one decides
            spiking = min(codes, key=lambda one: one.code.rate if one.code else 0.0)
            code = spiking.code
            assert code is not None
            values = spiking.tensor.numel()
            events = round(code.rate * values)
            active = round(code.rate * macs)
            distinct = round(_distinct(spiking.tensor, steps) / max(values, 1) * macs)
            levels = code.levels
            side = right if spiking.tensor is right else left
        else:
            side = sides[0].tensor if sides else left
            events = side.numel() if side.is_meta else int((side != 0).sum())
            active = pairs.not_zero(None if len(sides) == 2 else side)
            distinct, levels = active, 0
        # Weights stay for all steps of a vector; keys, values and queries are others at each step.
        over_time = pairs.fetched(side, steps)
        fetched = over_time if kind == "linear" else pairs.fetched(side, 1)
        held = [x for x in (left, right, out) if not x.is_meta]
        known = [one for one in sides if not one.tensor.is_meta]
        return ProductCount(
            module="",
            kind=kind,
            part="outside",
            reads=reads,
            hooked=False,
            unit=all(bool(_is_unit(one.tensor)) for one in known) and len(known) == len(sides),
            signed=any(bool((one.tensor < 0).any()) for one in codes),
            cached=self.decodes and kind != "linear" and _keys(kind, left, right, pairs) > left.shape[-2],
            steps=1,
            levels=levels,
            calls=1,
            macs=macs,
            active=active,
            effective=pairs.not_zero(),
            distinct=distinct,
            events=events,
            fetched=fetched[0],
            fetched_together=fetched[1],
            twin_fetched_together=over_time[1],
            sharing=pairs.sharing(side) // (steps if kind == "linear" else 1),
            inner=left.shape[-1] if not pairs.convolution else right[0].numel(),
            columns=out.shape[-1] if out.dim() and not pairs.convolution else right.shape[0],
            weights=sum(x.numel() for x in (left, right) if x in self.weights),
            inputs=side.numel() // self.repeated.get(side, 1),
            virtual_steps=code.virtual_steps if code else 1,
            written=out.numel(),
            bytes_seen=sum(x.numel() * x.element_size() for x in held),
        )

    def _add(
        self,
        op: str,
        kind: Kind,
        operands: list[Tensor],
        macs: int,
        spikes: dict[str, float],
        count: ProductCount | None = None,
    ) -> None:
        frame = self.stack[-1] if self.stack else None
        path = frame.name if frame else ""
        inside = any(is_neuron(one.module) for one in self.stack)
        place: dict[str, Any] = {"module": path, "part": "neuron" if inside else self._part(path)}
        place["hooked"] = frame is not None and isinstance(frame.module, _LAYERS)
        place["steps"] = self.T if self._folded else 1
        operand = "both" if len(spikes) == 2 else next(iter(spikes), None)
        rate = min(spikes.values(), default=None)
        shapes = tuple(tuple(tensor.shape) for tensor in operands)
        self.rows.append(Row(replace(count or _unseen(kind, macs), **place), op, shapes, operand, rate, rate == 0))

    @property
    def _folded(self) -> bool:
        """Whether the module that is executing was given all time steps at once."""
        leading = self.stack[-1].leading if self.stack else 0
        rows = self.T * self.inputs
        return bool(leading) and (leading % rows == 0 or (leading == self.T and leading != self.inputs))

    def _part(self, path: str) -> Part:
        inside = any(not prefix or f".{prefix}." in f".{path}." for prefix in self.prefixes)
        return "encoder" if inside else "outside"


def watched(
    model: nn.Module,
    batch: Mapping[str, Any] | Sequence[Any] | Tensor,
    T: int,
    generate: Mapping[str, Any] | None = None,
    prefixes: tuple[str, ...] | None = None,
    inputs: int | None = None,
) -> MatmulWatch:
    """Run one batch in eval mode and watch it; the model is left in the mode in which it was.

    Args:
        model: Any model, spiking or not.
        batch: Its arguments: by name, in their order, or the only one.
        T: The number of time steps; activations are (T*B, ...), slowest in time.
        generate: Options of `model.generate`; then the batch is decoded token by token.
        prefixes: Where the model's blocks are; by default those of its architecture.
        inputs: Rows of the batch; by default the first axis of its first tensor.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    decoder: Any = model
    run = model if generate is None else partial(decoder.generate, **generate)
    named = batch if isinstance(batch, Mapping) else {}
    ordered: Sequence[Any] = () if named else (batch,) if isinstance(batch, Tensor) else tuple(batch)
    tensors = (leaf for leaf in tree_leaves((ordered, dict(named))) if isinstance(leaf, Tensor) and leaf.dim())
    rows = inputs or next((leaf.shape[0] for leaf in tensors), 1)
    decodes = generate is not None or named.get("past_key_values") is not None
    most = int(getattr(getattr(model, "config", None), "residual_spikes", 1))
    hooks: list[Any] = []
    try:
        with (
            module_stack(model) as stack,
            torch.no_grad(),
            MatmulWatch(model, T, stack, prefixes or blocks_of(model), most, rows, decodes) as watch,
        ):
            for name, module in model.named_modules():
                if is_neuron(module):
                    hooks.append(module.register_forward_hook(partial(watch.fired, name)))
                elif isinstance(module, Operator):
                    hooks.append(module.register_forward_hook(partial(watch.operated, name)))
                elif isinstance(module, Rotation):
                    hooks.append(module.register_forward_hook(partial(watch.turned, name)))
            run(*ordered, **named)
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training
    return watch


def blocks_of(model: nn.Module) -> tuple[str, ...]:
    """Where the blocks of a known architecture are; "encoder" for a model of any other kind."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    return tuple(stack.path or stack.blocks for stack in ARCHITECTURES.get(str(kind), ())) or ("encoder",)


class Pairs:
    """The values of two operands that meet; counted only where somebody asks."""

    def __init__(self, left: Tensor, right: Tensor, convolution: tuple = (), transposed: bool = False) -> None:
        self.left, self.right = left, right
        self.convolution = convolution  # arguments behind the bias
        self.transposed = transposed  # the right side has its columns first, as keys in fused attention

    def not_zero(self, of: Tensor | None = None) -> int:
        """Pairs of which neither side is zero; with `of` only that side is looked at."""
        left, right = self.left, self.right
        if self.convolution:
            sides = [(x != 0 if of is None or of is x else torch.ones_like(x)).float() for x in (left, right)]
            met = torch.ops.aten.convolution(*sides, None, *self.convolution)
            return int(met.sum(dtype=torch.float64).round())
        if self.transposed:
            right = right.transpose(-1, -2)
        if right.dim() == 1:
            right = right[:, None]
        if left.dim() == 1:
            left = left[None]
        place = (right if left.is_meta else left).device
        met_left = _not_zero(left, -2, of is None or of is self.left, place)
        met_right = _not_zero(right, -1, of is None or of is self.right, place)
        if met_left.dim() > 2 and met_left.shape != met_right.shape:
            met_right = met_right.repeat_interleave(met_left.shape[1] // met_right.shape[1], dim=1)  # shared heads
        return int((met_left * met_right).sum())

    def fetched(self, side: Tensor, T: int) -> tuple[int, int]:
        """Values of the other side read for the vectors of `side`: one at a time, and several side by side.

        A value is not read where all that it would meet, at any of T steps, is zero.
        """
        if self.convolution:  # its vectors are patches: each value of a filter as often as it is used, or once
            return self.not_zero(self.left), self.right.numel()
        of_right = side is self.right
        other = self.left if of_right else self.right
        if other.dim() == 1:
            reads = 1
        else:
            reads = other.shape[-2] if of_right or self.transposed else other.shape[-1]
        if side.is_meta:  # attention weights, none of which is zero
            matrices = side.shape[:-2].numel() // T
            groups = -(-side.shape[-2] // TOGETHER)
            each = matrices * side.shape[-1] * reads
            return side.shape[-2] * each, groups * each
        fires = side != 0
        if of_right and not self.transposed and side.dim() > 1:
            fires = fires.transpose(-1, -2)
        fires = fires if fires.dim() > 1 else fires[None]
        if T > 1 and fires.shape[0] % T == 0:
            fires = fires.unflatten(0, (T, -1)).any(0)
        padded = nn.functional.pad(fires, (0, 0, 0, -fires.shape[-2] % TOGETHER))
        groups = padded.unflatten(-2, (-1, TOGETHER)).any(-2)
        return int(fires.sum()) * reads, int(groups.sum()) * reads

    def sharing(self, side: Tensor) -> int:
        """Vectors of `side` that meet the same values."""
        if self.convolution:
            return TOGETHER
        of_right = side is self.right and not self.transposed
        return 1 if side.dim() < 2 else side.shape[-1] if of_right else side.shape[-2]


def _not_zero(x: Tensor, axis: int, looks: bool, device: torch.device) -> Tensor:
    """How many values along an axis are not zero; all of them where nobody looks."""
    if looks and not x.is_meta:
        return (x != 0).sum(axis)
    shape = list(x.shape)
    size = shape.pop(axis)
    return torch.full(shape, size, device=device)


#: the modules that NeuroBench puts its hooks on
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
#: spiking neurons of other libraries, by package and class
_NEURONS = {"spikingjelly": "BaseNode", "snntorch": "SpikingNeuron"}


def is_neuron(module: nn.Module) -> bool:
    """Whether a module is a spiking neuron: ours, spikingjelly's or snnTorch's."""
    return isinstance(module, Neuron) or any(
        _NEURONS.get(cls.__module__.partition(".")[0]) == cls.__name__ for cls in type(module).__mro__
    )


def levels_of(neuron: Neuron, seen: Unfolding) -> int:
    """Values that the spikes of one time step can add up to: as the neuron says, else by what each step can add.

    Virtual steps of equal heights add up to as many levels as there are steps; those of different heights multiply.
    """
    rule = neuron.rule if isinstance(neuron, CodedNeuron) else None
    if rule is not None and rule.high < _ANY:
        return rule.high - rule.low + 1
    sides = 2 if seen.signed else 1
    return sides * seen.virtual_steps + 1 if seen.alike else (sides + 1) ** seen.virtual_steps


def _distinct(x: Tensor, T: int) -> int:
    """Values of x (T*B, ...) that are not zero at some step."""
    over_time = x.unflatten(0, (T, -1)) if T > 1 and x.shape[0] % T == 0 else x[None]
    return int((over_time != 0).any(0).sum())


def _is_unit(x: Tensor) -> Tensor:
    return ((x == 0) | (x.abs() == 1)).all()


def _keys(kind: Kind, left: Tensor, right: Tensor, pairs: Pairs) -> int:
    """Tokens that are attended to."""
    if kind == "attention x value":
        return left.shape[-1]
    return right.shape[-2] if pairs.transposed else right.shape[-1]


def _unseen(kind: Kind, macs: int) -> ProductCount:
    """A product whose operands do not show."""
    known: dict[str, Any] = {one.name: 0 for one in fields(ProductCount)}
    known |= {"module": "", "kind": kind, "part": "outside", "reads": "real values", "steps": 1, "virtual_steps": 1}
    known |= dict.fromkeys(("hooked", "unit", "signed", "cached"), False)
    known |= dict.fromkeys(("calls", "sharing"), 1)
    return ProductCount(**known | dict.fromkeys(("macs", "active", "effective", "distinct"), macs))


def _macs(left: Tensor, right: Tensor, out: Tensor, pairs: Pairs) -> int:
    if pairs.convolution:  # every output value (or input value, if transposed) meets one filter
        transposed = pairs.convolution[3]
        return (left if transposed else out).numel() * right[0].numel()
    return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)
