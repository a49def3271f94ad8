"""BART and mBART built from a backbone: published sizes on the meta device, special tokens, loading."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from transformers import BartForConditionalGeneration, MBartForConditionalGeneration

from spikelm.catalog.checkpoint_files import read_sizes
from spikelm.config.compose import load_config
from spikelm.errors import CheckpointError, ConfigError
from spikelm.measure.workload import parameter_count as planned
from spikelm.models.bart import SpecialTokens, build_seq2seq, load_seq2seq, seq2seq_config
from spikelm.models.bert import bert_config, parameter_count
from spikelm.spiking import Spiking, neurons

TOKENS = SpecialTokens(pad=0, bos=2, eos=3, start=2)
SMALL = ["backbone.hidden=32", "backbone.heads=4", "backbone.intermediate=64", "backbone.vocab=60"]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("bart_base", 139_420_416),
        ("mbart_large", 610_851_840),
        ("bart_mini", None),
        ("mbart_mini", None),
        ("marian_tiny", None),
    ],
)
@pytest.mark.parametrize("neuron", ["ann", "bispike"])
def test_published_parameter_counts(name: str, wanted: int | None, neuron: str) -> None:
    config = load_config([f"backbone={name}", f"neuron={neuron}", "T=4"])
    with torch.device("meta"):
        model = build_seq2seq(config)
    assert parameter_count(model) == planned(config.backbone, pretraining=False)
    assert wanted is None or parameter_count(model) == wanted
    assert model.lm_head.weight is model.model.shared.weight


@pytest.mark.parametrize(
    "name, cls", [("bart_mini", BartForConditionalGeneration), ("mbart_mini", MBartForConditionalGeneration)]
)
def test_a_backbone_becomes_the_model_it_describes(name: str, cls: type) -> None:
    config = load_config([f"backbone={name}", "neuron=ann", "backbone.decoder_layers=3", *SMALL])
    model = build_seq2seq(config, vocab=50, tokens=TOKENS)
    assert type(model) is cls
    assert (len(model.model.encoder.layers), len(model.model.decoder.layers)) == (2, 3)
    assert model.model.shared.weight.shape == (50, 32)
    assert model.config.scale_embedding == (name == "mbart_mini")
    assert hasattr(model.model.decoder, "layer_norm") == (name == "mbart_mini")
    spread = model.model.encoder.embed_positions.weight.std()
    assert float(spread.detach()) == pytest.approx(config.backbone.position_init, rel=0.1)
    made = model.eval().generate(input_ids=torch.randint(4, 50, (2, 7)), max_new_tokens=5)
    assert (made[:, 0] == TOKENS.start).all()
    assert ((made[:, -1] == TOKENS.eos) | (made[:, -1] == TOKENS.pad)).all()


@pytest.mark.parametrize("name", ["bart_mini", "mbart_mini", "marian_tiny"])
def test_a_student_starts_from_its_teacher_and_goes_on_from_itself(name: str, tmp_path: Path) -> None:
    teacher = build_seq2seq(load_config([f"backbone={name}", "neuron=ann", *SMALL]), tokens=TOKENS)
    teacher.save_pretrained(tmp_path / "teacher")
    config = load_config([f"backbone={name}", "neuron=bispike", "T=2", "backbone.dropout=0.2", *SMALL])
    student = load_seq2seq(config, tmp_path / "teacher")
    assert isinstance(student, Spiking)
    assert student.config.dropout == 0.2
    state = student.state_dict()
    assert all(torch.equal(state[key], value) for key, value in teacher.state_dict().items())
    assert not any(neuron.ready for neuron in neurons(student))
    ids = torch.randint(4, 60, (2, 7))
    student.train()(input_ids=ids, decoder_input_ids=ids)
    student.save_pretrained(tmp_path / "student")
    again = load_seq2seq(config, tmp_path / "student")
    assert [n.alpha.tolist() for n in neurons(again)] == [n.alpha.tolist() for n in neurons(student)]
    other = load_seq2seq(load_config([f"backbone={name}", "neuron=bispike", "T=4", *SMALL]), tmp_path / "student")
    assert not any(neuron.ready for neuron in neurons(other))
    assert all(torch.equal(other.state_dict()[key], value) for key, value in teacher.state_dict().items())


def test_sizes_of_a_checkpoint(tmp_path: Path) -> None:
    config = load_config(["backbone=bart_mini", "neuron=ann", *SMALL])
    build_seq2seq(config).save_pretrained(tmp_path)
    found = read_sizes(str(tmp_path), "bart")
    assert found == {key: asdict(config.backbone)[key] for key in found}
    assert found["decoder_layers"] == 2
    for kind in ("bert", "mbart"):
        with pytest.raises(ConfigError, match=r"config\.json"):
            read_sizes(str(tmp_path), kind)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    bert, bart = (load_config([f"backbone={name}"]) for name in ("bert_mini", "bart_mini"))
    with pytest.raises(ConfigError, match="needs an encoder-decoder"):
        seq2seq_config(bert.backbone)
    with pytest.raises(ConfigError, match="needs a BERT"):
        bert_config(bart.backbone, 100)
    with pytest.raises(CheckpointError, match="cannot be loaded"):
        load_seq2seq(load_config(["backbone=bart_mini", "neuron=ann"]), tmp_path)
    for wrong in (
        ["backbone.decoder_layers=2"],
        ["backbone=bart_mini", "backbone.decoder_layers=0"],
        ["backbone.kind=t5"],
    ):
        with pytest.raises(ConfigError, match="not valid"):
            load_config(wrong)
