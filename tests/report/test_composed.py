"""Composed configs from the cache of a store are those that Hydra composes."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.config.compose import load_config
from spikelm.config.recorded import from_record, to_record
from spikelm.report.query import composed as module
from spikelm.report.query.composed import composed
from spikelm.runs.experiment import open_run
from spikelm.store.atomic import plain


def test_the_second_time_hydra_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ("system=binarybert_w1a2", "task=glue/rte", f"runs_dir={tmp_path}")
    first = composed(overrides, tmp_path)
    assert first == load_config(overrides)
    composed.cache_clear()
    monkeypatch.setattr(module, "load_config", lambda words: pytest.fail("composed again"))
    again = composed(overrides, tmp_path)
    assert again == first
    assert open_run(again).id == open_run(first).id
    (kept,) = (tmp_path / ".cache" / "composed").glob("*/*.json")
    kept.write_text(kept.read_text()[:50])
    composed.cache_clear()
    monkeypatch.undo()
    assert composed(overrides, tmp_path) == first, "a torn file is composed anew"


def test_what_is_kept_is_dropped_when_the_configs_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ("task=glue/rte", f"runs_dir={tmp_path}")
    composed(overrides, tmp_path)
    composed.cache_clear()
    monkeypatch.setattr(module, "fingerprint", lambda: "other")
    composed(overrides, tmp_path)
    assert [path.name for path in (tmp_path / ".cache" / "composed").iterdir()] == ["other"]


@pytest.mark.parametrize("words", [["source=hub", "task=glue/rte"], ["task=sum/xsum", "neuron=lif"]])
def test_a_config_survives_as_plain_data(words: list[str]) -> None:
    config = load_config(words)
    assert from_record(plain(to_record(config))) == config
