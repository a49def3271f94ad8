"""The energy counters of this machine: RAPL of the processors (powercap, or else perf) and NVML of NVIDIA's GPUs.

Which domains count. A package holds its cores and its graphics, so these are not added to it. DRAM is beside the
package. A platform (psys) holds the packages and is used only where there is none. intel-rapl-mmio shows the packages
of intel-rapl a second time. AMD's processors have the same names.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Literal, Protocol

from spikelm.machine.gpus import Gpu, gpus

POWERCAP = Path("/sys/class/powercap")
PERF = Path("/sys/bus/event_source/devices/power")
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
ZONE = re.compile(r"(?P<control>[a-z-]*rapl[a-z-]*):\d+(:\d+)?")
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # the number of the system call
PERF_FLAG_FD_CLOEXEC = 8
FOR_ROOT_ALONE = "since Linux 5.10 root alone may read it, because it can betray secrets (CVE-2020-8694)"
READABLE = f"sudo chmod a+r {POWERCAP}/*/energy_uj   # until the next start"

Part = Literal["processor", "memory", "platform", "gpu"]


@dataclass(frozen=True)
class NotMeasurable:
    """Why something has no measured energy here, and what would change that (nothing where it is empty)."""

    what: str
    because: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what}: not measurable here, because {self.because}"


NO_DRAM = NotMeasurable("memory", "this processor has no counter for DRAM")


@dataclass(frozen=True)
class Meter:
    """One counter of microjoules; it starts again at zero behind `last`, where that is said."""

    name: str
    part: Part
    source: str
    read: Callable[[], int]  # raises OSError where it cannot
    last: int | None = None

    def between(self, before: int, after: int) -> int:
        """Microjoules from one reading to the next, which must come before the counter has gone round twice."""
        if after >= before:
            return after - before
        if self.last is None:
            raise OSError(f"the counter of {self.name} went backwards")
        return self.last - before + after


@dataclass(frozen=True)
class Meters:
    """What counts here, and what does not with the reason for it."""

    found: tuple[Meter, ...] = ()
    missing: tuple[NotMeasurable, ...] = ()

    def __str__(self) -> str:
        by_source: dict[str, list[str]] = {}
        for meter in self.found:
            by_source.setdefault(meter.source, []).append(meter.name)
        return "; ".join(f"{source}: {', '.join(names)}" for source, names in by_source.items()) or "none"


def find_meters(visible: Sequence[Gpu] | None = None, powercap: Path = POWERCAP, perf: Path = PERF) -> Meters:
    """All of this machine's; of the GPUs those that are given, or else those that this process may use."""
    processors, graphics = _processors(powercap, perf), gpu_meters(gpus() if visible is None else visible)
    return Meters(processors.found + graphics.found, processors.missing + graphics.missing)


def _processors(powercap: Path, perf: Path) -> Meters:
    """By powercap, or else by perf; where neither counts, what says how it would."""
    ways = (powercap_meters(powercap), perf_meters(perf))
    counting = (way for way in ways if way.found)
    closed = (way for way in ways if any(missing.fix for missing in way.missing))
    return next(counting, None) or next(closed, None) or ways[0]


@dataclass(frozen=True)
class _Zone:
    """One folder of powercap: intel-rapl:0 is a domain, intel-rapl:0:1 a part of it."""

    folder: Path
    name: str
    part: Part


def powercap_meters(powercap: Path = POWERCAP) -> Meters:
    """RAPL through powercap, the way for everybody where the counters may be read."""
    zones = _zones(powercap)
    if not zones:
        reason = f"{powercap} has no RAPL counters, as in most virtual machines and containers"
        return Meters(missing=(NotMeasurable("processor", reason),))
    meters: list[Meter] = []
    missing: list[NotMeasurable] = []
    closed: list[str] = []
    for zone in zones:
        try:
            last = _number(zone.folder / "max_energy_range_uj")
            read = partial(_number, zone.folder / "energy_uj")
            read()
        except PermissionError:
            closed.append(zone.name)
        except (OSError, ValueError) as error:
            missing.append(NotMeasurable(zone.name, f"{zone.folder} cannot be read: {error}"))
        else:
            meters.append(Meter(zone.name, zone.part, "RAPL (powercap)", read, last))
    if closed:
        reason = f"energy_uj in {powercap} may not be read: {FOR_ROOT_ALONE}"
        missing.append(NotMeasurable(", ".join(closed), reason, READABLE))
    if meters and all(zone.part == "processor" for zone in zones):
        missing.append(NO_DRAM)
    return Meters(tuple(meters), tuple(missing))


def _zones(powercap: Path) -> list[_Zone]:
    """Those that count, each once, packages first."""
    zones: dict[str, _Zone] = {}
    folders = [folder for folder in powercap.glob("*:*") if ZONE.fullmatch(folder.name)]
    for folder in sorted(folders, key=lambda folder: ("mmio" in folder.name, folder.name)):
        try:
            name = (folder / "name").read_text().strip()
        except OSError:
            continue
        if name.startswith("package"):
            zones.setdefault(name, _Zone(folder, name, "processor"))
        elif name == "dram":  # has the number of its package in its folder alone
            name = f"dram-{folder.name.split(':')[1]}"
            zones.setdefault(name, _Zone(folder, name, "memory"))
        elif name == "psys":
            zones.setdefault(name, _Zone(folder, name, "platform"))
    if any(zone.part == "processor" for zone in zones.values()):
        zones.pop("psys", None)
    return sorted(zones.values(), key=lambda zone: (zone.part != "processor", zone.name))


def _number(path: Path) -> int:
    return int(path.read_text())


def perf_meters(
    perf: Path = PERF, open_counter: Callable[[int, int, int], FileIO] | None = None, paranoid: Path = PARANOID
) -> Meters:
    """RAPL through the kernel's perf events, which some machines let everybody read where powercap is closed."""
    try:
        kind = _number(perf / "type")
        cores = _cores((perf / "cpumask").read_text())
    except (OSError, ValueError):
        return Meters(missing=(NotMeasurable("processor", f"the kernel has no perf events for energy ({perf})"),))
    parts: dict[str, tuple[str, Part]] = {"energy-pkg": ("package", "processor"), "energy-ram": ("dram", "memory")}
    meters: list[Meter] = []
    for event, (name, part) in parts.items():
        try:
            config = int((perf / "events" / event).read_text().split("=")[1], 16)
            joules = float((perf / "events" / f"{event}.scale").read_text())
            for number, core in enumerate(cores):
                counter = (open_counter or perf_counter)(kind, config, core)
                read = partial(_scaled, counter, joules * 1e6)
                meters.append(Meter(f"{name}-{number}", part, "RAPL (perf)", read))
        except FileNotFoundError:
            continue  # a processor without this domain
        except (OSError, ValueError, IndexError) as error:
            reason = f"perf events for energy may not be opened ({error})"
            return Meters(missing=(NotMeasurable("processor", reason, f"echo 0 | sudo tee {paranoid}"),))
    if meters and all(meter.part == "processor" for meter in meters):
        return Meters(tuple(meters), (NO_DRAM,))
    return Meters(tuple(meters))


def _cores(mask: str) -> list[int]:
    """The cores that stand for the packages: 0,28 or 0-1."""
    ranges = [part.split("-") for part in mask.strip().split(",") if part]
    return [core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)]


def perf_counter(kind: int, config: int, core: int, process: int = -1) -> FileIO:
    """A counter of the kernel's as a file of eight bytes; process -1 is whatever runs on the core."""
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None or platform.system() != "Linux":
        raise OSError(f"no perf events on {platform.system()} {platform.machine()}")
    # struct perf_event_attr of its first version: type, size, config, sample_period, sample_type, read_format,
    # flags, wakeup_events, bp_type, config1
    attributes = struct.pack("=IIQQQQQIIQ", kind, 64, config, 0, 0, 0, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(
        ctypes.c_long(number),
        ctypes.create_string_buffer(attributes, len(attributes)),
        ctypes.c_int(process),
        ctypes.c_int(core),
        ctypes.c_int(-1),
        ctypes.c_ulong(PERF_FLAG_FD_CLOEXEC),
    )
    if descriptor < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return FileIO(descriptor)


def _scaled(counter: FileIO, microjoules: float) -> int:
    value = counter.read(8)
    if len(value) != 8:
        raise OSError("the perf event for energy has stopped")
    return int(struct.unpack("=Q", value)[0] * microjoules)


class Nvml(Protocol):
    """What is used of nvidia-ml-py."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByUUID(self, uuid: str, /) -> Any: ...

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, /) -> int: ...


def gpu_meters(visible: Sequence[Gpu], library: Nvml | None = None) -> Meters:
    """The energy counters of GPUs that this process may use; Volta and all later GPUs have one."""
    if not visible:
        return Meters()
    try:
        nvml: Nvml = library or importlib.import_module("pynvml")  # type: ignore[assignment]
        nvml.nvmlInit()
    except ImportError:
        return Meters(missing=(NotMeasurable("gpu", "nvidia-ml-py is not installed", "pip install nvidia-ml-py"),))
    except Exception as error:  # the driver's library is missing, or of another version than the driver
        return Meters(missing=(NotMeasurable("gpu", f"NVML does not start: {error}"),))
    meters: list[Meter] = []
    missing: list[NotMeasurable] = []
    for number, gpu in enumerate(visible):
        name = f"GPU {number} {gpu.name}"
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
            meter = Meter(name, "gpu", "NVML", partial(_nvml_energy, nvml, handle))
            meter.read()
        except (OSError, nvml.NVMLError) as error:
            missing.append(NotMeasurable(name, f"the driver tells no energy of it: {error}"))
        else:
            meters.append(meter)
    return Meters(tuple(meters), tuple(missing))


def _nvml_energy(nvml: Nvml, handle: Any) -> int:
    """NVML counts millijoules since the driver was loaded."""
    try:
        return nvml.nvmlDeviceGetTotalEnergyConsumption(handle) * 1000
    except nvml.NVMLError as error:
        raise OSError(str(error)) from error
