"""Numbers of the paper's public implementation, where the folder that holds them is beside the project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig, BertModel

from spikelm.neurons.bispike import BiSpike
from spikelm.spiking import neurons, spikify

GOLDEN = Path(__file__).resolve().parents[2].parent / "shared" / "golden"
SHAPE = (
    "vocab_size",
    "max_position_embeddings",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
)

pytestmark = [
    pytest.mark.skipif(not GOLDEN.is_dir(), reason="no folder shared/golden beside the project"),
    pytest.mark.parametrize("T", [1, 4]),
]


def relative(ours: Tensor | None, golden: Tensor) -> float:
    assert ours is not None
    return ((ours - golden).norm() / golden.norm().clamp_min(1e-12)).item()


def load_bert(golden: dict[str, Tensor], path: Path, attention: str) -> BertModel:
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()["config"])
    config = BertConfig(
        **{key: facts[key] for key in SHAPE},
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation=attention,
    )
    model = BertModel(config)
    model.load_state_dict({key[2:]: value for key, value in golden.items() if key.startswith("w.")})
    return model


def test_one_spiking_linear(T: int) -> None:
    golden = {
        key.split(".", 1)[1]: value
        for key, value in load_file(GOLDEN / "neuron.safetensors").items()
        if key.startswith(f"T{T}.")
    }
    neuron = BiSpike(T)
    x, weight = golden["x"].clone().requires_grad_(), golden["weight"].clone().requires_grad_()
    out = torch.nn.functional.linear(neuron(x), weight, golden["bias"])
    out.backward(golden["grad_out"])
    torch.testing.assert_close(out, golden["out"], rtol=0, atol=1e-6)
    torch.testing.assert_close(neuron.alpha, golden["alpha"], rtol=0, atol=1e-6)
    assert relative(x.grad, golden["grad_x"]) < 2e-6
    assert relative(weight.grad, golden["grad_weight"]) < 2e-6


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_whole_bert(T: int, attention: str, bispike: dict) -> None:
    path = GOLDEN / f"spikebert_T{T}.safetensors"
    golden = load_file(path)
    model = spikify(load_bert(golden, path, attention), bispike, T).train()
    mask = golden["attention_mask"]
    first = model(golden["input_ids"], attention_mask=mask).last_hidden_state
    torch.testing.assert_close(first, golden["hidden_1"], rtol=0, atol=1e-6)
    second = model(golden["input_ids_2"], attention_mask=mask).last_hidden_state  # amplitudes frozen by now
    torch.testing.assert_close(second, golden["hidden_2"], rtol=0, atol=1e-6)
    second.backward(golden["grad_out_2"])
    found = list(neurons(model))
    assert len(found) == sum(key.startswith("alpha.") for key in golden)
    for neuron in found:
        wanted = golden["alpha." + neuron.site.removeprefix("encoder.layer.")]
        torch.testing.assert_close(neuron.alpha, wanted, rtol=0, atol=1e-6)
    parameters = dict(model.named_parameters())
    names = [key[2:] for key in golden if key.startswith("g.")]
    checked = {name: relative(parameters[name].grad, golden[f"g.{name}"]) for name in names}
    assert len(checked) > 30
    assert max(checked.values()) < 2e-6, max(checked, key=checked.__getitem__)
