"""When neurons fire, for inference: levels -1, 0, 1 of all T steps; the heights are in the weights behind them.

    q_t = m_t / theta_t      m_{t+1} = x_{t+1} + g_t m_t (1 - f_t)      f_t the level that q_t fires

with the rule and the order of operations of the training kernels, so that the same input gives the same levels to the
last bit. Nothing is kept for a backward: for the few values of one token that is most of a neuron's time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spikelm.neurons.kernels.clip_rule import ClipRule

FEW = 1 << 19  # values; of more the training kernels work on pieces that stay in cache


def quick(x: Tensor) -> bool:
    """Whether no gradient is wanted and x (T, ...) is one step of few values: then `levels` is the shorter way."""
    return not torch.is_grad_enabled() and x.shape[0] == 1 and x.numel() <= FEW and x.dtype.itemsize >= 4


def levels(x: Tensor, threshold: Tensor, rule: ClipRule) -> Tensor:
    """Levels of x (T, ..., d) as floats; threshold is (T, 1, ..., 1), or (T, 1, ..., d) where channels differ."""
    T = x.shape[0]
    if T == 1 or not rule.beta:
        return _fired(torch.div(x, threshold), rule)
    written = None if torch.compiler.is_exporting() else x.new_empty(x.shape)  # a graph has no memory to write into
    fired = []
    m = x[0]
    for t in range(T):
        f = _fired(torch.div(m, threshold[t], out=None if written is None else written[t]), rule)
        fired.append(f)
        if t + 1 < T:
            share = torch.sub(m.new_ones(()), f.abs() if rule.symmetric else f).mul_(rule.gain(threshold[t]))
            m = torch.addcmul(x[t + 1], m, share)
    return torch.stack(fired) if written is None else written


def _fired(q: Tensor, rule: ClipRule) -> Tensor:
    """The level that q fires, in place: |q| > 1/2, |q| > 1 or q >= 1."""
    if rule.fire == "round":
        return q.clamp_(rule.low, 1.0).round_()  # half to even: exactly theta/2 stays silent
    if rule.fire == "reach":
        return q.clamp_(rule.low, 1.0).floor_()
    clipped = q.clamp(rule.low, 1.0)
    return q.ne_(clipped).mul_(clipped)
