"""Curves against plain means."""

from __future__ import annotations

import random
from pathlib import Path

from spikelm.report.page.series import POINTS, read_curves


def test_a_long_curve_is_the_mean_of_neighbours(tmp_path: Path) -> None:
    random.seed(0)
    values = [random.random() for _ in range(4 * POINTS + 3)]
    rows = "".join(f"{step},loss,{value!r}\n" for step, value in enumerate(values))
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,name,value\n{rows}")
    curve = read_curves(path)["loss"]
    assert len(curve.values) <= POINTS
    whole, size = len(values) // curve.size, curve.size
    expected = [sum(values[i * size : (i + 1) * size]) / size for i in range(whole)]
    assert all(abs(a - b) < 1e-9 for a, b in zip(curve.values, expected, strict=False))
    assert len(curve.values) == whole + (len(values) % size > 0)
    assert curve.count == len(values)


def test_torn_and_empty_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(b"step,name,value\n1,a,1.0\n\0\0\0\n2,a,nan\n3,a,3.0\n4,a,inf\n\xff\xfe,a,1\n5,b,\n6,a,6.")
    curves = read_curves(path)
    assert list(curves) == ["a"]
    assert (curves["a"].steps, curves["a"].values) == ([1.0, 3.0], [1.0, 3.0])
    assert read_curves(tmp_path / "none.csv") == {}
