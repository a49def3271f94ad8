"""Neurons with one amplitude per time step that the first training batch sets, and that survives save and load."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from spikelm.errors import SpikeLMError
from spikelm.neurons.neuron import Neuron

ALPHA_FLOOR = 1e-5


class AmplitudeNeuron(Neuron):
    """alpha (T,) is a buffer, or a parameter where it learns; not `elastic` it stays 1."""

    alpha: Tensor
    alpha_ready: Tensor
    follows = False  # whether alpha goes on changing with every training batch
    observing = True  # whether it does so now

    def __init__(self, T: int, memory: bool, elastic: bool, learnable: bool) -> None:
        super().__init__(T, memory)
        self.elastic = elastic
        self.learnable = learnable
        scale = torch.ones(T)
        if learnable:
            self.alpha = nn.Parameter(scale)
        else:
            self.register_buffer("alpha", scale)
        self.register_buffer("alpha_ready", torch.tensor(not elastic))
        self._ready: bool | None = None  # mirrors the buffer, whose every reading would wait for the GPU

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.alpha.fill_(1.0)
        self.alpha_ready.fill_(not self.elastic)
        self._ready = not self.elastic

    @torch.no_grad()
    def forget(self) -> None:
        """Back to the state before any batch was seen, for what data sets; what is learned beside alpha stays."""
        AmplitudeNeuron.reset_parameters(self)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._ready = None

    @property
    def ready(self) -> bool:
        """Whether alpha has been set (by a first batch or by a checkpoint)."""
        if self._ready is None:
            self._ready = bool(self.alpha_ready)
        return self._ready

    def set_from(self, x: Tensor) -> None:
        """Set alpha from a batch in train mode, if it is not set yet."""
        if self.ready:
            return
        if not self.training:
            raise SpikeLMError(
                f"the spike amplitudes of {self.site or 'this neuron'} are not set yet",
                "calibrate(model, batches) of spikelm.spiking sets them, as does the first batch in train() mode",
            )
        with torch.no_grad():
            self.find_alpha(x)
            self.alpha_ready.fill_(True)
        self._ready = True

    def find_alpha(self, x: Tensor) -> None:
        """Write alpha for x (T, ...)."""
        raise TypeError(f"{type(self).__name__} does not say how its amplitude is found")


def mean_magnitude(m: Tensor) -> Tensor:
    """mean|m| over all elements of all ranks: every rank must freeze the same amplitude."""
    mean = m.abs().mean()
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        # over elements, however many each rank has
        seen = torch.stack([mean * m.numel(), torch.full_like(mean, m.numel())]).double()
        dist.all_reduce(seen)
        mean = (seen[0] / seen[1]).to(mean.dtype)
    return mean


def largest_magnitude(x: Tensor) -> Tensor:
    """max|x| of each time step (T,), over all ranks."""
    largest = x.detach().abs().flatten(1).amax(1)
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(largest, dist.ReduceOp.MAX)
    return largest
