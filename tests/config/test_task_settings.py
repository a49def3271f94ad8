"""How the perplexity of a text is measured: what is valid, and what an id knows of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from spikelm.catalog.metric_names import lower_is_better, valid_metrics
from spikelm.config.compose import load_config
from spikelm.config.paths import config_dir
from spikelm.config.settings.fields import FINE_TUNING, check_fields, decided
from spikelm.config.settings.task import TaskConfig, check_task, window_and_stride
from spikelm.errors import ConfigError

OWN = {"window", "stride", "most_tokens", "detokenise"}


def lm(**settings: Any) -> TaskConfig:
    given = {"splits": {"test": ""}, "metrics": ["perplexity"], **settings}
    return TaskConfig(name="lm/some", kind="lm", **given)


def test_ids_from_before_these_settings_stay() -> None:
    assert not OWN & set(decided(lm(), FINE_TUNING))
    measured = decided(lm(window=8, stride=4, most_tokens=100, detokenise="wikitext"), FINE_TUNING)
    assert {key: measured[key] for key in OWN} == {
        "window": 8,
        "stride": 4,
        "most_tokens": 100,
        "detokenise": "wikitext",
    }


def test_the_window_is_the_stages_length_and_advances_by_itself() -> None:
    assert window_and_stride(lm(), 128) == (128, 128)
    assert window_and_stride(lm(window=64), 128) == (64, 64)
    assert window_and_stride(lm(stride=32), 128) == (128, 32)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"window": 513}, "task.window=513 is longer than backbone.positions=512"),
        ({"stride": 129}, "task.stride=129 is above the window of 128 tokens"),
        ({"window": 64, "stride": 65}, "task.stride=65 is above the window of 64 tokens"),
        ({"splits": {}}, "task.splits of lm/some is empty"),
        ({"files": "somewhere"}, "task.files is for labelled rows"),
        ({"metrics": ["perplexty"]}, "task.metrics has perplexty; did you mean perplexity?"),
        ({"metrics": ["f1"]}, "task.metrics has f1"),
        ({"metrics": []}, "task.metrics of lm/some is empty"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        check_task(lm(**settings), positions=512, max_length=128)


@pytest.mark.parametrize(
    ("settings", "said"), [({"window": -1}, "window=-1"), ({"detokenise": "moses"}, "detokenise=moses")]
)
def test_single_settings_have_their_rules(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_fields(lm(**settings))


def test_the_files_of_the_tasks_are_valid() -> None:
    names = set()
    for path in sorted((config_dir() / "task" / "lm").glob("*.yaml")):
        read = yaml.safe_load(path.read_text())
        del read["defaults"]
        task = TaskConfig(**read)
        check_fields(task)
        check_task(task, positions=512, max_length=128)
        assert task.name == f"lm/{path.stem}"
        assert task.metrics[0] == "perplexity"
        assert lower_is_better(task.metrics[0])
        assert task.metrics == valid_metrics("lm", 0)
        names.add(path.stem)
    assert names == {"embedded", "wikitext2", "wikitext103", "text"}


@pytest.mark.parametrize("backbone", ["bert_mini", "bart_mini", "mbart_mini"])
def test_a_model_that_reads_both_ways_is_refused(backbone: str) -> None:
    with pytest.raises(ConfigError, match="task=lm/embedded is not valid for"):
        load_config(["task=lm/embedded", f"backbone={backbone}"])
