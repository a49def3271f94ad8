"""GIF neurons against SpikeLLM's tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from golden import assert_unfolds, golden, needs_golden
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from spikelm.errors import SpikeLMError
from spikelm.neurons.kernels.affine import affine, affine_code
from spikelm.neurons.unfolding.gif import GIF, bursts, salient_channels

TAGS = [("t2", 1, 0.75), ("t4", 2, 0.875)]


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)


def fitted(x: Tensor, **options: float) -> GIF:
    neuron = GIF(len(x), **options)  # type: ignore[arg-type]
    neuron.fit_to(x.shape[-1])
    neuron(x)
    return neuron


@needs_golden
@pytest.mark.parametrize(("tag", "extra", "low_share"), TAGS)
def test_codes_scales_and_mask_are_the_released_ones(tag: str, extra: int, low_share: float) -> None:
    g = golden("spikellm_gif")
    for name, bits in (("low", 4), ("high", 4 + extra)):
        codes, scale, zero = affine(g["x"], bits)
        close((codes - zero) * scale, g[f"{tag}.act_{name}"])
        close(scale, g[f"{tag}.{name}_scale"])
        assert torch.equal(zero, g[f"{tag}.{name}_zero"])
    assert torch.equal(codes, g[f"{tag}.high_int"])
    salient = salient_channels(g[f"{tag}.saliency_mean"].mean((0, 1)), low_share)
    low = torch.ones(8, dtype=torch.bool).index_fill(0, salient, False)
    assert torch.equal(low, g[f"{tag}.mask_low"].flatten().bool())


@needs_golden
@pytest.mark.parametrize(("tag", "extra", "low_share"), TAGS)
@pytest.mark.parametrize(("parts", "saliency"), [(1, "weights"), (2, "weights"), (2, "operands")])
def test_the_mask_by_the_weights_behind_is_the_released_one(
    tag: str, extra: int, low_share: float, parts: int, saliency: Literal["weights", "operands"]
) -> None:
    g = golden("spikellm_gif")
    neuron = GIF(1, extra=extra, low_share=low_share, saliency=saliency)
    neuron.fit_to(8)
    linears = []
    for weight in g["weight"].chunk(parts):
        linears.append(nn.Linear(8, len(weight)))
        linears[-1].weight.data = weight
    neuron.read_by(linears)
    neuron(g["calib"].transpose(0, 1))
    assert neuron.salient is not None
    assert torch.equal(~neuron.salient, g[f"{tag}.mask_low"].flatten().bool())
    assert not list(neuron.parameters()), "the linears are no parts of the neuron"


def coded(x: Tensor, bits: int) -> Tensor:
    codes, scale, zero = affine(x, bits)
    return (codes - zero) * scale


@needs_golden
@pytest.mark.parametrize(("met_by", "x", "operand"), [("query", "k", "q"), ("map", "v", "p")])
def test_the_mask_by_the_other_operand_is_the_released_one(
    met_by: Literal["query", "map"], x: str, operand: str
) -> None:
    g = golden("spikellm_gif")
    neuron = GIF(1, low_share=0.75, saliency="operands")
    neuron.fit_to(8)
    neuron.met_by = met_by
    tokens = g[f"attn.{x}"].transpose(1, 2).flatten(2)[None]
    assert torch.equal(neuron(tokens), coded(tokens, 4)), "it waits, and no channel is salient yet"
    assert not neuron.ready
    neuron.meet(g[f"attn.{operand}"])
    assert neuron.ready
    assert neuron.kept is None
    assert neuron.salient is not None
    assert torch.equal(~neuron.salient, g[f"attn.{x}_mask_low"].flatten().bool())
    assert torch.equal(neuron(tokens), torch.where(neuron.salient, coded(tokens, 5), coded(tokens, 4)))


@needs_golden
def test_products_with_those_masks_are_the_released_ones() -> None:
    """SpikeLLM codes (d, n) keys and (n, d) values over their last axis; the neuron's own code is of whole tokens."""
    g = golden("spikellm_gif")
    keys, values = g["attn.k"].mT, g["attn.v"]
    keys = torch.where(g["attn.k_mask_low"].bool(), coded(keys, 4), coded(keys, 5))
    close(coded(g["attn.q"], 4) @ keys, g["attn.qkt"])
    values = torch.where(g["attn.v_mask_low"].bool(), coded(values, 4), coded(values, 5))
    close(g["attn.p"] @ values, g["attn.pv"])


@needs_golden
@pytest.mark.parametrize(("tag", "extra", "low_share"), TAGS)
def test_the_neuron_before_a_linear_is_the_released_one(tag: str, extra: int, low_share: float) -> None:
    g = golden("spikellm_gif")
    neuron = fitted(g["x"], extra=extra, low_share=low_share)
    assert neuron.salient is not None
    neuron.salient.copy_(~g[f"{tag}.mask_low"].flatten().bool())
    x = g["x"].clone().requires_grad_()
    out = torch.nn.functional.linear(neuron(x), g[f"{tag}.weight_dequant"], g["bias"])
    out.backward(g["grad_out"])
    close(out, g[f"{tag}.out"])
    assert x.grad is not None
    close(x.grad, g[f"{tag}.grad_x"])


@needs_golden
@pytest.mark.parametrize(("name", "bits"), [("asym4", 4), ("asym5", 5)])
def test_edges_are_the_released_ones(name: str, bits: int) -> None:
    g = golden("spikellm_gif")
    x = g["edge"].clone().requires_grad_()
    codes, scale, zero = affine(x, bits)
    close(scale, g[f"edge_{name}.scale"])
    for out in ((codes - zero) * scale, affine_code(x, bits)):
        x.grad = None
        out.backward(g["edge_grad_out"])
        close(out, g[f"edge_{name}.out"])
        assert x.grad is not None
        close(x.grad, g[f"edge_{name}.grad_x"])


@needs_golden
def test_edges_unfold() -> None:
    x = golden("spikellm_gif")["edge"][None]
    assert_unfolds(fitted(x, low_share=0.5), x)


@pytest.mark.parametrize("offset", [0, 3, -3, 50])
@pytest.mark.parametrize("extra", [1, 2])
def test_it_unfolds(offset: float, extra: int) -> None:
    x = torch.randn(2, 3, 5, 16) + offset
    neuron = fitted(x, extra=extra)
    steps = assert_unfolds(neuron, x)
    assert neuron.unfolds
    assert len(steps) == 5 + 5 + extra
    if not offset:
        assert not steps[4].any()


def test_without_a_fixed_size_no_channel_is_salient() -> None:
    neuron = GIF(1)
    x = torch.rand(1, 2, 3, 7)
    codes, scale, zero = affine(x, 4)
    assert torch.equal(neuron(x), (codes - zero) * scale)
    assert len(assert_unfolds(neuron, x)) == 5


def test_the_mask_is_of_the_first_training_batch_and_is_saved() -> None:
    x = torch.randn(1, 4, 10) * torch.arange(1, 11)
    x[..., 2] = 100
    neuron = fitted(x)
    assert neuron.salient is not None
    assert neuron.salient.nonzero().flatten().tolist() == [2]
    neuron(torch.randn(1, 4, 10) * 1000)
    other = GIF(1).eval()
    other.fit_to(10)
    with pytest.raises(SpikeLMError, match="not set"):
        other(x)
    other.load_state_dict(neuron.state_dict())
    assert torch.equal(other(x), neuron(x))
    other.reset_parameters()
    assert not other.ready


@pytest.mark.parametrize(("low_share", "salient"), [(0, 10), (0.5, 5), (1, 0)])
def test_the_share_of_low_channels(low_share: float, salient: int) -> None:
    assert len(salient_channels(torch.rand(10), low_share)) == salient
    assert len(salient_channels(torch.ones(10), low_share)) == salient, "also where all are alike"


@pytest.mark.parametrize(("steps", "total"), [(2, 30), (4, 60)])
def test_bursts_are_exact_but_at_the_top(steps: int, total: int) -> None:
    codes = torch.arange(16 * steps)
    found = bursts(codes, 4, steps)
    assert int(found.max()) == 15
    assert torch.equal(found.sum(0), codes.clamp(max=total))


def test_the_weights_of_a_conv1d_are_transposed() -> None:
    """Those of GPT-2 are square at one place: their shape does not tell."""
    plain, transposed = nn.Linear(6, 6), Conv1D(6, 6)
    transposed.weight.data = plain.weight.data.t().clone()
    masks = []
    for linear in (plain, transposed):
        neuron = GIF(1, low_share=0.5)
        neuron.fit_to(6)
        neuron.read_by([linear])
        neuron(torch.randn(1, 4, 3, 6, generator=torch.Generator().manual_seed(1)))
        assert neuron.salient is not None
        masks.append(neuron.salient)
    assert torch.equal(*masks)


def halves() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(1, 4, 3, 8, generator=generator), torch.randn(4, 2, 3, 4, generator=generator)


def met(x: Tensor, queries: Tensor) -> Tensor:
    neuron = GIF(1, low_share=0.5, saliency="operands")
    neuron.fit_to(8)
    neuron.met_by = "query"
    neuron(x)
    neuron.meet(queries)
    assert neuron.salient is not None
    return neuron.salient


def _one_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    x, queries = halves()
    rows = slice(0, 1) if rank == 0 else slice(1, 4)
    torch.save(met(x[:, rows], queries[rows]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_ranks_agree_on_the_mask_by_the_other_operand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    mp.spawn(_one_rank, args=(str(tmp_path),), nprocs=2)
    x, queries = halves()
    whole = met(x, queries)
    assert not torch.equal(whole, met(x[:, :1], queries[:1])), "one rank's rows alone would say something else"
    for rank in range(2):
        assert torch.equal(torch.load(tmp_path / f"{rank}.pt"), whole)
