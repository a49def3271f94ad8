"""spikelm-energy: the terms of a backbone's sizes, and the card of a folder, of a function's model and of sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import DistilBertConfig, DistilBertModel

from spikelm.cli.energy.energy_command import energy_main
from spikelm.errors import ConfigError

SIZES = {"vocab_size": 40, "dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 16}
MACS = 8 * (4 * 16 * 16 + 2 * 16 * 32) + 2 * 8 * 8 * 16  # of 8 tokens


def card(capsys: pytest.CaptureFixture[str], *words: str) -> dict:  # type: ignore[type-arg]
    assert energy_main([*words, "--json"]) == 0
    told: dict = json.loads(capsys.readouterr().out)  # type: ignore[type-arg]
    return told


def test_a_distilbert_from_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a config.json alone its weights are random; lists of blocks are found in an unknown architecture."""
    DistilBertConfig(**SIZES, architectures=["DistilBertModel"]).save_pretrained(tmp_path)
    told = card(capsys, str(tmp_path), "--length", "8", "--rows", "2")
    assert "weights are random" in told["inputs"]
    assert told["counts"]["rows"] == 2
    assert told["modelled"][0]["network"] == pytest.approx(MACS * 4.6e-9)
    assert told["measured"]["seconds"]["median"] > 0
    DistilBertModel(DistilBertConfig(**SIZES)).save_pretrained(tmp_path)
    assert "random;" not in card(capsys, str(tmp_path), "--length", "8")["inputs"]


def test_a_function_of_ones_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "import torch\ndef net():\n    return torch.nn.Linear(6, 5), (torch.rand(4, 3, 6) < 0.5).float()\n"
    (tmp_path / "own_nets.py").write_text(made)
    monkeypatch.chdir(tmp_path)
    told = card(capsys, "own_nets:net", "T=4", "--rows", "3")
    (one,) = told["counts"]["products"]
    assert (one["reads"], one["steps"], one["macs"]) == ("spikes", 4, 4 * 3 * 30)
    for wrong, message in (("own_nets:other", "no function"), ("not_there:net", "not_there")):
        with pytest.raises(ConfigError, match=message):
            energy_main([wrong])
    with pytest.raises(ConfigError, match="only T"):
        energy_main(["own_nets:net", "neuron=lif"])


def test_the_printed_card_says_what_is_modelled(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["backbone=bert_tiny", "T=2", "--rate", "0.3", "--card", "--length", "16", "--blocks", "--sites"]
    assert energy_main(words) == 0
    told = capsys.readouterr().out
    for part in ("drawn at random at rate 0.3", "pooler.dense", "memory-16", "modelled", "encoder.layer.1.ffn2_in"):
        assert part in told
    modelled, measured = told.split("Measured on this machine")
    assert "Joules" in measured
    assert "Joules" not in modelled


def test_sizes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert energy_main(["backbone=bert_base", "T=4", "--rate", "0.342", "--estimators"]) == 0
    told = capsys.readouterr().out
    assert "51.40" in told
    assert "13.76" in told


def test_a_decoder_needs_no_task(capsys: pytest.CaptureFixture[str]) -> None:
    """A token meets 12 x 12 x 768^2 weights in 12 layers and, of 512 in turn, 256.5 tokens in the mean, twice."""
    assert energy_main(["backbone=gpt2", "T=4", "--length", "512"]) == 0
    millijoules = (12 * 12 * 768**2 + 12 * 2 * 256.5 * 768) * 4.6e-9
    assert f"ANN {millijoules:.4f} mJ" in capsys.readouterr().out


def test_every_term_of_a_bart_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["backbone=bart_base", "T=4", "--length", "512", "--target", "64", "--rate", "0.39"]
    assert energy_main(arguments) == 0
    text = capsys.readouterr().out
    for piece in (
        "31,293,702,144",
        "144.0 mJ",
        "cross a x v",
        "cross_value_out",
        "lm head 2,470,625,280",
    ):
        assert piece in text, piece
    assert "…" not in text


def test_operators_are_said_not_to_be_counted(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for words in ([], ["attention=ptsoftmax", "norm=bspn"]):
        assert energy_main(["backbone=bert_tiny", *words]) == 0
        printed.append(capsys.readouterr().out)
    plain, replaced = (text.split("Only matmuls are counted") for text in printed)
    assert plain[0] == replaced[0], "the numbers are the same"
    assert " ".join(replaced[1].split()) == (
        ", and no operator between them, ptsoftmax in place of the softmax and bspn in place of the LayerNorms of the "
        "blocks among them."
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["backbone=bert_tiny", "--json"], "option of a card"),
        (["backbone=bert_tiny", "--card"], "64 positions"),
        (["one", "two"], "several models"),
    ],
)
def test_mistakes(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        energy_main(words)
