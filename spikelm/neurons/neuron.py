"""What every neuron is: a stateless map from real values over T time steps to spikes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Neuron(nn.Module):
    """Spikes of x, shape (T, B, ..., D) in and out; no state survives the call.

    `memory` says whether the membrane carries over from one time step to the next: key and value
    neurons have none (paper section 3.1, beta = 0).
    """

    def __init__(self, T: int, memory: bool = True) -> None:
        super().__init__()
        self.T = T
        self.memory = memory
        self.site = ""  # set by spikify: "encoder.layer.0.qkv_in"
        self.compiled = False  # set while training (training/devices/acceleration.py); a neuron may have no such kernel

    def forward(self, x: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it fires")

    def heights(self, like: Tensor) -> Tensor | None:
        """a_t (T,) where every spike is -a_t, 0 or a_t whatever is read, in the type of `like`; None: spikes tell."""
        return None

    def fit_to(self, features: int) -> None:
        """Called once by spikify with the size of the last axis; a neuron with one value per channel makes it here."""

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Back to the state before any batch was seen; a neuron without parameters has nothing to do."""

    def extra_repr(self) -> str:
        return f"T={self.T}, memory={self.memory}"
