"""Specs of neurons and quantisers: from YAML and back, from a class at hand, and through a record."""

from __future__ import annotations

import pytest

from spikelm.config.compose import load_config
from spikelm.config.recorded import from_record, to_record
from spikelm.config.settings.specs import ClassSpec, NeuronSpec, NormSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.neurons.bispike import BiSpike
from spikelm.runs.prerequisites import previous_of
from spikelm.store.atomic import plain
from spikelm.weights.binary import Binary

NODE = {"name": "uniform", "_target_": "a.B", "bits": 8, "spikes": False, "from_data": True, "width": 8}


def test_what_describes_a_neuron_is_apart_from_the_arguments_of_its_class() -> None:
    spec = NeuronSpec.from_mapping(NODE)
    assert (spec.target, spec.arguments, spec.name, spec.bits, spec.spikes) == (
        "a.B",
        {"width": 8},
        "uniform",
        8,
        False,
    )
    assert spec.to_mapping() == NODE
    assert not NeuronSpec()
    assert NeuronSpec.from_mapping({"name": "ann"}) == NeuronSpec()


def test_a_spec_of_a_class_at_hand() -> None:
    assert ClassSpec.of(BiSpike, k=2) == ClassSpec("spikelm.neurons.bispike.BiSpike", {"k": 2})
    assert ClassSpec.of(BiSpike).having(k=3).arguments == {"k": 3}
    spec = QuantizerSpec.of(Binary, rows=True, embeddings="rows")
    assert (spec.arguments, spec.embeddings) == ({"rows": True}, "rows")


@pytest.mark.parametrize("system", ["bert", "spikelm_t4", "bit_multi", "binarybert_w1a2"])
def test_a_config_survives_its_record(system: str) -> None:
    config = load_config([f"system={system}", "scale=paper", "source=embedded"])
    assert from_record(plain(to_record(config))) == config


def test_a_previous_student_is_this_one_where_nothing_else_is_said() -> None:
    config = load_config(["system=bit_multi", "finetune.lr=1e-4", "+previous.finetune.batch=8"])
    before = previous_of(config)
    assert (config.neuron.arguments["width"], before.neuron.arguments["width"]) == (1, 2)
    assert (before.weights, before.variant, before.finetune.lr) == (config.weights, config.variant, 1e-4)
    assert (config.finetune.batch, before.finetune.batch) == (32, 8)


def test_a_previous_student_may_have_other_operators() -> None:
    words = ["system=sorbet_bert", "distill.start.weights=previous", "distill.teacher.model=previous"]
    config = load_config([*words, "+previous.norm.name=layernorm", "+previous.finetune.batch=8"])
    before = previous_of(config)
    assert (before.norm, before.attention) == (NormSpec(), config.attention)
    assert from_record(plain(to_record(config))) == config


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["+previous.neuron.width=1"], "unknown key previous.neuron.width"),
        (["+previous.neuron=3"], "previous.neuron=3 is not valid; it is a mapping, as in conf/neuron/"),
        (["+previous.other=3"], "unknown key previous.other"),
        (["+previous.variant.widht=0.5"], "widht"),
        (["neuron._target_=null"], "unknown key neuron.k"),
        (["neuron=ann", "+neuron.k=2"], "unknown key neuron.k"),
        (["neuron.bits=many"], "neuron.bits=many is not valid; valid: ter, 2 x ter, or a whole number of at least 1"),
        (["+neuron.spikes=2"], "neuron.spikes=2 is not valid; valid: true or false"),
        (
            ["weights=binary", "weights.embeddings=all"],
            "weights.embeddings=all is not valid; valid: none, tensor",
        ),
        (["neuron._target_=spikelm.neurons.lif.NoSuchNeuron"], "there is no class spikelm.neurons.lif.NoSuchNeuron"),
        (["+neuron.T=2"], "unknown key neuron.T"),
    ],
)
def test_a_mistake_in_a_spec_is_named(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(overrides)
    assert says in caught.value.what
