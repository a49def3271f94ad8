"""Conversion from config to result: the plain model with neurons, nothing trained, and what may start from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.errors import CheckpointError, ConfigError
from spikelm.models.bert import build_classifier
from spikelm.report.query.rerun import rerun_command
from spikelm.runs.experiment import Finished, open_run, run_experiment
from spikelm.runs.identity import id_of
from spikelm.runs.prerequisites import prerequisites
from spikelm.spiking import calibrate, load_pretrained, neurons, spikify
from spikelm.spiking.rotation import rotations
from spikelm.training.stage import build_stage

QUIET = Console(quiet=True)
RESIDUAL = ("neuron=residual", "neuron.steps=3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def config_of(runs: Path, *overrides: str) -> Config:
    return load_config(["scale=smoke", f"runs_dir={runs}", *overrides])


def smoke(runs: Path, *overrides: str) -> Finished:
    return run_experiment(config_of(runs, *overrides), QUIET)


def model_of(run: Path) -> Any:
    return load_pretrained(run / "model")


def plain_of(config: Config) -> Any:
    return model_of(open_run(prerequisites(config)["teacher"]).directory)


def test_a_conversion_needs_the_plain_model_of_its_task_and_training_needs_the_conversion() -> None:
    def roles(*words: str) -> dict[str, str]:
        return {role: id_of(run) for role, run in prerequisites(load_config(list(words))).items()}

    def one(*words: str) -> str:
        return id_of(load_config(list(words)))

    rte, general = ("task=glue/rte", "neuron=bispike"), ("task=general_distill", "neuron=bispike")
    assert roles(*rte, "convert=only") == {"teacher": one("task=glue/rte", "neuron=ann")}
    assert roles(*rte, "convert=only", "distill=general") == {"teacher": one("task=glue/rte", "neuron=ann")}
    assert roles(*rte, "convert=first") == {"converted": one(*rte, "convert=only")}
    assert set(roles(*rte, "convert=first", "distill=full")) == {"converted", "teacher"}
    teacher = {"teacher": one("task=pretrain", "neuron=ann")}
    assert roles(*general, "convert=only") == teacher
    assert roles(*general, "convert=first") == {"converted": one(*general, "convert=only"), **teacher}
    later = roles(*rte, "convert=first", "distill=general")
    assert later == {"pretrained": one(*general, "convert=first"), "teacher": one("task=glue/rte", "neuron=ann")}


def test_a_classifier_is_converted_and_not_trained(runs: Path) -> None:
    words = ("task=glue/sst2", *RESIDUAL, "convert=only", "convert.batches=3", "convert.batch=8")
    config = config_of(runs, *words)
    result, directory = (done := smoke(runs, *words)).result, done.directory
    plain, model = plain_of(config), model_of(directory)
    assert result.steps == 0
    for name, value in plain.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    teacher = run_experiment(prerequisites(config)["teacher"], QUIET).result
    conversion = result.conversion
    assert conversion is not None
    assert (result.teacher, conversion.plain_metrics) == (teacher.run_id, teacher.metrics)
    assert (conversion.rows, conversion.batches, conversion.rotation) == (24, 3, "none")
    assert len(conversion.blocks) == config.backbone.layers
    assert [site.site for site in conversion.sites] == list(result.firing_rate.per_site)
    assert all(0 < (site.relative_error or 0) < 0.5 for site in conversion.sites)
    assert result.spike_driven.verdict == "fully"
    assert result.energy_mj.fp32
    assert not result.firing_rate.initial_per_site
    # amplitudes: those that `calibrate` finds on the first training batches of the same size
    stage = build_stage(config, {"teacher": open_run(prerequisites(config)["teacher"]).directory}, QUIET)
    batches = [{name: stage.train[step][name] for name in stage.samples[0]} for step in range(3)]
    by_hand = calibrate(spikify(plain, config.neuron, T=1), batches)
    for ours, theirs in zip(neurons(model), neurons(by_hand), strict=True):
        torch.testing.assert_close(ours.alpha, theirs.alpha)


def test_many_levels_score_as_the_plain_model(runs: Path) -> None:
    words = ("task=glue/rte", "neuron=place", "neuron.width=16", "convert=only")
    for rotation in ("none", "hadamard"):
        result = smoke(runs, *words, f"convert.rotation={rotation}").result
        assert result.conversion is not None
        assert result.metrics == result.conversion.plain_metrics
        assert all((block.relative_error or 0) < 1e-3 for block in result.conversion.blocks)
        assert (result.conversion.rows, result.conversion.batches) == (0, 0), "a token's own scale needs no data"


@pytest.mark.parametrize("convert", ["only", "first"])
def test_general_distillation(convert: str, runs: Path) -> None:
    words = ("task=general_distill", *RESIDUAL, "convert.rotation=hadamard")
    converted = smoke(runs, *words, "convert=only")
    assert converted.result.conversion is not None
    assert converted.result.conversion.plain_metrics == {}
    assert converted.result.metrics["cosine"] == pytest.approx(100, abs=1)
    if convert == "first":
        result = smoke(runs, *words, "convert=first").result
        assert result.converted == converted.result.run_id
        assert result.needs["converted"] == converted.result.run_id
        assert result.conversion is None
        assert result.steps == 8
        tuned = smoke(runs, "task=glue/rte", *RESIDUAL, "convert.rotation=hadamard", "convert=first", "distill=general")
        assert tuned.result.pretrained == result.run_id
        assert rotations(model_of(tuned.directory)), "the rotation stays where the weights are rotated"


@pytest.mark.parametrize("distill", ["none", "full"])
def test_fine_tuning_starts_from_the_conversion(distill: str, runs: Path) -> None:
    words = ("task=glue/rte", *RESIDUAL, f"distill={distill}")
    config = config_of(runs, *words, "convert=first")
    needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
    start = build_stage(config, needed, QUIET).module.model
    converted = model_of(needed["converted"])
    for name, value in converted.state_dict().items():
        assert torch.equal(start.state_dict()[name], value), name
    done = smoke(runs, *words, "convert=first")
    assert done.result.converted == open_run(prerequisites(config)["converted"]).id
    assert done.result.steps == 12
    assert done.result.conversion is None
    trained = model_of(done.directory)
    assert any(not torch.equal(trained.state_dict()[name], value) for name, value in converted.state_dict().items())


@pytest.mark.parametrize("rotation", ["none", "hadamard"])
def test_text_pairs(rotation: str, runs: Path) -> None:
    words = ("task=sum/xsum", "neuron=place", "neuron.width=12", f"convert.rotation={rotation}")
    converted = smoke(runs, *words, "convert=only").result
    assert converted.conversion is not None
    assert [block.name for block in converted.conversion.blocks] == ["encoder.layers.0", "decoder.layers.0"]
    assert converted.metrics["loss"] == pytest.approx(converted.conversion.plain_metrics["loss"], abs=0.02)
    assert converted.samples
    assert converted.energy_detail is not None
    trained = smoke(runs, *words, "convert=first").result
    assert trained.converted == converted.run_id
    assert trained.teacher == converted.teacher


def test_stbif_settles_to_its_quantised_network(runs: Path) -> None:
    result = smoke(runs, "task=glue/rte", "neuron=stbif", "convert=only", "convert.settle=300").result
    assert result.conversion is not None
    settled = result.conversion.settled
    assert settled is not None
    assert settled.settled
    assert settled.differing == 0
    assert settled.difference < 1e-9
    assert settled.spikes_per_value >= settled.levels_per_value


def test_low_bit_weights_are_converted_without_a_neuron(runs: Path) -> None:
    result = smoke(runs, "task=glue/rte", "neuron=ann", "weights=ternary", "convert=only").result
    assert result.conversion is not None
    assert result.conversion.blocks
    assert not result.conversion.sites


def test_rotated_weights_are_not_taken_by_other_neurons(runs: Path) -> None:
    done = smoke(runs, "task=general_distill", *RESIDUAL, "convert.rotation=hadamard", "convert=only")
    config = config_of(runs, "task=glue/rte", *RESIDUAL, "T=2")
    with pytest.raises(CheckpointError, match="rotated"):
        build_classifier(config, done.directory / "model")


def test_the_command_of_a_conversion_is_told(runs: Path) -> None:
    config = config_of(runs, "task=glue/rte", *RESIDUAL, "convert=only", "convert.batches=3")
    command = rerun_command(config)
    assert "convert=only" in command
    assert "convert.batches=3" in command
    again = load_config([word for word in command.split()[1:] if not word.startswith("runs_dir")])
    assert id_of(again) == id_of(config)


@pytest.mark.parametrize(
    ("words", "says", "fix"),
    [
        (
            ["neuron=ann", "convert=only"],
            "convert=only puts neurons into a plain model, and neuron=ann is none",
            "neuron=",
        ),
        (["task=pretrain", "convert=first"], "task=pretrain trains from scratch", "task=general_distill"),
        (["neuron=bispike", "convert=only", "convert.settle=5"], "not neuron=bispike", "neuron=stbif"),
        (["neuron=stbif", "convert=first", "convert.settle=5"], "looks at a conversion", "convert=only"),
        (["convert=only", "convert.rotation=hadamrd"], "did you mean hadamard", ""),
        (["convert=only", "convert.batches=0"], "convert.batches=0 is not valid", ""),
        (["system=bibert", "convert=only", "convert.rotation=hadamard"], "variant of the attention", "rotation=none"),
        (["neuron=ann", "weights=ternary", "convert=only", "convert.rotation=hadamard"], "there are none", "none"),
        (["system=bit_multi", "convert=first"], "two starts", "distill.start.weights=teacher"),
        (["system=spikebert", "task=glue/rte", "convert=only"], "no plain form", "convert=none"),
        (["backbone.heads=3", "backbone.hidden=9", "convert=only", "convert.rotation=hadamard"], "even size", "none"),
    ],
)
def test_what_cannot_be_converted_is_refused(words: list[str], says: str, fix: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(words)
    assert says in caught.value.what
    assert fix in (caught.value.fix or "")
