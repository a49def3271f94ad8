"""Derivatives that stand in for that of a step at the threshold."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def arctan_slope(distance: Tensor, sharpness: float = 2.0) -> Tensor:
    """Derivative of the arctan surrogate, (a/2) / (1 + (pi a u / 2)^2), u the distance to the threshold."""
    return (sharpness / 2) / (math.pi / 2 * sharpness * distance).square_().add_(1)


def sigmoid_slope(distance: Tensor, sharpness: float = 4.0) -> Tensor:
    """Derivative of sigma(a u), a sigma (1 - sigma)."""
    level = torch.sigmoid(sharpness * distance)
    return sharpness * level * (1 - level)
