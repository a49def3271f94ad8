"""BSPN against Sorbet's tensors, its backward against autograd, and its state."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from golden import golden, needs_golden
from torch import Tensor, nn

from spikelm.errors import ConfigError
from spikelm.operators.bspn import BSPN, EPSILON, scaled_by_group


def made(weight: Tensor, bias: Tensor, groups: int = 2, **arguments: object) -> BSPN:
    norm = nn.LayerNorm(len(weight))
    with torch.no_grad():
        norm.weight.copy_(weight)
        norm.bias.copy_(bias)
    made = BSPN(**arguments)  # type: ignore[arg-type]
    made.take_over(norm, groups)
    return made


def close(ours: Tensor | None, theirs: Tensor) -> None:
    assert ours is not None
    torch.testing.assert_close(ours, theirs.reshape(ours.shape), rtol=1e-6, atol=1e-6)


@needs_golden
def test_five_steps_of_training_are_the_released_ones() -> None:
    g = golden("sorbet")
    norm = made(g["bspn.weight"], g["bspn.bias"], warmup=3)
    for step in range(1, 6):
        x = g[f"bspn.it{step}.x"].clone().requires_grad_()
        norm.zero_grad()
        out = norm(x)
        out.backward(g[f"bspn.it{step}.grad_out"])
        close(out, g[f"norm.it{step}.out"])
        close(x.grad, g[f"norm.it{step}.grad_x"])
        close(norm.weight.grad, g[f"norm.it{step}.grad_weight"])
        close(norm.bias.grad, g[f"norm.it{step}.grad_bias"])
        close(norm.phi, g[f"norm.it{step}.running_phi"])
        close(norm.feedback, g[f"norm.it{step}.ema_gz"])
    assert int(norm.steps) == 5
    norm.eval()
    close(norm(g["bspn.eval.x"]), g["norm.eval.out"])


@needs_golden
def test_the_form_of_inference_is_the_released_one() -> None:
    g = golden("sorbet")
    norm = made(g["bspn.weight"], g["bspn.bias"], rounding="power").eval()
    norm.phi.copy_(g["norm_new.it5.running_phi"].flatten())
    close(norm(g["bspn.eval.x"]), g["norm_new.eval.out"])


@needs_golden
def test_group_scaling_is_the_released_one() -> None:
    g = golden("sorbet")
    x = g["bspn.eval.x"].clone().requires_grad_()
    out = scaled_by_group(x, 2)
    out.backward(g["group_scaling.grad_out"])
    assert torch.equal(out, g["group_scaling.out"])
    assert x.grad is not None
    assert torch.equal(x.grad, g["group_scaling.grad_x"])


def test_the_first_backward_is_that_of_autograd_with_the_variance_as_a_constant() -> None:
    """There is no feedback yet: what is left is the derivative of gamma x / (k sqrt(var + eps)) + beta."""
    norm = made(torch.rand(8), torch.randn(8)).double()
    x = torch.randn(4, 5, 8, dtype=torch.float64, requires_grad=True)
    grad = torch.randn_like(x)
    norm(x).backward(grad)
    again = x.detach().clone().requires_grad_()
    means = again.detach().reshape(4, 5, 2, 4).abs().mean(-1, keepdim=True) + EPSILON
    u = (again.reshape(4, 5, 2, 4) / 2 ** torch.ceil(torch.log2(means))).reshape(4, 5, 8)
    var = u.detach().square().mean((0, 1))
    (norm.weight.detach() * u / torch.sqrt(var + EPSILON) + norm.bias.detach()).backward(grad)
    torch.testing.assert_close(x.grad, again.grad)


def test_inference_changes_nothing_and_a_state_survives_saving() -> None:
    norm = made(torch.ones(8), torch.zeros(8), warmup=2)
    for _ in range(4):
        norm(torch.randn(3, 8, requires_grad=True)).sum().backward()
    state = {name: tensor.clone() for name, tensor in norm.state_dict().items()}
    norm.eval()
    norm(torch.randn(3, 8))
    assert all(torch.equal(state[name], tensor) for name, tensor in norm.state_dict().items())
    again = made(torch.zeros(8), torch.zeros(8), warmup=2).eval()
    again.load_state_dict(state)
    x = torch.randn(2, 3, 8)
    assert torch.equal(again(x), norm(x))
    assert set(state) == {"weight", "bias", "phi", "feedback", "steps"}
    norm.reset_parameters()
    assert (int(norm.steps), float(norm.phi.mean()), float(norm.feedback.abs().sum())) == (0, 1.0, 0.0)


def test_features_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match="8 features cannot be divided into 3 groups"):
        made(torch.ones(8), torch.zeros(8), groups=3)


def _rank(rank: int, world: int, folder: str, x: Tensor, grad: Tensor) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1")
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    norm, parts = made(torch.ones(8), torch.zeros(8), warmup=2), ([0, 1, 2], [3])  # of unequal size
    for batch, upstream in zip(x, grad, strict=True):
        mine = batch[parts[rank]].clone().requires_grad_()
        norm(mine).backward(upstream[parts[rank]])
    torch.save(norm.state_dict(), f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


def test_the_statistics_of_two_ranks_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    x, grad = torch.randn(4, 4, 5, 8), torch.randn(4, 4, 5, 8)
    mp.start_processes(_rank, args=(2, str(tmp_path), x, grad), nprocs=2, start_method="fork")
    whole = made(torch.ones(8), torch.zeros(8), warmup=2)
    for batch, upstream in zip(x, grad, strict=True):
        whole(batch.clone().requires_grad_()).backward(upstream)
    first, second = (torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2))
    for name in ("phi", "feedback", "steps"):
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], whole.state_dict()[name])
