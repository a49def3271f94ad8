"""Linears behind a spike site: what they keep of their input for the weight's gradient is its packed spikes.

q, k and v read the same spikes, so they share one packed buffer, and one unpacking in the backward. They stay three
products: joined into one (weights put together at every step) they were 1 to 5 % faster on a CPU, which is less than
0.5 % of a step, and the input's gradient would sum in another order.
"""

from __future__ import annotations

from torch import Tensor, nn

from spikelm.neurons.kernels.spike_matmul import spike_linear


class SpikeLinear(nn.Linear):
    """A linear that keeps packed spikes; anything else that it reads it keeps as it is."""

    def forward(self, input: Tensor) -> Tensor:
        return spike_linear(input, self.weight, self.bias)


def keep_spikes(blocks: nn.Module) -> None:
    """Let the linears of `blocks` keep packed spikes; names and parameters stay."""
    for module in blocks.modules():
        if type(module) is nn.Linear:
            module.__class__ = SpikeLinear
