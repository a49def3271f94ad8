"""A setting that makes no difference is said to make none: the run's id is the judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from spikelm.cli.command_line import precheck
from spikelm.config.compose import load_config
from spikelm.config.plugins import option_names
from spikelm.config.shown import unread
from spikelm.errors import ConfigError
from spikelm.neurons import build_neuron
from spikelm.neurons.amplitude import AmplitudeNeuron
from spikelm.runs.identity import id_of


def warned(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    precheck(list(words))
    return capsys.readouterr().err


UNREAD = [
    (["neuron=lif"], "k=3", "neuron=lif has no k"),
    (["neuron=ann"], "k=3", "neuron=ann has no k"),
    (["neuron=ann"], "T=4", "neuron=ann is the plain model, which has no time steps"),
    (["neuron=bispike"], "teacher.lr=0.5", "the run has no stage teacher"),
    (["task=pretrain"], "finetune.lr=0.5", "the run has no stage finetune"),
    (["neuron=ann"], "distill=logits", "nothing is distilled here"),
    (["convert=only"], "distill=logits", "nothing is distilled here"),
    (["neuron=bispike"], "convert.batches=3", "nothing is converted without convert=only or convert=first"),
    (["convert=only"], "convert.rotation_seed=3", "there is no rotation"),
    (["neuron=residual", "neuron.scale=token"], "k=3", "neuron=residual with scale=token reads no k"),
    (["neuron=residual", "neuron.scale=token"], "neuron.k=3", "neuron=residual with scale=token reads no k"),
]


@pytest.mark.parametrize(("words", "override", "reason"), UNREAD, ids=str)
def test_an_override_without_effect_is_told(
    words: list[str], override: str, reason: str, capsys: pytest.CaptureFixture[str], runs_dir: Path
) -> None:
    assert warned(capsys, *words, override) == f"warning: {override} has no effect: {reason}\n"
    assert id_of(load_config([*words, override])) == id_of(load_config(words))


READ = [
    (["neuron=bispike"], "k=3"),
    (["neuron=lif"], "T=4"),
    (["neuron=bispike"], "pretrain.lr=0.5"),
    (["neuron=bispike", "distill=logits"], "teacher.lr=0.5"),
    (["neuron=bispike"], "distill=logits"),
    (["task=sum/xsum"], "task.generate.beams=3"),
    (["neuron=bispike"], "convert=only"),
    (["convert=first"], "convert.batches=3"),
    (["neuron=residual"], "k=3"),
    (["neuron=dynamic"], "neuron.k=4"),
    (["neuron=residual", "convert=only"], "convert.batch=3"),
    (["convert=only"], "teacher.lr=0.5"),
]
TAKEN_OVER = [
    (["scale=minilm", "neuron=ann"], "teacher.lr=0.5", ""),  # finetune.lr is teacher.lr
    (["scale=minilm", "neuron=ann", "finetune.lr=0.1"], "teacher.lr=0.5", "the run has no stage teacher"),
    (["scale=minilm", "neuron=ann", "recipe=laptop"], "teacher.lr=0.5", "the run has no stage teacher"),
]


@pytest.mark.parametrize(("words", "override"), READ, ids=str)
def test_an_override_with_an_effect_is_no_warning(
    words: list[str], override: str, capsys: pytest.CaptureFixture[str], runs_dir: Path
) -> None:
    assert warned(capsys, *words, override) == ""
    assert id_of(load_config([*words, override])) != id_of(load_config(words))


@pytest.mark.parametrize(("words", "override", "reason"), TAKEN_OVER, ids=str)
def test_a_value_that_another_stage_takes_over_has_an_effect(
    words: list[str], override: str, reason: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    where = [f"source.root={tmp_path}", "backbone=bert_tiny", "backbone.positions=128", *words]
    told = warned(capsys, *where, override)
    assert told == (f"warning: {override} has no effect: {reason}\n" if reason else "")
    lr = load_config([*where, override]).finetune.lr
    assert (lr == load_config(where).finetune.lr) is bool(reason)


@pytest.mark.parametrize(
    "words", [["neuron=residual", "neuron.scale=token"], ["neuron=dynamic"], ["neuron=lif"]], ids=str
)
@pytest.mark.parametrize("override", ["convert.batches=3", "convert.batch=3"])
def test_batches_that_set_nothing_are_refused(words: list[str], override: str, runs_dir: Path) -> None:
    with pytest.raises(ConfigError, match=f"{override} would change nothing: no data sets the heights"):
        precheck([*words, "convert=only", override])
    precheck([*words, "convert=only"])


def test_what_reads_data_is_what_the_neurons_themselves_say() -> None:
    for name in option_names("neuron"):
        for scale in ([], ["neuron.scale=token"]) if name in ("residual", "place") else ([],):
            spec = load_config([f"neuron={name}", *scale]).neuron
            neuron = build_neuron(spec, T=1) if spec else None
            assert spec.reads_data == (isinstance(neuron, AmplitudeNeuron) and neuron.elastic), name
            assert spec.per_token == (bool(scale) or spec.arguments.get("scale") == "token")


def test_a_sweep_over_k_says_which_jobs_are_one_run(capsys: pytest.CaptureFixture[str], runs_dir: Path) -> None:
    said = warned(capsys, "-m", "neuron=lif,bispike", "k=2,3")
    assert said == (
        "warning: k=2 and k=3 have no effect: neuron=lif has no k; jobs that differ in k alone are one run\n"
    )
    assert id_of(load_config(["neuron=lif", "k=2"])) == id_of(load_config(["neuron=lif", "k=3"]))


def test_the_neuron_of_a_previous_student_may_read_k() -> None:
    config = load_config(["system=bit_multi"])
    assert unread(config, "k") == "neuron=elastic has no k"
    assert config.previous is not None
    config.previous = type(config.previous)(**{**vars(config.previous), "neuron": load_config([]).neuron})
    assert unread(config, "k") == ""
