"""What each neuron should compute: plain loops over time whose gradients come from autograd.

Written from the equations, not from the kernels. The straight-through estimator is
`soft + (hard - soft).detach()`: the value of `hard`, the gradient of `soft`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def straight_through(hard: Tensor, soft: Tensor) -> Tensor:
    return soft + (hard - soft).detach()


def fired_level(m: Tensor, a: Tensor, fire: str, low: int) -> Tensor:
    """-1, 0 or 1: by rounding m / a, or by the printed rule |m| > a."""
    if fire == "round":
        level = torch.round(m / a)
    else:
        level = torch.where(m.abs() > a, torch.sign(m), torch.zeros_like(m))
    return level.clamp(low, 1)


def bispike(
    x: Tensor,
    alpha: Tensor,
    direction: str = "bi",
    fire: str = "round",
    reset: str = "code",
    beta: float = 0.25,
    memory: bool = True,
) -> Tensor:
    """Elastic bi-spike with given amplitudes; LSQ: the gradient of alpha is scaled by 1 / sqrt(values)."""
    low = -1 if direction == "bi" else 0
    scale = 1 / math.sqrt(x[0].numel())
    spikes = []
    v = torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        m = x[t] + v
        a = straight_through(alpha[t], alpha[t] * scale)
        level = fired_level(m.detach(), a.detach(), fire, low)
        s = a * straight_through(level, (m / a).clamp(low, 1))
        spikes.append(s)
        a, s = a.detach(), s.detach()
        if not memory:
            v = torch.zeros_like(m)
        elif reset == "code":
            v = beta * m * (a - s)
        elif reset == "paper":
            v = m * (a - s)
        else:
            v = beta * m * (1 - s.abs() / a)
    return torch.stack(spikes)


def amplitudes(x: Tensor, k: float, **rule: object) -> Tensor:
    """a_t = k mean|m_t|: each step's membrane follows from the amplitudes before it."""
    alpha = torch.ones(x.shape[0], dtype=x.dtype)
    for t in range(x.shape[0]):
        alpha[t] = max(k * float(_membrane(x, alpha, t, **rule).abs().mean()), 1e-5)
    return alpha


def _membrane(x: Tensor, alpha: Tensor, t: int, **rule: object) -> Tensor:
    """The membrane at step t, given the amplitudes of the steps before."""
    direction, fire = rule.get("direction", "bi"), rule.get("fire", "round")
    reset, beta = rule.get("reset", "code"), float(rule.get("beta", 0.25))  # type: ignore[arg-type]
    m = x[0]
    for i in range(t):
        a = alpha[i]
        s = a * fired_level(m, a, str(fire), -1 if direction == "bi" else 0)
        if not rule.get("memory", True):
            v = torch.zeros_like(m)
        elif reset == "normalized":
            v = beta * m * (1 - s.abs() / a)
        else:
            v = (beta if reset == "code" else 1.0) * m * (a - s)
        m = x[i + 1] + v
    return m


def lif(x: Tensor, beta: float = 0.25, theta: float = 1.0, fire: str = "threshold", memory: bool = True) -> Tensor:
    """Integrate and fire with the clip surrogate, s = 1 where the membrane reaches theta."""
    spikes = []
    v = torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        m = x[t] + v
        hard = (m >= theta) if fire == "threshold" else (m > theta / 2)
        s = straight_through(hard.to(m.dtype), (m / theta).clamp(0, 1))
        spikes.append(s)
        v = beta * m * (1 - s.detach()) if memory else torch.zeros_like(m)
    return torch.stack(spikes)


def arctan_step(u: Tensor) -> Tensor:
    """[u >= 0] with the gradient of arctan(pi u) / pi + 1/2."""
    return straight_through((u >= 0).to(u.dtype), torch.atan(math.pi * u) / math.pi + 0.5)


def lif_atan(x: Tensor, tau: float = 2.0, theta: float = 1.0) -> Tensor:
    spikes = []
    v = torch.zeros_like(x[0])
    for t in range(x.shape[0]):
        h = v + (x[t] - v) / tau
        s = arctan_step(h - theta)
        spikes.append(s)
        v = h * (1 - s.detach())
    return torch.stack(spikes)


def psn(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    spikes = []
    for t in range(x.shape[0]):
        h = bias[t]
        for i in range(x.shape[0]):
            h = h + weight[t, i] * x[i]
        spikes.append(arctan_step(h))
    return torch.stack(spikes)


def gradients(output: Tensor, inputs: list[Tensor], seed: int = 1) -> list[Tensor]:
    """Gradients of a fixed random projection of `output`."""
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(seed), dtype=output.dtype)
    return list(torch.autograd.grad((output * weights).sum(), inputs))
