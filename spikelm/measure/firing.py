"""Firing rates: the share of non-zero spikes of every neuron, per time step (paper figure 2, section 5.1)."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from spikelm.catalog.energy import Term, mean_rate
from spikelm.errors import DataError, SpikeLMError
from spikelm.neurons import Neuron
from spikelm.spiking.sites import SOURCE_SITES


class FiringMeter:
    """Count spikes while inside the `with`; r_t = non-zero spikes at step t / values at step t.

    Pads count like any token, as in the paper. To leave them out, set `attention_mask` (B, n) to the batch's
    mask before its forward pass; an encoder-decoder has `decoder_attention_mask` (B, m) beside it. While generating
    with a cache each token counts once at each site, with one row per beam.
    """

    def __init__(self, model: nn.Module) -> None:
        self.attention_mask: Tensor | None = None
        self.decoder_attention_mask: Tensor | None = None
        self._neurons: dict[str, Neuron] = {}
        for name, module in model.named_modules():
            if isinstance(module, Neuron):
                site = module.site or name
                if site in self._neurons:
                    raise SpikeLMError(f"two neurons share the site {site!r}", "give each its own")
                self._neurons[site] = module
        self._fired: dict[str, Tensor] = {}
        self._values: dict[str, Tensor] = {}
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
            fired = spikes != 0
            values = torch.tensor(spikes[0].numel(), dtype=torch.int64)
            mask = self._mask_of(site)
            if mask is not None:
                keep = _fitting(mask, spikes, site)
                fired = fired & keep
                values = keep.expand_as(spikes[0]).sum()
            counted = fired.flatten(1).sum(1)
            if site in self._fired:
                self._fired[site] += counted
                self._values[site] += values.to(self._values[site].device)
            else:
                self._fired[site], self._values[site] = counted, values

        return count

    def _mask_of(self, site: str) -> Tensor | None:
        stack, _, name = site.rpartition(".")
        of_target = stack.startswith("decoder.") and name not in SOURCE_SITES
        return self.decoder_attention_mask if of_target else self.attention_mask

    def rates(self) -> dict[str, list[float]]:
        """Firing rate of each site at each time step, over all batches seen."""
        if not self._fired:
            raise SpikeLMError("no spikes were counted", "run a spiking model inside `with FiringMeter(...)`")
        # Integers up to the division: a float32 count would stop growing at 2^24 spikes.
        return {
            site: (fired.double() / self._values[site].to(fired.device).double()).tolist()
            for site, fired in self._fired.items()
        }

    def by_site(self) -> dict[str, float]:
        """Firing rate of each site, over all time steps."""
        return {site: sum(steps) / len(steps) for site, steps in self.rates().items()}

    def mean(self, terms: Iterable[Term]) -> float:
        """Firing rate weighted by the MACs that each site feeds: the r of E = ceiling * T * r."""
        return mean_rate(terms, self.by_site())


def _fitting(mask: Tensor, spikes: Tensor, site: str) -> Tensor:
    if spikes.dim() != 4 or spikes.shape[1:3] != mask.shape:
        raise DataError(f"attention mask {tuple(mask.shape)} does not fit the spikes {tuple(spikes.shape)} of {site}")
    return mask.to(spikes.device, torch.bool).unsqueeze(-1)
