"""The measured energy of a piece of work: what the meters counted, less what the machine takes while it does nothing.

A machine without a meter gets the time and the reason, never an exception.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from spikelm.machine.meters import Meter, Meters, NotMeasurable, Part, find_meters

READ_EVERY = 10.0  # seconds: no counter that is in use goes round in so little
IDLE_WINDOWS = 5  # parts of the idle time, for its spread
SETTLE = 1.0  # seconds in which threads that wait for more work give up


@dataclass(frozen=True)
class Spread:
    """The median of the repeats, with the least and the most of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True)
class MeteredPart:
    """What one meter counted: joules of one call without what it takes when idle, and that in watts."""

    name: str
    part: Part
    source: str
    joules: Spread
    idle_watts: Spread


@dataclass(frozen=True)
class MeasuredEnergy:
    """Measured energy of one call, in joules: with idle power subtracted, with it, and by meter.

    `missing` is what this machine has or may have and nobody meters: it is in none of the numbers.
    """

    joules: Spread
    joules_with_idle: Spread
    idle_watts: Spread
    parts: tuple[MeteredPart, ...]
    missing: tuple[NotMeasurable, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """One call of a piece of work: its time, and its energy or why there is none."""

    seconds: Spread
    energy: MeasuredEnergy | NotMeasurable
    calls: int  # in each repeat
    repeats: int

    @property
    def above_idle(self) -> bool:
        """Whether every repeat took more than idle power itself went up and down; what is not is noise."""
        if isinstance(self.energy, NotMeasurable):
            return False
        idle = self.energy.idle_watts
        return self.energy.joules.least > (idle.most - idle.least) * self.seconds.median


@dataclass(frozen=True)
class Clock:
    """Time as it passes; tests have one of their own."""

    now: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep


def measure_joules(
    work: Callable[[], object],
    meters: Meters | None = None,
    repeats: int = 5,
    idle_seconds: float = 5.0,
    at_least: float = 1.0,
    clock: Clock | None = None,
) -> Measurement:
    """Energy and time of one call of `work`, which must wait for its own GPU before it returns.

    The work is called twice, to warm up and to see how long it takes. Then the machine is left alone for
    `idle_seconds`, with the process in place. Then come the repeats, each of as many calls as fill `at_least` seconds,
    because counters move in steps of 1 ms (RAPL) to 100 ms (GPUs).

    Args:
        work: What is measured; what it raises is raised here.
        meters: Those of this machine, unless given.
        repeats: How often; the spread is that of the repeats.
        idle_seconds: For how long idle power is measured.
        at_least: Seconds of each repeat.
        clock: For tests.
    """
    clock = clock or Clock()
    meters = find_meters() if meters is None else meters
    work()
    started = clock.now()
    work()
    calls = max(1, math.ceil(at_least / max(clock.now() - started, 1e-6)))
    counters = _Counters(meters.found)

    def repeat() -> None:
        for _ in range(calls):
            work()

    idle: list[_Window] = []
    if meters.found:
        clock.sleep(SETTLE)
        for _ in range(IDLE_WINDOWS):
            idle.append(counters.window(lambda: clock.sleep(idle_seconds / IDLE_WINDOWS), clock))
    busy = [counters.window(repeat, clock) for _ in range(repeats)]
    seconds = Spread.of([window.seconds / calls for window in busy])
    return Measurement(seconds, _energy(meters, idle, busy, calls, counters.trouble), calls, repeats)


@dataclass(frozen=True)
class _Window:
    seconds: float
    joules: tuple[float, ...]  # by meter


class _Counters:
    """The meters over a stretch of time; they are read on the way too, because counters start again at zero."""

    def __init__(self, meters: Sequence[Meter]) -> None:
        self.trouble = ""
        self._meters = meters
        self._last: list[int] = []
        self._sums: list[int] = []

    def window(self, act: Callable[[], object], clock: Clock) -> _Window:
        self._sums = [0] * len(self._meters)
        self._last = self._read()
        stop = threading.Event()
        thread = threading.Thread(target=self._follow, args=(stop,), daemon=True)
        if self._meters:
            thread.start()
        started = clock.now()
        try:
            act()
        finally:
            seconds = clock.now() - started
            stop.set()
            if self._meters:
                thread.join()
        self._add()
        return _Window(seconds, tuple(total / 1e6 for total in self._sums))

    def _follow(self, stop: threading.Event) -> None:
        while not stop.wait(READ_EVERY):
            self._add()

    def _add(self) -> None:
        values = self._read()
        if self.trouble:
            return
        try:
            for place, meter in enumerate(self._meters):
                self._sums[place] += meter.between(self._last[place], values[place])
        except OSError as error:
            self.trouble = str(error)
        self._last = values

    def _read(self) -> list[int]:
        try:
            return [meter.read() for meter in self._meters]
        except (OSError, ValueError) as error:
            self.trouble = f"a counter could not be read any more: {error}"
            return self._last


def _energy(
    meters: Meters, idle: Sequence[_Window], busy: Sequence[_Window], calls: int, trouble: str
) -> MeasuredEnergy | NotMeasurable:
    if not meters.found:
        fix = next((missing.fix for missing in meters.missing if missing.fix), "")
        reasons = "; ".join(missing.because for missing in meters.missing) or "this machine has no energy counter"
        return NotMeasurable("energy", reasons, fix)
    if trouble:
        return NotMeasurable("energy", trouble)
    moving = [place for place in range(len(meters.found)) if any(window.joules[place] for window in (*idle, *busy))]
    still = [meter for place, meter in enumerate(meters.found) if place not in moving]
    missing = tuple(NotMeasurable(meter.name, f"its counter ({meter.source}) stands still") for meter in still)
    if not moving:
        return NotMeasurable("energy", "; ".join(f"{one.what}: {one.because}" for one in missing))
    parts: list[MeteredPart] = []
    for place in moving:
        meter = meters.found[place]
        watts = Spread.of([window.joules[place] / window.seconds for window in idle])
        joules = Spread.of([(window.joules[place] - watts.median * window.seconds) / calls for window in busy])
        parts.append(MeteredPart(meter.name, meter.part, meter.source, joules, watts))
    idle_watts = Spread.of([sum(window.joules) / window.seconds for window in idle])
    return MeasuredEnergy(
        joules=Spread.of([(sum(window.joules) - idle_watts.median * window.seconds) / calls for window in busy]),
        joules_with_idle=Spread.of([sum(window.joules) / calls for window in busy]),
        idle_watts=idle_watts,
        parts=tuple(parts),
        missing=meters.missing + missing,
    )
