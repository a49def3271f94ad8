"""Random overrides: each is valid or is refused with one clear line and code 2 (500 of them in tests/faults)."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_overrides import OVERRIDES, examined
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spikelm.cli.command_line import precheck
from spikelm.errors import ConfigError


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(OVERRIDES, st.booleans())
def test_overrides_are_valid_or_refused_in_one_line(overrides: list[str], multirun: bool) -> None:
    assert examined(overrides, multirun)


FOUND = [
    ["scale=nan"],  # a group that is a number
    ["distill.losses.hidden=glob(*)"],
    ["finetune.batch=interval(0,1)"],
    ["distill.losses.words=1e999"],
]


@pytest.mark.parametrize("overrides", FOUND, ids=str)
def test_what_once_was_a_traceback_is_refused(overrides: list[str]) -> None:
    assert examined(overrides, multirun=True) != "valid"


@pytest.mark.parametrize("flag", ["--config-name=other", "--config-path=/tmp", "--experimental-rerun=x.pickle"])
def test_flags_that_go_around_the_schema_are_refused(flag: str) -> None:
    with pytest.raises(ConfigError, match="not supported"):
        precheck([flag])


@pytest.mark.parametrize("multirun", [False, True])
def test_a_store_that_no_folder_can_be_named_is_one_line(multirun: bool, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for name in ("x" * 300, str(loop / "runs")):
        assert examined([f"runs_dir={name}"], multirun).startswith("runs_dir cannot be the name of a folder")
