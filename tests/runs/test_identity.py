"""Which fields decide a run: what each field says of itself is what its id does."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from spikelm.config.compose import load_config
from spikelm.config.settings.fields import EVERY_RUN
from spikelm.config.settings.schema import Config
from spikelm.runs.identity import id_of, identity
from spikelm.runs.prerequisites import prerequisites

STUDENT = ["task=glue/rte", "neuron=bispike", "distill=full"]
#: sections that a run reads by the id of another run, by a hash of content, or as one value
NOT_THIS_RUN = (
    "pretrain",
    "general",
    "teacher",
    "previous",
    "source",
    "task",
    "neuron",
    "weights",
    "attention",
    "norm",
    "system",
    "convert",
)
#: T of a spiking model, the pretraining that another run does, weights by their hash, a kind that must be known
ELSEWHERE = [("T",), ("distill", "pretrain"), ("backbone", "path"), ("backbone", "kind")]


def leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], frozenset[str], Any]]:
    """Every field below a section, with the runs that it decides."""
    for item in fields(node):
        value = getattr(node, item.name)
        if is_dataclass(value):
            yield from leaves(value, (*path, item.name))
        else:
            yield (*path, item.name), item.metadata.get("decides", EVERY_RUN), value


def other(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, list):
        return [*value, *value[:1]] if value else ["x"]
    if isinstance(value, dict):
        return {**value, "x": 1}
    return "x" if value is None else f"{value}x"


def changed(config: Config, path: tuple[str, ...]) -> Config:
    copied = copy.deepcopy(config)
    node: Any = copied
    for name in path[:-1]:
        node = getattr(node, name)
    object.__setattr__(node, path[-1], other(getattr(node, path[-1])))
    return copied


def cases() -> list[tuple[tuple[str, ...], frozenset[str]]]:
    config = load_config(STUDENT)
    return [
        (path, decides) for path, decides, _ in leaves(config) if path[0] not in NOT_THIS_RUN and path not in ELSEWHERE
    ]


@pytest.mark.parametrize(
    "path, decides", cases(), ids=lambda value: ".".join(value) if isinstance(value, tuple) else ""
)
def test_a_field_changes_the_id_exactly_where_it_says_so(path: tuple[str, ...], decides: frozenset[str]) -> None:
    config = load_config(STUDENT)
    assert (id_of(changed(config, path)) != id_of(config)) == (config.run in decides)


CONVERSION = ["task=glue/rte", "neuron=bispike", "convert=only"]


@pytest.mark.parametrize("word", ["batches=9", "batch=16", "rotation=hadamard", "mode=first"])
def test_a_conversion_is_decided_by_how_it_is_made(word: str) -> None:
    assert id_of(load_config([*CONVERSION, f"convert.{word}"])) != id_of(load_config(CONVERSION))


def test_signs_are_drawn_for_a_rotation_alone_and_steps_count_where_they_are_looked_at() -> None:
    seed = "convert.rotation_seed=7"
    assert id_of(load_config([*CONVERSION, seed])) == id_of(load_config(CONVERSION))
    turned = [*CONVERSION, "convert.rotation=hadamard"]
    assert id_of(load_config([*turned, seed])) != id_of(load_config(turned))
    settling = ["task=glue/rte", "neuron=stbif", "convert=only"]
    assert id_of(load_config([*settling, "convert.settle=9"])) != id_of(load_config(settling))


@pytest.mark.parametrize("word", ["finetune.schedule.shape=cosine", "select=best_dev", "distill=full", "k=2"])
def test_how_a_model_would_be_trained_is_no_part_of_its_conversion(word: str) -> None:
    teacher = ["teacher.schedule.shape=linear"]  # which follows the fine-tuning otherwise
    assert id_of(load_config([*CONVERSION, *teacher, word])) == id_of(load_config([*CONVERSION, *teacher]))


def test_the_plain_model_decides_its_conversion() -> None:
    assert id_of(load_config([*CONVERSION, "teacher.lr=3e-4"])) != id_of(load_config(CONVERSION))


@pytest.mark.parametrize("task", ["glue/rte", "general_distill", "sum/xsum", "pretrain"])
def test_settings_of_conversions_are_no_part_of_other_runs(task: str) -> None:
    words = [f"task={task}", "neuron=bispike"]
    for more in ("convert=none", "convert.batches=3", "convert.rotation=hadamard", "convert.settle=5"):
        assert id_of(load_config([*words, more])) == id_of(load_config(words))
    assert "convert" not in identity(load_config(words))


def test_a_run_that_starts_from_a_conversion_is_decided_by_its_id() -> None:
    first = ["task=glue/rte", "neuron=bispike", "convert=first"]
    found = identity(load_config(first))
    assert found["needs"] == {"converted": id_of(load_config(CONVERSION))}
    assert "convert" not in found
    assert id_of(load_config([*first, "convert.batches=9"])) != id_of(load_config(first))


def test_a_neuron_is_its_name_and_its_arguments_wherever_its_class_lives() -> None:
    config = load_config(["task=pretrain", "neuron=bispike"])
    moved = replace(config, neuron=replace(config.neuron, target="elsewhere.BiSpike"))
    assert id_of(moved) == id_of(config)
    assert id_of(replace(config, neuron=config.neuron.having(beta=0.5))) != id_of(config)
    assert id_of(replace(config, neuron=replace(config.neuron, name="mine"))) != id_of(config)
    assert id_of(replace(config, T=2)) != id_of(config)


def test_time_steps_are_no_part_of_a_plain_model() -> None:
    config = load_config(["task=pretrain", "neuron=ann"])
    assert id_of(replace(config, T=4)) == id_of(config)


def test_operators_as_the_model_has_them_are_no_part_of_an_id_and_others_are() -> None:
    config = load_config(STUDENT)
    assert not {"attention", "norm"} & set(identity(config))
    assert id_of(load_config([*STUDENT, "attention=softmax", "norm=layernorm"])) == id_of(config)
    changes = ["attention=ptsoftmax", "norm=bspn", "norm=bspn norm.warmup=9", "norm=bspn norm.rounding=power"]
    others = {id_of(load_config([*STUDENT, *change.split()])) for change in changes}
    assert len({*others, id_of(config)}) == 5
    assert identity(load_config([*STUDENT, "attention=ptsoftmax"]))["attention"] == {
        "arguments": {"gradient": "ste"},
        "name": "ptsoftmax",
    }


def test_a_teacher_has_the_operators_of_the_plain_model() -> None:
    plain = prerequisites(load_config(STUDENT))["teacher"]
    asked = load_config([*STUDENT, "attention=ptsoftmax", "norm=bspn"])
    assert id_of(prerequisites(asked)["teacher"]) == id_of(plain)
    assert not prerequisites(asked)["teacher"].converted
    assert prerequisites(asked)["pretrained"].operators.keys() == {"attention", "norm"}


@pytest.mark.parametrize(
    "words, id",
    [
        (["task=glue/cola", "system=spikelm_t4"], "62079a7fdc8affb6"),
        (["task=pretrain", "system=bert"], "1c62cf500dea3fc6"),
        (["task=sum/xsum", "system=lif_bart_t1"], "7226bf3a27519c65"),
    ],
)
def test_ids_stay_what_they_are(words: list[str], id: str) -> None:
    assert id_of(load_config(words)) == id, "runs/reference and every user's store are found by these"
