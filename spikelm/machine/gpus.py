"""The GPUs of this machine, without torch: what the driver's own tool says of those that this process may see."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from spikelm.machine.questions import Question

QUERY = "index,uuid,name,memory.total,driver_version"
PATIENCE = 10  # seconds: a driver that hangs must not hang a plan


@dataclass(frozen=True)
class Gpu:
    """One GPU: its name, its memory in GB (1e9 bytes) and the version of its driver."""

    name: str
    memory_gb: float
    driver: str
    uuid: str = ""  # by which CUDA_VISIBLE_DEVICES can name it, whatever the order of the devices


@dataclass(frozen=True)
class DriverAnswer:
    """The GPUs that this process may use, and why none are known where the driver's tool could not be asked."""

    gpus: tuple[Gpu, ...] = ()
    trouble: str | None = None


@cache
def ask_driver() -> DriverAnswer:
    """What nvidia-smi says; one that hangs is left to itself."""
    if shutil.which("nvidia-smi") is None:
        return DriverAnswer(trouble="there is no nvidia-smi, so no driver of NVIDIA's")
    return Question(_nvidia_smi).answer(PATIENCE) or DriverAnswer(
        trouble=f"nvidia-smi did not answer within {PATIENCE} seconds"
    )


def _nvidia_smi() -> DriverAnswer:
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except subprocess.CalledProcessError as error:  # it says why on either of the two
        said = (error.stderr or error.stdout or "").strip().splitlines()
        return DriverAnswer(trouble=said[0] if said else f"nvidia-smi ended with code {error.returncode}")
    except (OSError, subprocess.SubprocessError) as error:
        return DriverAnswer(trouble=str(error))
    return DriverAnswer(visible(done.stdout, os.environ.get("CUDA_VISIBLE_DEVICES")))


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process may use (CUDA_VISIBLE_DEVICES), in the driver's order; none without a driver."""
    return ask_driver().gpus


def visible(answer: str, chosen: str | None) -> tuple[Gpu, ...]:
    """The GPUs of nvidia-smi's answer that CUDA_VISIBLE_DEVICES lets through, by index or by the start of a UUID."""
    by_word: dict[str, Gpu] = {}
    for line in answer.splitlines():
        index, uuid, name, mebibytes, driver = (part.strip() for part in line.split(","))
        try:
            gpu = Gpu(name, float(mebibytes) * 2**20 / 1e9, driver, uuid)
        except ValueError:  # [N/A]: memory that the GPU shares with the processor
            gpu = Gpu(name, 0.0, driver, uuid)
        by_word[index] = by_word[uuid] = gpu
    if chosen is None:
        return tuple(gpu for word, gpu in by_word.items() if word.isdigit())
    chosen_gpus: list[Gpu] = []
    for word in (part.strip() for part in chosen.split(",")):
        named = [gpu for name, gpu in by_word.items() if name == word or (len(word) > 3 and name.startswith(word))]
        if not named:  # as CUDA does it: what comes behind a wrong one is not seen either
            break
        chosen_gpus.append(named[0])
    return tuple(chosen_gpus)
