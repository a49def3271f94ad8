"""result.json as a typed record: nothing is missing, nothing is unknown, and its schema is published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_up_result import made_up, made_up_record
from pydantic import ValidationError

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.store.hashing import digest
from spikelm.store.result import Result, json_schema, read_result

PROJECT = Path(__file__).parents[2]
REQUIRED = [name for name, field in Result.model_fields.items() if field.is_required()]


@pytest.mark.parametrize("field", REQUIRED)
def test_a_missing_field_is_named(field: str) -> None:
    record = made_up_record()
    del record[field]
    with pytest.raises(ValidationError, match=rf"{field}\n  Field required"):
        Result.model_validate(record)


def test_parts_are_looked_into_and_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"energy_mj\.fp16"):
        made_up(energy_mj={"fp32": 1.0})
    with pytest.raises(ValidationError, match=r"firing_rate\.median"):
        made_up(firing_rate={"mean": None, "per_site": {}, "median": 0.1})
    with pytest.raises(ValidationError, match="mood"):
        made_up(mood="good")
    with pytest.raises(ValidationError, match="config"):
        made_up(config={"nonsense": 1})
    with pytest.raises(ValidationError, match="metrics"):
        made_up(metrics={"accuracy": float("nan")})


def test_what_is_written_is_what_is_read() -> None:
    config = load_config(["task=sum/xsum", "neuron=bispike", "T=2", "k=3"])
    sample = {"source": "a", "reference": "b", "generated": "c"}
    result = made_up(config=config, samples=[sample], metrics={"accuracy": 1 / 3, "matthews": None})
    record = json.loads(json.dumps(result.to_record()))
    again = read_result(record)
    assert again.config == config
    assert again.to_record() == record
    assert again.metrics == result.metrics
    assert again.samples == result.samples
    assert record["schema"] == again.version == 2


def test_records_from_before_conversions_are_read() -> None:
    record = json.loads(json.dumps(made_up().to_record()))
    for key in ("checksum", "converted", "conversion"):
        del record[key]
    del record["config"]["convert"]
    result = read_result({**record, "checksum": digest(record)})
    assert result.conversion is None
    assert result.needs == {}
    assert result.config.convert.mode == "none"


def test_what_was_changed_or_is_of_another_version_is_said() -> None:
    record = json.loads(json.dumps(made_up().to_record()))
    with pytest.raises(ValueError, match="does not match its checksum"):
        read_result({**record, "seed": 43})
    for changes, words in (({"schema": 9}, "schema: Input should be 2"), ({"parameters": "many"}, "parameters: ")):
        body = {key: value for key, value in record.items() if key != "checksum"} | changes
        with pytest.raises(ValueError, match=words):
            read_result({**body, "checksum": digest(body)})


@pytest.mark.parametrize(
    ("task", "name"),
    [("glue/mrpc", "f1"), ("glue/stsb", "spearman"), ("glue/rte", "accuracy"), ("sum/xsum", "accuracy")],
)
def test_the_score_is_the_number_that_table_3_prints(task: str, name: str) -> None:
    metrics = {"accuracy": 1.0, "f1": 2.0, "spearman": 3.0}
    result = made_up(task=task, metrics=metrics)
    assert (result.score_name, result.score) == (name, metrics[name])
    assert made_up(task="glue/mrpc", metrics={"accuracy": 1.0}).score == 1.0
    assert made_up(metrics={}).score is None


def test_shares_and_means() -> None:
    result = made_up(firing_rate={"mean": 0.3, "per_site": {"a": 0.1, "b": 0.3}})
    assert result.energy_of_ann == pytest.approx(0.25)
    assert result.firing_rate.mean_over_sites == pytest.approx(0.2)
    assert result.firing_rate.initial_mean_over_sites is None
    assert made_up(energy_mj={"fp32": None, "fp16": None}).energy_of_ann is None


def test_the_published_schema_is_that_of_the_code() -> None:
    published = (PROJECT / "docs" / "internals" / "result_schema.json").read_text()
    assert published == json_schema(), "python -m spikelm.store.result > docs/internals/result_schema.json"


def test_every_key_is_explained() -> None:
    page = (PROJECT / "docs" / "internals" / "result.md").read_text()
    names = {field.alias or name for name, field in Result.model_fields.items()}
    assert not [name for name in names if f"`{name}`" not in page]


@pytest.mark.parametrize("folder", sorted((PROJECT / "runs" / "reference").glob("*")), ids=lambda path: path.name)
def test_the_committed_results_are_of_this_schema(folder: Path) -> None:
    for path in folder.glob("*/result.json"):
        result = read_result(json.loads(path.read_text()))
        assert isinstance(result.config, Config), path
