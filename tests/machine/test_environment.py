"""The environment record: it names its own commit and holds no secrets."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from spikelm.machine import environment as environment_module
from spikelm.machine.environment import environment
from spikelm.machine.gpus import Gpu
from spikelm.machine.torch_build import TorchBuild


def test_environment_has_versions_and_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "planted-secret")
    found = environment()
    assert found.versions["torch"]
    assert found.versions["spikelm"]
    assert "planted-secret" not in json.dumps(asdict(found))


def test_environment_names_its_own_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git")
    package = tmp_path / "spikelm"
    (package / "machine").mkdir(parents=True)
    (package / "machine" / "environment.py").touch()
    monkeypatch.setattr("spikelm.machine.environment.__file__", str(package / "machine" / "environment.py"))
    assert environment().git_commit is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], check=True)
    clean = environment()
    assert len(clean.git_commit or "") == 40
    assert clean.git_dirty is False
    (package / "new.py").touch()
    assert environment().git_dirty is True
    inner = tmp_path / "venv" / "spikelm"  # a copy installed inside that checkout
    inner.mkdir(parents=True)
    monkeypatch.setattr("spikelm.machine.environment.__file__", str(inner / "machine" / "environment.py"))
    assert environment().git_commit is None
    monkeypatch.setenv("PATH", "")
    assert environment().git_commit is None


def test_gpus_and_what_drives_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment_module, "gpus", lambda: (Gpu("NVIDIA H100", 85.5, "560.35"),) * 2)
    record = asdict(environment(TorchBuild("2.13.0+cu126", "12.6", "91002", "2.27.5")))
    assert record["gpus"] == ({"name": "NVIDIA H100", "memory_gb": 85.5, "driver": "560.35", "uuid": ""},) * 2
    assert (record["cuda"], record["cudnn"], record["nccl"]) == ("12.6", "91002", "2.27.5")
    monkeypatch.setattr(environment_module, "gpus", lambda: ())
    without = environment()
    assert (without.gpus, without.cuda, without.cudnn, without.nccl) == ((), None, None, None)
