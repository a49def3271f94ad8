"""One line of the doctor's: what is there, whether it will do for each scale, and what to do if not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "problem"]
SCALES = ("mini", "minilm", "paper")  # smoke needs no more than mini


@dataclass(frozen=True)
class Finding:
    """What is there of a subject, with its state at each scale; the fix is a command or a setting."""

    subject: str
    says: str
    states: dict[str, State]
    fix: str = ""

    def at(self, scale: str) -> State:
        """The state at a scale."""
        return self.states["mini" if scale == "smoke" else scale]


def finding(
    subject: str, says: str, fix: str = "", mini: State = "ok", minilm: State = "ok", paper: State = "ok"
) -> Finding:
    """A finding that is fine but at the scales that are named; the fix is kept where something is not."""
    states: dict[str, State] = {"mini": mini, "minilm": minilm, "paper": paper}
    return Finding(subject, says, states, fix if set(states.values()) != {"ok"} else "")


def everywhere(subject: str, state: State, says: str, fix: str = "") -> Finding:
    """A finding that is the same at every scale."""
    return finding(subject, says, fix, state, state, state)
