"""Joules of a piece of work on made-up machines, against power times time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from spikelm.machine import joules as joules_module
from spikelm.machine.joules import Clock, MeasuredEnergy, Measurement, Spread, measure_joules
from spikelm.machine.meters import Meter, Meters, NotMeasurable, powercap_meters
from tests.machine.test_meters import server, zone


class Machine:
    """Time that passes when told to, and packages that take so many watts meanwhile, as their files show."""

    def __init__(self, powercap: Path, idle: dict[str, float], last: int = 10**12) -> None:
        self.powercap, self.idle, self.time, self.last = powercap, idle, 0.0, last
        self._exact = {folder: float(self.file(folder).read_text()) for folder in idle}

    def file(self, folder: str) -> Path:
        return self.powercap / folder / "energy_uj"

    def passes(self, seconds: float, more: float = 0.0) -> None:
        """Idle power, and so many watts more on the first package."""
        self.time += seconds
        for place, (folder, watts) in enumerate(self.idle.items()):
            self._exact[folder] += (watts + (more if place == 0 else 0)) * seconds * 1e6
            self.file(folder).write_text(f"{round(self._exact[folder]) % (self.last + 1)}\n")

    def works(self, seconds: float, watts: float) -> Callable[[], None]:
        return lambda: self.passes(seconds, watts)

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.time, self.passes)


def measured(measurement: Measurement) -> MeasuredEnergy:
    assert isinstance(measurement.energy, MeasuredEnergy)
    return measurement.energy


def test_idle_power_is_subtracted(tmp_path: Path) -> None:
    machine = Machine(server(tmp_path), {"intel-rapl:0": 20, "intel-rapl:1": 15, "intel-rapl:0:1": 3})
    measurement = measure_joules(machine.works(0.5, 40), powercap_meters(tmp_path), clock=machine.clock, at_least=2)
    energy = measured(measurement)
    assert (measurement.calls, measurement.repeats) == (4, 5)  # four calls fill two seconds
    assert measurement.seconds.median == pytest.approx(0.5)
    assert energy.joules.median == pytest.approx(0.5 * 40)
    assert energy.joules_with_idle.median == pytest.approx(0.5 * (40 + 20 + 15 + 3))
    assert energy.idle_watts.median == pytest.approx(38)
    by_name = {part.name: (part.joules.median, part.idle_watts.median) for part in energy.parts}
    assert by_name["package-0"] == pytest.approx((20, 20))
    assert by_name["package-1"] == pytest.approx((0, 15), abs=1e-6)
    assert by_name["dram-0"] == pytest.approx((0, 3), abs=1e-6)
    assert [missing.what for missing in energy.missing] == ["dram-1"]  # whose counter stands still
    assert measurement.above_idle


def test_the_spread_is_that_of_the_repeats(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    machine = Machine(tmp_path, {"intel-rapl:0": 10})
    watts = cycle([0, 0, 30, 50, 20])  # two calls before the repeats

    def work() -> None:
        machine.passes(1, next(watts))

    energy = measured(measure_joules(work, powercap_meters(tmp_path), repeats=3, clock=machine.clock))
    assert (energy.joules.median, energy.joules.least, energy.joules.most) == pytest.approx((30, 20, 50))


def test_a_counter_that_starts_again_during_the_work(tmp_path: Path) -> None:
    last = 99_999_999  # 100 J
    zone(tmp_path, "intel-rapl:0", "package-0", 60_000_000, last)
    machine = Machine(tmp_path, {"intel-rapl:0": 1}, last)
    energy = measured(measure_joules(machine.works(2, 20), powercap_meters(tmp_path), clock=machine.clock))
    assert energy.joules.median == pytest.approx(40, abs=1e-4)  # a repeat takes 42 J, so it starts again twice in five
    assert energy.joules.most - energy.joules.least < 1e-4


def test_work_that_is_longer_than_a_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A counter of 100 J goes round three times in 350 J; it is read on the way."""
    last = 99_999_999
    monkeypatch.setattr(joules_module, "READ_EVERY", 0.001)
    passed = {"seconds": 0.0, "microjoules": 0.0}
    was_read = threading.Event()
    calls: list[int] = []

    def read() -> int:
        value = int(passed["microjoules"])
        was_read.set()
        return value % (last + 1)

    def work() -> None:
        calls.append(1)
        passed["seconds"] += 7
        for _ in range(7 if len(calls) > 2 else 0):  # nobody reads beside the first two
            passed["microjoules"] += 50_000_000
            for _ in range(2):  # one of these readings began after the joules were there
                was_read.clear()
                assert was_read.wait(5)

    def sleep(seconds: float) -> None:
        passed["seconds"] += seconds

    meters = Meters((Meter("package-0", "processor", "RAPL", read, last),))
    energy = measured(measure_joules(work, meters, repeats=1, clock=Clock(lambda: passed["seconds"], sleep)))
    assert energy.joules.median == pytest.approx(350, abs=1e-3)


def test_what_drowns_in_idle_power_is_not_above_it(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    machine = Machine(tmp_path, {"intel-rapl:0": 10})
    restless = cycle([0, 8, 0, 8, 0, 8])

    def sleep(seconds: float) -> None:
        machine.passes(seconds, next(restless))

    clock = Clock(lambda: machine.time, sleep)
    measurement = measure_joules(machine.works(1, 9), powercap_meters(tmp_path), clock=clock)
    energy = measured(measurement)
    assert energy.idle_watts == Spread(pytest.approx(18), pytest.approx(10), pytest.approx(18))
    assert energy.joules.median == pytest.approx(1)  # 19 W for a second, less 18
    assert not measurement.above_idle


def test_a_machine_without_a_meter_tells_the_time_and_why() -> None:
    calls: list[int] = []
    meters = Meters(missing=(NotMeasurable("package-0", "root alone may read it", "sudo chmod"),))
    measurement = measure_joules(lambda: calls.append(1), meters, repeats=3, at_least=1e-9)
    assert measurement.energy == NotMeasurable("energy", "root alone may read it", "sudo chmod")
    assert 0 <= measurement.seconds.least <= measurement.seconds.median <= measurement.seconds.most
    assert len(calls) == 2 + 3 * measurement.calls
    assert not measurement.above_idle


def test_counters_that_stand_still(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    measurement = measure_joules(lambda: None, powercap_meters(tmp_path), clock=Machine(tmp_path, {}).clock, at_least=0)
    assert isinstance(measurement.energy, NotMeasurable)
    assert "stands still" in measurement.energy.because


def test_a_counter_that_fails_on_the_way(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    meters = powercap_meters(tmp_path)
    machine = Machine(tmp_path, {"intel-rapl:0": 10})
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        machine.passes(1)
        if len(calls) == 4:
            machine.file("intel-rapl:0").unlink()
            machine.idle = {}

    measurement = measure_joules(work, meters, clock=machine.clock)
    assert isinstance(measurement.energy, NotMeasurable)
    assert "could not be read any more" in measurement.energy.because
    assert measurement.seconds.median == pytest.approx(1)  # the time is told all the same


def test_what_the_work_raises_is_raised(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 0)
    machine = Machine(tmp_path, {"intel-rapl:0": 10})
    times = iter(range(3))

    def work() -> None:
        machine.passes(1)
        if next(times) == 2:
            raise OSError("of the work's own")

    threads = threading.active_count()
    with pytest.raises(OSError, match="of the work's own"):
        measure_joules(work, powercap_meters(tmp_path), clock=machine.clock)
    assert threading.active_count() == threads
