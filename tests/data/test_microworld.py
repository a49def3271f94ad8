"""The micro-world: columns, splits, balance, determinism, and labels against independent statements."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from spikelm.data.microworld import (
    DEFAULT_ROWS,
    MNLI_VERSION,
    TASKS,
    TWO_TEXTS_VERSION,
    VERSION,
    documents,
    glue,
    version_of,
)
from spikelm.data.microworld.grammar import RULES
from spikelm.data.microworld.lexicon import AWAY, GENRES, HOME, KIND_OF
from spikelm.data.microworld.paraphrases import similarity
from spikelm.data.microworld.wording import FORMS, distinct_forms, statement, wh_question, yes_no_question
from spikelm.data.microworld.world import Fact, judge, sample_fact

COLUMNS = {
    "cola": {"sentence"},
    "sst2": {"sentence"},
    "mrpc": {"sentence1", "sentence2"},
    "stsb": {"sentence1", "sentence2"},
    "qqp": {"question1", "question2"},
    "mnli": {"premise", "hypothesis"},
    "qnli": {"question", "sentence"},
    "rte": {"sentence1", "sentence2"},
}
SMALL = {"train": 1500, "validation": 300, "test": 50}
GIVE = Fact("transfer", "give", "tom", "anna", "apple", colour="red", place="in the hall")


def small(task: str, seed: int = 0) -> dict[str, list[dict[str, Any]]]:
    """A reduced version of a task."""
    rows = {split: SMALL[split.split("_")[0]] for split in DEFAULT_ROWS[task]}
    return glue(task, seed, rows)


def texts(row: dict[str, Any]) -> tuple[str, ...]:
    """The texts of a row, without its label."""
    return tuple(value for value in row.values() if isinstance(value, str))


@pytest.mark.parametrize("task", TASKS)
def test_rows_have_the_columns_of_the_hub(task: str) -> None:
    for split, rows in small(task).items():
        assert all(set(row) == COLUMNS[task] | {"label", "idx"} for row in rows)
        assert [row["idx"] for row in rows] == list(range(SMALL[split.split("_")[0]]))
        if split.startswith("test"):
            assert {row["label"] for row in rows} == {-1}


@pytest.mark.parametrize("task", TASKS)
def test_no_text_comes_twice_within_or_across_splits(task: str) -> None:
    rows = [texts(row) for split in glue(task).values() for row in split]
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize("task", TASKS)
def test_a_split_depends_on_nothing_but_the_seed(task: str) -> None:
    whole = small(task)
    name = next(split for split in whole if split.startswith("validation"))
    fewer = glue(task, 0, {**dict.fromkeys(DEFAULT_ROWS[task], 0), name: 40})
    assert fewer[name] == whole[name][:40]
    assert fewer["train"] == []
    assert glue(task, 1, {**dict.fromkeys(DEFAULT_ROWS[task], 0), name: 40})[name] != fewer[name]


def test_the_texts_do_not_depend_on_the_hash_seed_and_need_no_numeric_library() -> None:
    code = (
        "import sys, zlib; from spikelm.data.microworld import *;"
        "made = [glue(t, 3, dict.fromkeys(DEFAULT_ROWS[t], 20)) for t in TASKS], documents(20, 3);"
        "loaded = [name for name in ('torch', 'numpy', 'transformers') if name in sys.modules];"
        "print(zlib.crc32(str(made).encode()), loaded)"
    )

    def printed(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    outputs = {printed(seed) for seed in ("1", "2")}
    assert len(outputs) == 1
    assert outputs.pop().strip().endswith("[]")


@pytest.mark.parametrize(
    ("task", "shares"),
    [
        ("cola", {0: 0.30, 1: 0.70}),
        ("sst2", {0: 0.5, 1: 0.5}),
        ("mrpc", {0: 0.32, 1: 0.68}),
        ("qqp", {0: 0.63, 1: 0.37}),
        ("mnli", {0: 1 / 3, 1: 1 / 3, 2: 1 / 3}),
        ("qnli", {0: 0.5, 1: 0.5}),
        ("rte", {0: 0.5, 1: 0.5}),
    ],
)
def test_labels_have_their_shares(task: str, shares: dict[int, float]) -> None:
    labels = Counter(row["label"] for row in small(task)["train"])
    assert set(labels) == set(shares)
    for label, share in shares.items():
        assert labels[label] / SMALL["train"] == pytest.approx(share, abs=0.04)


def test_similarity_scores_fill_the_scale() -> None:
    scores = [row["label"] for row in small("stsb")["train"]]
    assert min(scores) == 0.0
    assert max(scores) == 5.0
    assert all(sum(low <= score <= low + 1 for score in scores) > 100 for low in range(5))


def test_the_mismatched_genre_is_another_world_of_the_same_people_that_the_corpus_knows() -> None:
    rows = small("mnli")
    corpus = {word for document in documents(2000) for sentence in document for word in sentence.split()}
    known = {word for row in rows["train"] for text in texts(row) for word in text.split()}
    for split, genre, other in (("matched", HOME, AWAY), ("mismatched", AWAY, HOME)):
        words = {word for row in rows[f"validation_{split}"] for text in texts(row) for word in text.split()}
        assert words & set(genre.things)
        assert not words & {*other.things, *AWAY.people}
        assert words & set(HOME.people) <= known, "names that training compares"
        assert words <= corpus
        details = {
            detail
            for texts_ in map(texts, rows[f"validation_{split}"])
            for detail in (*genre.places, *genre.times)
            if any(detail in text for text in texts_)
        }
        assert details == {*genre.places, *genre.times}


# Each claim about "tom gave the red apple to anna in the hall" with the verdict a reader gives it:
# 0 follows, 1 open, 2 cannot be.
CLAIMS = [
    (GIVE.only(()), False, 0),
    (GIVE.change("theme", "fruit"), False, 0),
    (GIVE.change("time", "on monday"), False, 1),
    (GIVE._replace(verb="sell"), False, 1),
    (GIVE.swapped(), False, 2),
    (GIVE.change("colour", "blue"), False, 2),
    (GIVE.change("agent", "bob"), False, 2),
    (GIVE.change("theme", "toy"), False, 2),
    (GIVE.only(()), True, 2),
    (GIVE.swapped(), True, 0),
    (GIVE.change("time", "on monday"), True, 1),
]


@pytest.mark.parametrize(("claim", "negated", "verdict"), CLAIMS)
def test_claims_are_judged_as_a_reader_judges_them(claim: Fact, negated: bool, verdict: int) -> None:
    assert judge(GIVE, claim, negated) == verdict


def test_a_kind_leaves_the_thing_open() -> None:
    assert judge(GIVE.change("theme", "fruit"), GIVE) == 1


def test_a_fact_is_told_in_these_words() -> None:
    rng = random.Random(0)
    told = [statement(rng, GIVE.only(("place",)), form=form) for form in range(FORMS["transfer"])]
    assert told == [
        "tom gave the apple to anna in the hall",
        "tom gave anna the apple in the hall",
        "anna got the apple from tom in the hall",
        "the apple was given to anna by tom in the hall",
    ]
    plain = GIVE.only(())
    assert statement(rng, plain, negated=True, form=2) == "anna did not get the apple from tom"
    assert yes_no_question(rng, plain, form=3) == "was the apple given to anna by tom ?"
    assert wh_question(rng, plain, "partner", form=0) == "who did tom give the apple to ?"
    assert wh_question(rng, plain, "place", form=2) == "where did anna get the apple from tom ?"
    order = Fact("order", "arrive", "tom", "anna")
    assert [statement(rng, order, form=form) for form in (0, 1)] == [
        "tom arrived before anna",
        "anna arrived after tom",
    ]


def test_distinct_forms_are_distinct_texts() -> None:
    rng = random.Random(4)
    for _ in range(300):
        fact = sample_fact(rng, rng.choice(GENRES)).only(())
        told = [statement(rng, fact, form=form) for form in distinct_forms(fact)]
        assert len(set(told)) == len(told)


def test_similarity_counts_the_agreeing_slots() -> None:
    plain = GIVE.only(())
    assert similarity(plain, plain) == 5.0
    assert similarity(plain, plain.change("agent", "bob")) == 3.75
    assert similarity(plain, plain.swapped()) == 3.75
    assert similarity(plain, plain.change("theme", "pear")) == 4.38
    assert similarity(plain, Fact("transfer", "sell", "bob", "mary", "ball")) == 0.0


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_changes_the_sentence_and_nothing_else(rule: Any) -> None:
    rng = random.Random(5)
    for _ in range(200):
        good, bad = rule(rng, rng.choice(GENRES))
        assert good != bad
        assert good[-1] == bad[-1]
        assert sum(abs(n) for n in (Counter(good.split()) - Counter(bad.split())).values()) <= 3


def test_verbs_agree_with_the_head_in_acceptable_sentences_only() -> None:
    for row in small("cola")["train"]:
        words = row["sentence"].split()
        verb = next((word for word in words if word in ("is", "are", "were")), "")
        near = len(words) > 2 and words[0] == "the" and words[2] in ("near", "above", "below")
        if verb and near:
            many = words[1] not in KIND_OF
            assert row["label"] == int(many == (verb != "is"))


def test_a_document_stays_with_its_scene() -> None:
    names = {*HOME.people, *AWAY.people}
    for document in documents(200):
        assert len(document) >= 6
        assert len({word for text in document for word in text.split()} & names) <= 4
    assert documents(30) == documents(60)[:30]


ORDER = re.compile(
    r"(?:(?P<front>on \w+) )?(?P<a>\w+) (?P<verb>arrived|finished|started) (?P<link>before|after) (?P<b>\w+)"
    r"(?: (?P<place>(?:in|at) the \w+))?(?: (?P<time>on \w+))? \."
)


def test_texts_about_order_have_the_label_that_a_parser_gives_them() -> None:
    """Reads 'x arrived before y' back from the text and decides the label without the world model."""
    found = Counter[int]()
    for row in small("mnli")["train"]:
        premise, claim = ORDER.fullmatch(row["premise"]), ORDER.fullmatch(row["hypothesis"])
        if not premise or not claim:
            continue
        read = []
        for match in (premise, claim):
            first, second = (match["a"], match["b"]) if match["link"] == "before" else (match["b"], match["a"])
            read.append((match["verb"], first, second, match["place"], match["time"] or match["front"]))
        known, claimed = read
        told = [(one, other) for one, other in zip(known[1:], claimed[1:], strict=True) if other]
        expected = 0
        if known[0] != claimed[0]:
            expected = 1
        elif any(one and one != other for one, other in told):
            expected = 2
        elif any(one is None for one, _ in told):
            expected = 1
        assert row["label"] == expected, row
        found[expected] += 1
    assert min(found[label] for label in (0, 1, 2)) > 20


def test_the_same_words_answer_the_question_whatever_the_label_generator_did() -> None:
    """A plain active count or handling question with the same subject, verb and thing is answered."""
    found = Counter[int]()
    for row in small("qnli")["train"]:
        asked, told = row["question"].split(), row["sentence"].split()
        if asked[:2] == ["how", "many"] and asked[5] in ("want", "have", "own"):
            past = {"want": ("wanted",), "have": ("had", "owned"), "own": ("had", "owned")}[asked[5]]
            same = asked[4] in told and asked[2] in told and any(word in told for word in past)
            assert row["label"] == int(not same), row
            found[row["label"]] += 1
        if asked[:2] == ["what", "did"] and asked[3] in ("hide", "break", "steal"):
            past = {"hide": ("hid", "hidden"), "break": ("broke", "broken"), "steal": ("stole", "stolen")}[asked[3]]
            same = asked[2] in told and any(word in told for word in past)
            assert row["label"] == int(not same), row
            found[row["label"]] += 1
    assert min(found[0], found[1]) > 5


def test_an_unknown_task_or_split_is_named() -> None:
    with pytest.raises(ValueError, match="no task 'wnli'"):
        glue("wnli")
    with pytest.raises(ValueError, match="no split 'dev'"):
        glue("cola", rows={"dev": 3})


def test_texts_change_only_with_their_version() -> None:
    """Runs are found again by the version: the same one means the same texts."""

    def digest(found: Any) -> str:
        return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]

    assert digest(documents(200)) == "39f0c21845aec010", "VERSION"
    rows = {task: digest(glue(task, rows={"train": 50})["train"]) for task in TASKS}
    single = {"cola": "afc511987cd40a10", "sst2": "51396984d5132418"}
    pairs = {
        "mrpc": "7510cdab375e76a2",
        "stsb": "21a615d260c69904",
        "qqp": "daa0d05be639c720",
        "mnli": "23cc9933a4a26c3e",
        "qnli": "9db2994be1f96bf9",
        "rte": "5d66541cfde748ee",
    }
    assert rows == single | pairs, "VERSION, TWO_TEXTS_VERSION"
    assert digest(glue("mnli", rows={"train": 0})["validation_mismatched"]) == "cd54aa53fe5d29db", "MNLI_VERSION"
    assert (VERSION, TWO_TEXTS_VERSION, MNLI_VERSION) == (2, 3, 4)
    versions = dict.fromkeys(single, 2) | dict.fromkeys(pairs, 3) | {"mnli": 4}
    assert {task: version_of(task) for task in TASKS} == versions
