"""A rotation in front of the neurons: R x instead of x, and W R' instead of W in the linears that read it.

W x = (W R')(R x) for an orthogonal R, so in exact arithmetic a rotated model without neurons gives what it gave. R
spreads a single large value of a token over many, so that a code with few levels meets values of about one size. R = H
D / sqrt(b): random signs D, then a Hadamard transform H inside blocks of b values, the largest that divide the width
and are products of 2, 12 and 20. Most widths are such a product (768 = 12 x 2^6, 576 = 12 x 12 x 2^2), so that every
value is spread over the whole token. H is taken factor by factor: f - 1 additions and subtractions a value for a factor
f, and no multiplication but by signs and one constant. Here a few factors at a time are one matrix of signs, as
processors multiply matrices quicker than they add slices of a tensor.

Where it can be moved through an attention it costs nothing at all: q and k turn together inside each head, and q k'
stays the same; v turns, and the output's linear turns it back. In front of the other inputs it stays at run time, and
so it does for q and k with rotary positions, which turn each token in a way of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.spiking.saved.sdpa import QUERY_TURN
from spikelm.spiking.sites import Heads, Projection, Site, Stack, features, stacks_of

SMALLEST = 2  # values of a block: below it there is nothing to spread
#: sizes of Hadamard matrices beside 2 that are used, with the prime p = size - 1 that each is made of (Paley)
PALEY = (12, 20)
TOGETHER = 32  # the largest matrix that several factors make: larger ones take more additions than they save


class Rotation(nn.Module):
    """R x over the last axis, in blocks of `block` values; the signs are saved with the model."""

    signs: Tensor

    def __init__(self, width: int, block: int) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("signs", torch.ones(width))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """No signs: a checkpoint brings them, or they are drawn."""
        self.signs.fill_(1.0)

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Random signs."""
        drawn = torch.randint(2, self.signs.shape, generator=generator)
        self.signs.copy_(2 * drawn - 1)

    def forward(self, x: Tensor) -> Tensor:
        return self._hadamard(x * self.signs.to(x.dtype))

    def back(self, x: Tensor) -> Tensor:
        """R' x, which undoes it."""
        return self._hadamard(x, back=True) * self.signs.to(x.dtype)

    def _hadamard(self, x: Tensor, back: bool = False) -> Tensor:
        """H, or its inverse, over the last axis: each matrix of signs along an axis of its own."""
        shape, stride = x.shape, 1
        with torch.autocast(x.device.type, enabled=False):  # what a neuron reads keeps its digits
            for matrix in sign_matrices(self.block, x.device, x.dtype):
                matrix, size = matrix.T if back else matrix, len(matrix)
                if stride == 1:
                    x = x.reshape(-1, size) @ matrix.T
                else:
                    x = matrix @ x.reshape(-1, size, stride)
                stride *= size
        return x.reshape(shape) * self.block**-0.5

    @property
    def additions(self) -> int:
        """Additions and subtractions for one token."""
        return len(self.signs) * sum(size - 1 for size in factors(self.block))

    def extra_repr(self) -> str:
        return f"width={len(self.signs)}, block={self.block}"


def largest_block(width: int) -> int:
    """The largest product of 2, 12 and 20 that divides a width."""
    return prod(factors(width))


@cache
def factors(width: int) -> tuple[int, ...]:
    """The sizes of the Hadamard matrices whose product is the largest block of a width."""
    found: list[int] = []
    for size in PALEY:
        while width % size == 0:
            found.append(size)
            width //= size
    return (*found, *[2] * ((width & -width).bit_length() - 1))


@cache
def sign_matrices(width: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The factors of a width as matrices of signs, those that follow each other in one of at most `TOGETHER` rows.

    A factor that follows is over values that are further apart, so it is the outer part of the Kronecker product.
    """
    with torch.inference_mode(False):  # used again outside of it
        found: list[Tensor] = []
        for size in factors(width):
            factor = torch.tensor([[1.0, 1.0], [1.0, -1.0]]) if size == 2 else paley(size)
            if found and len(found[-1]) * size <= TOGETHER:
                found[-1] = torch.kron(factor, found[-1])
            else:
                found.append(factor)
        return tuple(matrix.to(device, dtype) for matrix in found)


def paley(size: int) -> Tensor:
    """A Hadamard matrix (size, size) of signs, for a prime p = size - 1 with p mod 4 = 3 (Paley's first construction).

    H = 1 + S, S skew: a border of ones, and in its inside the squares of GF(p): (i, j) is 1 where i - j is one.
    """
    p = size - 1
    squares = {i * i % p for i in range(1, p)}
    inside = [[0 if i == j else 1 if (i - j) % p in squares else -1 for j in range(p)] for i in range(p)]
    skew = [[0, *[1] * p], *([-1, *row] for row in inside)]
    return torch.tensor(skew, dtype=torch.float32) + torch.eye(size)


def attach_rotations(model: Any) -> None:
    """Put a rotation, as yet without effect on any weight, in front of every input that has `readers`.

    Keys that are spiked at the cache are turned there, and with them the queries that they meet (saved/sdpa.py).
    """
    for stack, block in _blocks(model):
        for site in stack.sites:
            host = block.get_submodule(site.path)
            if site.readers:
                width = features(host, site)
                host.add_module(site.turn, Rotation(width, largest_block(width)))
            elif site.at == "cache":
                size = largest_block(host.head_dim)
                host.add_module(site.turn, Rotation(features(host, site), size))
                host.add_module(QUERY_TURN, Rotation(host.q_proj.weight.shape[0], size))


@torch.no_grad()
def rotate_weights(model: Any, seed: int) -> None:
    """Draw all rotations and fold their inverses into the weights behind them, in place."""
    generator = torch.Generator().manual_seed(seed)
    for stack, block in _blocks(model):
        for site in stack.sites:
            host = block.get_submodule(site.path)
            turn = getattr(host, site.turn, None)
            if turn is None:
                continue
            turn.draw(generator)
            for reader in site.readers:
                _fold_input(block.get_submodule(reader), turn)
            if site.at == "cache":
                _share_signs(turn, getattr(host, QUERY_TURN), host.head_dim)
        for heads in stack.heads:
            _turn_heads(block, heads, _head_size(model.config, stack.cached), generator)


def refuse_rotation(model: Any) -> None:
    """Raise where the blocks of a model cannot be rotated."""
    if not all(stack.heads for stack in stacks_of(model)):
        raise ConfigError(
            f"{type(model).__name__} cannot be rotated: something stands between its keys, values and what reads them",
            "rotation=none",
        )
    if any(_head_size(model.config, decoder) % SMALLEST for decoder in (False, True)):
        raise ConfigError("heads of an odd size cannot be rotated", "rotation=none")


def rotations(model: nn.Module) -> list[Rotation]:
    """The rotations that stay at run time."""
    return [module for module in model.modules() if isinstance(module, Rotation)]


def _blocks(model: Any) -> Iterator[tuple[Stack, Any]]:
    for stack in stacks_of(model):
        for block in model.base_model.get_submodule(stack.prefix):
            yield stack, block


def _head_size(config: Any, decoder: bool = False) -> int:
    """Channels of a head; a decoder may have other heads than its encoder."""
    own = getattr(config, "decoder_attention_heads", None) if decoder else None
    if stated := getattr(config, "head_dim", None):
        return int(stated)
    return int(config.hidden_size // (own or config.num_attention_heads))


def _turn_heads(block: Any, heads: Heads, size: int, generator: torch.Generator) -> None:
    """Turn q and k alike, and v with what reads it: inside each head, whose blocks divide its size."""
    width = _output_size(block.get_submodule(heads.value.path), heads.value)
    scores, values = (Rotation(width, largest_block(size)) for _ in range(2))
    scores.draw(generator)
    values.draw(generator)
    for projection, turn in ((heads.query, scores), (heads.key, scores), (heads.value, values)):
        if projection is not None:
            _fold_output(block.get_submodule(projection.path), projection, turn)
    _fold_input(block.get_submodule(heads.output), _shared(values, size, block.get_submodule(heads.output)))


def _shared(values: Rotation, size: int, output: Any) -> Rotation:
    """The rotation of the mixed values: each head of the values is read by all queries of its group, side by side."""
    turn = Rotation(features(output, Site("", "", "input")), values.block)
    _share_signs(values, turn, size)
    return turn


def _share_signs(of: Rotation, to: Rotation, size: int) -> None:
    """The signs of heads (of `size` channels) of keys or values for all the queries that share each of them."""
    groups = len(to.signs) // len(of.signs)
    to.signs.copy_(of.signs.view(-1, size).repeat_interleave(groups, 0).flatten())


def _fold_input(linear: Any, turn: Rotation) -> None:
    """W R': each row of W is turned as its input is."""
    turn = turn.to(linear.weight.device)
    weight = linear.weight if isinstance(linear, nn.Linear) else linear.weight.T  # GPT-2's Conv1D has it so
    weight.copy_(turn(weight.double()))


def _fold_output(linear: Any, projection: Projection, turn: Rotation) -> None:
    """R W and R b, or of one part of them."""
    turn = turn.to(linear.weight.device)
    index, count = projection.part or (0, 1)
    weight = linear.weight if isinstance(linear, nn.Linear) else linear.weight.T
    rows = weight.chunk(count)[index]
    rows.copy_(turn(rows.double().T).T)
    if linear.bias is not None:
        part = linear.bias.chunk(count)[index]
        part.copy_(turn(part.double()))


def _output_size(linear: Any, projection: Projection) -> int:
    whole = Site("", projection.path, "output", part=projection.part)
    return features(linear, whole)
