"""What a GPU would refuse or wait for, seen without one: devices, synchronisations and memory on a fake device.

The device is registered in child processes only (fake_device.py says why); `checks.py` lists what is looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TOLERANCE = 0.15
#: transformers looks once per stack whether a padding mask is all ones; a step of a student has four stacks
LOOKED_AT_BY_TRANSFORMERS = "transformers/masking_utils.py"


def reports(*groups: str) -> list[dict[str, Any]]:
    """What the checks of some groups say."""
    environment = {**os.environ, "PYTHONPATH": f"{HERE.parents[1]}{os.pathsep}{HERE}"}
    child = subprocess.run(
        [sys.executable, str(HERE / "checks.py"), *groups], capture_output=True, text=True, env=environment
    )
    assert child.returncode == 0, child.stderr[-3000:]
    return [json.loads(line) for line in child.stdout.splitlines() if line.startswith("{")]


def test_nothing_is_on_a_wrong_device_and_no_step_waits_for_the_device() -> None:
    groups = ("neurons", "weights", "attention", "steps", "generation", "broken")
    by_group: dict[str, list[dict[str, Any]]] = {group: [] for group in groups}
    for report in reports(*groups):
        by_group[report["group"]].append(report)
    refused = {report["name"]: bool(report["error"] or report["own"]) for report in by_group.pop("broken")}
    assert refused == {"GlueModule": False, "Reads": True, "Selects": True, "Copies": True, "Elsewhere": True}
    assert [len(part) for part in by_group.values()] == [47, 10, 5, 29, 4], "every preset, variant and kind of step"
    for report in (report for part in by_group.values() for report in part):
        name = f"{report['group']}: {report['name']}"
        assert not report["error"], f"{name}: {report['error']}"
        assert not report["own"], f"{name} waits for the device: {report['own']}"
        assert all(LOOKED_AT_BY_TRANSFORMERS in line for line in report["others"]), f"{name}: {report['others']}"


def compare(*groups: str, each: int = 9) -> None:
    """Print and check the account of memory against the estimate."""
    table = reports(*groups)
    assert len(table) == each * len(groups)
    print("\n model                                              account  estimate")
    for report in table:
        ratio = report["estimate_gb"] / report["account_gb"]
        print(f" {report['name']:48} {report['account_gb']:6.1f} GB {report['estimate_gb']:6.1f} GB {ratio - 1:+7.1%}")
    for report in table:
        assert report["estimate_gb"] == pytest.approx(report["account_gb"], rel=TOLERANCE), report["name"]


def test_the_memory_estimate_is_the_account_of_the_device() -> None:
    compare("memory")


def test_the_memory_estimate_of_codes() -> None:
    compare("memory codes", each=4)


def test_the_memory_estimate_of_decoders() -> None:
    """The logits of a large vocabulary are its largest term, and a teacher's beside them."""
    compare("memory decoders", each=8)


@pytest.mark.slow
def test_the_memory_estimate_of_decoders_with_checkpointing_and_half_precision() -> None:
    compare("memory decoders again", "memory decoders bf16", each=8)


@pytest.mark.slow
def test_the_memory_estimate_with_checkpointing_and_half_precision() -> None:
    compare("memory checkpointing", "memory bf16")


@pytest.mark.slow
def test_the_memory_estimate_at_other_sizes() -> None:
    """Few rows decide what fits a small device; other T and lengths are what nobody looked at before."""
    compare("memory elsewhere")
