"""The life of an amplitude: set by the first batch, the same on all ranks, kept through save and load."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from spikelm.errors import SpikeLMError
from spikelm.neurons.bispike import ALPHA_FLOOR, BiSpike


def test_first_training_batch_sets_it_and_the_second_does_not() -> None:
    neuron = BiSpike(1, k=3.0)
    x = torch.randn(1, 8, 16)
    neuron(x)
    torch.testing.assert_close(neuron.alpha, 3 * x.abs().mean(dim=(1, 2)))
    before = neuron.alpha.clone()
    neuron(10 * x)
    assert torch.equal(neuron.alpha, before)
    neuron.eval()(10 * x)
    assert torch.equal(neuron.alpha, before)


def test_without_memory_it_is_each_step_on_its_own() -> None:
    x = torch.randn(4, 8, 16)
    neuron = BiSpike(4, memory=False)
    neuron(x)
    torch.testing.assert_close(neuron.alpha, 2 * x.abs().mean(dim=(1, 2)))


def test_silence_gets_the_floor() -> None:
    neuron = BiSpike(2)
    assert not neuron(torch.zeros(2, 3, 3)).any()
    assert neuron.alpha.tolist() == pytest.approx([ALPHA_FLOOR] * 2)


def test_evaluation_before_training_names_the_site_and_the_fix() -> None:
    neuron = BiSpike(2).eval()
    neuron.site = "encoder.layer.3.ffn1_in"
    with pytest.raises(SpikeLMError, match=r"encoder\.layer\.3\.ffn1_in(.|\n)*fix: calibrate"):
        neuron(torch.randn(2, 3, 3))
    assert not neuron.ready


@pytest.mark.parametrize("alpha", ["frozen", "learnable"])
def test_save_and_load_keeps_it_through_fine_tuning(alpha: str, tmp_path: Path) -> None:
    neuron = BiSpike(3, alpha=alpha)
    neuron(torch.randn(3, 8, 16))
    torch.save(neuron.state_dict(), tmp_path / "neuron.pt")
    other = BiSpike(3, alpha=alpha)
    other.load_state_dict(torch.load(tmp_path / "neuron.pt"))
    assert torch.equal(other.alpha, neuron.alpha)
    x = (5 * torch.randn(3, 8, 16)).requires_grad_()
    parameters = [x, *other.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    other(x).square().sum().backward()
    optimizer.step()
    assert torch.equal(other.alpha, neuron.alpha) is (alpha == "frozen")
    assert other.alpha.detach().sub(neuron.alpha.detach()).abs().max() < 5  # a step, not a new start


def test_loading_an_unset_state_asks_for_a_first_batch_again() -> None:
    neuron, fresh = BiSpike(2), BiSpike(2).state_dict()
    neuron(torch.randn(2, 4, 4))
    neuron.load_state_dict(fresh)
    assert not neuron.ready
    neuron(torch.full((2, 4, 4), 0.5))
    assert neuron.alpha[0].item() == pytest.approx(1.0)


def test_reset_parameters_forgets_it() -> None:
    neuron = BiSpike(2)
    neuron(torch.randn(2, 4, 4))
    neuron.reset_parameters()
    assert not neuron.ready
    assert neuron.alpha.tolist() == [1, 1]


def test_learnable_never_falls_below_the_floor() -> None:
    neuron = BiSpike(1, alpha="learnable")
    neuron(torch.randn(1, 4, 4))
    with torch.no_grad():
        neuron.alpha.fill_(-1.0)
    assert torch.isfinite(neuron(torch.randn(1, 4, 4))).all()


def _one_rank(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
    neuron = BiSpike(2, memory=False)
    neuron(torch.full((2, 4, 4), 1.0 + rank))
    torch.save(neuron.alpha, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_ranks_agree_on_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_one_rank, args=(folder,), nprocs=2)
        alphas = [torch.load(f"{folder}/{rank}.pt") for rank in range(2)]
    assert torch.equal(*alphas)
    assert alphas[0].tolist() == [3.0, 3.0]  # k = 2 times the mean of 1 and 2
