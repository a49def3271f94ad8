"""The products and the attention in C++: compiled on first use, kept in a cache.

Where no compiler is found, torch's own take their place, with a warning.

One source is compiled three times, for AVX-512, for AVX2 and for any processor; `SPIKELM_EVENT_PATH` names one of them,
else the first is taken that the processor has.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import tempfile
import time
import warnings
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from spikelm.errors import ConfigError, SpikeLMError
from spikelm.machine.compilers import cpp_compiler, missing_to_build

SOURCES = Path(__file__).parent
VARIABLE = "SPIKELM_EVENT_PATH"
CACHE = "TORCH_EXTENSIONS_DIR"  # where torch keeps its own
WIDTHS = {"portable": 16, "avx2": 32, "avx512": 64}  # bytes of a vector
AVX2 = ("-mavx2", "-mbmi", "-mpopcnt")
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vbmi2", "-mprefer-vector-width=512")
INSTRUCTIONS = {"portable": (), "avx2": AVX2, "avx512": (*AVX2, *AVX512)}
TILES = ("-std=c++17", "-O3", "-fPIC", "-ffp-contract=off", "-Wno-psabi")  # no product and sum in one rounding
LIBRARY = ("-std=c++20", "-O2", "-fPIC", "-fopenmp", "-Wno-psabi")
SAMPLES = 20  # timed products of a kind; the quickest counts, so that other work does not
PATIENCE = 600  # seconds for a compiler


@lru_cache(maxsize=1)
def library() -> Any:
    """torch.ops.spikelm_event, or None after one warning that says why there is none."""
    try:
        torch.ops.load_library(str(built()))
    except (SpikeLMError, OSError) as error:
        what = error.what if isinstance(error, SpikeLMError) else str(error)
        fix = f" ({error.fix})" if isinstance(error, SpikeLMError) and error.fix else ""
        warnings.warn(f"no compiled products and attention, torch's own instead: {what}{fix}", stacklevel=2)
        return None
    return torch.ops.spikelm_event


@lru_cache(maxsize=1)
def paths() -> tuple[str, ...]:
    """The ways to compute that this processor has, the quickest first."""
    return tuple(library().paths())


def path_in_use() -> str:
    """Which of them is taken."""
    named = os.environ.get(VARIABLE)
    if named and named not in paths():
        raise ConfigError(f"{VARIABLE}={named}: this processor has no such path", f"one of: {', '.join(paths())}")
    return named or paths()[0]


@cache
def crossing(path: str) -> float:
    """The share of inputs that fire from which on `_int_mm` is quicker, by what products take on this machine."""
    rows, width = 128, 768
    noise = torch.Generator().manual_seed(0)
    weight = torch.randint(-127, 128, (width, width), generator=noise, dtype=torch.int8)
    packed, x = library().pack(weight), torch.rand(1, rows, width, generator=noise)
    one, zeros = torch.ones(1, width), torch.zeros(width)

    def seconds(rate: float, most: float) -> float:
        threshold = torch.tensor([1 - rate])
        times = []
        for _ in range(SAMPLES):
            start = time.perf_counter()
            library().linear(x, threshold, 1, False, 0, packed, weight, one, zeros, None, None, most, path)
            times.append(time.perf_counter() - start)
        return min(times)

    few, many = 0.1, 0.5
    first, slope = seconds(few, 1.0), (seconds(many, 1.0) - seconds(few, 1.0)) / (many - few)
    share = few + (seconds(many, 0.0) - first) / max(slope, 1e-9)
    return min(max(share, 0.0), 1.0)


def built() -> Path:
    """The compiled library of these sources, flags and this torch; compiled where it is not there or not whole."""
    root = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "torch_extensions")
    folder = root / "spikelm_event" / fingerprint()
    made, digest = folder / "events.so", folder / "events.sha256"
    if _whole(made, digest):
        return made
    if missing := missing_to_build():
        what, fixes = ", ".join(item.what for item in missing), "; ".join(item.fix for item in missing)
        raise SpikeLMError(f"{what} is missing", fixes)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not _whole(made, digest):  # another process may have made it meanwhile
            with tempfile.TemporaryDirectory(dir=folder) as work:
                fresh = _compile(Path(work))
                digest.write_text(hashlib.sha256(fresh.read_bytes()).hexdigest())
                os.replace(fresh, made)
    return made


def fingerprint() -> str:
    """Of all that decides what is compiled."""
    parts = [torch.__version__, platform.machine(), cpp_compiler(), *map(repr, (TILES, LIBRARY, INSTRUCTIONS))]
    found = hashlib.sha256("\n".join(parts).encode())
    for source in sorted(SOURCES.glob("*.cpp")) + sorted(SOURCES.glob("*.h")):
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def tile_commands(compiler: str, folder: Path, flags: tuple[str, ...] = TILES) -> dict[str, list[str]]:
    """How each path is compiled that this kind of processor can have, by its name."""
    names = WIDTHS if platform.machine().lower() in ("x86_64", "amd64") else ("portable",)
    return {
        name: [
            compiler, *flags, *INSTRUCTIONS[name], f"-DPATH={name}", f"-DWIDTH={WIDTHS[name]}",
            "-c", str(SOURCES / "tiles.cpp"), "-o", str(folder / f"{name}.o"),
        ]
        for name in names
    }  # fmt: skip


def _compile(work: Path) -> Path:
    compiler = cpp_compiler()
    home = Path(torch.__file__).parent
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    include = [f"-isystem{home / 'include'}", f"-isystem{home / 'include/torch/csrc/api/include'}"]
    objects = [str(work / "library.o")]
    run([compiler, *LIBRARY, abi, *include, "-c", str(SOURCES / "library.cpp"), "-o", objects[0]])
    for name, command in tile_commands(compiler, work).items():
        run(command)
        objects.append(str(work / f"{name}.o"))
    made = work / "events.so"
    run([compiler, "-shared", "-fopenmp", "-o", str(made), *objects, f"-L{home / 'lib'}", "-ltorch_cpu", "-lc10"])
    return made


def run(command: list[str]) -> None:
    """A compiler's work, or its own words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise SpikeLMError(f"{command[0]} does not run: {error}", "CXX=/path/to/a compiler of C++20") from error
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:300])
        raise SpikeLMError(
            f"{command[0]} cannot compile the event-driven products: {said}", "CXX=/path/to/a compiler of C++20"
        )


def _whole(file: Path, digest: Path) -> bool:
    """Whether the file is what was compiled: half a library would end the process that loads it."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == digest.read_text()
    except OSError:
        return False
