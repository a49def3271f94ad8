"""What a conversion loses: the converted model beside the plain one, block by block and neuron by neuron."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from spikelm.neurons import Neuron
from spikelm.spiking import neurons
from spikelm.spiking.rotation import rotations
from spikelm.spiking.settle import Settled
from spikelm.spiking.sites import Stack, stacks_of


@dataclass(frozen=True)
class BlockError:
    """The hidden state that leaves a block of the converted model, beside the plain model's on the same rows."""

    name: str
    cosine: float | None
    relative_error: float | None


@dataclass(frozen=True)
class SiteError:
    """What a neuron gives, beside what it reads."""

    site: str
    cosine: float | None
    relative_error: float | None
    saturated: float | None  # share of the values beyond the lowest and highest it can give; None: it has no end


@dataclass
class Conversion:
    """How a model was converted and what that did to it."""

    batches: int  # that set the amplitudes
    rows: int  # in them; 0 where no amplitude is set by data
    rotation: str
    rotation_additions: int  # a token, at run time
    blocks: list[BlockError] = field(default_factory=list)
    sites: list[SiteError] = field(default_factory=list)
    settled: Settled | None = None


class _Likeness:
    """Sums over pairs of tensors x, y: cosine = x.y / |x||y|, relative error = |y - x| / |x|, over all values."""

    def __init__(self) -> None:
        self._sums: Tensor | None = None

    def add(self, x: Tensor, y: Tensor, tokens: Tensor | None) -> None:
        """x and y (B, n, ...); `tokens` (B, n) says which count."""
        x, y = x.double(), y.double()
        if tokens is not None:
            x, y = x[tokens], y[tokens]
        sums = torch.stack([(x * y).sum(), (x * x).sum(), (y * y).sum(), ((y - x) ** 2).sum()])
        self._sums = sums if self._sums is None else self._sums + sums

    @property
    def numbers(self) -> tuple[float | None, float | None]:
        """Cosine and relative error; None where a length is zero."""
        xy, xx, yy, dd = [0.0] * 4 if self._sums is None else self._sums.tolist()
        return xy / (xx * yy) ** 0.5 if xx * yy else None, (dd / xx) ** 0.5 if xx else None


class _Saturation:
    """The share of values beyond what a neuron can give."""

    def __init__(self) -> None:
        self._beyond: Tensor | None = None
        self._values = 0

    def add(self, x: Tensor, neuron: Neuron, tokens: Tensor | None) -> None:
        limits = neuron.limits(x)
        if limits is None:
            return
        lowest, highest = (limit * (1 + torch.finfo(x.dtype).eps) for limit in limits)  # what is only rounded is inside
        beyond = (x < lowest) | (x > highest)
        if tokens is not None:
            beyond = beyond[:, tokens]
        self._beyond = beyond.sum() if self._beyond is None else self._beyond + beyond.sum()
        self._values += beyond.numel()

    @property
    def share(self) -> float | None:
        return None if self._beyond is None else float(self._beyond) / self._values


@torch.no_grad()
def conversion_errors(
    model: Any, plain: Any, samples: Sequence[Mapping[str, Tensor]]
) -> tuple[list[BlockError], list[SiteError]]:
    """Compare a converted model with the plain one on the same rows; pads do not count.

    Of several time steps the mean is compared, as it is what leaves the blocks.

    Args:
        model: The converted model; it is put into eval mode meanwhile, as is the plain one.
        plain: The model that it was made of, on the same device.
        samples: Batches, as arguments of both.
    """
    modes = [(module, module.training) for each in (model, plain) for module in each.modules()]
    model.eval()
    plain.eval()
    blocks: dict[str, _Likeness] = {}
    sites: dict[str, tuple[_Likeness, _Saturation]] = {}
    batch: Mapping[str, Tensor] = {}
    goals: dict[str, Tensor] = {}

    def keep(name: str, stack: Stack, state: Tensor) -> None:
        goals[name] = state

    def compare(name: str, stack: Stack, state: Tensor) -> None:
        goal = goals[name]
        state = state.unflatten(0, (-1, len(goal))).mean(0)
        blocks.setdefault(name, _Likeness()).add(goal, state, _tokens(plain, batch, stack.cached, goal.shape[:2]))

    of_decoder = {f"{stack.prefix}.": stack.cached for stack in stacks_of(model)}
    from_source = {site.name for stack in stacks_of(model) for site in stack.sites if site.source}

    def read(neuron: Any, args: tuple, spikes: Tensor) -> None:
        x: Tensor = args[0]
        likeness, saturation = sites.setdefault(neuron.site, (_Likeness(), _Saturation()))
        decodes = any(neuron.site.startswith(prefix) and cached for prefix, cached in of_decoder.items())
        decodes = decodes and neuron.site.rpartition(".")[2] not in from_source
        tokens = _tokens(plain, batch, decodes, x.shape[1:3]) if x.dim() == 4 else None
        likeness.add(x.double().mean(0), spikes.double().mean(0), tokens)
        saturation.add(x, neuron, tokens)

    hooks = [neuron.register_forward_hook(read) for neuron in neurons(model)]
    try:
        for batch in samples:
            with _watched(plain, keep):
                plain(**batch)
            with _watched(model, compare):
                model(**batch)
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training
    return (
        [BlockError(name, *likeness.numbers) for name, likeness in blocks.items()],
        [SiteError(site, *likeness.numbers, saturation.share) for site, (likeness, saturation) in sites.items()],
    )


def run_time_additions(model: nn.Module) -> int:
    """Additions and subtractions of the rotations at run time, for one token in every block and at all time steps."""
    T = next((neuron.T for neuron in neurons(model)), 1)
    return T * sum(rotation.additions for rotation in rotations(model))


@contextmanager
def _watched(model: Any, watch: Callable[[str, Stack, Tensor], None]) -> Iterator[None]:
    """Inside, `watch` is shown what leaves every block, with its name and its stack."""

    def shown(name: str, stack: Stack) -> Callable[[Any, Any, Any], None]:
        def hook(module: Any, args: Any, output: Any) -> None:
            watch(name, stack, output[0] if isinstance(output, tuple) else output)

        return hook

    hooks = [
        block.register_forward_hook(shown(f"{stack.prefix}.{index}", stack))
        for stack in stacks_of(model)
        for index, block in enumerate(model.base_model.get_submodule(stack.prefix))
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tokens(model: Any, batch: Mapping[str, Tensor], decodes: bool, shape: Sequence[int]) -> Tensor | None:
    """Which of the tokens (B, n) are no pads; None where nothing tells, or where the values are not of tokens."""
    if decodes and "decoder_input_ids" in batch:
        mask = batch["decoder_input_ids"] != model.config.pad_token_id
    elif "attention_mask" in batch:
        mask = batch["attention_mask"].bool()
    else:
        return None
    return mask if tuple(mask.shape) == tuple(shape) else None
