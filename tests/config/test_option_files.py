"""Configs composed without Hydra's own part are those that Hydra composes, of the files as they are now."""

from __future__ import annotations

import shutil
from itertools import cycle
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from spikelm.config import compose as compose_module
from spikelm.config import option_files
from spikelm.config.checks import typed
from spikelm.config.compose import compose_config, load_config
from spikelm.config.option_files import NotPlain, compose_plain
from spikelm.config.paths import config_dir
from spikelm.config.plugins import option_names
from spikelm.errors import ConfigError
from spikelm.report.query.selection import Results, Selection
from spikelm.runs.identity import id_of

#: every option of every group at least once; Hydra is asked for each line, which takes a tenth of a second
GROUPS = ("task", "scale", "neuron", "weights", "attention", "norm", "distill", "source", "trainer", "backbone")
SYSTEMS = [
    [f"system={system}", f"task={task}", f"scale={scale}", "recipe=paper"]
    for system, task, scale in zip(
        option_names("system"), cycle(option_names("task")), cycle(("mini", "paper", "smoke")), strict=False
    )
]
OPTIONS = [
    [f"{group}={names[line % len(names)]}" for group in GROUPS if (names := option_names(group))]
    for line in range(len(option_names("backbone")))  # the group with most of them
]
VALUES = [
    ["system=spikelm_t4", "task=glue/rte", "scale=minilm"],
    ["k=3", "T=2", "seed=7", "neuron=lif", "neuron.theta=0.5", "runs_dir=/elsewhere"],
    ["system=bit_multi", "previous.neuron.width=1", "finetune.lr=1e-3", "recipe=as_released", "scale=paper"],
    [
        "task=glue/rte",
        "task.labels=[a, b]",
        "task.splits={validation: x}",
        "T=${k}",
        "tracker.group='two words'",
        "backbone.path=null",
    ],
]


@pytest.mark.parametrize("words", [*SYSTEMS, *OPTIONS, *VALUES], ids=" ".join)
def test_what_hydra_composes(words: list[str]) -> None:
    expected = OmegaConf.to_yaml(compose_config(words), sort_keys=False)
    assert OmegaConf.to_yaml(compose_plain(words), sort_keys=False) == expected


def test_the_config_and_its_id_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["system=binarybert_w1a2", "task=glue/rte", "k=3"]
    expected = typed(compose_config(words))
    monkeypatch.setattr(compose_module, "compose_config", lambda words: pytest.fail("Hydra was asked"))
    config = load_config(words)
    assert config == expected
    assert id_of(config) == id_of(expected)


@pytest.mark.parametrize(
    "word", ["~seed", "k=???", "+neuron.note=3", "++k=3", "hydra/launcher=basic", "hydra.job.name=x", "k=1,2", "kk=3"]
)
def test_other_words_are_left_to_hydra(word: str) -> None:
    with pytest.raises(Exception) as caught:
        compose_plain([word])
    assert isinstance(caught.value, NotPlain) or word == "kk=3"


def test_what_hydra_makes_of_other_words_counts() -> None:
    assert load_config(["~seed", "k=???", "hydra/launcher=basic"]) == load_config([])
    with pytest.raises(ConfigError, match="did you mean"):
        load_config(["kk=3"])


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of conf/, in which files can be changed."""
    folder = tmp_path / "conf"
    shutil.copytree(config_dir(), folder)
    monkeypatch.setattr(option_files, "config_dir", lambda: folder)
    monkeypatch.setattr(option_files, "config_dirs", lambda: [folder])
    return folder


def test_a_file_that_changes_is_read_again(conf: Path) -> None:
    words = ["task=glue/rte", "neuron=bispike"]
    assert compose_plain(words).task.labels == ["entailment", "not_entailment"]
    path = conf / "task" / "glue" / "rte.yaml"
    path.write_text(path.read_text().replace("[entailment, not_entailment]", "[follows, does_not]"))
    assert compose_plain(words).task.labels == ["follows", "does_not"]
    (conf / "at" / "task" / "mini" / "glue").mkdir(parents=True, exist_ok=True)
    (conf / "at" / "task" / "mini" / "glue" / "rte.yaml").write_text("T: 9\n")
    assert compose_plain(words).T == 9, "an optional file that was not there"
    path.unlink()
    with pytest.raises(Exception, match="glue/rte"):
        compose_plain(words)


@pytest.mark.parametrize(
    "lines",
    [
        "hydra: {callbacks: {mine: {_target_: os.system}}}\n",  # refused, where Hydra composes it
        "neuron: null\n",
        "weights: ${neuron}\n",
    ],
)
def test_files_with_more_than_values_are_left_to_hydra(lines: str, conf: Path) -> None:
    (conf / "scale" / "mini.yaml").write_text(f"# @package _global_\n{lines}")
    (conf / "system" / "mine.yaml").write_text("# @package _global_\nneuron: {k: 3}\nweights: {bits: 1}\n")
    with pytest.raises(NotPlain):
        compose_plain(["system=mine"])


def test_finding_a_run_writes_nothing(tmp_path: Path) -> None:
    found = Results(Selection(root=tmp_path)).find("spikelm_t4", "glue/rte")
    assert found.result is None
    assert not list(tmp_path.iterdir())
