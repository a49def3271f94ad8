"""What a made-up torch says of its build and its GPUs; and the real one, asked in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from spikelm.machine import torch_build
from spikelm.machine.torch_build import TorchBuild, ask_torch, asked_of, build_of


def made_up(capability: tuple[int, int] = (8, 0), error: str | None = None) -> Any:
    def init() -> None:
        if error:
            raise RuntimeError(error)

    cuda = SimpleNamespace(
        init=init,
        nccl=SimpleNamespace(version=lambda: (2, 27, 5)),
        device_count=lambda: 2,
        get_device_capability=lambda index: capability,
        get_device_name=lambda index: "NVIDIA X",
        get_arch_list=lambda: ["sm_80", "sm_90", "sm_120"],
    )
    return SimpleNamespace(
        __version__="2.13.0+cu126",
        version=SimpleNamespace(cuda="12.6"),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002)),
        distributed=SimpleNamespace(is_nccl_available=lambda: True),
        cuda=cuda,
    )


def test_the_versions_of_a_build() -> None:
    assert build_of(made_up()) == TorchBuild("2.13.0+cu126", "12.6", "91002", "2.27.5")
    if torch.version.cuda is None:
        assert build_of(torch) == TorchBuild(torch.__version__)


@pytest.mark.parametrize(
    ("capability", "gpus"), [((8, 0), 2), ((8, 6), 2), ((9, 0), 2), ((12, 0), 2), ((7, 0), 0), ((10, 0), 0)]
)
def test_gpus_that_a_build_has_kernels_for(capability: tuple[int, int], gpus: int) -> None:
    answer = asked_of(made_up(capability))
    assert answer.gpus == gpus
    assert (answer.trouble is None) == bool(gpus)


def test_a_driver_that_is_too_old_is_quoted() -> None:
    answer = asked_of(made_up(error="The driver is too old\nPlease update"))
    assert answer.trouble == "The driver is too old"


def test_the_torch_of_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask_torch()
    assert answer.build is not None
    assert answer.build.version == torch.__version__
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert ask_torch() == torch_build.TorchAnswer(None, 0, "the process ended with code 1")

    def late(*args: Any, **kwargs: Any) -> Any:
        raise subprocess.TimeoutExpired("python", 1)

    monkeypatch.setattr(subprocess, "run", late)
    assert "did not answer" in (ask_torch().trouble or "")
