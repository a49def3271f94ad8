"""What compiling needs of this machine, looked for without torch: a compiler, Python's headers, OpenMP, Triton.

torch.compile needs all of them: on a CPU its kernels are C++ with OpenMP, on a GPU they are Triton's, which builds its
launcher with a C compiler, and both include Python.h. The C++ of exported models needs a compiler with OpenMP alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

PATIENCE = 5  # seconds for a compiler to look for a header


@dataclass(frozen=True)
class Missing:
    """Something that is not there, and how to get it."""

    what: str
    fix: str


def missing_to_compile(device: str) -> list[Missing]:
    """What torch.compile would miss on a device (`cpu`, or `cuda` for a GPU)."""
    wanted = [_python_headers()]
    wanted += [_triton(), _c_compiler()] if device == "cuda" else [_cpp_compiler()]
    return [missing for missing in wanted if missing is not None]


def missing_to_build() -> list[Missing]:
    """What C++ of our own would miss, which is no extension of Python and needs none of its headers."""
    missing = _cpp_compiler()
    return [] if missing is None else [missing]


def cpp_compiler() -> str:
    """Its name, as torch looks for one."""
    return os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")


def _python_headers() -> Missing | None:
    folder = sysconfig.get_paths()["include"]
    if (Path(folder) / "Python.h").is_file():
        return None
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Missing(
        f"Python's headers (no Python.h in {folder})", f"apt install python{version}-dev, or python{version}-devel"
    )


def _c_compiler() -> Missing | None:
    """As Triton looks for one."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["gcc", "clang"]
    if any(shutil.which(name) for name in names):
        return None
    return Missing(f"a C compiler (no {' or '.join(names)})", "apt install gcc, or CC=/path/to/one")


def _cpp_compiler() -> Missing | None:
    """Torch's kernels begin with omp.h."""
    name = cpp_compiler()
    if not shutil.which(name):
        return Missing(f"a C++ compiler (no {name})", "apt install g++, or CXX=/path/to/one")
    if sys.platform == "darwin" or _preprocesses(name, "#include <omp.h>\n"):
        return None
    return Missing(f"OpenMP ({name} finds no omp.h)", "apt install libgomp1 g++, or libomp-dev for clang")


def _preprocesses(compiler: str, text: str) -> bool:
    command = [compiler, "-fopenmp", "-x", "c++", "-E", "-"]
    try:
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _triton() -> Missing | None:
    wanted = triton_wanted()
    fix = f"pip install triton{f'=={wanted}' if wanted else ''}"
    if importlib.util.find_spec("triton") is None:
        return Missing("Triton", fix)
    installed = triton_installed()
    if wanted and installed and installed.partition("+")[0] != wanted:
        return Missing(f"the Triton of this torch (it wants {wanted}, {installed} is installed)", fix)
    try:
        importlib.import_module("triton")
    except Exception as error:  # whatever a broken installation raises
        return Missing(f"a Triton that can be imported ({type(error).__name__}: {error})", fix)
    return None


def triton_installed() -> str | None:
    """The version of Triton that is installed, under any of the names it has."""
    for name in ("triton", "pytorch-triton", "pytorch-triton-rocm"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def triton_wanted() -> str | None:
    """The version that torch was built for, as its package says; a build for the CPU says none."""
    try:
        required = metadata.requires("torch") or []
    except metadata.PackageNotFoundError:
        return None
    for requirement in required:
        if match := re.match(r"(?:pytorch-)?triton(?:-rocm)?\s*==\s*([\w.]+)", requirement):
            return match[1]
    return None
