"""Watch a forward pass: catch every matmul on its way to the backend, and note the other operators and the neurons.

Spikes hold at most {-a_t, 0, a_t} at each time step t, so a matmul with spikes on one side needs additions
only. Nothing is taken from how a model was built. A neuron that unfolds into several spikes is asked for them: they
are looked at in the same way, and only if they add up to what it gave are the products that read it spike-driven.
`spike_tensors.py` looks at the operands, `product_counts.py` counts what they hold. The audit and the energy card are
made of what is seen here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from spikelm.catalog.counts import Kind, NeuronCount, Part, ProductCount, Reads
from spikelm.measure.product_counts import Operand, Place, Product, count_product, opaque_product
from spikelm.measure.spike_tensors import Code, levels_of, look_at_steps, spike_rate, sum_rate
from spikelm.neurons import Neuron
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
#: operations whose output holds the values of their input
_COPIES = ("clone", "_to_copy", "_unsafe_view", "index_select")
#: the modules that NeuroBench puts its hooks on
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
#: spiking neurons of other libraries, by package and class
_NEURONS = {"spikingjelly": "BaseNode", "snntorch": "SpikingNeuron"}

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
class OperatorRow:
    """One operator that is no matmul: where it ran, and which arithmetic it needs at inference."""

    module: str
    name: str
    arithmetic: Arithmetic
    does: str
    part: Part
    values: int  # that it gave
    steps: int  # time steps among them


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
        row = OperatorRow(
            name, operator.title, operator.arithmetic, operator.does, self._part(name), values, self._steps
        )
        if operator.gives_powers and not bool(all_powers(output)):
            row = replace(row, arithmetic="real-valued", does="its output holds other values than powers of two")
        self.operators.append(row)

    def turned(self, name: str, rotation: Rotation, args: tuple, output: Tensor) -> None:
        """Note a rotation; a forward hook of them. Its products with signs are additions, but of real values."""
        does = "additions and subtractions, and one scaling a value"
        row = OperatorRow(name, "rotation", "real-valued", does, self._part(name), output.numel(), self._steps)
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
            self._matmul(name, Product(left, right, out, args[3:] if name == "convolution" else ()))
        elif name.startswith("_scaled_dot_product"):
            self._attention(name, *args[:3])
        elif name in _OPAQUE:
            self.rows.append(Row(opaque_product(self._place), name, (), None, None, False))
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
        self.operators.append(OperatorRow(frame.name, *found, self._part(frame.name), values, self._steps))

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
        self._matmul(op, Product(query, key, scores, transposed=True), "query x key")
        self._matmul(op, Product(scores, value, given), "attention x value")

    def _matmul(self, op: str, product: Product, kind: Kind | None = None) -> None:
        left, right = product.left, product.right
        active = {side: x for side, x in (("left", left), ("right", right)) if x not in self.weights}
        if len(active) == 2:
            kind = kind or ("attention x value" if left in self.softmaxes else "query x key")
        else:
            kind, active = "linear", dict(zip(["input"], active.values(), strict=False))
        sides, reads = self._spikes(active, kind)
        weights = sum(x.numel() for x in (left, right) if x in self.weights)
        count = count_product(
            self._place,
            kind,
            reads,
            sides,
            product,
            decodes=self.decodes,
            weights=weights,
            repeated=self.repeated,
        )
        spikes = {one.word: one.code.rate for one in sides if one.code}
        operand = "both" if len(spikes) == 2 else next(iter(spikes), None)
        rate = min(spikes.values(), default=None)
        self.rows.append(Row(count, op, (tuple(left.shape), tuple(right.shape)), operand, rate, rate == 0))

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

    @property
    def _place(self) -> Place:
        """Where in the model the pass is."""
        frame = self.stack[-1] if self.stack else None
        path = frame.name if frame else ""
        part: Part = "neuron" if any(is_neuron(one.module) for one in self.stack) else self._part(path)
        return Place(path, part, frame is not None and isinstance(frame.module, _LAYERS), self._steps)

    @property
    def _steps(self) -> int:
        """Time steps that the module that is executing was given at once: all of them or one."""
        leading = self.stack[-1].leading if self.stack else 0
        rows = self.T * self.inputs
        all_steps = leading and (leading % rows == 0 or (leading == self.T and leading != self.inputs))
        return self.T if all_steps else 1

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


def is_neuron(module: nn.Module) -> bool:
    """Whether a module is a spiking neuron: ours, spikingjelly's or snnTorch's."""
    return isinstance(module, Neuron) or any(
        _NEURONS.get(cls.__module__.partition(".")[0]) == cls.__name__ for cls in type(module).__mro__
    )
