"""SpikingFormer for text: against plain equations, with a real query and a real residual, saved and audited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.config.compose import load_config
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.rivals.normed_layers import TokenBatchNorm
from spikelm.rivals.spikingformer.membrane_bert import MembraneBertConfig, MembraneBertForSequenceClassification
from spikelm.spiking import load_pretrained, neurons, spikify

torch.set_num_threads(1)
NEURON = ClassSpec("spikelm.neurons.lif_sigmoid.LIFSigmoid", {"theta": 1.0})
LAYERS, HIDDEN, HEADS = 2, 32, 4


def model(T: int, **changes: Any) -> Any:
    torch.manual_seed(0)
    config = MembraneBertConfig(
        vocab_size=50,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=64,
        max_position_embeddings=12,
        initializer_range=0.3,
        **changes,
    )
    made: Any = spikify(MembraneBertForSequenceClassification(config), NEURON, T)
    with torch.no_grad():  # values that fire often enough for the attention's output to fire too
        for layer in made.bert.encoder.layer:
            layer.attention.self.value.norm.bias.fill_(2.5)
    return made.eval()


def batch() -> dict[str, Tensor]:
    mask = torch.ones(3, 8, dtype=torch.long)
    mask[1:, 5:] = 0
    return {
        "input_ids": torch.randint(0, 50, (3, 8), generator=torch.Generator().manual_seed(1)),
        "attention_mask": mask,
    }


def lif(x: Tensor, theta: float) -> Tensor:
    """Plain steps of the equation, tau = 2."""
    v, spikes = torch.zeros_like(x[0]), []
    for step in x:
        h = v + (step - v) / 2
        spikes.append((h >= theta).to(x.dtype))
        v = h * (1 - spikes[-1])
    return torch.stack(spikes)


def reference(made: Any, x: Tensor, mask: Tensor) -> Tensor:
    """The blocks step by step on x (T, B, n, H), with a loop over heads."""
    for layer in made.bert.encoder.layer:
        attention = layer.attention.self

        def normed(linear: Any, h: Tensor) -> Tensor:
            out = h @ linear.weight.T + linear.bias
            return F.layer_norm(out, out.shape[-1:], linear.norm.weight, linear.norm.bias, linear.norm.eps)

        x0 = lif(x, 1.0)
        q = normed(attention.query, x0)
        k, v = lif(normed(attention.key, x0), 1.0), lif(normed(attention.value, x0), 1.0)
        heads = []
        for part in torch.arange(HIDDEN).chunk(HEADS):
            scores = q[..., part] @ k[..., part].transpose(-1, -2) / (HIDDEN / HEADS) ** 0.5
            scores = scores.masked_fill(mask[:, None, :] == 0, -torch.inf)
            heads.append(scores.softmax(-1) @ v[..., part])
        x = x + normed(layer.attention.output.dense, lif(torch.cat(heads, -1), 0.3))
        x = x + normed(layer.output.dense, lif(normed(layer.intermediate.dense, lif(x, 1.0)), 1.0))
    return x.mean(0)


@pytest.mark.parametrize("T", [1, 4])
def test_matches_the_equations(T: int) -> None:
    made, rows = model(T, attention_threshold=0.3), batch()  # not at a value that rounding decides on
    with torch.no_grad():
        entered = made.bert.embeddings(rows["input_ids"])
        found = made.bert(**rows).last_hidden_state
        expected = reference(made, entered.expand(T, *entered.shape), rows["attention_mask"])
    assert expected.abs().max() > 1
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_query_and_residual_are_real_and_all_else_is_spikes() -> None:
    made, seen = model(4), {}
    layer = made.bert.encoder.layer[1]
    watched: dict[str, nn.Module] = {"query": layer.attention.self.query, "key": layer.attention.self.key}
    watched |= {"value": layer.attention.self.value, "residual": layer.attention.output}
    for name, module in watched.items():
        module.register_forward_hook(lambda _, args, output, name=name: seen.update({name: output}))
    with torch.no_grad():
        made(**batch())
    for name in ("key", "value"):
        assert set(seen[name].unique().tolist()) == {0.0, 1.0}
    for name in ("query", "residual"):
        assert len(seen[name].unique()) > 100


def test_the_audit_finds_additions_only() -> None:
    for T in (1, 4):
        report = audit(model(T), batch(), T)
        assert report.verdict == "fully"
        assert report.real_valued == ["bert.pooler.dense", "classifier"]
        assert len(report.encoder) == 8 * LAYERS


def test_the_attention_output_has_half_the_threshold() -> None:
    thresholds = {neuron.site.rpartition(".")[2]: neuron.theta for neuron in neurons(model(2))}  # type: ignore[attr-defined]
    assert thresholds.pop("attn_out_in") == 0.5
    assert set(thresholds.values()) == {1.0}
    other = {n.site.rpartition(".")[2]: n.theta for n in neurons(model(2, attention_threshold=0.25))}  # type: ignore[attr-defined]
    assert other["attn_out_in"] == 0.25


def test_batch_norm_is_over_rows_and_tokens() -> None:
    x = torch.randn(5, 7, 3) * 2 + 1
    expected = (x - x.mean((0, 1))) / (x.var((0, 1), unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(TokenBatchNorm(3)(x), expected)


@pytest.mark.parametrize("norm", ["ln", "bn"])
def test_saved_and_loaded_it_is_the_same(norm: str, tmp_path: Path) -> None:
    made = model(2, norm=norm)
    made.train()(**batch())  # running statistics of the batch norm, if it is one
    made.eval().save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    assert type(again).__name__ == "SpikingMembraneBertForSequenceClassification"
    with torch.no_grad():
        torch.testing.assert_close(again(**batch()).logits, made(**batch()).logits)


def test_wrong_options_are_refused() -> None:
    system = ["system=spikingformer_t1", "task=glue/sst2"]
    with pytest.raises(ConfigError, match=r"backbone\.options\.norm=rms is not valid; valid: ln, bn"):
        load_config([*system, "backbone.options.norm=rms"])
    with pytest.raises(ConfigError, match=r"unknown key backbone\.options\.nrm"):
        load_config([*system, "+backbone.options.nrm=ln"])
    with pytest.raises(ConfigError, match="has no plain form"):
        load_config([*system, "neuron=ann"])
    with pytest.raises(ConfigError, match="task=general_distill is not valid for SpikingFormer"):
        load_config([system[0], "task=general_distill"])
    with pytest.raises(ConfigError, match=r"distill\.start\.weights=teacher is for a BERT, not for SpikingFormer"):
        load_config([*system, "distill.start.weights=teacher"])
    with pytest.raises(ConfigError, match="weights=binary is not valid"):
        load_config([*system, "weights=binary"])
    with pytest.raises(ConfigError, match=r"options\.norm is not known to backbone\.kind=bert"):
        load_config(["+backbone.options.norm=ln"])


@pytest.mark.parametrize("T", [1, 4])
def test_silent_rows_leave_a_gradient_that_can_be_clipped(T: int) -> None:
    """Attention's output is silent at first: with BERT's eps the norm was infinite, and nothing was trained."""
    config = load_config(["scale=mini", f"system=spikingformer_t{T}", "task=glue/rte"])
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 8}
    own = MembraneBertConfig(**sizes, intermediate_size=384, initializer_range=0.05, **config.backbone.options)
    made: Any = spikify(MembraneBertForSequenceClassification(own), NEURON, T).train()
    made(**batch()).logits.square().sum().backward()
    norm = nn.utils.get_total_norm([p.grad for p in made.parameters() if p.grad is not None])
    assert 0 < float(norm) < 1e8
