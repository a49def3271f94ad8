"""What every neuron is: a stateless map from real values over T time steps to spikes."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Neuron(nn.Module):
    """The base class of all neurons: `forward(x)` turns real values over T time steps into spikes of the same shape.

    x has the shape (T, B, ..., D), time first. At each step a spike is one of at most three values, -a, 0 and a. No
    state survives the call. A neuron of your own overrides `forward`; all arguments of its `__init__` besides `T` and
    `memory` are settings, and their annotations say what they may be.

    Args:
        T: The number of time steps, given by `spikify`.
        memory: Whether the membrane carries over from one time step to the next. The neurons of keys and values have
            none (paper section 3.1, beta = 0).

    Attributes:
        site: Where `spikify` put it, for example "encoder.layer.0.qkv_in".

    Examples:
        >>> import torch
        >>> from spikelm.neurons import Neuron
        >>> class Sign(Neuron):
        ...     def forward(self, x):
        ...         return torch.sign(x)
        >>> Sign(T=2)(torch.tensor([[[0.3, -2.0]], [[0.0, 5.0]]]))
        tensor([[[ 1., -1.]],
        <BLANKLINE>
                [[ 0.,  1.]]])
    """

    def __init__(self, T: int, memory: bool = True) -> None:
        super().__init__()
        self.T = T
        self.memory = memory
        self.site = ""  # set by spikify: "encoder.layer.0.qkv_in"
        self.compiled = False  # set while training (training/devices/acceleration.py); a neuron may have no such kernel

    def forward(self, x: Tensor) -> Tensor:
        """The spikes of x, (T, B, ..., D) in and out."""
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
