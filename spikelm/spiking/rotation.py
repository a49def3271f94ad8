"""A rotation in front of the neurons: R x instead of x, and W R' instead of W in the linears that read it.

W x = (W R')(R x) for an orthogonal R, so in exact arithmetic a rotated model without neurons gives what it gave. R
spreads a single large value of a token over many, so that a code with few levels meets values of about one size. R = H
D / sqrt(b): random signs D, then a Hadamard transform H inside blocks of b values, the largest power of two that
divides the width. It takes d log2(b) additions and subtractions a token, and no multiplication but by signs and one
constant.

Where it can be moved through an attention it costs nothing at all: q and k turn together inside each head, and q k'
stays the same (not with rotary positions, which turn each token in another way: keys stay there as they are); v turns,
and the output's linear turns it back. Only in front of the other inputs does it stay at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.spiking.sites import Heads, Projection, Site, Stack, features, stacks_of

SMALLEST = 2  # values of a block: below it there is nothing to spread


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
        """R' x, which undoes it: H is its own inverse."""
        return self._hadamard(x) * self.signs.to(x.dtype)

    def _hadamard(self, x: Tensor) -> Tensor:
        """Sums and differences of pairs, then of pairs of these, and so on: log2(b) passes."""
        shape, stride = x.shape, 1
        while stride < self.block:
            pairs = x.reshape(*shape[:-1], -1, 2, stride)
            first, second = pairs[..., 0, :], pairs[..., 1, :]
            x = torch.stack((first + second, first - second), dim=-2)
            stride *= 2
        return x.reshape(shape) * self.block**-0.5

    @property
    def additions(self) -> int:
        """Additions and subtractions for one token."""
        return len(self.signs) * int(log2(self.block))

    def extra_repr(self) -> str:
        return f"width={len(self.signs)}, block={self.block}"


def largest_block(width: int) -> int:
    """The largest power of two that divides a width."""
    return width & -width


def attach_rotations(model: Any) -> None:
    """Put a rotation, as yet without effect on any weight, in front of every input that has `readers`."""
    for stack, block in _blocks(model):
        for site in stack.sites:
            if site.readers:
                host = block.get_submodule(site.path)
                width = features(host, site)
                host.add_module(site.turn, Rotation(width, largest_block(width)))


@torch.no_grad()
def rotate_weights(model: Any, seed: int) -> None:
    """Draw all rotations and fold their inverses into the weights behind them, in place."""
    generator = torch.Generator().manual_seed(seed)
    for stack, block in _blocks(model):
        for site in stack.sites:
            if site.readers:
                turn = block.get_submodule(site.path).get_submodule(site.turn)
                turn.draw(generator)
                for reader in site.readers:
                    _fold_input(block.get_submodule(reader), turn)
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
    width = features(output, Site("", "", "input"))
    groups = width // len(values.signs)
    turn = Rotation(width, values.block)
    turn.signs.copy_(values.signs.view(-1, size).repeat_interleave(groups, 0).flatten())
    return turn


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
