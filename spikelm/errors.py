"""Errors a person can act on: what went wrong, where, and the command that fixes it."""

from __future__ import annotations


class SpikeLMError(Exception):
    """Base of every error the command line turns into one clear line."""

    exit_code = 1

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.what}\n  fix: {self.fix}" if self.fix else self.what


class ConfigError(SpikeLMError):
    """A user's mistake in an override or a config file."""

    exit_code = 2


class DataError(SpikeLMError):
    """A file, column or label that is not what the task expects."""

    exit_code = 2


class CheckpointError(SpikeLMError):
    """A checkpoint that is missing, corrupt or of another model."""


class TrainingError(SpikeLMError):
    """A training that cannot go on (loss not finite, memory, ...)."""
