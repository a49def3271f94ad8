"""Where text comes from: made here, files of the user's, or repositories of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import MISSING

from spikelm.config.settings.fields import FINE_TUNING, LEFT_OUT, NO_RUN, setting
from spikelm.errors import ConfigError
from spikelm.rules import Rule

SOURCES = ("embedded", "hub", "local")
PATHS = ("root", "text_root", "mirror", "tokenizer")  # made absolute: a recorded config is read from anywhere
#: key -> the sources that read it
READ_BY = {
    "root": ("local",),
    "text_root": ("local",),
    "glue": ("hub",),
    "text": ("hub",),
    "mirror": ("hub",),
    "tokenizer": ("local", "hub"),
}


@dataclass
class HubText:
    """A repository of the hub with pretraining text in a column `text`."""

    repo: str = MISSING
    config: str | None = None
    revision: str | None = None
    split: str = "train"
    rows: str = setting("articles", Rule(choices=("articles", "sentences")))


@dataclass
class SourceConfig:
    """What embedded text is made from; of files and repositories the hash of their content decides."""

    name: str = setting(MISSING, Rule(choices=SOURCES))
    seed: int = setting(0, Rule(whole=True, least=0))
    documents: int = setting(4000, Rule(whole=True, least=1))  # of the pretraining text; an upper bound for files
    train_rows: int | None = setting(None, Rule(whole=True, least=1, optional=True))
    dev_rows: int | None = setting(None, Rule(whole=True, least=1, optional=True))
    # To choose settings by: every tenth training row is evaluated and not trained on; no evaluated split is read.
    tune: bool = setting(False, decides={FINE_TUNING}, counts_as={False: LEFT_OUT})
    glue: str | None = setting(None, decides=NO_RUN)  # hub: the repository of the tasks
    revision: str | None = setting(None, decides=NO_RUN)  # hub: of the tasks' repository
    text: list[HubText] | None = setting(None, decides=NO_RUN)  # hub: the repositories of the pretraining text
    mirror: str | None = setting(None, decides=NO_RUN)  # hub: a folder of repositories; null: the hub and its cache
    root: str | None = setting(None, decides=NO_RUN)  # local: the folder of the files
    text_root: str | None = setting(None, decides=NO_RUN)  # local: the folder of the pretraining text; null: root
    tokenizer: str | None = setting(None, decides=NO_RUN)  # a vocab.txt or its folder; null: trained here, or the hub's


def make_paths_absolute(source: SourceConfig) -> None:
    """Let the config mean the same files wherever it is read."""
    for key in PATHS:
        if path := getattr(source, key):
            setattr(source, key, str(Path(path).expanduser().absolute()))


def check_source(source: SourceConfig) -> None:
    """Keys that belong to the source, and files that are there."""
    for key, names in READ_BY.items():
        if getattr(source, key) and source.name not in names:
            raise ConfigError(f"source.{key} is for source={' or '.join(names)}, not source={source.name}")
    for text in source.text or []:
        if text.rows not in ("articles", "sentences"):
            raise ConfigError(f"source.text of {text.repo}: rows={text.rows} is not valid; valid: articles, sentences")
    if source.name == "local" and not source.root:
        raise ConfigError("source=local needs source.root=DIR, the folder of the files")
    for key in ("root", "text_root", "mirror"):
        if (folder := getattr(source, key)) and not Path(folder).is_dir():
            raise ConfigError(f"source.{key}={folder} is not a folder")
    if source.tokenizer and not Path(source.tokenizer).exists():
        raise ConfigError(f"source.tokenizer={source.tokenizer} does not exist; it is a vocab.txt or its folder")
