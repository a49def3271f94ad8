"""Composed configs from the cache of a store are those that Hydra composes, and no older than what they depend on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spikelm.config.compose import load_config
from spikelm.config.paths import PACKAGE, config_dir
from spikelm.config.recorded import from_record, to_record
from spikelm.report.query import composed as module
from spikelm.report.query.composed import composed
from spikelm.runs.experiment import open_run
from spikelm.store.atomic import plain

WORDS = ("task=glue/rte", "neuron=bispike")
#: composes in a process of its own; says what Hydra was asked, and what came out
SCRIPT = """
import json, sys
from pathlib import Path
from spikelm.report.query import composed as module
asked, compose = [], module.load_config
module.load_config = lambda words: asked.append(words) or compose(words)
root = Path(sys.argv[1])
config = module.composed((*sys.argv[2:], f"runs_dir={root}"), root)
print(json.dumps({"composed": bool(asked), "labels": config.task.labels, "package": module.__file__}))
"""


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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package and of conf/, in which files can be changed."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copytree(PACKAGE, folder / "spikelm", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(config_dir(), folder / "conf")
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture
def ask(checkout: Path, tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """Composes one config with the copy, in a process of its own as every command is."""

    def composed_there() -> dict[str, Any]:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), *WORDS]
        environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        assert Path(said["package"]).is_relative_to(checkout)
        return said

    return composed_there


@pytest.mark.parametrize(
    "file",
    [
        "spikelm/config/settings/schema.py",
        "spikelm/catalog/kinds.py",
        "conf/scale/mini.yaml",
        "conf/neuron/bispike.yaml",
    ],
)
def test_a_change_of_what_decides_a_config_drops_what_is_kept(
    file: str, ask: Callable[[], dict[str, Any]], checkout: Path, tmp_path: Path
) -> None:
    assert ask()["composed"]
    assert not ask()["composed"], "kept"
    (before,) = (tmp_path / ".cache" / "composed").iterdir()
    with open(checkout / file, "a") as changed:
        changed.write("\n# a remark\n")
    assert ask()["composed"], "it may mean something else now"
    (after,) = (tmp_path / ".cache" / "composed").iterdir()
    assert after != before


def test_a_changed_value_arrives_and_other_files_do_not_matter(
    ask: Callable[[], dict[str, Any]], checkout: Path
) -> None:
    assert ask()["labels"] == ["entailment", "not_entailment"]
    with open(checkout / "spikelm" / "report" / "scores.py", "a") as changed:
        changed.write("\n# a remark\n")
    assert not ask()["composed"], "how scores are shown decides no config"
    path = checkout / "conf" / "task" / "glue" / "rte.yaml"
    path.write_text(path.read_text().replace("[entailment, not_entailment]", "[follows, does_not]"))
    assert ask()["labels"] == ["follows", "does_not"]


@pytest.mark.parametrize("words", [["source=hub", "task=glue/rte"], ["task=sum/xsum", "neuron=lif"]])
def test_a_config_survives_as_plain_data(words: list[str]) -> None:
    config = load_config(words)
    assert from_record(plain(to_record(config))) == config
