"""The benchmarks' harness: interleaving, ratios, fitted powers, the comparison with the last record."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.records import report
from benchmarks.timing import Timing, quartiles, ratio, rounds, slope, spread


def test_every_round_runs_all_contestants() -> None:
    called: list[str] = []
    timings = rounds({name: lambda name=name: called.append(name) for name in "ab"}, 3)  # type: ignore[misc]
    assert "".join(called) == "ab" * 4  # one round to warm up
    assert [len(timing.cpu) for timing in timings.values()] == [3, 3]


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    slow, fast = Timing(cpu=[2.0, 20.0, 6.0]), Timing(cpu=[1.0, 10.0, 1.0])  # a disturbed round hits both
    assert ratio(slow, fast) == 2.0
    assert ratio(slow, fast, 4) == 0.5
    assert spread(slow, fast) == (2.0, 4.0)


def test_powers_and_quartiles() -> None:
    assert slope([1.0, 2.0, 4.0], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)


def test_a_record_is_compared_with_the_last_of_the_same_sizes(
    runs_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def record(value: float, size: int) -> str:
        rows = [{"model": "x", "T": 1, "ratio": value, "quartiles": (1.0, 2.5), "seconds": {"cpu": 1.0}}]
        report("some", "title", rows, Namespace(quick=False, repeats=3, size=size))
        return capsys.readouterr().out

    assert "(" not in record(2.0, 1).splitlines()[4]
    shown = record(4.0, 1)
    assert "4.00 (0.50)" in shown
    assert "1.00 to 2.50" in shown
    assert "in brackets" not in record(4.0, 2)  # another size
    written = json.loads((runs_dir / "benchmarks" / "some.json").read_text())
    assert {"processor", "cores", "threads", "torch"} <= set(written["machine"])
    assert len((runs_dir / "benchmarks" / "some.jsonl").read_text().splitlines()) == 3
