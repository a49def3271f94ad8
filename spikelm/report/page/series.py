"""The metrics of a run as curves of a few hundred points, read line by line: memory does not grow with the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

POINTS = 240  # of a curve, at most
NAMES = 200  # curves of a run, at most; a spiking BERT logs one per site


@dataclass
class Curve:
    """Means of runs of neighbouring values; when there are too many, two neighbours become one."""

    size: int = 1  # values in a whole bucket
    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    count: int = 0
    _held: int = 0  # values in the last bucket

    def add(self, step: int, value: float) -> None:
        """Take the next value; one that is not finite breaks nothing and is left out."""
        if not math.isfinite(value):
            return
        self.count += 1
        if self._held and self._held < self.size:
            self._held += 1
            self.steps[-1] += (step - self.steps[-1]) / self._held
            self.values[-1] += (value - self.values[-1]) / self._held
            return
        if len(self.steps) >= POINTS:
            self._halve()
        self.steps.append(float(step))
        self.values.append(value)
        self._held = 1

    def _halve(self) -> None:
        """Every bucket is full here, so the mean of two is the mean of their values."""
        self.steps = [(a + b) / 2 for a, b in zip(self.steps[::2], self.steps[1::2], strict=True)]
        self.values = [(a + b) / 2 for a, b in zip(self.values[::2], self.values[1::2], strict=True)]
        self.size *= 2


def read_curves(path: Path) -> dict[str, Curve]:
    """Every metric in a metrics.csv by name; rows torn by a crash are left out."""
    curves: dict[str, Curve] = {}
    for step, name, value in _rows(path):
        if name not in curves and len(curves) >= NAMES:
            continue
        curves.setdefault(name, Curve()).add(step, value)
    return {name: curve for name, curve in curves.items() if curve.count}


def _rows(path: Path) -> Iterator[tuple[int, str, float]]:
    try:
        file = path.open(encoding="utf-8", errors="replace", newline="")
    except OSError:
        return
    with file:
        for line in file:
            try:  # a row torn by a crash has no end of line, or not three fields
                step, rest = line[:-1].split(",", 1) if line.endswith("\n") else ("", "")
                name, value = rest.rsplit(",", 1)
                row = int(step), name.strip('"'), float(value)
            except ValueError:
                continue
            yield row
