"""RWKV's weighted mean of past values, channel by channel:

    y_t = (sum_{i<t} e^{-(t-1-i) w + k_i} v_i + e^{u + k_t} v_t) / (the same with v = 1)

as a recurrence for one token at a time, and in chunks for whole sequences. Exponents are kept below a running maximum,
so that no key can overflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

State = tuple[Tensor, Tensor, Tensor]  # numerator and denominator over e^peak, and peak, each (B, D)
CHUNK = 16
NOTHING = -1e30  # the peak of an empty past


def empty_state(like: Tensor) -> State:
    """Before the first token; `like` is (B, D)."""
    zero = torch.zeros_like(like)
    return zero, zero, torch.full_like(like, NOTHING)


def wkv_step(w: Tensor, u: Tensor, k: Tensor, v: Tensor, state: State) -> tuple[Tensor, State]:
    """One token: k and v (B, D), the decay w > 0 and the bonus u of the present token (D,)."""
    numerator, denominator, peak = state
    top = torch.maximum(peak, u + k)
    past, now = (peak - top).exp(), (u + k - top).exp()
    y = (past * numerator + now * v) / (past * denominator + now)
    top = torch.maximum(peak - w, k)
    past, now = (peak - w - top).exp(), (k - top).exp()
    return y, (past * numerator + now * v, past * denominator + now, top)


def wkv(w: Tensor, u: Tensor, k: Tensor, v: Tensor, chunk: int = CHUNK) -> Tensor:
    """Whole sequences, k and v (B, n, D): quadratic inside a chunk, a recurrence from chunk to chunk."""
    state, outputs = empty_state(k[:, 0]), []
    for start in range(0, k.shape[1], chunk):
        part = slice(start, start + chunk)
        y, state = _chunk(w, u, k[:, part], v[:, part], state)
        outputs.append(y)
    return torch.cat(outputs, 1)


def _chunk(w: Tensor, u: Tensor, k: Tensor, v: Tensor, state: State) -> tuple[Tensor, State]:
    numerator, denominator, peak = state
    n = k.shape[1]
    t = torch.arange(n, device=k.device)
    age = (t[:, None] - 1 - t)[..., None]  # (n, n, 1): tokens between i and t
    within = k[:, None] - age * w  # (B, t, i, D)
    within = within.masked_fill(age < 0, NOTHING)
    before, now = peak[:, None] - t[:, None] * w, u + k  # (B, t, D)
    # It cancels, so no gradient goes through it.
    top = torch.maximum(torch.maximum(within.amax(2), before), now).detach()
    shares, past, present = (within - top[:, :, None]).exp(), (before - top).exp(), (now - top).exp()
    above = (shares * v[:, None]).sum(2) + past * numerator[:, None] + present * v
    below = shares.sum(2) + past * denominator[:, None] + present
    return above / below, _after(w, k, v, state)


def _after(w: Tensor, k: Tensor, v: Tensor, state: State) -> State:
    """The state behind the chunk's last token."""
    numerator, denominator, peak = state
    n = k.shape[1]
    left = torch.arange(n - 1, -1, -1, device=k.device)[:, None]
    exponents, before = k - left * w, peak - n * w
    top = torch.maximum(exponents.amax(1), before).detach()
    shares, past = (exponents - top[:, None]).exp(), (before - top).exp()
    return (shares * v).sum(1) + past * numerator, shares.sum(1) + past * denominator, top
