"""BSPN: group scaling by powers of two, then a PowerNorm with running statistics (Sorbet, ICML 2025)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from spikelm.errors import ConfigError
from spikelm.neurons.kernels.precision import wide
from spikelm.operators.operator import NormOperator, power_above, rounded_power
from spikelm.rules import Rule

EPSILON = 1e-5
MOMENTUM = 0.1  # of phi, and of what the backward takes off along z


class BSPN(NormOperator):
    """y = gamma u / sqrt(psi + eps) + beta, u = x / k, k = 2^ceil(log2(mean|x| + eps)) of each token and group.

    There are as many groups of equal size as the layer's attention has heads. In step i of the training, with
    var = mean u^2 of each channel over all tokens (pads among them, as released):

        psi = var while i <= warmup, then phi as it was before this step
        phi = phi (i - 1)/i + var/i while i < warmup; then, always, phi = 0.9 phi + 0.1 var

    At inference psi = phi. The backward has an error feedback of its own, with e = 0 at first and z = u / sqrt(psi +
    eps): a = gamma g - 0.1 e z; e = e + mean(a z) over all tokens; du = a / sqrt(var + eps), with the batch's own var
    after the warm-up too; dx = du / k, where k is a constant.

    Each forward in train mode with gradients is a step: of a batch that is cut into parts, each part is one.

    rounding: what happens at inference only. none leaves one real multiplication and addition a channel. power rounds
    gamma / sqrt(phi + eps) to a power of two, and y as well, both by their logarithms: Sorbet's norm_new, which has no
    gradient.
    """

    phi: Tensor
    feedback: Tensor
    steps: Tensor

    def __init__(
        self,
        warmup: Annotated[int, Rule(whole=True, least=1)] = 1000,
        rounding: Literal["none", "power"] = "none",
    ) -> None:
        super().__init__()
        self.warmup = warmup
        self.rounding = rounding
        self.groups = 1
        self.gives_powers = rounding == "power"
        self.arithmetic = "shifts and additions" if self.gives_powers else "partly"
        shifted = "a mean of magnitudes and a shift for each group"
        after = "a shift and an addition for each channel" if self.gives_powers else "one real multiplication a channel"
        self.does = f"{shifted}, then {after}"

    @property
    def title(self) -> str:
        return "BSPN"

    def take_over(self, norm: nn.LayerNorm, heads: int) -> None:
        super().take_over(norm, heads)
        features = len(norm.weight)
        if features % heads:
            raise ConfigError(
                f"{features} features cannot be divided into {heads} groups", "a hidden size that the heads divide"
            )
        self.groups = heads
        device = norm.weight.device
        self.register_buffer("phi", torch.ones(features, device=device))
        self.register_buffer("feedback", torch.zeros(features, device=device))
        self.register_buffer("steps", torch.zeros((), device=device, dtype=torch.int64))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        self.phi.fill_(1.0)
        self.feedback.zero_()
        self.steps.zero_()

    def forward(self, x: Tensor) -> Tensor:
        u = scaled_by_group(wide(x), self.groups)
        if self.training:
            z: Tensor = PowerNorm.apply(u, self._statistics(u, torch.is_grad_enabled()), self.feedback)
        else:
            z = u * torch.rsqrt(self.phi + EPSILON) if self.rounding == "none" else u
        return self._affine(z).to(x.dtype)

    def _affine(self, z: Tensor) -> Tensor:
        if self.training or self.rounding == "none":
            return self.weight * z + self.bias
        scale = rounded_power(self.weight / torch.sqrt(self.phi + EPSILON))
        return rounded_power(scale * z + self.bias)

    @torch.no_grad()
    def _statistics(self, u: Tensor, learns: bool) -> tuple[Tensor, Tensor]:
        """var of the batch and psi; a step that learns brings phi and the number of steps up to date."""
        var = mean_over_ranks(u.detach().square().flatten(0, -2))
        step = self.steps + 1
        psi = torch.where(step <= self.warmup, var, self.phi)
        if learns:
            averaged = self.phi * ((step - 1) / step) + var / step
            phi = torch.where(step < self.warmup, averaged, self.phi)
            self.phi.copy_((1 - MOMENTUM) * phi + MOMENTUM * var)
            self.steps.copy_(step)
        return var, psi

    def extra_repr(self) -> str:
        return f"groups={self.groups}, warmup={self.warmup}, rounding={self.rounding}"


class PowerNorm(torch.autograd.Function):
    """z = u / sqrt(psi + eps), with the error feedback in its backward."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, statistics: tuple[Tensor, Tensor], feedback: Tensor) -> Tensor:
        var, psi = statistics
        z = u / torch.sqrt(psi + EPSILON)
        ctx.feedback = feedback
        ctx.save_for_backward(z, var)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        z, var = ctx.saved_tensors
        a = grad - MOMENTUM * ctx.feedback * z
        ctx.feedback.add_(mean_over_ranks((a * z).flatten(0, -2)))
        return a / torch.sqrt(var + EPSILON), None, None


class _ByGroup(torch.autograd.Function):
    """x / k; k is a constant in the backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: int) -> Tensor:
        grouped = x.unflatten(-1, (groups, -1))
        k = power_above(grouped.abs().mean(-1, keepdim=True) + EPSILON)
        ctx.save_for_backward(k)
        return (grouped / k).flatten(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (k,) = ctx.saved_tensors
        return (grad.unflatten(-1, (k.shape[-2], -1)) / k).flatten(-2), None


def scaled_by_group(x: Tensor, groups: int) -> Tensor:
    """u: x divided by the power of two above the mean magnitude of its token and group."""
    u: Tensor = _ByGroup.apply(x, groups)
    return u


def mean_over_ranks(values: Tensor) -> Tensor:
    """The mean of each column (tokens, features) over the tokens of all ranks: their statistics must agree."""
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return values.mean(0)
    total = torch.cat([values.sum(0), values.new_full((1,), values.shape[0])]).double()
    dist.all_reduce(total)
    return (total[:-1] / total[-1]).to(values.dtype)
