"""ONNX files of exported classifiers: the graph by the standard's own definitions, onnxruntime, and what is refused."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from spikelm.cli.export import export_main
from spikelm.config.compose import load_config
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.export.convert import export
from spikelm.runs.experiment import run_experiment
from spikelm.spiking import spikify
from tests.export.test_export import BISPIKE, CODES, LIF, RESIDUAL, inputs

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

from spikelm.export.onnx import (  # noqa: E402
    OnnxClassifier,
    check_graph,
    check_runtime,
    largest_number,
    need_packages,
    onnx_file,
    onnx_model,
    save_onnx,
)


def trained(neuron: ClassSpec, T: int) -> Any:
    """One layer, because torch takes seconds to write each."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    config = BertConfig(vocab_size=60, max_position_embeddings=16, num_labels=3, initializer_range=0.3, **sizes)
    model: Any = spikify(BertForSequenceClassification(config), neuron, T).train()
    with torch.no_grad():
        model(**inputs())
    return model.eval()


SPIKES = (BISPIKE, 4, "int8", 1)
CASES = {
    "bispike T=1 fp32": (BISPIKE, 1, "fp32", 1),
    "lif T=2 int8": (LIF, 2, "int8", 1),
    "residual by token int8": (RESIDUAL.having(scale="token"), 1, "int8", 13),
    "place int8": (CODES["place"], 1, "int8", 31),
    "stbif T=2 int8": (CODES["stbif"], 2, "int8", 8),
    "dynamic fp32": (CODES["dynamic"], 1, "fp32", 1),
    "phase fp32": (CODES["phase"], 1, "fp32", 1),
}


def written_and_compared(neuron: ClassSpec, T: int, precision: str, largest: int, folder: Path) -> Any:
    """The exported model, whose file in onnxruntime gives its logits at any batch and length."""
    model = trained(neuron, T)
    made, batch = export(model, precision), inputs()
    assert largest_number(model) == largest
    graph = save_onnx(made, largest, [batch], folder)
    assert graph.opset == 20
    assert graph.double_precision_difference < 1e-6
    assert graph.operators.get("MatMulInteger", 0) == (4 if precision == "int8" else 0)
    assert not {"ScatterElements", "ScatterND", "Loop", "If"} & set(graph.operators)
    runtime = OnnxClassifier(onnx_file(folder))
    for size in (batch, {key: value[:3, :7] for key, value in batch.items()}, _one_token(batch), _longest()):
        torch.testing.assert_close(runtime(**size).logits, made(**size).logits, rtol=0, atol=2e-5)
    return made


@pytest.mark.slow  # torch takes four seconds to write each of them, in single and in double precision
@pytest.mark.parametrize("name", list(CASES))
def test_any_neuron_in_onnxruntime(name: str, tmp_path: Path) -> None:
    written_and_compared(*CASES[name], tmp_path)


def _one_token(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: value[:1, :1] for key, value in batch.items()}


def _longest() -> dict[str, torch.Tensor]:
    return {key: torch.ones(2, 16, dtype=torch.long) for key in inputs()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """An exported model of four steps in int8 and its folder."""
    folder = tmp_path_factory.mktemp("onnx")
    return written_and_compared(*SPIKES, folder), folder


def test_the_file_holds_bytes_and_says_nothing_of_our_source(written: tuple[Any, Path]) -> None:
    _, folder = written
    graph = onnx.load(onnx_file(folder)).graph
    weights = {each.name: each for each in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    assert [weights[node.input[1]].data_type for node in products] == [onnx.TensorProto.INT8] * 4
    assert [onnx.numpy_helper.to_array(weights[node.input[2]]).dtype.name for node in products] == ["uint8"] * 4
    assert not any(node.domain for node in graph.node), "only operators of the standard"
    assert b"exported_model" not in onnx_file(folder).read_bytes()


def test_another_file_is_not_the_graph_that_was_checked(written: tuple[Any, Path]) -> None:
    model, folder = written
    exact = model.double()
    graph, file = onnx_model(exact), onnx.load(onnx_file(folder))
    assert check_graph(exact, graph, file, inputs()) < 1e-9
    name = next(each.name for each in file.graph.initializer if each.data_type == onnx.TensorProto.INT8)
    for each in file.graph.initializer:
        if each.name == name:
            each.CopyFrom(onnx.numpy_helper.from_array(1 - onnx.numpy_helper.to_array(each), name))
    with pytest.raises(SpikeLMError, match="is not the graph that was checked"):
        check_graph(exact, graph, file, inputs())
    with pytest.raises(SpikeLMError, match="the ONNX graph is another model"):
        check_graph(exact, file, file, inputs())
    model.float()


def test_a_runtime_may_round_but_not_compute_something_else() -> None:
    torch.manual_seed(0)
    exact = torch.randn(256, 3).double()
    single, same = exact.float(), exact.float() + 1e-7
    assert check_runtime(exact, single, same).moved_runtime == 0
    same[:9] += 1  # a few spikes
    assert check_runtime(exact, single, same).moved_runtime == 9
    same[:40] += 1  # as many rows as chance does not explain
    with pytest.raises(SpikeLMError, match="40 of 256 rows are far off, torch's 0"):
        check_runtime(exact, single, same)
    with pytest.raises(SpikeLMError, match="does not compute this model"):
        check_runtime(exact, single, exact.float() + 1e-4)  # all rows a little
    with pytest.raises(SpikeLMError, match="256 of 256 rows"):
        check_runtime(exact, single, torch.full((256, 3), torch.nan))


def test_a_folder_with_another_export_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ConfigError, match=r"another export in it: model\.safetensors"):
        save_onnx(export(trained(LIF, 1)), 1, [inputs()], tmp_path)
    assert not onnx_file(tmp_path).exists()


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_or_broken_package_is_named_with_its_fix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(wanted: str, *rest: Any) -> Any:
        if wanted == name:
            raise ImportError("libonnx.so: file too short")
        return builtins.__import__(wanted)

    monkeypatch.setattr("spikelm.export.onnx.import_module", broken)
    with pytest.raises(ConfigError, match=rf"package {name}, .*file too short(.|\n)*\[onnx\]"):
        need_packages()


@pytest.mark.slow
def test_a_run_becomes_a_folder_for_onnxruntime(tmp_path: Path) -> None:
    config = load_config(["scale=smoke", f"runs_dir={tmp_path}", "task=glue/mnli", "T=2", "trainer.threads=1"])
    directory = run_experiment(config, Console(quiet=True)).directory
    out = tmp_path / "onnx"
    with pytest.raises(ConfigError, match="format=onnx has no precision=event"):
        export_main([str(directory), "format=onnx", "precision=event", "--out", str(out)])
    assert export_main([str(directory), "format=onnx", "precision=int8", "--out", str(out)]) == 0
    report = json.loads((out / "export.json").read_text())
    assert (report["format"], report["rows"]) == ("onnx", 96)
    assert (
        report["onnx"]["operators"]["MatMulInteger"]
        == 4 * json.loads((out / "config.json").read_text())["num_hidden_layers"]
    )
    assert report["torch_export"]["other_predictions"] == 0
    assert report["torch_export"]["max_difference"] < 1e-5 < report["max_difference"]
    assert report["bytes"]["exported"] == onnx_file(out).stat().st_size
    tokens = AutoTokenizer.from_pretrained(out)(["a big dog"], ["a small cat"], return_tensors="pt")
    assert OnnxClassifier(onnx_file(out))(**tokens).logits.shape == (1, 3)
    assert not list(out.glob("*.safetensors"))
