"""The neurons as one would first write them: a loop over time, gradients left to autograd."""

from __future__ import annotations

import torch
from torch import Tensor


def bispike(x: Tensor, alpha: Tensor, memory: bool = True, beta: float = 0.25) -> Tensor:
    """s_t = a_t round(clip(m_t / a_t, -1, 1)), m_t = x_t + beta m_{t-1} (a_{t-1} - s_{t-1})."""
    spikes: list[Tensor] = []
    m = x[0]
    for t in range(x.shape[0]):
        if t:
            m = x[t] + beta * m * (alpha[t - 1] - spikes[-1]).detach() if memory else x[t]
        clipped = (m / alpha[t]).clamp(-1, 1)
        spikes.append(alpha[t] * (clipped + (clipped.round() - clipped).detach()))
    return torch.stack(spikes)


def lif(x: Tensor, memory: bool = True, beta: float = 0.25) -> Tensor:
    """s_t = [m_t >= 1], m_t = x_t + beta m_{t-1} (1 - s_{t-1})."""
    spikes: list[Tensor] = []
    m = x[0]
    for t in range(x.shape[0]):
        if t:
            m = x[t] + beta * m * (1 - spikes[-1]).detach() if memory else x[t]
        clipped = m.clamp(0, 1)
        spikes.append(clipped + ((m >= 1).to(m.dtype) - clipped).detach())
    return torch.stack(spikes)


def lif_atan(x: Tensor, tau: float = 2.0) -> Tensor:
    """h_t = v_{t-1} + (x_t - v_{t-1}) / tau, s_t = [h_t >= 1], v_t = h_t (1 - s_t), arctan surrogate."""
    spikes: list[Tensor] = []
    v = torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        h = v + (x[t] - v) / tau
        soft = torch.atan(torch.pi * (h - 1)) / torch.pi + 0.5
        s = soft + ((h >= 1).to(h.dtype) - soft).detach()
        v = h * (1 - s.detach())
        spikes.append(s)
    return torch.stack(spikes)


def psn(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """h = W x + b over time, s = [h >= 0], arctan surrogate."""
    h = torch.addmm(bias, weight, x.flatten(1)).view(x.shape)
    soft = torch.atan(torch.pi * h) / torch.pi + 0.5
    return soft + ((h >= 0).to(h.dtype) - soft).detach()
