"""The command where the harness is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from spikelm.cli.harness import harness_command
from spikelm.cli.harness.harness_command import harness_main
from spikelm.errors import ConfigError


@pytest.mark.parametrize("absent", ["lm_eval", "accelerate"])
def test_what_is_missing_is_named_with_the_extra_that_brings_it(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there: Callable[[str], ModuleSpec | None] = lambda name: None if name == absent else importlib.util.find_spec("os")  # noqa: E731
    monkeypatch.setattr(harness_command, "find_spec", there)
    with pytest.raises(ConfigError, match=f"{absent} is not installed") as error:
        harness_main(["--model", "spikelm"])
    assert error.value.fix == 'pip install "spikelm[lm-eval]"'


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"]])
def test_our_own_page_needs_no_harness(words: list[str], capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness_command, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        harness_main(words)
    assert "spikelm-harness run --help" in capsys.readouterr().out
