"""GIF neurons: an affine quantiser per token, with more bits for salient channels (SpikeLLM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.neurons.kernels.affine import affine, affine_code
from spikelm.neurons.kernels.precision import wide
from spikelm.rules import Rule


def salient_channels(saliency: Tensor, low_share: float) -> Tensor:
    """The indices of all but the int(low_share C) smallest of C channel values; how many is known beforehand."""
    count = saliency.numel() - int(low_share * saliency.numel())
    return saliency.topk(count).indices.sort().values


def bursts(codes: Tensor, bits: int, steps: int) -> Tensor:
    """The paper's unfolding into `steps` bursts of n bits (steps, ...): s = 2^n - 1 if v >= 2^n else v; v -= s.

    Not exact at the top: steps (2^n - 1) is the largest sum, so with n = 4 code 31 becomes 30 in two steps.
    """
    left = codes.clone()
    found = []
    for _ in range(steps):
        burst = torch.where(left >= 2**bits, 2**bits - 1, left)
        left = left - burst
        found.append(burst)
    return torch.stack(found)


class GIF(AmplitudeNeuron):
    """Q_n(x) on channels of low saliency, Q_{n + extra}(x) on salient ones, both scaled by the whole token (`affine`).

    Saliency is one value per channel, the mean over the tokens of the first training batch, over all ranks; the
    `low_share` of the channels with the smallest are low. saliency=weights is SpikeLLM's (x W^T W) x, with the weights
    W of the linears behind the neuron, which spikify tells it; saliency=input is x^2, as is everything that no linear
    reads: keys and values. saliency=operands is that of weights, and has for keys and values what SpikeLLM takes there,
    the other operand of the product in place of W (`meet`). Where the last axis has no fixed size, no channel is
    salient. alpha stays 1 and is not read; alpha_ready says that the mask is set.
    """

    per_token = True
    salient: Tensor | None

    def __init__(
        self,
        T: int,
        memory: bool = True,
        width: Annotated[int, Rule(whole=True, least=2, most=8)] = 4,
        extra: Annotated[int, Rule(whole=True, least=1, most=2)] = 1,
        low_share: Annotated[float, Rule(least=0, most=1)] = 0.9,
        saliency: Literal["weights", "operands", "input"] = "weights",
    ) -> None:
        super().__init__(T, memory, elastic=True, learnable=False)
        self.width = width
        self.extra = extra
        self.low_share = low_share
        self.by_weights = saliency != "input"
        self.by_operands = saliency == "operands"
        self.linears: tuple[nn.Module, ...] = ()
        self.met_by: Literal["query", "map"] | None = None  # the operand that it waits for on its first batch
        self.kept: Tensor | None = None  # that batch, while it waits
        self.register_buffer("salient", None)
        self._found: tuple[Tensor, int, Tensor] | None = None

    def fit_to(self, features: int) -> None:
        self.salient = torch.zeros(features, dtype=torch.bool, device=self.alpha.device)
        self._found = None

    def read_by(self, linears: Sequence[nn.Module]) -> None:
        self.linears = tuple(linears)  # a tuple: they are no parts of the neuron

    @torch.no_grad()
    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.salient is not None:
            self.salient.fill_(False)

    def forward(self, x: Tensor) -> Tensor:
        self.set_from(x)
        if (
            torch.compiler.is_compiling()
        ):  # the compiler makes a kernel of the plain form, and must not look at the mask
            return self._plainly(wide(x)).to(x.dtype)
        return affine_code(x, self.width, self.extra, self._channels() if self._splits(x) else None)

    def set_from(self, x: Tensor) -> None:
        """Keys and values that wait for their operand are only kept here: for now no channel is salient."""
        if self.met_by is None or not self.training or self.ready:
            super().set_from(x)
            return
        self._mask().fill_(False)
        self.kept = x.detach()

    @torch.no_grad()
    def meet(self, operand: Tensor) -> None:
        """Set the mask by what the kept x (T, B, n, heads * d) is multiplied by: (O^T O x) x, in every head by itself.

        O (T*B, heads, m, .) are the queries that read keys, x being (d, n), or the rows of the attention map that read
        values, x being (n, d).
        """
        assert self.kept is not None
        kept, self.kept, operand = self.kept, None, wide(operand)
        x = wide(kept).flatten(0, 1).unflatten(-1, (operand.shape[1], -1)).transpose(1, 2)
        if self.met_by == "query":
            x = x.mT
        saliency = operand.mT @ (operand @ x) * x
        if self.met_by == "query":
            saliency = saliency.mT
        self._split_by(saliency.transpose(1, 2).flatten(2).flatten(0, 1).double())
        self.alpha_ready.fill_(True)
        self._ready = True

    def _plainly(self, x: Tensor) -> Tensor:
        codes, scale, zero = affine(x, self.width)
        out = (codes - zero) * scale
        if not self._splits(x):
            return out
        codes, scale, zero = affine(x, self.width + self.extra)
        return torch.where(self._mask(), (codes - zero) * scale, out)

    @torch.no_grad()
    def unfold(self, x: Tensor) -> Tensor:
        """Sign and bits of q - z, low channels first, then salient ones, each virtual step with one height per token.

        z is cut to 0..2^n - 1 for this, so that |q - z| has n bits; one more step gives what was cut off. It is silent
        unless all values of a token have one sign.
        """
        values = wide(x)
        self.set_from(values)
        if not self._splits(values):
            return torch.stack(_signed_bits(values, self.width)).to(x.dtype)
        salient = self._mask()
        low = [step.masked_fill(salient, 0) for step in _signed_bits(values, self.width)]
        high = [step.masked_fill(~salient, 0) for step in _signed_bits(values, self.width + self.extra)]
        return torch.stack([*low, *high]).to(x.dtype)

    def _splits(self, x: Tensor) -> bool:
        return self.salient is not None and self.salient.numel() == x.shape[-1]

    def _mask(self) -> Tensor:
        assert self.salient is not None
        return self.salient

    def _channels(self) -> Tensor | None:
        """The indices of the salient channels, found again only where the mask was written to: a GPU would wait."""
        if self.kept is not None:
            return None
        mask = self._mask()
        if mask.is_inference():
            return mask.nonzero().flatten()
        if self._found is None or self._found[0] is not mask or self._found[1] != mask._version:
            self._found = mask, mask._version, mask.nonzero().flatten()
        return self._found[2]

    def find_alpha(self, x: Tensor) -> None:
        """Set the mask (alpha has no part in this neuron)."""
        if not self._splits(x):
            return
        tokens = x.flatten(0, -2).double()
        self._split_by(tokens * (tokens @ self._gram(tokens) if self.by_weights and self.linears else tokens))

    def _split_by(self, saliency: Tensor) -> None:
        """Set the mask by the mean of saliency (tokens, channels) over the tokens of all ranks."""
        seen = torch.cat([saliency.sum(0), saliency.new_full((1,), len(saliency))])
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(seen)
        channels = salient_channels(seen[:-1] / seen[-1], self.low_share)
        self._mask().zero_().index_fill_(0, channels, True)
        self._found = self._mask(), self._mask()._version, channels

    def _gram(self, like: Tensor) -> Tensor:
        """W^T W of all linears that read the spikes."""
        rows = []
        for linear in self.linears:
            weight: Tensor = linear.weight.detach().to(like.dtype)  # type: ignore[union-attr, operator, assignment]
            rows.append(weight if isinstance(linear, nn.Linear) else weight.t())  # GPT-2's Conv1D has it transposed
        stacked = torch.cat(rows)
        return stacked.t() @ stacked

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, width={self.width}, extra={self.extra}, low_share={self.low_share}"


def _signed_bits(x: Tensor, bits: int) -> list[Tensor]:
    """The steps of (q - z) a: its n sign-magnitude bits with z cut to the range of q, and what was cut off."""
    codes, scale, zero = affine(x, bits)
    near = zero.clamp(0, 2**bits - 1)
    number = codes - near
    sign, size = number.sign(), number.abs().to(torch.int32)
    steps = [sign * ((size >> b) & 1) * (scale * 2**b) for b in range(bits)]
    return [*steps, ((near - zero) * scale).expand_as(x)]
