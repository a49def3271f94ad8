"""A KV cache of spikes: two bits per value instead of a float, or a code's whole number in one or two bytes.

Caching is exact. Key and value neurons have memory over time steps only, never over tokens, so the spikes of a token at
step t are the same whatever follows it. Rows are t*B + b, so everything that picks rows of the batch (beams, crops,
repeats) picks them at every time step: transformers' own cache would pick among the first step's alone.

Spikes {-a_t, 0, a_t} are stored four to a byte along the last axis, beside one amplitude per time step; a place of a
byte holds s + 1 for the sign s. Spikes whose neuron says their heights are packed by them; others are looked at, which
a GPU is waited for. A neuron whose output is n S, a whole number on a step, says S: n is kept in bytes, beside an S for
each time step or token. A layer is unpacked when it is attended to, and that copy lives for one attention: the whole
past is unpacked for every token, so words of many bytes are taken apart at once. Values that are no such spikes are
kept as floats from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, EncoderDecoderCache

from spikelm.errors import ConfigError
from spikelm.neurons import Neuron
from spikelm.spiking.conversion import conversion_of
from spikelm.spiking.folding import marked_spikes, origin_of, over_time

PER_BYTE = 4
_ZERO = 1 + 4 + 16 + 64  # the byte of four silent values


def amplitudes(x: Tensor, before: Tensor | None = None) -> Tensor | None:
    """a_t of x (T, ...), or None where x (or x after values of the amplitudes `before`) is not {-a_t, 0, a_t}.

    One boolean is read, which a GPU is waited for.
    """
    size = x.flatten(1).abs()
    level = size.amax(1)
    if before is not None:
        level = torch.maximum(level, before)
    ternary = ((size == 0) | (size == level[:, None])).all() & torch.isfinite(level).all()
    if before is not None:
        ternary &= ((before == 0) | (before == level)).all()  # a silent past fits any amplitude
    return level if ternary else None


def pack(x: Tensor) -> Tensor:
    """Signs of x (..., d) as bytes (..., ceil(d / 4)); a byte holds values at equal places of four quarters of d."""
    signs = F.pad(x, (0, -x.shape[-1] % PER_BYTE)).sign().unflatten(-1, (PER_BYTE, -1))
    places, _, _ = _constants(x.dtype, torch.uint8, x.device)
    # No matmul: the audit counts those. Exact: whole numbers up to 170.
    return signs.mul_(places[:, None]).sum(-2).add_(_ZERO).to(torch.uint8)


def unpack(packed: Tensor, amplitude: Tensor, width: int) -> Tensor:
    """Values (T, ..., width) of bytes (T, ..., ceil(width / 4)); eight bytes at a time where they come in eights."""
    word = torch.int64 if packed.shape[-1] % 8 == 0 else torch.uint8
    _, shifts, mask = _constants(amplitude.dtype, word, packed.device)
    digits = torch.bitwise_right_shift(packed.view(word).unsqueeze(-2), shifts).bitwise_and_(mask)
    height = amplitude.view(-1, *[1] * (packed.dim() - 1))
    values = digits.view(torch.uint8).flatten(-2).to(amplitude.dtype).sub_(1).mul_(height)  # exact: -1, 0 and 1
    return values if values.shape[-1] == width else values[..., :width]


@lru_cache(maxsize=16)
def _constants(dtype: torch.dtype, word: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, int]:
    """The worth of a byte's four places, how far to shift for each, and the mask of the lowest one of every byte."""
    shifts = torch.arange(0, 8, 2, device=device)
    mask = int.from_bytes(bytes([3] * word.itemsize), "little")
    with torch.inference_mode(False):  # used again outside of it
        return (4.0 ** torch.arange(4, device=device)).to(dtype), shifts.to(word)[:, None], mask


@dataclass(frozen=True)
class StoredCode:
    """What whole numbers in a cache stand for; the tensor that is read back carries it as its attribute `stored`."""

    neuron: Neuron
    numbers: Tensor
    steps: Tensor

    def written(self) -> Tensor:
        """The spikes of each virtual step, as the neuron writes its numbers."""
        write: Any = self.neuron.write  # type: ignore[union-attr]
        spikes: Tensor = write(self.numbers.to(self.steps.dtype)) * self.steps
        return spikes


class SpikeStore:
    """Keys or values of one layer, (T*B, heads, n, d) in and out, packed as long as they are spikes."""

    def __init__(self, T: int) -> None:
        self.T = T
        self.assign(None)

    def assign(self, x: Tensor | None) -> None:
        """Hold these tokens and no others."""
        self.data: Tensor | None = None  # (T, B, heads, n, bytes), or (T, B, heads, n, d) of whole numbers or floats
        self.amplitude: Tensor | None = None  # (T,) of packed spikes
        self.steps: Tensor | None = None  # of whole numbers: (T, 1, 1, 1, 1), or (T, B, 1, n, 1) of each token
        self.neuron: Neuron | None = None  # whose whole numbers they are
        self.width = 0
        self.by_token = False  # whether each token has a step of its own
        self.stated = False  # whether the neuron said the amplitudes, which it then says of all tokens
        self.dtype = torch.float32
        if x is not None:
            self.append(x)

    def append(self, x: Tensor) -> None:
        """Add tokens."""
        new = x.detach().unflatten(0, (self.T, -1))
        origin = origin_of(x)
        coded = _whole_numbers(new, *origin.coding) if origin and origin.coding else None
        self.by_token = bool(origin and origin.neuron.per_token)
        if self.data is None:
            self.width, self.dtype = x.shape[-1], x.dtype
            if coded is not None and origin is not None:
                (self.data, self.steps), self.neuron = coded, origin.neuron
                return
            heights = origin.neuron.heights(new) if origin else None
            self.stated = heights is not None
            self.amplitude = amplitudes(new) if heights is None else heights
            self.data = new if self.amplitude is None else pack(new)
        elif self.steps is not None:
            self._append_codes(new, coded)
        elif self.stated and origin:
            self.data = torch.cat([self.data, pack(new)], dim=-2)
        else:
            self._append_unstated(new)

    def _append_codes(self, new: Tensor, coded: tuple[Tensor, Tensor] | None) -> None:
        """After whole numbers: more of them, or anything, which makes all of it floats."""
        assert self.data is not None
        assert self.steps is not None
        if coded is None:
            self.data, self.steps = torch.cat([self._values(), new], dim=-2), None
            return
        codes, steps = coded
        self.data = torch.cat([self.data, codes], dim=-2)
        if self.by_token:
            self.steps = torch.cat([self.steps, steps], dim=-2)

    def _append_unstated(self, new: Tensor) -> None:
        """After spikes whose amplitudes were read off. Nearly always the same ones again: one comparison says so."""
        assert self.data is not None
        if self.amplitude is not None and not torch.equal(new.sign() * _over(self.amplitude, new), new):
            amplitude = amplitudes(new, self.amplitude)
            if amplitude is None:
                self.data = unpack(self.data, self.amplitude, self.width)
            self.amplitude = amplitude
        self.data = torch.cat([self.data, new if self.amplitude is None else pack(new)], dim=-2)

    def read(self) -> Tensor | None:
        """All tokens as they came in."""
        return None if self.data is None else self._values().flatten(0, 1)

    def _values(self) -> Tensor:
        assert self.data is not None
        if self.steps is not None:
            values = self.data.to(self.steps.dtype).mul_(self.steps).to(self.dtype)
            if self.neuron is not None:
                values.stored = StoredCode(self.neuron, self.data, self.steps)  # type: ignore[attr-defined]
            return values
        return self.data if self.amplitude is None else unpack(self.data, self.amplitude, self.width)

    def change(self, change: Callable[[Tensor], Tensor]) -> None:
        """Pick, repeat, cut or move rows and tokens of all that is held for each of them."""
        if self.data is not None:
            self.data = change(self.data)
        if self.steps is not None and self.by_token:
            self.steps = change(self.steps)

    @property
    def length(self) -> int:
        return 0 if self.data is None else self.data.shape[-2]

    @property
    def nbytes(self) -> int:
        held = [tensor for tensor in (self.data, self.amplitude, self.steps) if tensor is not None]
        return sum(tensor.untyped_storage().nbytes() for tensor in held)


def _whole_numbers(x: Tensor, step: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """n of x (T, B, heads, n, d), and the steps that go with it, of S for what the neuron saw, (T, B, n, heads * d)."""
    steps = step.unsqueeze(2)
    return (x.to(steps.dtype) / steps).round_().to(dtype), steps


def _over(amplitude: Tensor, x: Tensor) -> Tensor:
    return amplitude.view(-1, *[1] * (x.dim() - 1))


class SpikeLayer(DynamicLayer):
    """The cache of one attention layer over T time steps; for inference: no gradient flows through it."""

    def __init__(self, T: int) -> None:
        self.stores = (SpikeStore(T), SpikeStore(T))
        super().__init__()

    @property
    def keys(self) -> Tensor | None:  # type: ignore[override]
        return self.stores[0].read()

    @keys.setter
    def keys(self, value: Tensor | None) -> None:
        self.stores[0].assign(value)

    @property
    def values(self) -> Tensor | None:  # type: ignore[override]
        return self.stores[1].read()

    @values.setter
    def values(self, value: Tensor | None) -> None:
        self.stores[1].assign(value)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.dtype, self.device, self.is_initialized = key_states.dtype, key_states.device, True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        first = not self.get_seq_length()
        self.lazy_initialization(key_states, value_states)
        for store, states in zip(self.stores, (key_states, value_states), strict=True):
            store.append(states)
        if first:
            return key_states, value_states
        return self.keys, self.values  # type: ignore[return-value]

    def get_seq_length(self) -> int:
        return self.stores[0].length

    def _change(self, change: Callable[[Tensor], Tensor]) -> None:
        for store in self.stores:
            store.change(change)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self._change(lambda data: data.index_select(1, beam_idx.to(data.device)))

    def batch_select_indices(self, indices: Tensor) -> None:
        self._change(lambda data: data[:, indices])

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._change(lambda data: data.repeat_interleave(repeats, dim=1))

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove > 0:
            raise ValueError(f"crop({tokens_to_remove}): tokens to remove are given as a negative number")
        if tokens_to_remove:
            self._change(lambda data: data[..., :tokens_to_remove, :].clone())

    def offload(self) -> None:
        self._change(lambda data: data.to("cpu", non_blocking=True))

    def prefetch(self) -> None:
        if self.is_initialized:
            self._change(lambda data: data.to(self.device, non_blocking=True))


class SpikeCache(DynamicCache):
    """One SpikeLayer per attention layer, made as they are used."""

    def __init__(self, T: int) -> None:
        Cache.__init__(self, layer_class_to_replicate=partial(SpikeLayer, T))  # type: ignore[arg-type]

    @property
    def nbytes(self) -> int:
        """Bytes of all that is stored, amplitudes included."""
        return sum(store.nbytes for layer in self.layers for store in layer.stores)  # type: ignore[union-attr]


class SpikedKeys:
    """Stands in front of an attention's cache, or of none: keys become spikes on their way in.

    An attention hands over its keys when they have their rotary positions, so this is the place behind these, whatever
    else an architecture does to its keys before. All else that is asked of a cache is asked of the real one.
    """

    def __init__(self, neuron: Neuron, cache: Cache | None, turn: Callable[[Tensor], Tensor] | None = None) -> None:
        self.neuron = neuron
        self.cache = cache
        self.turn = turn  # in front of the neuron

    def update(self, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Keys and values of new tokens, (T*B, heads, n, d); those of all tokens are given back."""
        tokens = keys.transpose(1, 2)
        read = tokens.flatten(2)
        spike = over_time if torch.is_grad_enabled() else marked_spikes
        spikes = spike(self.neuron, self.turn(read) if self.turn else read)
        spikes = spikes.unflatten(-1, tokens.shape[2:]).transpose(1, 2)
        return (spikes, values) if self.cache is None else self.cache.update(spikes, values, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)


def spike_cache(config: Any, T: int) -> Cache:
    """An empty cache for a model with this config: a pair for an encoder-decoder."""
    return EncoderDecoderCache(SpikeCache(T), SpikeCache(T)) if config.is_encoder_decoder else SpikeCache(T)


def prepare_cache(config: Any, generation: Any, model_kwargs: dict[str, Any]) -> bool:
    """Give generate() a spike cache; False where transformers' own choice stands."""
    conversion = conversion_of(config)
    T = conversion.T if conversion else 1
    given = model_kwargs.get("past_key_values")
    kind = generation.cache_implementation
    inner = given.self_attention_cache if isinstance(given, EncoderDecoderCache) else given
    foreign = inner is not None and not isinstance(inner, SpikeCache)
    if T > 1 and (foreign or kind not in (None, "dynamic")):
        raise ConfigError(
            f"generate() was given {type(given).__name__ if foreign else f'cache_implementation={kind!r}'}, "
            f"which knows nothing of the model's {T} time steps",
            "leave it out: a cache of spikes is made by itself",
        )
    if given is not None or kind not in (None, "dynamic") or generation.use_cache is False:
        return False
    model_kwargs["past_key_values"] = spike_cache(config, T)
    return True
