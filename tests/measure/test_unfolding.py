"""Neurons that unfold into several spikes: what is counted of them, and what the audit believes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from spikelm.measure.audit import audit
from spikelm.measure.firing import FiringMeter
from spikelm.neurons import ClassSpec
from spikelm.neurons.unfolding.residual import Residual
from spikelm.spiking import calibrate, neurons, spikify

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


class OffByALittle(Residual):
    """Its spikes do not add up to its output."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-3 * x


class TwoHeights(Residual):
    """One of its virtual steps has two heights."""

    def unfold(self, x: Tensor) -> Tensor:
        return self.forward(x)[None]


def made(kind: type, T: int = 1, attention: str = "sdpa", **arguments: Any) -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    batch = {"input_ids": torch.randint(100, (4, 12))}
    model = BertModel(BertConfig(vocab_size=100, **SIZES, attn_implementation=attention))  # type: ignore[arg-type]
    spikify(model, ClassSpec.of(Residual, **arguments), T=T)
    for neuron in neurons(model):
        neuron.__class__ = kind
    return calibrate(model, batch), batch


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("arguments", [{}, {"steps": 3, "heights": "data"}, {"steps": 4, "scale": "token"}])
@pytest.mark.parametrize("T", [1, 2])
def test_every_product_is_spike_driven(attention: str, arguments: dict[str, Any], T: int) -> None:
    model, batch = made(Residual, T, attention, **arguments)
    report = audit(model, batch, T)
    assert report.verdict == "fully"
    assert report.real_valued == ["pooler.dense"]
    assert all(neuron._forward_hooks == {} for neuron in neurons(model))


def test_rates_of_audit_and_meter_are_spikes_a_value() -> None:
    model, batch = made(Residual, steps=3, k=4.0)
    with FiringMeter(model) as meter, torch.no_grad():
        model.eval()(**batch)
    rates = meter.by_site()
    assert max(rates.values()) > 1
    seen = {row.module: row.rate for row in audit(model, batch, 1).encoder if row.kind == "linear"}
    assert seen["encoder.layer.1.output.dense"] == pytest.approx(rates["encoder.layer.1.ffn2_in"])


@pytest.mark.parametrize("broken", [OffByALittle, TwoHeights])
def test_a_broken_unfolding_is_caught(broken: type) -> None:
    model, batch = made(broken)
    assert audit(model, batch, 1).verdict == "partly"
    assert "encoder.layer.0.output.dense" in audit(model, batch, 1).real_valued


def test_a_code_that_is_changed_on_its_way_is_caught() -> None:
    model, batch = made(Residual)
    dense: Any = model.get_submodule("encoder.layer.0.output.dense")
    dense.register_forward_pre_hook(lambda module, args: (args[0] + 0.01,))
    assert "encoder.layer.0.output.dense" in audit(model, batch, 1).real_valued
    dense.register_forward_pre_hook(lambda module, args: (args[0].mul_(args[0]),))
    assert "encoder.layer.0.output.dense" in audit(model, batch, 1).real_valued


def test_a_code_that_is_changed_through_a_view_is_caught() -> None:
    model, batch = made(Residual)
    dense: Any = model.get_submodule("encoder.layer.0.output.dense")

    def noisy(module: nn.Module, args: tuple) -> tuple:
        args[0].view(-1).add_(0.01 * torch.randn(args[0].numel()))
        return args

    dense.register_forward_pre_hook(noisy)
    assert "encoder.layer.0.output.dense" in audit(model, batch, 1).real_valued
