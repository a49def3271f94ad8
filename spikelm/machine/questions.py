"""Questions that may never be answered: each is asked in a thread of its own, and nobody waits longer than agreed.

A thread and not a pool: an interpreter that ends waits for the threads of a pool, also for one that hangs in the
resolver or beside a driver's process that cannot be killed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Question(Generic[Answer]):
    """Something asked from the moment this is made; `answer` waits for it."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(ask,), daemon=True)
        self._thread.start()

    def _run(self, ask: Callable[[], Answer]) -> None:
        try:
            self._answers.append(ask())
        except Exception as error:  # raised where the answer is wanted
            self._error = error

    def answer(self, seconds: float) -> Answer | None:
        """The answer, or None when it takes longer; what the question raised is raised here."""
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error
        return self._answers[0] if self._answers else None
