"""The clip family as one kernel forward and one backward, made by torch.compile; the packed form is clip.py's.

The equations are clip.py's, written without writing in place. Every row of the packed form, a lane at a time step, is a
vector of its own, so that one loop over n does all of it: x is read once, spikes, levels and mask are written once.
"""

from __future__ import annotations

import warnings
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from spikelm.machine.compilers import missing_to_compile
from spikelm.neurons.kernels.clip_rule import ClipRule
from spikelm.neurons.kernels.packing import ROWS, SILENT, lanes

#: Recompilations are counted apart for what is compiled apart: a sweep has many neurons, T and models in one process.
RECOMPILE: dict[str, Any] = {"isolate_recompiles": True, "recompile_limit": 64}


def run(x: Tensor, alpha: Tensor, rule: ClipRule) -> tuple[Tensor, Tensor, Tensor]:
    """Spikes (T, L, n) of x, their packed levels and the packed mask [q inside the clip range]."""
    steps, count = x.shape[:2]
    spikes: list[list[Tensor]] = [[] for _ in range(steps)]
    levels: list[Any] = [float(SILENT)] * -(-steps * count // 4)  # summed as floats, which vectors convert best
    masks: list[Any] = [0.0] * -(-steps * count // ROWS)
    for lane in range(count):
        m = x[0, lane]
        for t in range(steps):
            row = t * count + lane
            q = m / alpha[t]
            clipped = q.clamp(rule.low, 1.0)
            inside = q == clipped
            if rule.fire == "round":
                fired = clipped.round()
            elif rule.fire == "reach":
                fired = clipped.floor()
            else:
                fired = torch.where(inside, 0.0, clipped)
            spikes[t].append(fired * alpha[t])
            levels[row // 4] = levels[row // 4] + fired * 4.0 ** (row % 4)
            masks[row // ROWS] = masks[row // ROWS] + torch.where(inside, 2.0 ** (row % ROWS), 0.0)
            if t + 1 < steps:
                share = 1 - (fired.abs() if rule.symmetric else fired)
                m = x[t + 1, lane] + m * (share * rule.gain(alpha[t])) if rule.beta else x[t + 1, lane]
    rows = torch.stack([row for step in spikes for row in step]).view(x.shape)
    return rows, torch.stack(levels).to(torch.uint8), torch.stack(masks).to(torch.uint8)


def gradient(grad: Tensor, levels: Tensor, masks: Tensor, alpha: Tensor, rule: ClipRule) -> Tensor:
    """dL/dx of `run`, from the last time step to the first."""
    steps, count = grad.shape[:2]
    grads: list[list[Any]] = [[None] * count for _ in range(steps)]
    for lane in range(count):
        for t in range(steps - 1, -1, -1):
            row = t * count + lane
            mask = (masks[row // ROWS].to(torch.int32) & 1 << row % ROWS) != 0
            grads[t][lane] = torch.where(mask, grad[t, lane], 0.0)
            if rule.beta and t + 1 < steps:
                digit = (levels[row // 4].to(torch.int32) >> 2 * (row % 4)) & 3
                share = (digit & 1).to(grad.dtype) if rule.symmetric else 2 - digit.to(grad.dtype)
                grads[t][lane] = grads[t][lane] + grads[t + 1][lane] * (share * rule.gain(alpha[t]))
    return torch.stack([row for step in grads for row in step]).view(grad.shape)


@lru_cache(maxsize=64)
def kernels(rule: ClipRule) -> tuple[Any, Any]:
    """`run` and `gradient` of a rule, compiled without a graph break; sizes may change from call to call."""
    options = {"fullgraph": True, "dynamic": True, **RECOMPILE}
    return torch.compile(partial(run, rule=rule), **options), torch.compile(partial(gradient, rule=rule), **options)


class CompiledClip(torch.autograd.Function):
    """ClipSpike for amplitudes that do not learn, by compiled kernels, or inline in a model that is compiled itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, alpha: Tensor, rule: ClipRule) -> tuple[Tensor, Tensor]:
        inline = torch.compiler.is_compiling()
        split = x.reshape(x.shape[0], lanes(x.shape[0], x[0].numel()), -1)
        spikes, levels, masks = run(split, alpha, rule) if inline else kernels(rule)[0](split, alpha)
        levels, masks = levels.view(torch.int8), masks.view(torch.int8)
        ctx.rule = rule
        ctx.mark_non_differentiable(levels)
        ctx.save_for_backward(levels, masks, alpha)
        return spikes.view(x.shape), levels

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[Tensor, None, None]:
        levels, masks, alpha = ctx.saved_tensors
        split = grad.reshape(grad.shape[0], lanes(grad.shape[0], grad[0].numel()), -1)
        inline = torch.compiler.is_compiling()
        bytes_ = levels.view(torch.uint8), masks.view(torch.uint8)
        if inline:
            grads = gradient(split, *bytes_, alpha, ctx.rule)
        else:
            grads = kernels(ctx.rule)[1](split, *bytes_, alpha)
        return grads.view(grad.shape), None, None


@lru_cache(maxsize=4)
def can_compile(device: str = "cpu") -> bool:
    """Whether torch.compile finds what it needs for a device (`cpu` or `cuda`); if not, says once what is missing."""
    missing = missing_to_compile(device)
    if missing:
        what, fixes = ", ".join(item.what for item in missing), "; ".join(item.fix for item in missing)
        warnings.warn(f"torch.compile misses {what}: trainer.compile is off for this run ({fixes})", stacklevel=2)
    return not missing
