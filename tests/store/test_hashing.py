"""Identity hashes: equal configs hash alike, any change shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spikelm.store.hashing import run_id

IDENTITY = {"task": "glue/mnli", "k": 2, "T": 1, "lr": 1e-4, "tags": ["a", {"b": None}]}
FAST = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBERS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.text() | NUMBERS
VALUES = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(), SCALARS, max_size=3)
MAPPINGS = st.dictionaries(st.text(), VALUES, max_size=5)


@FAST
@given(MAPPINGS)
def test_identity_ignores_key_order(identity: dict[str, Any]) -> None:
    backwards = dict(reversed(identity.items()))
    assert run_id(identity) == run_id(backwards)
    assert len(run_id(identity)) == 16


@FAST
@given(MAPPINGS, SCALARS, SCALARS)
def test_identity_tells_every_value_apart(identity: dict[str, Any], one: Any, other: Any) -> None:
    same = one == other and isinstance(one, bool) == isinstance(other, bool)
    assert (run_id(identity | {"it": one}) == run_id(identity | {"it": other})) == same
    assert run_id(identity | {"it": one}) != run_id(identity | {"it": [one]})


def test_identity_of_numbers() -> None:
    assert run_id({"k": 2}) == run_id({"k": 2.0})
    assert run_id({"k": 0.0}) == run_id({"k": -0.0})
    assert run_id({"k": 1}) != run_id({"k": True})
    assert run_id({"k": 1}) != run_id({"k": "1"})
    assert run_id({"k": (1, 2)}) == run_id({"k": [1, 2]})


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), Path("x"), {1: 2}, object()])
def test_identity_refuses_what_it_cannot_hash_faithfully(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"identity\.here"):
        run_id({"here": bad})


def test_store_does_not_import_torch() -> None:
    code = "import sys, spikelm.store.store, spikelm.runs.tracking; sys.exit(bool({'torch', 'wandb'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True)
