"""The model card: what the hub reads of it, whose scores it has, and what it never tells."""

from __future__ import annotations

import getpass
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exported_folder import exported_folder
from huggingface_hub import ModelCard
from made_up_result import made_up
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.export.model_card import Commands, write_card
from spikelm.store.written_files import WrittenFiles

COMMANDS = Commands("spikelm-run task=glue/sst2 T=1", "spikelm-export 0123456789abcdef --precision fp32")
CARD_LINE = {"estimator": "paper", "arithmetic": "fp32", "network": 0.5, "plain": 2.0, "twin": 1.0}
ENERGY = {
    **{"rows": 8, "passes": 1, "time_steps": 1, "parameters": 9, "footprint": 9, "looked_up": 9},
    **{"products": [], "neurons": [], "operators": []},
    "modelled": [{**CARD_LINE, "break_even": None, "cheaper": "always"}],
}


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(["task=glue/sst2", "scale=smoke"])


def result_of(config: Config, source: str = "embedded", commits: dict[str, str] | None = None, **changes: Any) -> Any:
    rows = dict.fromkeys(("train", *config.task.splits), 8)
    told = {"name": source, "rows": rows, "content_hash": "ab", "commits": commits or {}}
    return made_up(task=config.task.name, config=config, source=told, energy_card=ENERGY, **changes)


@pytest.fixture(scope="module")
def folder(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported folder with its card."""
    place = tmp_path_factory.mktemp("exported")
    (place / "thesis.pdf").touch()
    written = WrittenFiles(place)
    record = exported_folder(place, config.task)
    write_card(written, result_of(config), record, COMMANDS)
    return place


def test_the_hub_reads_what_was_written(folder: Path) -> None:
    card = ModelCard.load(folder / "README.md")
    again = ModelCard(str(card))
    assert again.data.to_dict() == card.data.to_dict()
    assert card.data.library_name == "spikelm"
    assert card.data.pipeline_tag == "text-classification"
    assert {"spikelm", "bispike", "fp32", "scale-smoke", "source-embedded"} <= set(card.data.tags or ())
    assert card.data.license is None
    assert card.data.base_model is None
    assert card.data.datasets is None
    (score,) = card.data.eval_results or ()
    assert (score.metric_type, score.metric_value, score.dataset_split) == ("accuracy", 51.25, "validation")
    assert score.dataset_type == "spikelm-embedded"
    assert score.dataset_args == {"scale": "smoke", "source": "embedded", "rows": 8, "measured_on": "all rows"}
    assert score.metric_args == {"seed": 42}


def test_the_exported_models_scores_stand_beside_the_trained_ones(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert "| validation | 8 | accuracy in % | 51.25 | 61.00 | 50.00 |" in text
    assert "1 of 8 predictions differ" in text
    assert "One seed (42)" in text


def test_energy_is_called_modelled_and_never_measured(folder: Path) -> None:
    energy = (folder / "README.md").read_text().split("## Energy")[1].split("\n## ")[0]
    assert energy.strip().startswith("**Modelled, not measured**")
    assert "| the paper's rule, fp32 | 1.000 mJ | 4.000 mJ |" in energy
    assert "| paper | fp32 | 0.500 | 2.00 | 1.00 |" in energy
    assert len(re.findall("measured", energy)) == 1


def test_checksums_are_those_of_the_files(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    names = {path.name for path in folder.iterdir()} - {"README.md", "thesis.pdf"}
    assert "thesis" not in text
    assert "model.safetensors" in names
    for name in names:
        assert f"| {name} | `{hashlib.sha256((folder / name).read_bytes()).hexdigest()}` |" in text


def test_the_code_of_the_card_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(folder)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip().splitlines()[-1] in ("negative", "positive")


def test_a_pipeline_takes_the_folder(folder: Path, tmp_path: Path) -> None:
    classify: Any = pipeline("text-classification", model=str(folder))
    said = classify(["a good film", "it was very very bad"], top_k=None)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokens = AutoTokenizer.from_pretrained(folder)("it was very very bad", return_tensors="pt")
    shares = model(**tokens).logits.softmax(-1)[0].tolist()
    assert {one["label"]: one["score"] for one in said[1]} == pytest.approx(
        dict(zip(("negative", "positive"), shares, strict=True)), abs=1e-5
    )
    scores = load_config(["task=glue/stsb", "scale=smoke"]).task
    exported_folder(tmp_path, scores)
    graded: Any = pipeline("text-classification", model=str(tmp_path))
    answer = graded({"text": "good film", "text_pair": "a fine film"})
    (answer,) = answer if isinstance(answer, list) else [answer]
    tokens = AutoTokenizer.from_pretrained(tmp_path)("good film", "a fine film", return_tensors="pt")
    logits = AutoModelForSequenceClassification.from_pretrained(tmp_path)(**tokens).logits
    assert answer["score"] == pytest.approx(float(logits), abs=1e-5)


def card_of(tmp_path: Path, config: Config, source: str, report: dict[str, Any], **changes: Any) -> ModelCard:
    options = {name: changes.pop(name) for name in ("repository", "license") if name in changes}
    write_card(WrittenFiles(tmp_path), result_of(config, source, **changes), report, COMMANDS, **options)
    return ModelCard.load(tmp_path / "README.md")


@pytest.fixture
def report(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "export.json").read_text())
    return record


def test_rows_of_one_source_are_never_taken_for_anothers(
    config: Config, report: dict[str, Any], tmp_path: Path
) -> None:
    said = {
        "embedded": "say nothing about the published data",
        "local": "Nothing here shows that they are the published data",
        "hub": "The rows are those of nyu-mll/glue at abc on the hub",
    }
    of_hub = load_config(["task=glue/sst2", "scale=smoke", "source=hub"])
    for source in said:
        commits = {"nyu-mll/glue": "abc"} if source == "hub" else {}
        card = card_of(tmp_path, of_hub if source == "hub" else config, source, report, commits=commits)
        assert [name for name, words in said.items() if words in card.text] == [source]
        (score,) = card.data.eval_results or ()
        assert score.dataset_type == ("nyu-mll/glue" if source == "hub" else f"spikelm-{source}")
        assert card.data.datasets == (["nyu-mll/glue"] if source == "hub" else None)
    assert (score.dataset_config, score.dataset_revision) == ("sst2", "abc")


def test_a_name_a_license_and_a_base_are_told_where_they_are_known(
    config: Config, report: dict[str, Any], tmp_path: Path
) -> None:
    started = replace(config, backbone=replace(config.backbone, path="google-bert/bert-base-uncased@86b5"))
    card = card_of(tmp_path, started, "embedded", report, repository="jane/film", license="mit")
    assert (card.data.model_name, card.data.license) == ("film", "mit")
    assert card.data.base_model == "google-bert/bert-base-uncased"
    assert 'folder = "jane/film"' in card.text


def test_nothing_tells_of_the_machine_or_its_user(
    config: Config, report: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "a-secret-of-the-hub")
    started = replace(config, backbone=replace(config.backbone, path="/home/jane doe/weights/bert"))
    run = "spikelm-run task=glue/sst2 source=local source.root=~/glue backbone.path='/home/jane doe/weights/bert'"
    run += " ++source.text='[{repo:/srv/texts}]' finetune.lr=1e-4 a=../mine"
    weights = {"path": "/home/jane doe/weights/bert", "sha256": "c0ffee"}
    write_card(
        WrittenFiles(tmp_path),
        result_of(started, "local", system="BERT (backbone.path=/srv/doe/w, a-secret-of-the-hub)", weights=weights),
        report,
        Commands(run, "spikelm-export 0123"),
    )
    text = (tmp_path / "README.md").read_text()
    for private in ("jane", "doe", "/srv", "a-secret", "~/glue", "../mine", str(Path.home()), str(tmp_path)):
        assert private not in text
    assert not re.search(rf"/{getpass.getuser()}\b", text)
    assert "source=local source.root=ROOT backbone.path=PATH ++source.text=TEXT finetune.lr=1e-4 a=A" in text
    assert "Names in capitals stand for folders." in text
    assert "given weights, sha256 c0ffee" in text


def test_every_evaluated_split_has_its_score(tmp_path: Path) -> None:
    config = load_config(["task=glue/mnli", "scale=smoke"])
    record = exported_folder(tmp_path, config.task)
    card = card_of(tmp_path, config, "embedded", record)
    scored = {one.dataset_split: one.metric_value for one in card.data.eval_results or ()}
    assert scored == {"validation_matched": 51.25, "validation_mismatched": 52.25}
    assert '"premise goes here", "hypothesis goes here"' in card.text


@pytest.mark.parametrize(
    ("task", "metrics", "tag", "loads"),
    [
        ("lm/embedded", {"perplexity": 12.5, "bits_per_byte": 1.5}, "text-generation", "AutoModelForCausalLM"),
        ("mt/wmt16_enro", {"bleu": 20.0}, "translation", "AutoModelForSeq2SeqLM"),
        ("sum/xsum", {"rouge1": 20.0, "rougeL": 15.0}, "summarization", "AutoModelForSeq2SeqLM"),
    ],
)
def test_models_that_write_have_a_card_too(
    task: str, metrics: dict[str, float], tag: str, loads: str, report: dict[str, Any], tmp_path: Path
) -> None:
    config = load_config([f"task={task}", "scale=smoke"])
    record = {**report, "trained": metrics, "exported": metrics, "compared_on": "the first 256 rows"}
    card = card_of(tmp_path, config, "embedded", record, metrics=metrics, constant_predictor={})
    assert card.data.pipeline_tag == tag
    assert sorted(one.metric_value for one in card.data.eval_results or ()) == sorted(metrics.values())
    assert f"import {loads}, AutoTokenizer" in card.text
    assert {one.dataset_args["measured_on"] for one in card.data.eval_results or ()} == {"the first 256 rows"}
    assert "measured on the first 256 rows of a split" in card.text
    assert "spikelm-predict" not in card.text
    assert "perplexity per token in %" not in card.text
