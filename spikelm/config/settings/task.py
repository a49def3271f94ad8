"""What is learned: labels, text pairs to learn to write, running text to go on with, or text to pretrain on."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from omegaconf import MISSING

from spikelm.catalog.kinds import ALL, LM, UNLABELLED
from spikelm.catalog.metric_names import valid_metrics
from spikelm.config.settings.fields import LEFT_OUT, NO_RUN, setting
from spikelm.errors import ConfigError
from spikelm.rules import Rule

COUNT = Rule(whole=True, least=0)


@dataclass
class GenerateConfig:
    """How texts are written."""

    beams: int = setting(1, Rule(whole=True, least=1))
    min_length: int = setting(0, COUNT)
    max_length: int = setting(64, Rule(whole=True, least=1))
    length_penalty: float = setting(1.0, Rule())
    no_repeat_ngram: int = setting(0, COUNT)  # words in a row that no text has twice; 0: any
    # Tokens written at most for each token read, beside ten that any text may have; 0: any number. A model that repeats
    # itself without an end would keep its whole batch waiting.
    most_per_token: float = setting(0.0, Rule(least=0), counts_as={0.0: LEFT_OUT})


@dataclass
class TaskConfig:
    """A task is one YAML. Fields that say how to read it decide nothing: what is read is in the hash of its content."""

    name: str = MISSING
    kind: str = setting(MISSING, Rule(choices=(*ALL, LM)))
    columns: list[str] = setting([])
    labels: list[str] = setting([])
    metrics: list[str] = setting([])  # the first one is the headline
    splits: dict[str, str] = setting({})  # evaluated split -> suffix of its metrics
    score_range: list[float] = setting([], decides=NO_RUN)  # lowest and highest label of a regression; empty: any
    repo: str = setting("", decides=NO_RUN)  # the hub's repository of the task; empty: source.glue
    hub: str = setting("", decides=NO_RUN)  # the name of its configuration there
    revision: str = setting("", decides=NO_RUN)  # of repo
    folders: list[str] = setting([], decides=NO_RUN)  # other names that its folder of files may have
    files: str = setting(
        "", decides=NO_RUN
    )  # the folder of its own labelled rows, whatever the source (a plugin's task)
    official_rows: dict[str, int] = setting({}, decides=NO_RUN)  # split -> rows of the published data
    file_columns: dict[str, str] = setting({}, decides=NO_RUN)  # column -> its name in files or on the hub
    tsv_columns: list[str] = setting([], decides=NO_RUN)  # of an official TSV without a header line
    skip_broken: bool = setting(
        False, decides=NO_RUN
    )  # leave out rows with too few or too many fields, as the hub does, without a label or without a target
    # what follows is for text pairs
    languages: list[str] = setting([])  # codes of source and target for a multilingual tokenizer
    source_length: int = setting(0, COUNT)  # most tokens of a source
    target_length: int = setting(0, COUNT)  # of a target
    generate: GenerateConfig = setting(GenerateConfig)
    # what follows is for language modelling: how the perplexity of a text is measured
    window: int = setting(
        0, COUNT, counts_as={0: LEFT_OUT}
    )  # tokens that are read at a time; 0: the stage's max_length
    stride: int = setting(0, COUNT, counts_as={0: LEFT_OUT})  # tokens by which windows advance; 0: the window's
    most_tokens: int = setting(0, COUNT, counts_as={0: LEFT_OUT})  # the text's first, to a paragraph's end; 0: all
    detokenise: str = setting("none", Rule(choices=("none", "wikitext")), counts_as={"none": LEFT_OUT})


def check_task(task: TaskConfig, positions: int, max_length: int) -> None:
    """Whether its metrics fit it, and whether text pairs or windows can be read; `max_length` is the stage's."""
    if task.kind not in UNLABELLED:
        _check_metrics(task)
    if task.kind == "seq2seq":
        _check_text_pairs(task, positions)
    if task.kind == LM:
        _check_windows(task, positions, max_length)
    _check_file_columns(task)


def window_and_stride(task: TaskConfig, max_length: int) -> tuple[int, int]:
    """How many tokens a window of a perplexity reads, and by how many windows advance; `max_length` is the stage's."""
    window = task.window or max_length
    return window, task.stride or window


def _check_file_columns(task: TaskConfig) -> None:
    columns = [*task.columns, *([] if task.kind == "seq2seq" else ["label"])]
    if unknown := [name for name in task.file_columns if name not in columns]:
        raise ConfigError(
            f"task.file_columns has {unknown[0]}, which is no column of {task.name}; it has {', '.join(columns)}",
            f"task.file_columns={{{columns[0]}: THE_NAME_IN_THE_FILE}}",
        )


def _check_metrics(task: TaskConfig) -> None:
    """What pretraining and general distillation report is theirs alone and not chosen by name."""
    valid = valid_metrics(task.kind, len(task.labels))
    for name in task.metrics:
        if name not in valid:
            close = difflib.get_close_matches(name, valid, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"task.metrics has {name}{meant}", f"choose among: {', '.join(valid)}")
    if not task.metrics:
        raise ConfigError(f"task.metrics of {task.name} is empty", f"choose among: {', '.join(valid)}")


def _check_text_pairs(task: TaskConfig, positions: int) -> None:
    if task.files:
        raise ConfigError("task.files is for labelled rows", "text pairs are read with source=local source.root=DIR")
    if len(task.columns) != 2:
        raise ConfigError(f"task.columns={list(task.columns)} is not valid; it is the source and the target")
    if len(task.languages) not in (0, 2):
        raise ConfigError(f"task.languages={list(task.languages)} is not valid; it is none or two: source and target")
    for key in ("source_length", "target_length"):
        if getattr(task, key) < 3:  # a text has two special tokens
            raise ConfigError(f"task.{key}={getattr(task, key)} is not valid; it is a whole number of at least 3")
    shortest, longest = task.generate.min_length, task.generate.max_length
    if shortest > longest:
        raise ConfigError(f"task.generate.min_length={shortest} is above task.generate.max_length={longest}")
    lengths = {"source_length": task.source_length, "target_length": task.target_length}
    for key, length in {**lengths, "generate.max_length": longest}.items():
        if length > positions:
            raise ConfigError(f"task.{key}={length} is longer than backbone.positions={positions}")


def _check_windows(task: TaskConfig, positions: int, max_length: int) -> None:
    if task.files:
        fix = "running text is read with source=local source.root=DIR"
        raise ConfigError("task.files is for labelled rows", fix)
    if not task.splits:
        raise ConfigError(f"task.splits of {task.name} is empty", 'task.splits={validation: ""}')
    window, stride = window_and_stride(task, max_length)
    if window > positions:
        raise ConfigError(
            f"task.window={window} is longer than backbone.positions={positions}", f"task.window={positions}"
        )
    if stride > window:
        what = f"task.stride={stride} is above the window of {window} tokens: text between windows would not count"
        raise ConfigError(what, f"task.stride={window} or less")
