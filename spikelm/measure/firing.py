"""Firing rates: the share of non-zero spikes of every neuron, per time step (paper figure 2, section 5.1).

Of a neuron whose output unfolds into several spikes each of them counts, so that its rate, the spikes a value, may be
above 1: each is an addition.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from spikelm.errors import SpikeLMError
from spikelm.neurons import Neuron


def fired_in(steps: Tensor) -> Tensor:
    """How many spikes of virtual steps (V, T, ...) are not zero, at each time step."""
    return (steps != 0).transpose(0, 1).flatten(1).sum(1)


class FiringMeter:
    """Count spikes while inside the `with`: r_t = non-zero spikes at step t / values at step t.

    Pads count like any token, as in the paper. While generating with a cache each token counts once at each site, with
    one row per beam. `measure_firing` does all of it in one call.

    Args:
        model: A spiking model.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.measure.firing import FiringMeter
        >>> from spikelm.spiking import spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> model = spikify(BertModel(BertConfig(vocab_size=100, **sizes)), "lif", T=2)
        >>> with FiringMeter(model) as meter:
        ...     _ = model(torch.randint(100, (8, 16)))
        >>> len(meter.rates()["encoder.layer.0.qkv_in"])  # one rate for each time step
        2
    """

    def __init__(self, model: nn.Module) -> None:
        self._neurons: dict[str, Neuron] = {}
        for name, module in model.named_modules():
            if isinstance(module, Neuron):
                site = module.site or name
                if site in self._neurons:
                    raise SpikeLMError(f"two neurons share the site {site!r}", "give each its own")
                self._neurons[site] = module
        self._fired: dict[str, Tensor] = {}
        self._values: dict[str, int] = {}  # per time step
        self._virtual: set[int] = set()  # virtual steps that neurons took
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> FiringMeter:
        self._handles = [n.register_forward_hook(self._counter(site)) for site, n in self._neurons.items()]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _counter(self, site: str) -> Any:
        @torch.no_grad()
        def count(module: nn.Module, args: tuple, spikes: Tensor) -> None:
            # Tensors only: reading a number here would make a GPU wait at every neuron.
            if isinstance(module, Neuron) and module.unfolds:
                parts = [(len(steps), fired_in(steps)) for steps in module.unfolded_parts(args[0])]
                self._virtual.add(sum(many for many, _ in parts))
                counted = torch.stack([events for _, events in parts]).sum(0)
            else:
                counted = (spikes != 0).flatten(1).sum(1)
            self._fired[site] = self._fired[site] + counted if site in self._fired else counted
            self._values[site] = self._values.get(site, 0) + spikes[0].numel()

        return count

    def rates(self) -> dict[str, list[float]]:
        """Firing rate of each site at each time step, over all batches seen."""
        if not self._fired:
            raise SpikeLMError("no spikes were counted", "run a spiking model inside `with FiringMeter(...)`")
        # Integers up to the division: a float32 count would stop growing at 2^24 spikes.
        return {site: (fired.double() / self._values[site]).tolist() for site, fired in self._fired.items()}

    def events(self) -> dict[str, int]:
        """Spikes that are not zero of each site, over all batches and time steps: each is an event."""
        return {site: int(fired.sum()) for site, fired in self._fired.items()}

    @property
    def virtual_steps(self) -> int:
        """The most virtual steps that a neuron took inside a time step; 1 where none unfolds."""
        return max(self._virtual, default=1)

    def by_site(self) -> dict[str, float]:
        """Firing rate of each site, over all time steps."""
        return {site: sum(steps) / len(steps) for site, steps in self.rates().items()}
