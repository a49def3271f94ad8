"""What the doctor asks this machine, all at once; nothing is written, and nothing is waited for without end."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spikelm.config.paths import PACKAGE
from spikelm.machine.compilers import Missing, missing_to_compile
from spikelm.machine.cpu import usable_cores
from spikelm.machine.gpus import PATIENCE as FOR_DRIVER
from spikelm.machine.gpus import DriverAnswer, ask_driver
from spikelm.machine.installed import Difference, differences, unmet
from spikelm.machine.memory import Memory, memory
from spikelm.machine.meters import Meters, NotMeasurable, find_meters
from spikelm.machine.questions import Question
from spikelm.machine.services import Service, hub, unreachable, wandb
from spikelm.machine.torch_build import PATIENCE as FOR_TORCH
from spikelm.machine.torch_build import TorchAnswer, ask_torch
from spikelm.runs.doctor.data_facts import DataFacts, data_facts

FOR_NETWORK = 2.0  # seconds
FOR_METERS = 2.0
CONSTRAINTS = PACKAGE.parent / "constraints.txt"


@dataclass(frozen=True)
class Disk:
    """The disk of the runs: the folder that is there (the runs' own may still have to be made)."""

    folder: Path
    free_gb: float
    writable: bool


@dataclass(frozen=True)
class Asked:
    """A service and why it did not answer; None where a variable forbids to ask it."""

    service: Service
    trouble: str | None


@dataclass(frozen=True)
class Facts:
    """Everything that is judged."""

    python: str
    torch: TorchAnswer
    driver: DriverAnswer
    missing_on_cpu: list[Missing]
    missing_on_gpu: list[Missing]
    cores: int
    memory: Memory | None
    meters: Meters
    disk: Disk
    hub: Asked
    wandb: Asked
    slurm: bool
    allocation: str | None  # the job of Slurm's that this process is in
    unmet: list[Difference]
    others: list[Difference] | None  # against constraints.txt; None outside a checkout
    data: dict[str, DataFacts]  # by scale


def gather(runs_dir: Path, scale: str, overrides: Sequence[str]) -> Facts:
    """Ask everything; `overrides` say where the data of the scale are, as for spikelm-run."""
    torch, driver = Question(ask_torch), Question(ask_driver)
    services = [(service, _asked(service)) for service in (hub(), wandb())]
    on_cpu, on_gpu = (Question(lambda device=device: missing_to_compile(device)) for device in ("cpu", "cuda"))  # type: ignore[misc]
    data = {name: data_facts(name, runs_dir, overrides if name == scale else ()) for name in ("minilm", "paper")}
    drivers_answer = driver.answer(FOR_DRIVER + 1) or DriverAnswer(trouble="nvidia-smi did not answer")
    meters = Question(lambda: find_meters(drivers_answer.gpus))
    at_hub, at_wandb = (Asked(service, _answered(service, question)) for service, question in services)
    return Facts(
        python=platform.python_version(),
        torch=torch.answer(FOR_TORCH + 1) or TorchAnswer(None, 0, "torch did not answer"),
        driver=drivers_answer,
        missing_on_cpu=on_cpu.answer(FOR_NETWORK) or [],
        missing_on_gpu=on_gpu.answer(FOR_NETWORK) or [],
        cores=usable_cores(),
        memory=memory(),
        meters=meters.answer(FOR_METERS) or Meters(missing=(NotMeasurable("meters", "they did not answer"),)),
        disk=_disk(runs_dir),
        hub=at_hub,
        wandb=at_wandb,
        slurm=all(shutil.which(program) for program in ("sinfo", "sbatch")),
        allocation=os.environ.get("SLURM_JOB_ID"),
        unmet=unmet("spikelm"),
        others=differences(CONSTRAINTS) if CONSTRAINTS.is_file() else None,
        data=data,
    )


def _asked(service: Service) -> Question[str] | None:
    return None if service.forbidden else Question(lambda: unreachable(service.address, FOR_NETWORK))


def _answered(service: Service, question: Question[str] | None) -> str | None:
    if question is None:
        return None
    answer = question.answer(FOR_NETWORK)
    return f"no answer within {FOR_NETWORK:g} seconds" if answer is None else answer


def _disk(runs_dir: Path) -> Disk:
    folder = runs_dir.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return Disk(folder, shutil.disk_usage(folder).free / 1e9, os.access(folder, os.W_OK | os.X_OK))
