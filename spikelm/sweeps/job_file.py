"""The jobs of `hydra/sweeper=jobs`: a file with the overrides of one run in each line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from spikelm.errors import ConfigError

CHOSEN = "hydra/sweeper=jobs"
FILE = "hydra.sweeper.file="
FIX = f"{FILE}jobs.txt, with a line like: task=glue/rte neuron=lif T=4"
Words = Sequence[str]


def write_jobs(jobs: Sequence[Words]) -> str:
    """The text of such a file."""
    return "".join(f"{shlex.join(job)}\n" for job in jobs)


def read_jobs(file: Path) -> list[list[str]]:
    """The overrides of each job; empty lines and comments (#) are none."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        jobs = [words for line in lines if (words := shlex.split(line, comments=True))]
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"the jobs in {file} cannot be read: {reason}", FIX) from error
    if not jobs:
        raise ConfigError(f"there is no job in {file}", FIX)
    return jobs


def jobs_asked_for(overrides: Words) -> list[list[str]]:
    """The jobs of the file that a command line names, [[]] where it names none."""
    files = [word.removeprefix(FILE) for word in overrides if word.startswith(FILE)]
    if CHOSEN not in overrides:
        return [[]]
    if not files:
        raise ConfigError(f"{CHOSEN} reads a file, and none is named", FIX)
    return read_jobs(Path(files[-1]))


def telling(jobs: Sequence[Words]) -> list[Words]:
    """Those that together show every override of them all: what is worth checking before the first one starts."""
    seen: set[Words] = set()
    telling_jobs = []
    for job in jobs:
        if not seen.issuperset(sets := _by_section(job)):
            telling_jobs.append(job)
            seen.update(sets)
    return telling_jobs or list(jobs)


def _by_section(job: Words) -> list[Words]:
    """Its overrides, section by section: neuron.reset=paper is right or wrong by the neuron=... beside it."""
    sections: dict[str, list[str]] = {}
    for word in job:
        sections.setdefault(re.split(r"[./@=]", word.lstrip("+~"))[0], []).append(word)
    return [tuple(words) for words in sections.values()]
