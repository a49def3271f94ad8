"""What linears, dropout and attention keep for the backward: bits, and torch's own digits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertModel

from benchmarks.saved import saved_bytes
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels.packing import pack_noise
from spikelm.spiking import spikify
from spikelm.spiking.saved import dropout, sdpa
from spikelm.spiking.saved.dropout import BitDropout
from spikelm.spiking.saved.linear import SpikeLinear
from spikelm.spiking.saved.sdpa import attend


def gradients(call: Any, tensors: list[Tensor], seed: int = 1) -> list[Tensor]:
    torch.manual_seed(seed)
    out = call()
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2)).to(out.dtype)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), tensors)]


def same(ours: list[Tensor], torchs: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours, torchs, strict=True))


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("half", [False, True])
def test_a_linear_gives_torchs_digits(T: int, half: bool) -> None:
    neuron, linear = BiSpike(T), SpikeLinear(24, 40)
    x = torch.randn(T, 3, 5, 24, requires_grad=True)
    neuron(x)
    tensors = [x, linear.weight, linear.bias]

    def plain() -> Tensor:
        return F.linear(neuron(x).flatten(0, 1), linear.weight, linear.bias)

    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        ours = gradients(lambda: linear(neuron(x).flatten(0, 1)), tensors)
        assert same(ours, gradients(plain, tensors))
    assert ours[0].dtype == (torch.bfloat16 if half else torch.float32)


def test_three_linears_share_one_buffer_of_bits() -> None:
    neuron = BiSpike(4)
    x = torch.randn(4, 2, 16, 64, requires_grad=True)
    neuron(x)
    q, k, v = (SpikeLinear(64, 64) for _ in range(3))
    owned = (x, neuron.alpha, *(p for one in (q, k, v) for p in one.parameters()))

    def call(*linears: nn.Module) -> list[Tensor]:
        spikes = neuron(x)
        return [one(spikes) for one in linears]

    assert saved_bytes(lambda: call(q, k, v), owned) == saved_bytes(lambda: call(q), owned)
    assert saved_bytes(lambda: call(q, k, v), owned) <= x.nbytes / 8  # two bits of level, one (in a half byte) of mask
    assert saved_bytes(lambda: call(*(nn.Linear(64, 64) for _ in range(3))), owned) > x.nbytes


def test_what_is_not_spikes_is_kept_as_it_is() -> None:
    linear, x = SpikeLinear(8, 8), torch.randn(4, 8)
    assert same(
        gradients(lambda: linear(x), [linear.weight]),
        gradients(lambda: F.linear(x, linear.weight, linear.bias), [linear.weight]),
    )


@pytest.fixture
def torchs_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise that torch's dropout draws, so that digits can be compared with its own."""

    def draw(x: Tensor, p: float) -> Tensor:
        return pack_noise(torch.empty(x.shape, dtype=torch.int8).bernoulli_(1 - p))

    for module in (dropout, sdpa):
        monkeypatch.setattr(module, "draw", draw)
        monkeypatch.setattr(module, "level", lambda x, p: x.new_ones(()).div_(1 - p))


@pytest.mark.parametrize("shape", [(4, 5, 16), (3, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_gives_torchs_digits(torchs_draws: None, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    ours, torchs = BitDropout(0.1), nn.Dropout(0.1)
    assert same(gradients(lambda: ours(x), [x]), gradients(lambda: torchs(x), [x]))
    assert torch.equal(ours.eval()(x), x)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_each_value_with_its_chance_whatever_its_neighbours(p: float) -> None:
    torch.manual_seed(3)
    n = 1 << 20
    x = torch.ones(n, requires_grad=True)
    dropped = (BitDropout(p)(x).detach() == 0).double()
    sigma = (p * (1 - p) / n) ** 0.5
    assert abs(dropped.mean() - p) < 5 * sigma
    for distance in (1, 2, 3, 4, 8, n // 8):  # neighbours in a word, a byte, a lane
        both = (dropped[distance:] * dropped[:-distance]).mean()
        assert abs(both - p * p) < 5 * p * (1 - p) / n**0.5
    for place in range(4):  # of the four draws of a word
        assert abs(dropped[place::4].mean() - p) < 10 * sigma


def test_dropout_keeps_the_mean_and_repeats_with_its_seed() -> None:
    x = torch.full((999, 31), 2.0, requires_grad=True)  # no whole bytes
    first, again = gradients(lambda: BitDropout(0.3)(x), [x]), gradients(lambda: BitDropout(0.3)(x), [x])
    assert same(first, again)
    assert not same(first, gradients(lambda: BitDropout(0.3)(x), [x], seed=5))
    stays = 1 - round(0.3 * 65536) / 65536
    assert first[0].unique().tolist() == pytest.approx([0.0, 2 / stays], rel=1e-6)
    assert first[0].mean().item() == pytest.approx(2.0, abs=0.05)


def test_dropout_of_nearly_all_values_stays_finite() -> None:
    x = torch.ones(64, requires_grad=True)
    assert all(one.isfinite().all() for one in gradients(lambda: BitDropout(1 - 1e-9)(x), [x]))


def test_dropout_keeps_a_bit_a_value() -> None:
    x = torch.randn(16, 64, requires_grad=True)
    assert saved_bytes(lambda: BitDropout(0.1)(x)) == x.numel() / 8
    assert saved_bytes(lambda: nn.Dropout(0.1)(x)) == x.nbytes


class _Attention(nn.Module):
    is_causal = False


@pytest.mark.parametrize("masked", ["none", "bool", "row", "float"])
def test_attention_gives_torchs_digits(torchs_draws: None, masked: str) -> None:
    neuron = BiSpike(2, memory=False)
    leaves = [torch.randn(2, 2, 9, 32, requires_grad=True) for _ in range(3)]
    neuron(leaves[0])
    mask = None
    if masked != "none":
        mask = torch.ones(4, 1, 9, 9, dtype=torch.bool)
        mask[1, ..., 5:] = False
        if masked == "row":  # attends to nothing: zeros, not not-a-number
            mask[2, 0, 3] = False
        if masked == "float":
            mask = torch.randn(4, 1, 9, 9)

    def heads(states: Tensor) -> Tensor:
        return states.flatten(0, 1).view(4, 9, 4, 8).transpose(1, 2)

    def plain() -> Tensor:
        q, k, v = (heads(spike(x)) for spike, x in zip((torch.clone, neuron, neuron), leaves, strict=True))
        return F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.2, scale=0.3).transpose(1, 2)

    def ours() -> Tensor:
        q, k, v = (heads(spike(x)) for spike, x in zip((torch.clone, neuron, neuron), leaves, strict=True))
        return attend(_Attention(), q, k, v, mask, dropout=0.2, scaling=0.3)[0]

    assert same(gradients(ours, leaves), gradients(plain, leaves))
    assert saved_bytes(ours, leaves) < 0.5 * saved_bytes(plain, leaves)


@pytest.mark.parametrize("T", [1, 4])
def test_a_spiking_bert_keeps_less_than_t_plain_ones(small: Any, bispike: dict, batch: dict, T: int) -> None:
    """With dropout, as it is trained: little more than half of what T plain forwards keep, weights not counted."""
    settings = small(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1, hidden_size=64, intermediate_size=256)
    plain = BertModel(settings).train()
    model = spikify(BertModel(settings), bispike, T).train()
    model(**batch)
    kept = {}
    for name, one in (("plain", plain), ("ours", model)):
        owned = [*one.parameters(), *one.buffers(), *batch.values()]
        kept[name] = saved_bytes(lambda one=one: one(**batch).last_hidden_state, owned)
    assert kept["ours"] < 0.55 * T * kept["plain"]


@pytest.mark.parametrize("T", [1, 4])
def test_checkpointing_changes_no_digit(small: Any, bispike: dict, batch: dict, T: int) -> None:
    model: Any = spikify(BertModel(small(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)), bispike, T)
    model.train()(**batch)
    tensors = [p for name, p in model.named_parameters() if "pooler" not in name]
    found = gradients(lambda: model(**batch).last_hidden_state, tensors)
    owned = [*model.parameters(), *model.buffers(), *batch.values()]
    kept = saved_bytes(lambda: model(**batch).last_hidden_state, owned)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    assert same(gradients(lambda: model(**batch).last_hidden_state, tensors), found)
    assert saved_bytes(lambda: model(**batch).last_hidden_state, owned) < kept
