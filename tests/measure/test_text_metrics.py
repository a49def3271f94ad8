"""Scores of texts against the command lines of the libraries that define them."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from spikelm.errors import ConfigError, DataError
from spikelm.measure.text_metrics import ROUGE, entity_accuracy, text_metrics

TRANSLATION = ("bleu", "chrf")
REFERENCES = [
    "A baker from Elmsby has rescued a dog.\nThe council has approved plans.",
    "Prices will rise on Monday.\nKelton have beaten Holmere at rugby.",
    "A watch lost ten years ago has been returned.",
    "Nobody came.",
]
PREDICTIONS = [
    "A baker from Elmsby rescues dogs.\nPlans were approved by the council.",
    "Kelton have beaten Holmere at rugby.\nPrices will fall on Monday.",
    "",
    "Nobody came.",
]
ROMANIAN = [
    "Fata îi dă băiatului o carte.",
    "Copiii se joacă în spatele școlii.",
    "Lângă ușă sunt două pisici negre.",
    "Nu îmi plac merele.",
]
GUESSES = ["Fata dă băiatului o carte.", "Copiii se joacă în spatele scolii.", "", "Nu îmi plac merele."]


def test_rouge_is_that_of_its_own_command(tmp_path: Path) -> None:
    mark = "@@"
    (tmp_path / "refs").write_text(mark.join(REFERENCES))
    (tmp_path / "texts").write_text(mark.join(PREDICTIONS))
    command = [
        *(sys.executable, "-m", "rouge_score.rouge", "--use_stemmer", "--noaggregate", f"--delimiter={mark}"),
        *(f"--target_filepattern={tmp_path}/refs", f"--prediction_filepattern={tmp_path}/texts"),
        *(f"--rouge_types={','.join(ROUGE)}", f"--output_filename={tmp_path}/out.csv"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(REFERENCES)
    scores, notes = text_metrics(ROUGE, PREDICTIONS, REFERENCES)
    for name in ROUGE:
        wanted = 100 * sum(float(row[f"{name}-F"]) for row in rows) / len(rows)
        assert math.isclose(scores[name], wanted, abs_tol=1e-3), name
    assert scores["rougeLsum"] > scores["rougeL"], "lines in another order count for the summary level"
    assert notes["empty"] == "1 of 4 predictions are empty"
    assert "rouge-score 0.1" in notes["rouge"]


def test_bleu_and_chrf_are_those_of_sacrebleus_command(tmp_path: Path) -> None:
    (tmp_path / "refs").write_text("\n".join(ROMANIAN) + "\n", encoding="utf-8")
    (tmp_path / "texts").write_text("\n".join(GUESSES) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "refs"), "-i", str(tmp_path / "texts")]
    done = subprocess.run([*command, "-m", "bleu", "chrf", "-w", "6"], check=True, capture_output=True, text=True)
    wanted = {entry["name"].lower().replace("chrf2", "chrf"): entry for entry in json.loads(done.stdout)}
    scores, notes = text_metrics(TRANSLATION, GUESSES, ROMANIAN)
    for name in ("bleu", "chrf"):
        assert math.isclose(scores[name], wanted[name]["score"], abs_tol=1e-5)
        assert notes[name] == wanted[name]["signature"]
    assert "tok:13a" in notes["bleu"]
    assert "case:mixed" in notes["bleu"]


def test_perfect_and_empty_texts() -> None:
    scores, notes = text_metrics(ROUGE, REFERENCES, REFERENCES)
    assert all(math.isclose(value, 100) for value in scores.values())
    assert "empty" not in notes
    assert set(text_metrics(ROUGE, [" "] * 4, REFERENCES)[0].values()) == {0.0}
    assert math.isclose(text_metrics(TRANSLATION, ROMANIAN, ROMANIAN)[0]["bleu"], 100)
    scores, notes = text_metrics(TRANSLATION, [""] * 4, ROMANIAN)
    assert scores == {"bleu": 0.0, "chrf": 0.0}
    assert notes["empty"] == "4 of 4 predictions are empty"


def test_a_missing_comma_below_is_a_mistake() -> None:
    plain = [text.replace("ș", "s").replace("ă", "a") for text in ROMANIAN]
    assert text_metrics(TRANSLATION, plain, ROMANIAN)[0]["bleu"] < 80


def test_only_what_is_asked_for_is_scored_in_that_order() -> None:
    scores, notes = text_metrics(["chrf", "rougeL", "bleu"], PREDICTIONS, REFERENCES)
    assert list(scores) == ["chrf", "rougeL", "bleu"]
    assert set(notes) == {"chrf", "bleu", "rouge", "empty"}
    for name, value in scores.items():
        assert text_metrics([name], PREDICTIONS, REFERENCES)[0] == {name: value}


def test_what_cannot_be_scored() -> None:
    with pytest.raises(DataError, match="3 predictions cannot be scored against 4"):
        text_metrics(ROUGE, PREDICTIONS[:3], REFERENCES)
    with pytest.raises(DataError, match="0 predictions"):
        text_metrics(TRANSLATION, [], [])
    with pytest.raises(ConfigError, match="metric 'exact' does not score texts"):
        text_metrics(["bleu", "exact"], PREDICTIONS, REFERENCES)


def test_exact_match_counts_words_and_marks_but_not_case_and_spaces() -> None:
    references = ["A baker from Elmsby has won.\nPrices will rise.", "Nu îmi plac merele.", "Who came?", "Nobody came."]
    texts = [
        "a baker from elmsby has won . prices will rise .",
        "nu îmi plac merele.",
        "Who came.",
        "Nobody came again.",
    ]
    scores, notes = text_metrics(["exact_match"], texts, references)
    assert scores == {"exact_match": 50.0}, "a question is no statement, and a word too few is not exact"
    assert "case" in notes["exact_match"]


ENTITIES = {"trades": ("baker", "potter", "cook"), "towns": ("Elmsby", "Kelton")}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a baker from elmsby has beaten a potter", 3),
        ("A baker from Elmsby has lost to a potter.", 3),  # what happened is not an entity
        ("A potter from Elmsby has beaten a baker.", 1),  # both are named, neither in its role
        ("A baker from Kelton has beaten a baker.", 1),
        ("A potter has won.", 0),
        (
            "A baker from Elmsby has beaten a potter and a cook from Kelton.",
            3,
        ),  # more is not counted
        ("Bakers from Elmsbyland", 0),  # whole words only
        ("", 0),
    ],
)
def test_entity_accuracy_compares_each_name_by_its_place(text: str, right: int) -> None:
    scores, notes = entity_accuracy([text], ["A baker from Elmsby has beaten a potter."], ENTITIES)
    assert scores["entity_accuracy"] == pytest.approx(100 * right / 3)
    assert "trades and towns" in notes["entity_accuracy"]


def test_texts_that_name_nobody_have_no_entity_accuracy() -> None:
    assert entity_accuracy(["A baker came."], ["Nobody came."], ENTITIES) == ({}, {})


def test_entity_accuracy_is_taken_over_all_entities_of_all_texts() -> None:
    references = ["A baker from Elmsby won.", "Nobody came.", "A cook lost."]
    scores, _ = entity_accuracy(["A baker from Kelton won.", "A potter came.", "A cook lost."], references, ENTITIES)
    assert scores["entity_accuracy"] == pytest.approx(100 * 2 / 3)
