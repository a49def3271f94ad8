"""Which variables forbid the network, and what is said of them."""

from __future__ import annotations

import pytest

from spikelm.machine.offline import VARIABLES, offline_reason, offline_variables, online_fix


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_variable_nothing_is_said() -> None:
    assert (offline_variables(), offline_reason(), online_fix()) == ([], "", "")


@pytest.mark.parametrize("value", ["1", "true", "Yes", "on"])
@pytest.mark.parametrize("name", VARIABLES)
def test_each_variable_is_named_as_it_is_set(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert f"{name}={value} forbids to fetch it" in offline_reason()
    assert online_fix().startswith(f"unset {name} (with make: {name}=0)")


def test_several_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    assert "HF_HUB_OFFLINE=1 and HF_DATASETS_OFFLINE=1 forbid" in offline_reason()


@pytest.mark.parametrize("value", ["0", "", "no"])
def test_a_no_is_no(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", value)
    assert offline_variables() == []
