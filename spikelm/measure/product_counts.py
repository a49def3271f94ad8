"""Count what a product of two matrices takes: the values that meet, and those that have to be read.

What is counted is in the operands: zeros, spikes and how many vectors share what they meet. A `ProductCount` is what
the audit and the estimators of energy read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.catalog.counts import TOGETHER, Kind, Part, ProductCount, Reads
from spikelm.measure.spike_tensors import Code


@dataclass(frozen=True)
class Place:
    """Where a product ran."""

    module: str
    part: Part
    hooked: bool  # in a module that NeuroBench puts its hooks on
    steps: int  # time steps that it was given at once


@dataclass(frozen=True)
class Operand:
    """One side of a product whose values are activations."""

    tensor: Tensor
    code: Code | None  # None of real values
    word: str  # how a row calls it: input, "right, unfolded"


class Product:
    """Two operands that are multiplied, and what came out; their values are counted only where somebody asks."""

    def __init__(
        self, left: Tensor, right: Tensor, out: Tensor, convolution: tuple = (), transposed: bool = False
    ) -> None:
        self.left, self.right, self.out = left, right, out
        self.convolution = convolution  # arguments behind the bias
        self.transposed = transposed  # the right side has its columns first, as keys in fused attention

    @property
    def macs(self) -> int:
        """Each value meets each."""
        left, right = self.left, self.right
        if self.convolution:  # every output value (or input value, if transposed) meets one filter
            transposed = self.convolution[3]
            return (left if transposed else self.out).numel() * right[0].numel()
        return left.numel() * (self.columns if right.dim() > 1 else 1)

    @property
    def columns(self) -> int:
        """Columns of the right side; the values of one that is a vector."""
        return self.right.shape[-2] if self.transposed else self.right.shape[-1]

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


def count_product(
    place: Place,
    kind: Kind,
    reads: Reads,
    sides: list[Operand],
    product: Product,
    *,
    decodes: bool,
    weights: int,
    repeated: Mapping[Tensor, int],
) -> ProductCount:
    """What one call of a product takes.

    Args:
        place: Where it ran.
        kind: What it is in a model.
        reads: In which way, if any, its activations are spikes.
        sides: Those of its operands that are activations.
        product: The operands.
        decodes: Whether the model goes on token by token, from a cache.
        weights: Values of its operands that are weights.
        repeated: How often tensors hold each of their values, of those that hold them several times.
    """
    left, right, out, macs = product.left, product.right, product.out, product.macs
    codes = [one for one in sides if one.code]
    code: Code | None = None
    if codes:  # of two that spike, the sparser one decides
        spiking = min(codes, key=lambda one: one.code.rate if one.code else 0.0)
        code = spiking.code
        assert code is not None
        values = spiking.tensor.numel()
        events = round(code.rate * values)
        active = round(code.rate * macs)
        distinct = round(_distinct(spiking.tensor, place.steps) / max(values, 1) * macs)
        levels = code.levels
        side = right if spiking.tensor is right else left
    else:
        side = sides[0].tensor if sides else left
        events = side.numel() if side.is_meta else int((side != 0).sum())
        active = product.not_zero(None if len(sides) == 2 else side)
        distinct, levels = active, 0
    # Weights stay for all steps of a vector; keys, values and queries are others at each step.
    over_time = product.fetched(side, place.steps)
    fetched = over_time if kind == "linear" else product.fetched(side, 1)
    held = [x for x in (left, right, out) if not x.is_meta]
    known = [one for one in sides if not one.tensor.is_meta]
    return ProductCount(
        **asdict(place),
        kind=kind,
        reads=reads,
        unit=len(known) == len(sides) and all(_is_unit(one.tensor) for one in known),
        signed=any(bool((one.tensor < 0).any()) for one in codes),
        cached=decodes and kind != "linear" and _keys(kind, product) > left.shape[-2],
        levels=levels,
        calls=1,
        macs=macs,
        active=active,
        effective=product.not_zero(),
        distinct=distinct,
        events=events,
        fetched=fetched[0],
        fetched_together=fetched[1],
        twin_fetched_together=over_time[1],
        sharing=product.sharing(side) // (place.steps if kind == "linear" else 1),
        inner=right[0].numel() if product.convolution else left.shape[-1],
        columns=out.shape[-1] if out.dim() and not product.convolution else right.shape[0],
        weights=weights,
        inputs=side.numel() // repeated.get(side, 1),
        virtual_steps=code.virtual_steps if code else 1,
        written=out.numel(),
        bytes_seen=sum(x.numel() * x.element_size() for x in held),
    )


def opaque_product(place: Place) -> ProductCount:
    """A call of the backend that multiplies inside without showing its operands."""
    counted: dict[str, Any] = {one.name: 0 for one in fields(ProductCount)}
    known: dict[str, Any] = {"kind": "opaque", "reads": "real values", "calls": 1, "sharing": 1, "virtual_steps": 1}
    no = dict.fromkeys(("unit", "signed", "cached"), False)
    return ProductCount(**counted | known | no | asdict(place))


def _not_zero(x: Tensor, axis: int, looks: bool, device: torch.device) -> Tensor:
    """How many values along an axis are not zero; all of them where nobody looks."""
    if looks and not x.is_meta:
        return (x != 0).sum(axis)
    shape = list(x.shape)
    size = shape.pop(axis)
    return torch.full(shape, size, device=device)


def _distinct(x: Tensor, T: int) -> int:
    """Values of x (T*B, ...) that are not zero at some step."""
    over_time = x.unflatten(0, (T, -1)) if T > 1 and x.shape[0] % T == 0 else x[None]
    return int((over_time != 0).any(0).sum())


def _is_unit(x: Tensor) -> bool:
    return bool(((x == 0) | (x.abs() == 1)).all())


def _keys(kind: Kind, product: Product) -> int:
    """Tokens that are attended to."""
    return product.left.shape[-1] if kind == "attention x value" else product.columns
