"""What every neuron is: a stateless map from real values over T time steps to spikes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn


class Neuron(nn.Module):
    """The base class of all neurons: `forward(x)` turns real values over T time steps into spikes of the same shape.

    x has the shape (T, B, ..., D), time first. At each step a spike is one of at most three values, -a, 0 and a. No
    state survives the call. A neuron with more levels overrides `unfold` as well, which says of which spikes its output
    is the sum. A neuron of your own overrides `forward`; all arguments of its `__init__` besides `T` and
    `memory` are settings, and their annotations say what they may be.

    Args:
        T: The number of time steps, given by `spikify`.
        memory: Whether the membrane carries over from one time step to the next. The neurons of keys and values have
            none (paper section 3.1, beta = 0).

    Attributes:
        per_token: Whether a has a value of its own for every token (the rows of the last axis) and not for every step.
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

    per_token = False

    def __init__(self, T: int, memory: bool = True) -> None:
        super().__init__()
        self.T = T
        self.memory = memory
        self.site = ""  # set by spikify: "encoder.layer.0.qkv_in"
        self.compiled = False  # set while training (training/devices/acceleration.py); a neuron may have no such kernel

    def forward(self, x: Tensor) -> Tensor:
        """The spikes of x, (T, B, ..., D) in and out."""
        raise TypeError(f"{type(self).__name__} does not say how it fires")

    def unfold(self, x: Tensor) -> Tensor:
        """The spikes of each virtual step, (V, T, B, ..., D), which add up to `forward(x)`.

        A virtual step is a step inside a time step: a linear reads the sum of them in one product, W (s_1 + ... + s_V)
        = W s_1 + ... + W s_V, and each s_v is one of -a, 0 and a. Firing rates, energy and audit count these spikes.
        """
        return self.forward(x)[None]

    def unfolded_parts(self, x: Tensor) -> Iterator[Tensor]:
        """`unfold(x)` some virtual steps at a time, for whoever looks at each of them and keeps none."""
        yield self.unfold(x)

    @property
    def unfolds(self) -> bool:
        """Whether its output is a sum of several spikes."""
        return type(self).unfold is not Neuron.unfold

    def limits(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        """The lowest and highest value it can give for each value of x, in shapes that go with x; None: no end."""
        heights = self.heights(x)
        if heights is None:
            return None
        highest = heights.view(-1, *[1] * (x.dim() - 1))
        return -highest, highest

    def coding(self, x: Tensor) -> tuple[Tensor, torch.dtype] | None:
        """(S, type) where its output for x is n S with whole numbers n of that type; None: it is to be kept as it is.

        S is (T, 1, ..., 1), or (T, ..., 1) where tokens have their own. n is small enough to be read off the output,
        whatever its type, as round(y / S). The KV cache keeps n and S.
        """
        return None

    def heights(self, like: Tensor) -> Tensor | None:
        """a_t (T,) where every spike is -a_t, 0 or a_t whatever is read, in the type of `like`; None: spikes tell."""
        return None

    def fit_to(self, features: int) -> None:
        """Called once by spikify with the size of the last axis; a neuron with one value per channel makes it here."""

    def read_by(self, linears: Sequence[nn.Module]) -> None:
        """Called once by spikify with the linears that read its spikes, where it sits in front of some."""

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Back to the state before any batch was seen; a neuron without parameters has nothing to do."""

    def extra_repr(self) -> str:
        return f"T={self.T}, memory={self.memory}"
