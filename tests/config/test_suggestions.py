"""What a message proposes for a word that is not known: something else, that exists, and is probably meant."""

from __future__ import annotations

import re

import pytest

from spikelm.cli.command_line import precheck
from spikelm.config.checks import all_keys
from spikelm.config.suggestions import nearest
from spikelm.errors import ConfigError


def refused(*overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        precheck(list(overrides))
    return caught.value


@pytest.mark.parametrize("word", ["neuron.theta=1", "+neuron.theta=1"])
def test_an_argument_of_another_neuron_is_not_proposed_for_this_one(word: str) -> None:
    error = refused(word)
    assert error.what == (
        "unknown key neuron.theta; neuron=bispike takes k, direction, elastic, alpha, fire, reset, beta"
    )
    assert error.fix == "neuron=lif, lif_atan, lif_sigmoid, lif_token or psn has theta"


@pytest.mark.parametrize(
    ("word", "fix"),
    [("figure=fig5", "spikelm-report figure fig5"), ("+figure=fig5", "figure fig5"), ("table=3", "table 3")],
)
def test_what_only_reports_choose_names_their_command(word: str, fix: str) -> None:
    error = refused(word)
    assert "is no setting of a run" in error.what
    assert error.fix.endswith(fix)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("lr=3", "finetune.lr, pretrain.lr, general.lr or teacher.lr"),
        ("learning_rate=3", "finetune.lr, pretrain.lr, general.lr or teacher.lr"),
        ("fintune.lr=3", "finetune.lr"),
        ("teacher.learning_rate=3", "teacher.lr"),
        ("t=4", "T"),
        ("K=3", "k"),
        ("task=glue/mnly", "glue/mnli"),
        ("task=glue/xsum", "sum/xsum"),
        ("neuron=LIF", "lif"),
        ("task=sum", "sum/cnn_dm or sum/xsum"),
    ],
)
def test_the_likeliest_comes_first(word: str, meant: str) -> None:
    assert refused(word).what.endswith(f"did you mean {meant}?")


@pytest.mark.parametrize("word", ["neuron.foo=1", "neuron.thta=1", "hydra.foo=1", "backbone.size=3"])
def test_nothing_far_away_is_proposed(word: str) -> None:
    assert "did you mean" not in refused(word).what


def test_a_proposal_exists_and_is_never_the_word_itself() -> None:
    keys = all_keys()
    for key in keys:
        for word in (key, key[:-1], f"{key}s", key.rpartition(".")[2], key.replace(".", "")):
            said = re.sub(r"^; did you mean |\?$", "", nearest(word, keys))
            names = [name for name in re.split(r", | or ", said) if name]
            assert word not in names
            assert set(names) <= set(keys)


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("k=abc", "a number above 0"),
        ("T=1.5", "a whole number of at least 1"),
        ("force=maybe", "true or false"),
        ("finetune.optimizer.betas=3", "a list, each a number of at least 0 and below 1"),
    ],
)
def test_a_value_of_another_type_is_told_what_is_valid(word: str, rule: str) -> None:
    assert refused(word).what == f"{word} is not valid; it is {rule}"


def test_a_group_whose_option_is_a_number_is_named() -> None:
    assert refused("scale=3").what == "scale=3 is not a known scale; valid: mini, minilm, paper, smoke"
