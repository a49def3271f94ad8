"""spikelm-run as a process of its own that can be hit: forked from here, so that libraries are imported once."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import spikelm.runs.experiment
import spikelm.training.launch  # noqa: F401 (torch, Lightning and transformers, once for all commands)

SMALL = ("scale=smoke", "neuron=bispike", "T=2", "trainer.accelerator=cpu", "tracker.mode=disabled")
PATIENCE = 600.0  # seconds, on a busy machine


class Command:
    """A running spikelm-run, its output in a file."""

    def __init__(self, log: Path, *args: str, **env: str) -> None:
        self.log = log
        # A process: signals hit it as they hit one that a shell started; only its imports are inherited.
        self.process = multiprocessing.get_context("fork").Process(target=_main, args=(log, args, env))
        self.process.start()

    def hit(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit code, -9 after SIGKILL."""
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"still running after {seconds} s:\n{self.said}"
        return self.process.exitcode

    def until(self, true: Callable[[], object], seconds: float = PATIENCE) -> bool:
        """Wait for something to be true; False when the command ended before."""
        end = time.monotonic() + seconds
        while self.process.is_alive():
            if true():
                return True
            assert time.monotonic() < end, f"waited {seconds} s:\n{self.said}"
            time.sleep(0.001)
        return False

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def _main(log: Path, args: tuple[str, ...], env: dict[str, str]) -> None:
    os.environ.update(env)
    with open(log, "a") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.stdout, sys.stderr = open(1, "w", buffering=1), open(2, "w", buffering=1)  # noqa: SIM115
    if room := os.environ.pop("SPIKELM_TEST_MEMORY", ""):
        resource.setrlimit(resource.RLIMIT_AS, (int(room), int(room)))
    logging.getLogger().handlers.clear()  # the test's own, which would keep warnings from the screen
    sys.argv = ["spikelm-run", *args]
    from spikelm.cli.main import run

    code = 0
    try:
        run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def call(log: Path, *args: str, **env: str) -> tuple[int, str]:
    """Run to the end: exit code and output."""
    command = Command(log, *args, **env)
    return command.wait(), command.said
