"""Attention of the low-bit systems against plain loops, and their models saved and restored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn
from transformers import BertForSequenceClassification, BertModel

from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import ClassSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.spiking import load_pretrained, neurons, spikify
from spikelm.spiking.lowbit_attention import Bool, RankOne, attend

ELASTIC = ClassSpec("spikelm.neurons.elastic.Elastic")
SIGN = ClassSpec("spikelm.neurons.sign.Sign")
SPLIT = QuantizerSpec("spikelm.weights.split.Split", embeddings="rows")


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Whole(nn.Module):
    """An attention module whose probabilities pass as they are."""

    def __init__(self, variant: str) -> None:
        super().__init__()
        self.attention_variant = variant
        self.spike_probs = nn.Identity()
        self.spike_probs.T = 1  # type: ignore[assignment]


def test_bi_attention_is_a_boolean_map_of_positive_scores() -> None:
    query, key, value = (random(2, 3, 4, 5, seed=seed).sign() for seed in (1, 2, 3))
    mask = torch.zeros(2, 1, 4, 4, dtype=torch.float64)
    mask[1, :, :, 3] = torch.finfo(torch.float64).min
    module = SimpleNamespace(attention_variant="boolean", training=False)
    context, weights = attend(module, query, key, value, mask)
    for b in range(2):
        for h in range(3):
            for i in range(4):
                total = np.zeros(5)
                for j in range(4):
                    score = float(query[b, h, i] @ key[b, h, j]) / 5**0.5
                    on = score > 0 and not (b == 1 and j == 3)
                    assert float(weights[b, h, i, j]) == float(on)
                    total += on * value[b, h, j].numpy()
                np.testing.assert_allclose(context[b, i, h].numpy(), total)


def test_the_boolean_map_passes_gradients_near_zero() -> None:
    x = torch.tensor([-1.5, -0.9, 0.0, 0.4, 1.0, 2.0], requires_grad=True)
    out = Bool.apply(x)
    out.sum().backward()
    assert out.tolist() == [0, 0, 0, 1, 1, 1]
    assert x.grad is not None
    assert x.grad.tolist() == [0, 1, 1, 1, 0, 0]


def test_rank_one_corrections_of_scores_and_values() -> None:
    """scores = q k' + qm kp' + qp km' + qp kp', context = A v + A vp, the same for all heads (BiPFT)."""
    torch.manual_seed(0)
    estimators = RankOne(6, 0.5).double()
    hidden = random(2, 4, 6)
    query, key, value = (random(2, 3, 4, 2, seed=seed) for seed in (1, 2, 3))
    context, weights = attend(Whole("rank1"), query, key, value, None, residual=estimators(hidden))
    w, bias = estimators.estimate.weight.detach().numpy(), estimators.estimate.bias.detach().numpy()
    for b in range(2):
        qp, kp, qm, km, vp = (hidden[b].numpy() @ w[i] + bias[i] for i in range(5))
        for h in range(3):
            scores = np.empty((4, 4))
            for i in range(4):
                for j in range(4):
                    own = float(query[b, h, i] @ key[b, h, j])
                    scores[i, j] = own + qm[i] * kp[j] + qp[i] * km[j] + qp[i] * kp[j]
            expected = softmax(scores / 2**0.5, axis=-1)
            np.testing.assert_allclose(weights[b, h].detach().numpy(), expected)
            wanted = expected @ (value[b, h].numpy() + vp[:, None])
            np.testing.assert_allclose(context[b, :, h].detach().numpy(), wanted)


CASES = [
    (SIGN, None, VariantConfig(attention="boolean")),
    (ELASTIC, None, VariantConfig(attention="quantized", activation="relu", pooler=True)),
    (ELASTIC, None, VariantConfig(attention="rank1", pooler=True)),
    (ELASTIC, SPLIT, VariantConfig(attention="quantized", width=0.5)),
]


@pytest.mark.parametrize(("neuron", "weights", "variant"), CASES)
def test_a_variant_is_saved_and_restored(small, batch, tmp_path: Path, neuron, weights, variant) -> None:
    torch.manual_seed(0)
    model = spikify(BertForSequenceClassification(small()), neuron, 1, weights=weights, variant=variant).train()
    model(**batch, labels=torch.tensor([0, 1, 0])).loss.backward()
    without = [name for name, p in model.named_parameters() if p.grad is None]
    assert not without, "every parameter learns"
    model.eval().save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    assert {n.site for n in neurons(again)} == {n.site for n in neurons(model)}
    assert torch.equal(again(**batch).logits, model(**batch).logits)


def test_query_probabilities_and_pooler_get_neurons(small) -> None:
    variant = VariantConfig(attention="quantized", pooler=True)
    sites = [n.site for n in neurons(spikify(BertModel(small(num_hidden_layers=1)), ELASTIC, 1, variant=variant))]
    names = {"qkv_in", "query_out", "key_out", "value_out", "attn_probs", "attn_out_in", "ffn1_in", "ffn2_in"}
    assert {site.rpartition(".")[2] for site in sites} == names | {"pooler_in"}


def test_half_the_width_keeps_the_strongest_heads(small) -> None:
    model = BertModel(small(num_hidden_layers=1))
    attention = model.encoder.layer[0].attention
    size, heads = attention.self.attention_head_size, attention.self.num_attention_heads
    strength = attention.output.dense.weight.abs().unflatten(1, (heads, size)).sum((0, 2))
    strongest = sorted(strength.argsort(descending=True)[: heads // 2].tolist())
    rows = torch.cat([attention.self.query.weight[h * size : (h + 1) * size] for h in strongest]).clone()
    spikify(model, None, 1, weights=SPLIT, variant=VariantConfig(width=0.5))
    query = attention.self.query
    torch.testing.assert_close(query.weight + query.quantizer.second, rows)  # the halves of the split
    assert attention.self.num_attention_heads == heads // 2


def test_a_variant_of_attention_needs_a_neuron(small) -> None:
    with pytest.raises(ConfigError, match="needs a neuron"):
        spikify(BertModel(small()), None, 1, weights=SPLIT, variant=VariantConfig(attention="boolean"))
