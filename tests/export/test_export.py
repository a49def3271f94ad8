"""Exported models: the trained one in double precision, exact products in int8, loaded by transformers' own code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from rich.console import Console
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertForSequenceClassification

from spikelm.cli.export import export_main
from spikelm.cli.predict import predict_main
from spikelm.config.compose import load_config
from spikelm.config.settings.specs import ClassSpec
from spikelm.data.sources.rows import load_rows
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.export import ExportedBertForSequenceClassification, Merged
from spikelm.export.convert import export, round_weights
from spikelm.export.linears import SpikeLinear
from spikelm.neurons import build_neuron
from spikelm.neurons.bispike import BiSpike
from spikelm.neurons.kernels.inference import levels
from spikelm.runs.experiment import run_experiment
from spikelm.spiking import neurons, spikify

BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
LIF = ClassSpec("spikelm.neurons.lif.LIF")
NEURONS = {
    "bispike": BISPIKE,
    "paper": BISPIKE.having(fire="paper", reset="paper"),
    "normalized": BISPIKE.having(reset="normalized", direction="uni"),
    "learnable": BISPIKE.having(alpha="learnable"),
    "lif": LIF,
    "lif_round": LIF.having(theta=0.3, fire="round"),
}

RESIDUAL = ClassSpec("spikelm.neurons.unfolding.residual.Residual", {"steps": 3, "k": 4.0})
CODES = {
    "residual": RESIDUAL,
    "residual by token": RESIDUAL.having(scale="token"),
    "place": ClassSpec("spikelm.neurons.unfolding.place.Place", {"width": 5}),
    "stbif": ClassSpec("spikelm.neurons.unfolding.stbif.STBIF"),
    "levels": ClassSpec("spikelm.neurons.unfolding.levels.Levels"),
    "phase": ClassSpec("spikelm.neurons.unfolding.phase.Phase"),
    "dynamic": ClassSpec("spikelm.neurons.unfolding.dynamic.Dynamic"),
}


def inputs() -> dict[str, torch.Tensor]:
    mask = torch.ones(4, 9, dtype=torch.long)
    mask[1, 5:] = 0
    types = torch.zeros(4, 9, dtype=torch.long)
    types[:, 4:] = 1
    return {"input_ids": torch.randint(1, 60, (4, 9)), "attention_mask": mask, "token_type_ids": types}


def trained(neuron: ClassSpec, T: int, **options: Any) -> Any:
    """A small random classifier whose amplitudes are set, with T different ones at every site."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    config = BertConfig(vocab_size=60, max_position_embeddings=16, num_labels=3, initializer_range=0.3, **sizes)
    model: Any = spikify(BertForSequenceClassification(config).double(), neuron, T, **options).train()
    with torch.no_grad():
        model(**inputs())
    return model.eval()


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("name", [*NEURONS, *CODES])
def test_the_exported_model_is_the_trained_one(name: str, T: int) -> None:
    model = trained({**NEURONS, **CODES}[name], T)
    batch = inputs()
    made = export(model)
    torch.testing.assert_close(made(**batch).logits, model(**batch).logits, rtol=0, atol=1e-12)
    unmasked = {"input_ids": batch["input_ids"]}
    torch.testing.assert_close(made(**unmasked).logits, model(**unmasked).logits, rtol=0, atol=1e-12)


def test_amplitudes_of_several_steps_are_not_one() -> None:
    """Otherwise the test above would say nothing of heights a step."""
    model = trained(BISPIKE, 3)
    assert all(len(set(neuron.alpha.tolist())) == 3 for neuron in neurons(model) if neuron.memory)  # type: ignore[operator]
    assert export(model).config.heights == 3
    assert export(trained(LIF, 3)).config.heights == 1


@pytest.mark.parametrize("name", ["bispike", "paper", "normalized"])
def test_levels_are_those_of_the_neuron_to_the_last_bit(name: str) -> None:
    torch.manual_seed(0)
    neuron = BiSpike(T=4, **NEURONS[name].arguments)
    x = 3 * torch.randn(4, 2, 500)
    x[:, :, 0] = 0.0
    neuron(x)  # sets alpha
    x[0, :, 1] = neuron.alpha[0] / 2  # on the threshold
    spikes = neuron(x)
    found = levels(x, neuron.alpha.view(4, 1, 1), neuron.rule)
    assert set(found.unique().tolist()) <= {-1.0, 0.0, 1.0}
    assert torch.equal(found * neuron.alpha.view(4, 1, 1), spikes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list(NEURONS))
def test_without_gradients_one_step_gives_the_same_spikes(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    neuron = build_neuron(NEURONS[name])
    x = torch.randn(1, 3, 200, dtype=dtype)
    neuron(x)
    kept = neuron(x.requires_grad_()).detach()
    with torch.no_grad():
        assert torch.equal(neuron(x), kept)
    with torch.inference_mode():
        assert torch.equal(neuron(x), kept)


@pytest.mark.parametrize("heights", [[0.7], [0.7, 0.2, 1.9]])
def test_int8_loses_the_rounding_of_the_weights_alone(heights: list[float]) -> None:
    torch.manual_seed(0)
    T, h = len(heights), torch.tensor(heights)
    weight, bias = torch.randn(24, 40), torch.randn(24)
    spikes = torch.randint(-1, 2, (T, 6, 40)).float()
    linear = SpikeLinear(40, 24, T, "int8")
    linear.take(weight, bias, h)
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((linear.weight * step - weight).abs() <= step * 0.5001).all()
    rounded = (weight / step).round() * step
    wanted = h.double().view(T, 1, 1) * (spikes.double() @ rounded.double().t()) + bias.double()
    torch.testing.assert_close(linear(spikes).double(), wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: BertForSequenceClassification(BertConfig(vocab_size=9, hidden_size=12, num_hidden_layers=1)), "plain"),
    ],
)
def test_what_cannot_be_exported_says_why(model: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        export(model())


@pytest.mark.parametrize("name", ["residual", "residual by token", "place", "stbif", "levels"])
def test_int8_of_a_code_is_the_model_with_rounded_weights(name: str) -> None:
    """The oracle is the trained model itself, its weights rounded as int8 rounds them."""
    model = trained(CODES[name], 2).float()
    exported = export(model, "int8")
    for layer in model.bert.encoder.layer:
        attention = layer.attention
        parts = (attention.self.query, attention.self.key, attention.self.value)
        for linear in (*parts, attention.output.dense, layer.intermediate.dense, layer.output.dense):
            step = linear.weight.detach().abs().amax(1, keepdim=True) / 127
            linear.weight.data = (linear.weight / step).round() * step
    batch = inputs()
    ours, theirs = exported(**batch).logits, model(**batch).logits
    assert float((ours - theirs).abs().median()) < 1e-4, "a rounding at a threshold may move a few of them further"


@pytest.mark.parametrize("T", [1, 3])
def test_exact_layers_keep_their_weights_and_the_others_are_rounded(T: int) -> None:
    """With all layers exact it is the fp32 model; with the first alone, its qkv gives what fp32 gives."""
    model, batch = trained(BISPIKE, T).float(), inputs()
    exact, rounded = export(model), export(model, "int8")
    assert torch.equal(export(model, "int8", 2)(**batch).logits, exact(**batch).logits)
    mixed = export(model, "int8", 1)
    assert mixed.layers[0].qkv.weight.dtype == torch.float32  # type: ignore[union-attr]
    assert torch.equal(mixed.layers[1].qkv.weight, rounded.layers[1].qkv.weight)  # type: ignore[union-attr,arg-type]
    first = [made.layers[0](torch.ones(T, 4, 32), None, 2) for made in (mixed, exact, rounded)]
    assert torch.equal(first[0], first[1])
    assert not torch.equal(first[0], first[2])


def test_there_are_only_so_many_layers() -> None:
    with pytest.raises(ConfigError, match="exact_layers=3"):
        export(trained(BISPIKE, 1), "int8", 3)


@pytest.mark.parametrize("name", ["phase", "dynamic"])
def test_numbers_that_do_not_fit_a_byte_are_read_bit_by_bit(name: str) -> None:
    """A merged model does so, where the block of BERT would need them whole."""
    model, batch = trained(CODES[name], 1), inputs()
    assert isinstance(export(model), ExportedBertForSequenceClassification)
    made = export(model, "int8")
    assert isinstance(made, Merged)
    round_weights(model)
    torch.testing.assert_close(made(**batch).logits, model(**batch).logits, rtol=0, atol=1e-11)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("inputs", [1, 2, 40])
def test_few_rows_and_a_single_input_are_exact(rows: int, inputs: int) -> None:
    """torch._int_mm is wrong for a single input, and a decoder has one row for each token."""
    torch.manual_seed(0)
    linear = SpikeLinear(inputs, 5, 1, "int8")
    linear.take(torch.randn(5, inputs), torch.zeros(5), torch.ones(1))
    linear.scale = torch.ones(1, 1, 5)
    numbers = torch.randint(-100, 101, (1, rows, inputs))
    wanted = numbers[0] @ linear.weight.long().t()
    assert torch.equal(linear(numbers.float())[0].long(), wanted)


@pytest.mark.parametrize("name", ["residual", "residual by token", "levels"])
def test_a_code_is_exported_in_half_precision(name: str) -> None:
    model = trained(CODES[name], 1).to(torch.bfloat16)
    assert export(model)(**inputs()).logits.isfinite().all()


def test_an_exported_code_loads_again(tmp_path: Path) -> None:
    exported = export(trained(CODES["residual"], 2), "fp32")
    exported.save_pretrained(tmp_path)
    loaded: Any = AutoModelForSequenceClassification.from_pretrained(tmp_path, dtype=torch.float64)
    batch = inputs()
    assert torch.equal(loaded(**batch).logits, exported(**batch).logits)


def test_a_run_is_exported_and_loads_in_plain_transformers_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(["scale=smoke", f"runs_dir={tmp_path}", "task=glue/mnli", "T=2", "trainer.threads=1"])
    finished = run_experiment(config, Console(quiet=True))
    result = finished.result
    reports = {}
    for precision in ("fp32", "int8"):
        out = tmp_path / precision
        assert export_main([str(finished.directory), f"precision={precision}", "--out", str(out)]) == 0
        reports[precision] = json.loads((out / "export.json").read_text())
    exact, rounded = reports["fp32"], reports["int8"]
    assert exact["exported"] == exact["trained"] == result.metrics
    assert set(exact["exported"]) == {"accuracy", "accuracy_mm"}
    assert (exact["other_predictions"], exact["rows"]) == (0, 96)
    assert exact["max_difference"] < 1e-5
    assert exact["max_difference"] < rounded["max_difference"] < 0.1
    assert rounded["bytes"]["exported"] < exact["bytes"]["exported"]
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "int8")
    assert isinstance(model, ExportedBertForSequenceClassification)
    assert model.layers[0].qkv.weight.dtype == torch.int8  # type: ignore[union-attr]
    assert list(model.config.id2label.values()) == list(config.task.labels)
    tokens = AutoTokenizer.from_pretrained(tmp_path / "int8")("a big dog", "a small cat", return_tensors="pt")
    assert set(tokens["token_type_ids"].flatten().tolist()) == {0, 1}
    assert model(**tokens).logits.shape == (1, 3)
    card = ModelCard.load(tmp_path / "int8" / "README.md")
    scores = {one.dataset_split: one.metric_value for one in card.data.eval_results or ()}
    assert scores == pytest.approx(dict(zip(config.task.splits, rounded["exported"].values(), strict=True)), abs=1e-4)
    assert f"spikelm-export {result.run_id} --precision int8" in card.text
    assert str(tmp_path) not in card.text
    rows = load_rows(config.task, config.source).splits["validation_matched"]
    (tmp_path / "dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for scored in (tmp_path / "fp32", finished.directory, finished.directory / "model"):
        capsys.readouterr()
        out = ["--out", str(tmp_path / f"{scored.name}.jsonl")]
        assert predict_main([str(scored), str(tmp_path / "dev.jsonl"), "--score", "--json", *out]) == 0
        assert json.loads(capsys.readouterr().out)["metrics"] == {"accuracy": result.metrics["accuracy"]}
    with pytest.raises(SpikeLMError, match="cannot be exported"):
        export_main([result.pretrained, "--runs-dir", str(tmp_path)])
