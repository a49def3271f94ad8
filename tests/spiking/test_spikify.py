"""spikify: where neurons go, time folded into the batch, and what the rest of the model sees."""

from __future__ import annotations

import copy

import pytest
import torch
from transformers import BertForPreTraining, BertForSequenceClassification, BertModel, OPTConfig, OPTModel

from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.spiking import neurons, spikify

SITES = {
    "attention.self.spike_in": ("qkv_in", True),
    "attention.self.key.spike_out": ("key_out", False),
    "attention.self.value.spike_out": ("value_out", False),
    "attention.output.dense.spike_in": ("attn_out_in", True),
    "intermediate.dense.spike_in": ("ffn1_in", True),
    "output.dense.spike_in": ("ffn2_in", True),
}


def inputs_of(model: torch.nn.Module, path: str, seen: dict[str, torch.Tensor]) -> None:
    model.get_submodule(path).register_forward_pre_hook(lambda module, args: seen.update({path: args[0]}))


@pytest.mark.parametrize("T", [1, 4])
def test_neurons_sit_at_the_published_sites(small, bispike, T: int) -> None:
    model = spikify(BertModel(small(num_hidden_layers=3)), bispike, T)
    found = {name: module for name, module in model.named_modules() if ".spike_" in name}
    expected = {f"encoder.layer.{i}.{path}": fact for i in range(3) for path, fact in SITES.items()}
    assert set(found) == set(expected)
    assert len(list(neurons(model))) == 6 * 3
    for name, neuron in found.items():
        site, memory = expected[name]
        assert (neuron.site, neuron.memory) == (f"encoder.layer.{name.split('.')[2]}.{site}", memory)
    # Published count: one amplitude per t for each of 6 linears, K and V. Here q, k and v share one neuron.
    ours = sum(neuron.alpha.numel() for neuron in neurons(model))
    shared = sum(neuron.alpha.numel() for neuron in neurons(model) if neuron.site.endswith("qkv_in"))
    assert ours + 2 * shared == 8 * 3 * T


@pytest.mark.parametrize("T", [1, 4])
def test_linears_read_spikes_and_qkv_the_very_same_tensor(small, bispike, batch, T: int) -> None:
    model = spikify(BertModel(small()), bispike, T).train()
    attention = "encoder.layer.1.attention"
    seen: dict[str, torch.Tensor] = {}
    paths = [f"{attention}.self.{name}" for name in ("query", "key", "value")]
    rest = [f"{attention}.output.dense", "encoder.layer.1.intermediate.dense", "encoder.layer.1.output.dense"]
    for path in (*paths, *rest):
        inputs_of(model, path, seen)
    model(**batch)
    assert seen[paths[0]] is seen[paths[1]]
    assert seen[paths[0]] is seen[paths[2]]
    for path in (paths[0], *rest):
        assert all(len(step.unique()) <= 3 for step in seen[path].unflatten(0, (T, -1)))


def test_ann_checkpoint_loads_into_the_spiking_model(small, bispike) -> None:
    plain = BertModel(small())
    model = spikify(BertModel(small()), bispike, 4)
    assert set(plain.state_dict()) < set(model.state_dict())
    report = model.load_state_dict(plain.state_dict(), strict=False)
    assert not report.unexpected_keys
    assert all(".spike_" in key for key in report.missing_keys)
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]


def test_spikify_twice_is_refused(small, bispike) -> None:
    model = spikify(BertModel(small()), bispike, 1)
    with pytest.raises(ConfigError, match="spiking already"):
        spikify(model, bispike, 1)


@pytest.mark.parametrize("T", [0, -1])
def test_no_time_step_is_refused(small, bispike, T: int) -> None:
    with pytest.raises(ConfigError, match=f"T={T}"):
        spikify(BertModel(small()), bispike, T)


def test_unknown_architecture_is_refused(bispike) -> None:
    size = {"hidden_size": 8, "word_embed_proj_dim": 8, "ffn_dim": 8, "vocab_size": 10, "max_position_embeddings": 8}
    model = OPTModel(OPTConfig(num_hidden_layers=1, num_attention_heads=1, **size))
    with pytest.raises(ConfigError, match=r"'opt' \(known: bert"):
        spikify(model, bispike, 1)
    assert type(model) is OPTModel


def test_a_neuron_that_cannot_be_built_leaves_the_model_plain(small, bispike, batch) -> None:
    model = BertModel(small()).eval()
    wanted = model(**batch).last_hidden_state
    with pytest.raises(ConfigError):
        spikify(model, ClassSpec("spikelm.neurons.bispike.NoSuchNeuron"), 4)
    assert torch.equal(model(**batch).last_hidden_state, wanted)
    assert spikify(model, bispike, 4).train()(**batch).last_hidden_state.shape == wanted.shape


@pytest.mark.parametrize("T", [1, 4])
@pytest.mark.parametrize("cls", [BertModel, BertForSequenceClassification, BertForPreTraining])
def test_recorded_outputs_have_no_time_axis(small, bispike, batch, cls, T: int) -> None:
    model = spikify(cls(small(attn_implementation="eager")), bispike, T).train()
    model(**batch)
    full = model(**batch, output_hidden_states=True, output_attentions=True)
    assert [tuple(x.shape) for x in full.hidden_states] == [(3, 11, 32)] * 3
    assert [tuple(x.shape) for x in full.attentions] == [(3, 4, 11, 11)] * 2
    if cls is BertModel:
        assert torch.equal(full.hidden_states[-1], full.last_hidden_state)
    flat = model(**batch, output_hidden_states=True, output_attentions=True, return_dict=False)
    recorded = [value for value in flat if isinstance(value, tuple) and value]
    assert len(recorded) == 2
    assert {tuple(x.shape) for value in recorded for x in value} == {(3, 11, 32), (3, 4, 11, 11)}
    assert torch.equal(flat[0], full[0])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("T", [1, 4])
def test_padding_does_not_reach_real_tokens(small, bispike, batch, T: int, attention: str) -> None:
    model = spikify(BertModel(small(attn_implementation=attention)), bispike, T).train()
    model(**batch)
    model.eval()
    other = {**batch, "input_ids": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 7)}
    assert not torch.equal(other["input_ids"], batch["input_ids"])
    real = batch["attention_mask"].bool()
    a, b = (model(**x).last_hidden_state for x in (batch, other))
    torch.testing.assert_close(a[real], b[real], rtol=0, atol=1e-6)
    alone = model(input_ids=batch["input_ids"][2:, :5]).last_hidden_state
    torch.testing.assert_close(a[2:, :5], alone, rtol=0, atol=1e-5)


def test_time_mean_equals_an_unfolded_run(small, bispike, batch) -> None:
    """The encoder run by hand on T stacked copies, averaged, is what the model returns."""
    T = 4
    model = spikify(BertModel(small()), bispike, T).train()
    model(**batch)
    model.eval()
    wanted = model(**batch)
    x = model.embeddings(input_ids=batch["input_ids"])
    hidden = torch.cat([x] * T)
    mask = torch.cat([batch["attention_mask"]] * T)[:, None, None, :].bool()
    for layer in model.encoder.layer:
        hidden = layer(hidden, mask)
    steps = hidden.view(T, *x.shape)
    assert not torch.equal(steps[0], steps[1])
    torch.testing.assert_close(wanted.last_hidden_state, sum(steps) / T, rtol=0, atol=1e-6)
    torch.testing.assert_close(wanted.pooler_output, model.pooler(sum(steps) / T), rtol=0, atol=1e-6)


def test_batch_size_equal_to_another_dimension(small, bispike) -> None:
    """Only the batch axis is repeated over time, also where the length or layer count equals the batch."""
    model = spikify(BertModel(small()), bispike, 4).train()
    ids = torch.randint(0, 90, (2, 2))
    model(input_ids=ids)
    model.eval()
    positions = torch.arange(2)[None].expand(2, -1)
    explicit = model(input_ids=ids, position_ids=positions, attention_mask=torch.ones(2, 2, dtype=torch.long))
    torch.testing.assert_close(model(input_ids=ids).last_hidden_state, explicit.last_hidden_state)
    one = torch.cat([model(input_ids=ids[i : i + 1]).last_hidden_state for i in range(2)])
    torch.testing.assert_close(model(input_ids=ids).last_hidden_state, one, rtol=0, atol=1e-6)


def test_a_copy_is_independent(small, bispike, batch) -> None:
    model = spikify(BertModel(small()), bispike, 2).train()
    model(**batch)
    before = model(**batch).last_hidden_state
    other = copy.deepcopy(model)
    with torch.no_grad():
        for neuron in neurons(other):
            neuron.alpha.mul_(3)
    assert torch.equal(model(**batch).last_hidden_state, before)
    assert not torch.equal(other(**batch).last_hidden_state, before)
    assert not {id(n) for n in neurons(model)} & {id(n) for n in neurons(other)}


def test_evaluation_before_training_says_which_site(small, bispike, batch) -> None:
    model = spikify(BertModel(small()), bispike, 2).eval()
    with pytest.raises(SpikeLMError, match=r"encoder\.layer\.0\.qkv_in"):
        model(**batch)


@pytest.mark.parametrize("T", [1, 4])
def test_gradient_checkpointing_changes_nothing(small, bispike, batch, T: int) -> None:
    model = spikify(BertModel(small()), bispike, T).train()
    model(**batch)
    grads = []
    for checkpointing in (False, True):
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.zero_grad()
        model(**batch).last_hidden_state.square().sum().backward()
        grads.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert all(torch.equal(grads[0][name], grads[1][name]) for name in grads[0])


NEURON_PARAMETERS: list[tuple[ClassSpec, int]] = [
    (ClassSpec("spikelm.neurons.psn.PSN"), 20),
    (ClassSpec("spikelm.neurons.bispike.BiSpike", {"alpha": "learnable"}), 4),
    (ClassSpec("spikelm.neurons.bispike.BiSpike"), 0),
    (ClassSpec("spikelm.neurons.lif.LIF"), 0),
]


@pytest.mark.parametrize("neuron, extra", NEURON_PARAMETERS)
def test_parameters_added_per_neuron(small, neuron: ClassSpec, extra: int) -> None:
    plain = sum(p.numel() for p in BertModel(small()).parameters())
    model = spikify(BertModel(small()), neuron, 4)
    assert sum(p.numel() for p in model.parameters()) == plain + 12 * extra
