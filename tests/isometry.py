"""Dynamical isometry of spike functions (paper section 4.4) in closed form, to hold the neurons against.

phi(J J^T) = E[tr(J J^T)] / n and varphi(J J^T) = phi((J J^T)^2) - phi(J J^T)^2; a block with phi near 1 and
varphi near 0 neither shrinks nor blows up gradients. For an elementwise function J is diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor

Law = Literal["gaussian", "laplace"]
Fire = Literal["round", "paper"]  # |m| > alpha/2 as released, |m| > alpha as printed


class Moments(NamedTuple):
    """phi and varphi of J J^T."""

    phi: float
    varphi: float


def jacobian_moments(function: Callable[[Tensor], Tensor], x: Tensor) -> Moments:
    """Moments of an elementwise function on samples x, from the autograd (surrogate) gradient at each."""
    x = x.detach().clone().requires_grad_()
    (diagonal,) = torch.autograd.grad(function(x).sum(), x)
    eigenvalues = diagonal.double().square()
    phi = eigenvalues.mean()
    return Moments(float(phi), float(eigenvalues.square().mean() - phi.square()))


def relu_moments(p: float = 0.5) -> Moments:
    """Lemma 2: phi = p, varphi = p - p^2 for ReLU, p the probability of a positive input."""
    return Moments(p, p - p * p)


def bispike_moments(r: float) -> Moments:
    """Lemma 3: phi = 1 - r, varphi = r - r^2; r is the share beyond alpha, where the gradient stops.

    Only with fire=paper is r the firing rate too: with fire=round a neuron fires more often (beyond alpha/2)
    than its gradient stops, so phi is larger than 1 minus the firing rate.
    """
    return Moments(1 - r, r - r * r)


def alpha(k: float, scale: float = 1.0, law: Law = "gaussian") -> float:
    """Lemma 1: alpha = k E|m| = k sigma sqrt(2/pi) for N(0, sigma^2), k b for Laplace(0, b)."""
    return k * scale * (math.sqrt(2 / math.pi) if law == "gaussian" else 1.0)


def firing_rate(k: float, law: Law = "gaussian", fire: Fire = "round") -> float:
    """P(|m| > c k E|m|), c = 1/2 or 1: erfc(c k / sqrt(pi)) for a Gaussian, exp(-c k) for a Laplace."""
    reach = k / 2 if fire == "round" else k
    return math.erfc(reach / math.sqrt(math.pi)) if law == "gaussian" else math.exp(-reach)
