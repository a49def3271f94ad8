"""The elastic bi-spike of SpikeLM (paper section 4): direction, frequency and amplitude of a spike."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from spikelm.errors import SpikeLMError
from spikelm.neurons.base import Neuron
from spikelm.neurons.kernels import ClipRule, ClipSpike, clip_run, wide

ALPHA_FLOOR = 1e-5


class BiSpike(Neuron):
    """s_t = a_t clip(round(m_t / a_t), -1, 1), a_t = k mean|m_t| over the first training batch.

    direction: bi {-a, 0, a} or uni {0, a}.  elastic=False fixes a = 1 (the paper's N/A).
    fire: round (|m| > a/2, as released) or paper (|m| > a).
    reset, what is left of m_t for the next step: code beta m (a - s), paper m (a - s),
    normalized beta m (1 - |s|/a), the only one that does not depend on the scale of x.
    alpha: frozen after the first batch, or learnable with the LSQ gradient.
    """

    alpha: Tensor
    alpha_ready: Tensor

    def __init__(
        self,
        T: int,
        memory: bool = True,
        k: float = 2.0,
        direction: Literal["bi", "uni"] = "bi",
        elastic: bool = True,
        alpha: Literal["frozen", "learnable"] = "frozen",
        fire: Literal["round", "paper"] = "round",
        reset: Literal["code", "paper", "normalized"] = "code",
        beta: float = 0.25,
    ) -> None:
        super().__init__(T, memory)
        self.k = k
        self.elastic = elastic
        self.learnable = alpha == "learnable"
        self.rule = ClipRule(
            bidirectional=direction == "bi",
            fire="round" if fire == "round" else "above",
            beta=(1.0 if reset == "paper" else beta) if memory else 0.0,
            scaled=reset != "normalized",
            symmetric=reset == "normalized",
        )
        scale = torch.ones(T)
        if self.learnable:
            self.alpha = nn.Parameter(scale)
        else:
            self.register_buffer("alpha", scale)
        self.register_buffer("alpha_ready", torch.tensor(not elastic))
        self._ready: bool | None = None  # mirrors the buffer, whose every reading would wait for the GPU

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.alpha.fill_(1.0)
        self.alpha_ready.fill_(not self.elastic)
        self._ready = None

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._ready = None

    @property
    def ready(self) -> bool:
        """Whether alpha has been set (by a first batch or by a checkpoint)."""
        if self._ready is None:
            self._ready = bool(self.alpha_ready)
        return self._ready

    def forward(self, x: Tensor) -> Tensor:
        membrane_input = wide(x)
        if not self.ready:
            self._set_alpha(membrane_input)
        alpha = self.alpha.to(membrane_input.dtype)
        if self.learnable:
            alpha = alpha.clamp_min(ALPHA_FLOOR)
        return ClipSpike.apply(membrane_input, alpha, self.rule).to(x.dtype)

    @torch.no_grad()
    def _set_alpha(self, x: Tensor) -> None:
        """a_t = k mean|m_t|, step by step because m_{t+1} depends on the spikes at t (paper equation 11)."""
        if not self.training:
            raise SpikeLMError(
                f"the spike amplitudes of {self.site or 'this neuron'} are not set yet",
                "run one batch in train() mode, or load a trained model",
            )

        def amplitude(t: int, m: Tensor) -> Tensor:
            mean = m.abs().mean()
            if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
                # every rank must freeze the same amplitude: that of all elements, however many each rank has
                seen = torch.stack([mean * m.numel(), torch.full_like(mean, m.numel())]).double()
                dist.all_reduce(seen)
                mean = (seen[0] / seen[1]).to(mean.dtype)
            self.alpha[t] = (self.k * mean).clamp_min(ALPHA_FLOOR)
            return self.alpha[t].to(x.dtype)

        clip_run(x, self.rule, amplitude, torch.empty_like(x))
        self.alpha_ready.fill_(True)
        self._ready = True

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, k={self.k}, {self.rule}"
