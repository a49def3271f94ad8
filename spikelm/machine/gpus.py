"""The GPUs of this machine, without torch: what the driver's own tool says of those that this process may see."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import cache

QUERY = "index,uuid,name,memory.total,driver_version"
PATIENCE = 10  # seconds: a driver that hangs must not hang a plan


@dataclass(frozen=True)
class Gpu:
    """One GPU: its name, its memory in GB (1e9 bytes) and the version of its driver."""

    name: str
    memory_gb: float
    driver: str


@cache
def gpus() -> tuple[Gpu, ...]:
    """The GPUs that this process may use (CUDA_VISIBLE_DEVICES), in the driver's order; none without a driver."""
    command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    return visible(answer, os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(answer: str, chosen: str | None) -> tuple[Gpu, ...]:
    """The GPUs of nvidia-smi's answer that CUDA_VISIBLE_DEVICES lets through, by index or by the start of a UUID."""
    by_word: dict[str, Gpu] = {}
    for line in answer.splitlines():
        index, uuid, name, mebibytes, driver = (part.strip() for part in line.split(","))
        try:
            gpu = Gpu(name, float(mebibytes) * 2**20 / 1e9, driver)
        except ValueError:  # [N/A]: memory that the GPU shares with the processor
            gpu = Gpu(name, 0.0, driver)
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
