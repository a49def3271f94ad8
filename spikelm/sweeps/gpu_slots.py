"""A GPU of its own for each job of a sweep whose jobs run side by side on this machine.

A process that has begun to use a GPU cannot change to another one, and joblib uses its processes again for the next
job. So a process claims its GPUs at its first job and keeps them until it ends, by locks that the system gives back
whatever the end. Another sweep on the same machine waits for GPUs that are free.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import filelock

from spikelm.config.devices import uses_gpu
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.machine.gpus import ask_driver, gpus

EVERY = 1.0  # seconds between two looks for a free GPU
_held: list[filelock.FileLock] = []  # of this process, until it ends


def claim_for(config: Config, tell: Callable[[str], None]) -> None:
    """Before anything of CUDA is loaded: give this process as many GPUs as the config's run trains on."""
    if uses_gpu(config) and not config.dry_run:
        claim(config.trainer.devices or 1, tell)


def claim(count: int, tell: Callable[[str], None]) -> None:
    """Wait until `count` GPUs are free, keep them, and let this process see no others."""
    if _held:
        if len(_held) != count:
            raise ConfigError(
                f"trainer.devices={count} in a process that has {len(_held)} GPUs: jobs side by side have equally many",
                "one sweep for each number of devices, or hydra/launcher=basic",
            )
        return
    among = [gpu.uuid for gpu in gpus()]
    if count > len(among):
        raise ConfigError(f"trainer.devices={count}, but there are {len(among)} GPUs", f"trainer.devices={len(among)}")
    told = False
    while not (locks := _free(among, count)):
        if not told:
            tell(f"waiting for {count} free GPU{'s' if count > 1 else ''} of {len(among)}")
            told = True
        time.sleep(EVERY)
    _held.extend(locks)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(Path(lock.lock_file).stem for lock in locks)
    ask_driver.cache_clear()  # what this process sees is another answer now


def _free(among: list[str], count: int) -> list[filelock.FileLock]:
    """Locks of so many GPUs that nobody has, or none at all: who gets only a part of them keeps nothing."""
    folder = Path(tempfile.gettempdir()) / f"spikelm-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    locks: list[filelock.FileLock] = []
    with filelock.FileLock(folder / "choosing.lock"):
        for uuid in among:
            lock = filelock.FileLock(folder / f"{uuid}.lock")
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                continue
            locks.append(lock)
            if len(locks) == count:
                return locks
        for lock in locks:
            lock.release()
    return []
