"""Being asked to stop: the step at hand is finished and kept, then the command ends with a code that says why.

SIGTERM and SIGUSR1 are what Slurm sends before it takes a machine away; SIGUSR2 is submitit's. Exit code 75
(EX_TEMPFAIL of sysexits.h) asks to be started again; after Ctrl-C it is 130, as shells have it.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

REQUEUE = 75
INTERRUPTED = 130
_STOPPING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Stopped(BaseException):
    """The command was asked to stop; like KeyboardInterrupt no failure, so nothing that catches those catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        return INTERRUPTED if self.number == signal.SIGINT else REQUEUE

    def __str__(self) -> str:
        again = "the same command goes on from the last checkpoint"
        if self.number == signal.SIGINT:
            return f"interrupted; {again}"
        return f"stopped by {signal.Signals(self.number).name}; {again} (exit code {REQUEUE}: start it again)"


class _Listener:
    """What this process was asked, and what it is in the middle of."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self.deferring = False
        self.earlier: dict[int, Any] = {}
        self.others: list[Callable[[int], None]] = []

    def __call__(self, number: int, frame: Any) -> None:
        for tell in self.others:
            tell(number)
        again, self.asked = self.asked is not None, number
        if not self.deferring or (again and number == signal.SIGINT):  # the second Ctrl-C does not wait
            raise Stopped(number)


_listener = _Listener()


@contextlib.contextmanager
def listening(interrupts: bool = True) -> Iterator[None]:
    """Answer to the signals (Ctrl-C too, with `interrupts`) with `Stopped`.

    Inside another such block, or off the main thread, nothing changes.
    """
    if _listener.earlier or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in _STOPPING if interrupts or number != signal.SIGINT]
    if callable(signal.getsignal(signal.SIGUSR2)):  # somebody (submitit) waits for it, and hears of it after us
        numbers.append(signal.SIGUSR2)
    _listener.earlier = {number: signal.getsignal(number) for number in numbers}
    install()
    try:
        yield
    except Stopped as stopped:
        earlier = _listener.earlier.get(stopped.number)
        _restore()
        if callable(earlier) and earlier is not signal.default_int_handler:
            earlier(stopped.number, None)
        raise
    finally:
        _restore()
        _listener.asked = None


def install() -> None:
    """Take the signals again, from a library that has taken them inside the block."""
    if threading.current_thread() is threading.main_thread():
        for number in _listener.earlier:
            signal.signal(number, _listener)


def _restore() -> None:
    earlier, _listener.earlier = _listener.earlier, {}
    for number, handler in earlier.items():
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def deferring() -> Iterator[None]:
    """Inside, a signal is only noted: what runs there asks `asked()` where it can stop without a loss."""
    before, _listener.deferring = _listener.deferring, True
    try:
        yield
    finally:
        _listener.deferring = before


@contextlib.contextmanager
def passing_on(tell: Callable[[int], None]) -> Iterator[None]:
    """Inside, whoever else has to know of a signal is told at once."""
    _listener.others.append(tell)
    try:
        yield
    finally:
        _listener.others.remove(tell)


def asked() -> int:
    """The signal that asked to stop, 0 without one."""
    return _listener.asked or 0


def stop_if_asked() -> None:
    """Stop here, if a signal asked for it."""
    if _listener.asked is not None:
        raise Stopped(_listener.asked)
