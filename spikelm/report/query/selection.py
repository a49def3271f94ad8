"""What a report is made of: one scale, one source, some seeds, and the runs of a store that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from spikelm.config.compose import load_config
from spikelm.config.paths import default_runs_dir
from spikelm.config.settings.schema import Config
from spikelm.runs.experiment import open_run
from spikelm.runs.identity import identity
from spikelm.store.hashing import digest
from spikelm.store.result import Result
from spikelm.store.store import Run

#: where files are says nothing about a result
FILES = ("source.root=", "source.text_root=", "source.tokenizer=", "source.mirror=")
SEEDS = (42,)  # where none are asked for


@lru_cache(maxsize=4096)
def composed(*overrides: str) -> Config:
    """The config of overrides, composed once; not to be changed in place."""
    return load_config(overrides)


@dataclass(frozen=True)
class Selection:
    """Scale, source (empty: the scale's own), seeds, store and further overrides of every run.

    `to` is the folder for what is made of them; without one it is report/ of the store.
    """

    scale: str = "mini"
    source: str = ""
    seeds: tuple[int, ...] = SEEDS
    root: Path = field(default_factory=lambda: Path(default_runs_dir()))
    overrides: tuple[str, ...] = ()
    to: Path | None = None

    @property
    def folder(self) -> Path:
        """Where tables, figures and claims go."""
        return self.to or self.root / "report"

    @property
    def options(self) -> list[str]:
        """The overrides that every run of the selection has, its seed apart."""
        source = [f"source={self.source}"] if self.source else []
        return [f"scale={self.scale}", *source, *self.overrides]

    @cached_property
    def extra(self) -> list[str]:
        """The overrides that make it another result: not where its files are, nor how many threads train it."""
        return [one for one in self.overrides if not one.startswith(FILES) and not self._same_runs_without(one)]

    def _same_runs_without(self, override: str) -> bool:
        """Whether a setting of the trainer leaves the runs the same: threads, devices, heap; not precision."""
        if not override.startswith(("trainer=", "trainer.")):
            return False
        others = ("task=pretrain", "neuron=bispike", *(one for one in self.options if one != override))
        return identity(composed(*others, override)) == identity(composed(*others))

    @cached_property
    def source_name(self) -> str:
        """The source, by name also where it is the scale's own."""
        return self.source or composed("task=pretrain", *self.options).source.name

    @property
    def where(self) -> str:
        """Scale, source, settings and seeds in words: stands with every number."""
        seeds = f"seed{'s' if len(self.seeds) > 1 else ''} {', '.join(map(str, self.seeds))}"
        return ", ".join([f"scale={self.scale}", f"source={self.source_name}", *self.extra, seeds])

    @property
    def suffix(self) -> str:
        """Scale and source as the end of a file's name; other settings and other seeds make it another file."""
        others = [digest(sorted(self.extra))[:6]] if self.extra else []
        seeds = [] if self.seeds == SEEDS else [f"s{'+'.join(map(str, self.seeds))}"]
        return "-".join([self.scale, self.source_name, *others, *seeds])


class Wanted(NamedTuple):
    """A run that a table, figure or claim is made of."""

    system: str
    task: str
    seed: int = 42
    extra: tuple[str, ...] = ()  # overrides of this run alone

    def overrides(self, selection: Selection) -> list[str]:
        """The words after spikelm-run that make it."""
        return [f"system={self.system}", f"task={self.task}", *selection.options, *self.extra, f"seed={self.seed}"]

    def command(self, selection: Selection) -> str:
        """What makes it."""
        return " ".join(["spikelm-run", *self.overrides(selection)])


class SelectedRun(NamedTuple):
    """A wanted run: its config, its directory (there or not) and its result, None while it is not finished."""

    wanted: Wanted
    config: Config
    run: Run
    result: Result | None


class Results:
    """The runs of a selection, each composed and read once. Make another one to see what has finished since."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self._found: dict[Wanted, SelectedRun] = {}

    def find(self, system: str, task: str, seed: int | None = None, extra: Sequence[str] = ()) -> SelectedRun:
        """The run of a system on a task. A pretrained or general run has the seed of its stage: all seeds share it."""
        wanted = Wanted(system, task, self.selection.seeds[0] if seed is None else seed, tuple(extra))
        if wanted not in self._found:
            config = composed(*wanted.overrides(self.selection))
            if task in ("pretrain", "general_distill"):
                stage = config.pretrain if task == "pretrain" else config.general
                config = replace(config, seed=stage.seed)
                wanted = wanted._replace(seed=stage.seed)
            run = open_run(config, self.selection.root)
            self._found[wanted] = SelectedRun(wanted, config, run, run.result())
        return self._found[wanted]
