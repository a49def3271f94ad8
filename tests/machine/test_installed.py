"""Installed libraries against constraints.txt and against what the package requires."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.machine import installed
from spikelm.machine.installed import Difference, differences, unmet

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
