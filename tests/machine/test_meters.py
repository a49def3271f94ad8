"""Which energy counters count: made-up folders of powercap and perf, a made-up NVML, and the kernel's perf events."""

from __future__ import annotations

import struct
import time
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from spikelm.machine.gpus import Gpu
from spikelm.machine.meters import Meter, find_meters, gpu_meters, perf_counter, perf_meters, powercap_meters

RANGE = 262_143_328_850  # microjoules: what Intel's server processors say
NOWHERE = Path("/nowhere")


def zone(powercap: Path, folder: str, name: str, energy: int, last: int = RANGE) -> None:
    """One folder of powercap, as the kernel shows it."""
    (powercap / folder).mkdir(parents=True)
    for file, value in (("name", name), ("energy_uj", energy), ("max_energy_range_uj", last)):
        (powercap / folder / file).write_text(f"{value}\n")


def server(powercap: Path) -> Path:
    """Two packages with cores and DRAM, their second way in (mmio), and a counter of the whole platform."""
    (powercap / "intel-rapl").mkdir(parents=True)
    for package in range(2):
        zone(powercap, f"intel-rapl:{package}", f"package-{package}", 1000 + package)
        zone(powercap, f"intel-rapl:{package}:0", "core", 500)
        zone(powercap, f"intel-rapl:{package}:1", "dram", 100 + package)
        zone(powercap, f"intel-rapl-mmio:{package}", f"package-{package}", 7)
    zone(powercap, "intel-rapl:2", "psys", 9000)
    zone(powercap, "dtpm:0", "package-9", 1)  # not RAPL
    return powercap


def test_every_joule_is_counted_once(tmp_path: Path) -> None:
    meters = powercap_meters(server(tmp_path))
    assert [(meter.name, meter.part, meter.read()) for meter in meters.found] == [
        ("package-0", "processor", 1000),
        ("package-1", "processor", 1001),
        ("dram-0", "memory", 100),
        ("dram-1", "memory", 101),
    ]
    assert not meters.missing
    assert str(meters) == "RAPL (powercap): package-0, package-1, dram-0, dram-1"


def test_amd_has_no_counter_for_memory(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 5)
    zone(tmp_path, "intel-rapl:0:0", "core", 3)
    meters = powercap_meters(tmp_path)
    assert [meter.name for meter in meters.found] == ["package-0"]
    assert [missing.what for missing in meters.missing] == ["memory"]


def test_the_platform_counts_where_no_package_does(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "psys", 5)
    assert [(meter.name, meter.part) for meter in powercap_meters(tmp_path).found] == [("psys", "platform")]


def test_the_dies_of_one_package_are_two(tmp_path: Path) -> None:
    for die in range(2):
        zone(tmp_path, f"intel-rapl:{die}", f"package-0-die-{die}", die)
    assert [meter.name for meter in powercap_meters(tmp_path).found] == ["package-0-die-0", "package-0-die-1"]


@pytest.mark.parametrize(("before", "after", "passed"), [(10, 25, 15), (RANGE - 5, 7, 12), (3, 3, 0)])
def test_a_counter_that_starts_again(before: int, after: int, passed: int) -> None:
    assert Meter("package-0", "processor", "RAPL", lambda: 0, RANGE).between(before, after) == passed


def test_a_counter_without_a_last_value_cannot_go_backwards() -> None:
    with pytest.raises(OSError, match="GPU 0 went backwards"):
        Meter("GPU 0", "gpu", "NVML", lambda: 0).between(10, 9)


def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root may read energy_uj; the tests may run as root, so the file's own mode says nothing."""
    read = Path.read_text

    def refuse(path: Path, *args: Any, **kwargs: Any) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refuse)


def test_counters_for_root_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    powercap = server(tmp_path)
    closed(monkeypatch)
    for meters in (powercap_meters(powercap), find_meters([], powercap, NOWHERE)):
        (missing,) = meters.missing
        assert not meters.found
        assert missing.what == "package-0, package-1, dram-0, dram-1"
        assert "root alone" in str(missing)
        assert missing.fix.startswith("sudo chmod a+r /sys/class/powercap/*/energy_uj")


def test_a_machine_without_counters(tmp_path: Path) -> None:
    for powercap in (tmp_path, tmp_path / "none"):
        (missing,) = find_meters([], powercap, NOWHERE).missing
        assert "virtual machines" in missing.because
        assert missing.fix == ""


def perf_folder(perf: Path, cores: str = "0,28") -> Path:
    """What the kernel shows of its energy events: type, one core for each package, events and their units."""
    (perf / "events").mkdir(parents=True)
    texts = {"type": "24", "cpumask": cores, "events/energy-pkg": "event=0x02", "events/energy-ram": "event=0x03"}
    scale = "2.3283064365386962890625e-10"
    for file, text in {**texts, "events/energy-pkg.scale": scale, "events/energy-ram.scale": scale}.items():
        (perf / file).write_text(f"{text}\n")
    return perf


class Counter(FileIO):
    """A perf counter: eight bytes at every reading, which never end."""

    def read(self, size: int | None = -1, /) -> bytes:
        self.seek(0)
        return super().read(size)


def test_perf_where_powercap_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    powercap, perf = server(tmp_path / "powercap"), perf_folder(tmp_path / "power")
    closed(monkeypatch)
    opened: list[tuple[int, int, int]] = []

    def opener(kind: int, config: int, core: int, process: int = -1) -> FileIO:
        opened.append((kind, config, core))
        file = tmp_path / f"{config}-{core}"
        file.write_bytes(struct.pack("=Q", 3 * 2**32 if config == 2 else 2**31))  # 3 J and 0.5 J
        return Counter(file)

    monkeypatch.setattr("spikelm.machine.meters.perf_counter", opener)
    meters = find_meters([], powercap, perf)
    assert opened == [(24, 2, 0), (24, 2, 28), (24, 3, 0), (24, 3, 28)]
    assert [(meter.name, meter.part, meter.read()) for meter in meters.found] == [
        ("package-0", "processor", 3_000_000),
        ("package-1", "processor", 3_000_000),
        ("dram-0", "memory", 500_000),
        ("dram-1", "memory", 500_000),
    ]


def test_perf_that_is_closed_too(tmp_path: Path) -> None:
    def opener(kind: int, config: int, core: int) -> FileIO:
        raise PermissionError(13, "Permission denied")

    (missing,) = perf_meters(perf_folder(tmp_path, "0-1"), opener).missing
    assert "Permission denied" in missing.because
    assert "perf_event_paranoid" in missing.fix


def test_the_kernels_own_counter() -> None:
    """The system call itself, on a clock that needs no rights: nanoseconds of this process on any core."""
    software, cpu_clock, any_core, this_process = 1, 0, -1, 0
    try:
        counter = perf_counter(software, cpu_clock, any_core, this_process)
    except OSError as error:
        pytest.skip(f"this kernel opens no perf events for us: {error}")
    with counter:
        values = []
        for _ in range(2):
            values.append(struct.unpack("=Q", counter.read(8))[0])
            started = time.process_time()
            while time.process_time() - started < 0.05:
                pass
    assert 0.04e9 < values[1] - values[0] < 1e9


class NvmlError(Exception):
    """What NVML raises."""


class FakeNvml:
    """NVML with two GPUs, of which the second has no energy counter."""

    NVMLError = NvmlError

    def __init__(self) -> None:
        self.millijoules = {"GPU-aa": 5}

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> str:
        return uuid

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str, /) -> int:
        if handle not in self.millijoules:
            raise NvmlError("Not Supported")
        return self.millijoules[handle]


def test_gpus_with_and_without_a_counter() -> None:
    nvml = FakeNvml()
    meters = gpu_meters([Gpu("A100", 80, "580", "GPU-aa"), Gpu("P100", 16, "580", "GPU-bb")], nvml)
    (meter,) = meters.found
    assert (meter.name, meter.part, meter.read()) == ("GPU 0 A100", "gpu", 5000)
    assert [str(missing) for missing in meters.missing] == [
        "GPU 1 P100: not measurable here, because the driver tells no energy of it: Not Supported"
    ]
    nvml.millijoules.clear()
    with pytest.raises(OSError, match="Not Supported"):
        meter.read()


def test_gpus_whose_driver_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NvmlError("Driver/library version mismatch")

    nvml = FakeNvml()
    monkeypatch.setattr(nvml, "nvmlInit", fail)
    gpus = [Gpu("A100", 80, "580", "GPU-aa")]
    assert "version mismatch" in gpu_meters(gpus, nvml).missing[0].because
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)  # an import of it fails
    assert gpu_meters(gpus).missing[0].fix == "pip install nvidia-ml-py"
    assert not gpu_meters([], nvml).missing
