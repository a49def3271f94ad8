"""What torch.compile needs: each thing that is missing is named with a way to get it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spikelm.machine import compilers
from spikelm.machine.compilers import missing_to_compile


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs, headers and Triton."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(compilers.sysconfig, "get_paths", lambda: {"include": str(tmp_path / "include")})
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: None)
    return tmp_path


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_everything_that_is_missing_is_named(nothing: Path) -> None:
    on_cpu, on_gpu = missing_to_compile("cpu"), missing_to_compile("cuda")
    assert [item.what.partition(" (")[0] for item in on_cpu] == ["Python's headers", "a C++ compiler"]
    assert [item.what.partition(" (")[0] for item in on_gpu] == ["Python's headers", "Triton", "a C compiler"]
    assert "-dev" in on_cpu[0].fix
    assert on_gpu[1].fix.startswith("pip install triton")


def test_a_compiler_without_openmp(nothing: Path) -> None:
    (nothing / "include").mkdir()
    (nothing / "include" / "Python.h").touch()
    _program(nothing / "g++", "exit 1")
    (missing,) = missing_to_compile("cpu")
    assert "no omp.h" in missing.what
    _program(nothing / "g++", "exit 0")
    assert missing_to_compile("cpu") == []


def test_a_triton_that_torch_was_not_built_for(nothing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilers.importlib.util, "find_spec", lambda name: object())
    requires = ["filelock", "triton==3.5.1; platform_system == 'Linux'"]
    monkeypatch.setattr(compilers.metadata, "requires", lambda name: requires)
    monkeypatch.setattr(compilers.metadata, "version", lambda name: "3.4.0")
    assert "wants 3.5.1, 3.4.0 is installed" in missing_to_compile("cuda")[1].what
    assert missing_to_compile("cuda")[1].fix == "pip install triton==3.5.1"
    monkeypatch.setattr(compilers.metadata, "version", lambda name: "3.5.1+git1234")
    assert "can be imported" in missing_to_compile("cuda")[1].what  # sys.modules has None for it
    monkeypatch.setitem(sys.modules, "triton", compilers)  # any module
    assert [item.what.partition(" (")[0] for item in missing_to_compile("cuda")] == ["Python's headers", "a C compiler"]
