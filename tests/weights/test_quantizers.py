"""Weight quantisers against closed forms and plain numpy, and inside a model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import special
from torch import Tensor
from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification, BertModel

from spikelm.config.settings.specs import ClassSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.spiking import load_pretrained, spikify, spiking_class
from spikelm.weights import build_quantizer, quantized
from spikelm.weights.binary import Binary
from spikelm.weights.ternary import TernaryWeights
from spikelm.weights.uniform import UniformWeights

BINARY = QuantizerSpec("spikelm.weights.binary.Binary", {"rows": False}, embeddings="rows")
BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike", {"k": 2.0})


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def small() -> BertConfig:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertConfig(vocab_size=30, max_position_embeddings=16, **sizes)


def batch() -> dict[str, Tensor]:
    ids = torch.randint(1, 30, (3, 7), generator=torch.Generator().manual_seed(3))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("centre", ["none", "tensor", "row"])
def test_binary_weights_are_the_mean_magnitude_with_the_sign_about_the_centre(rows: bool, centre: str) -> None:
    weight = gaussian(5, 8) + 0.3
    found = Binary(rows=rows, centre=centre)(weight).numpy()
    w = weight.numpy()
    middle = {"none": 0.0, "tensor": w.mean(), "row": w.mean(1, keepdims=True)}[centre]
    scale = np.abs(w).mean(1, keepdims=True) if rows else np.abs(w).mean()
    np.testing.assert_allclose(found, scale * np.sign(w - middle), rtol=1e-12)
    assert np.abs(found).mean() == pytest.approx(np.abs(w).mean(), rel=1e-12)


def test_the_gradient_of_binary_weights_is_straight_through_or_clipped() -> None:
    weight = torch.tensor([[0.5, -1.4, 2.1, -0.2]], dtype=torch.float64, requires_grad=True)
    grad = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    (identity,) = torch.autograd.grad(Binary(centre="none")(weight), weight, grad)
    (clipped,) = torch.autograd.grad(Binary(centre="none", gradient="clip")(weight), weight, grad)
    assert identity.tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert clipped.tolist() == [[1.0, 0.0, 0.0, 4.0]]


@pytest.mark.parametrize("rows", [False, True])
def test_ternary_weights_have_twns_threshold_and_scale(rows: bool) -> None:
    weight = 0.3 * gaussian(6, 50)  # within the clip
    found = TernaryWeights(rows=rows)(weight)
    for w, q in zip(weight, found, strict=True) if rows else [(weight, found)]:
        magnitudes = [abs(float(value)) for value in w.flatten()]
        threshold = 0.7 * sum(magnitudes) / len(magnitudes)
        kept = [m for m in magnitudes if m > threshold]
        scale = sum(kept) / len(kept)
        wanted = [math.copysign(scale, v) if abs(v) > threshold else 0.0 for v in w.flatten().tolist()]
        assert q.flatten().tolist() == pytest.approx(wanted, rel=1e-12)


def test_ternary_keeps_the_closed_form_share_of_gaussian_weights() -> None:
    """P(|w| > 0.7 sqrt(2 / pi)) = erfc(0.7 / sqrt(pi)) = 57.65%."""
    share = special.erfc(0.7 / math.sqrt(math.pi))
    assert share == pytest.approx(0.5765, abs=1e-4)
    found = TernaryWeights()(0.1 * gaussian(1000, 1000))
    assert float((found != 0).double().mean()) == pytest.approx(share, abs=2e-3)


def test_ternary_gradient_stops_at_the_clip() -> None:
    weight = torch.tensor([[0.1, 2.4, 2.5, -2.6]], dtype=torch.float64, requires_grad=True)
    TernaryWeights()(weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [[1.0, 1.0, 0.0, 0.0]]


def test_two_bits_scaled_by_the_largest_collapse() -> None:
    """round(w / max) is 0 for |w| < max / 2: nearly every Gaussian weight."""
    weight = gaussian(512, 512)
    found = UniformWeights(width=2)(weight)
    assert float((found == 0).double().mean()) > 0.9
    largest = float(weight.abs().max())
    assert set(found.unique().tolist()) <= {-largest, 0.0, largest}


def test_uniform_levels_are_multiples_of_the_step() -> None:
    weight = gaussian(20, 20)
    step = float(weight.abs().max()) / 127
    found = UniformWeights(width=8)(weight)
    np.testing.assert_allclose(found.numpy(), np.round(weight.numpy() / step) * step, atol=1e-12)


@pytest.mark.parametrize("neuron", [None, BISPIKE])
@pytest.mark.parametrize("cls", [BertModel, BertForSequenceClassification, BertForPreTraining])
def test_a_quantised_model_is_saved_and_restored(tmp_path: Path, cls: type, neuron: dict | None) -> None:
    torch.manual_seed(0)
    plain = cls(small())
    names = set(plain.state_dict())
    model = spikify(plain, neuron, 2 if neuron else 1, weights=BINARY).train()
    model(**batch())
    assert names <= set(model.state_dict()), "no parameter changes its name"
    model.eval().save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    assert len(list(quantized(again))) == 2 * 6 + 1
    assert torch.equal(again(**batch())[0], model(**batch())[0])


def test_the_model_computes_with_what_the_quantiser_makes() -> None:
    """The same output as a plain model whose matrices were quantised beforehand; heads and positions are real."""
    torch.manual_seed(0)
    model = BertModel(small()).eval()
    by_hand = BertModel(small()).eval()
    by_hand.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, weight in by_hand.named_parameters():
            if ".layer." in name and weight.dim() == 2:
                weight.copy_(weight.abs().mean() * torch.sign(weight - weight.mean()))
            if "word_embeddings" in name:
                weight.copy_(weight.abs().mean(1, keepdim=True) * torch.sign(weight - weight.mean()))
    spikify(model, None, 1, weights=BINARY)
    found = model(**batch()).last_hidden_state
    torch.testing.assert_close(found, by_hand(**batch()).last_hidden_state)


def test_a_plain_checkpoint_fits_and_latent_weights_learn(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = spikify(BertForSequenceClassification(small()), None, 1, weights=BINARY).train()
    weight = model.bert.encoder.layer[0].output.dense.weight
    model(**batch(), labels=torch.tensor([0, 1, 0])).loss.backward()
    assert weight.grad is not None
    assert float(weight.grad.abs().sum()) > 0
    model.save_pretrained(tmp_path)
    assert type(model) is spiking_class(BertForSequenceClassification)
    plain = BertForSequenceClassification.from_pretrained(tmp_path)
    assert torch.equal(plain.bert.encoder.layer[0].output.dense.weight, weight)


def test_a_quantiser_of_another_package_is_refused() -> None:
    with pytest.raises(ConfigError, match="allowed packages"):
        build_quantizer(ClassSpec("os.system"))
