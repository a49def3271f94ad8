"""spikelm-predict: every row in its order, whatever the window; killed and gone on with; mistakes named by line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from exported_folder import WORDS, exported_folder
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from spikelm.cli import predict
from spikelm.cli.predict import predict_main
from spikelm.config.settings.task import TaskConfig
from spikelm.errors import ConfigError, DataError, SpikeLMError
from spikelm.export.classifier import Classifier

FILM = TaskConfig(
    "film", "classification", ["sentence"], ["bad", "good"], ["accuracy", "f1"], {"validation": ""},
    file_columns={"sentence": "review"},
)  # fmt: skip
ALIKE = TaskConfig("alike", "regression", ["one", "other"], [], ["spearman", "pearson"], {"validation": ""})
TEXTS = [" ".join((*WORDS, *WORDS)[index % 7 : index % 7 + 1 + index * 5 % 9]) for index in range(11)]


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("film")
    exported_folder(folder, FILM)
    return folder


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alike")
    exported_folder(folder, ALIKE)
    return folder


def logits_one_by_one(folder: Path, texts: Sequence[Sequence[str]]) -> list[list[float]]:
    """The oracle: plain transformers code, a row at a time."""
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [model(**tokenizer(*row, return_tensors="pt")).logits[0].tolist() for row in texts]


def write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_row_is_answered_in_its_order(
    film: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "PATIENCE", 0.0)
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"sentence": text, "more": 1} for text in TEXTS])
    assert predict_main([str(film), str(rows), "--batch", "3"]) == 0
    said = capsys.readouterr()
    answers = [json.loads(line) for line in said.out.splitlines()]
    wanted = torch.tensor(logits_one_by_one(film, [[text] for text in TEXTS])).softmax(-1)
    assert [answer["row"] for answer in answers] == list(range(1, 12))
    assert {answer["label"] for answer in answers} == {"bad", "good"}, "one label alone would not show an order"
    for answer, shares in zip(answers, wanted.tolist(), strict=True):
        assert answer["probabilities"] == pytest.approx({"bad": shares[0], "good": shares[1]}, abs=1e-5)
        assert answer["label"] == ("bad" if shares[0] > shares[1] else "good")
    assert [line for line in said.err.splitlines() if " of 11 rows" in line][:3] == [
        f"{done} of 11 rows" for done in (3, 6, 9)
    ]
    assert "11 rows in" in said.err
    assert "rows/s" in said.err


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl"])
def test_two_texts_and_a_score_from_files_of_every_kind(ending: str, alike: Path, tmp_path: Path) -> None:
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    rows = tmp_path / f"rows{ending}"
    if ending == ".jsonl":
        write_jsonl(rows, [{"a": one, "other": other} for one, other in pairs])
    else:
        with rows.open("w", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n")
            writer.writerows([["other", "a"], *([other, one] for one, other in pairs)])
    out = tmp_path / "out.jsonl"
    assert predict_main([str(alike), str(rows), "--text", "a", "--out", str(out)]) == 0
    wanted = [row[0] for row in logits_one_by_one(alike, pairs)]
    assert [answer["score"] for answer in read_jsonl(out)] == pytest.approx(wanted, abs=1e-5)


def test_metrics_are_those_of_the_answers(film: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shares = logits_one_by_one(film, [[text] for text in TEXTS])
    said = [int(row[1] > row[0]) for row in shares]
    truth = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1]
    rows = write_jsonl(
        tmp_path / "rows.jsonl",
        [{"review": text, "gold": ["bad", "good"][label]} for text, label in zip(TEXTS, truth, strict=True)],
    )
    out = tmp_path / "out.jsonl"
    assert predict_main([str(film), str(rows), "--score", "--label", "gold", "--out", str(out), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    right = sum(a == b for a, b in zip(said, truth, strict=True))
    both = sum(a == b == 1 for a, b in zip(said, truth, strict=True))
    f1 = 2 * both / (sum(said) + sum(truth))
    assert record["metrics"] == pytest.approx({"accuracy": 100 * right / 11, "f1": 100 * f1}, abs=1e-3)
    assert (record["rows"], record["kept"], record["batch"], record["out"]) == (11, 0, 32, str(out))
    assert record["rows_per_second"] == pytest.approx(11 / record["seconds"])


def killed_after(windows: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let the model die when so many windows are answered; how many windows it was asked for."""
    real, asked = Classifier.answers, 0

    def answers(self: Classifier, texts: Sequence[Sequence[str]], batch: int, told: Any) -> Iterator[Any]:
        nonlocal asked
        if asked == windows:
            raise KeyboardInterrupt
        asked += 1
        return real(self, texts, batch, told)

    monkeypatch.setattr(Classifier, "answers", answers)
    return lambda: asked


def test_a_killed_command_goes_on_and_ends_with_the_same_file(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(predict, "WINDOW", 3)
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"sentence": text, "label": len(text) % 2} for text in TEXTS])
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    assert predict_main([str(film), str(rows), "--score", "--out", str(whole), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    command = [str(film), str(rows), "--score", "--out", str(out), "--json"]
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(KeyboardInterrupt):
            predict_main(command)
    part = tmp_path / "out.jsonl.part"
    assert part.read_bytes() == b"".join(whole.read_bytes().splitlines(keepends=True)[:6])
    with part.open("a") as file:
        file.write('{"row": 7, "la')  # and in the middle of a line
    asked = killed_after(100, monkeypatch)
    assert predict_main(command) == 0
    assert asked() == 2, "rows 7 to 11 alone"
    assert out.read_bytes() == whole.read_bytes()
    record = json.loads(capsys.readouterr().out)
    assert (record["kept"], record["metrics"]) == (6, metrics)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "rows.jsonl", "whole.jsonl"]
    with pytest.raises(SpikeLMError, match="there already"):
        predict_main(command)
    assert predict_main([*command, "--force"]) == 0


def test_a_part_of_other_rows_or_another_model_is_not_gone_on_with(
    film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "WINDOW", 3)
    texts = [{"sentence": text, "review": "good"} for text in TEXTS]
    rows, out = write_jsonl(tmp_path / "rows.jsonl", texts), tmp_path / "out.jsonl"
    with monkeypatch.context() as patch:
        killed_after(1, patch)
        with pytest.raises(KeyboardInterrupt):
            predict_main([str(film), str(rows), "--out", str(out)])
    exported_folder(tmp_path / "other", FILM, seed=2)
    with pytest.raises(SpikeLMError, match="begun with another model\n"):
        predict_main([str(tmp_path / "other"), str(rows), "--out", str(out)])
    with pytest.raises(SpikeLMError, match="begun with another choice of columns\n"):
        predict_main([str(film), str(rows), "--text", "sentence", "--out", str(out)])
    write_jsonl(rows, texts[:-1])
    with pytest.raises(SpikeLMError, match="begun with another input\n"):
        predict_main([str(film), str(rows), "--out", str(out)])
    assert predict_main([str(film), str(rows), "--out", str(out), "--force"]) == 0
    assert len(read_jsonl(out)) == 10


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"sentence": "good"}\n{"sentence": 3}\n', r"line 2: sentence is 3, expected text"),
        ('{"sentence": "good"}\n\n{"text": "bad"}\n', r"line 3: no column 'review' or 'sentence'"),
        ('{"sentence": "good"}\n{"sentence": \n', r"line 2: not JSON"),
        ("", "is empty"),
        ("\n\n", "has no rows"),
    ],
)
def test_a_bad_row_is_named_before_the_model_is_loaded(
    text: str, says: str, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(text)
    monkeypatch.setattr(predict, "_load", lambda *_: pytest.fail("loaded"))
    with pytest.raises(DataError, match=says):
        predict_main([str(film), str(rows), "--out", str(tmp_path / "out.jsonl")])
    assert list(tmp_path.iterdir()) == [rows]


def test_mistakes_of_the_command_say_what_to_do(film: Path, tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"sentence": "good"}])
    (tmp_path / "rows.txt").write_text("good\n")
    for words, error, says in (
        ((film, "none.jsonl"), DataError, "none.jsonl is not there"),
        ((film, tmp_path / "rows.txt"), DataError, "the ending says nothing"),
        ((film, rows, "--batch", "0"), ConfigError, "--batch 0 is not valid"),
        ((film, rows, "--json"), ConfigError, "--json needs --out"),
        ((film, rows, "--force"), ConfigError, "--force has no effect"),
        ((film, rows, "--label", "gold"), ConfigError, "--label has no effect"),
        ((film, rows, "--text-pair", "b"), ConfigError, "reads one text"),
        ((film, rows, "--out", rows), ConfigError, "is the file of the rows"),
        ((film, rows, "--score"), DataError, "no column 'label'"),
        ((tmp_path, rows), ConfigError, "neither a run nor an exported folder"),
        (("abc1", rows), ConfigError, "no run abc1"),
    ):
        with pytest.raises(error, match=says):
            predict_main([str(word) for word in words])


def test_a_damaged_folder_is_named(film: Path, tmp_path: Path) -> None:
    rows = write_jsonl(tmp_path / "rows.jsonl", [{"sentence": "good"}])
    for damage, says in (("export.json", "export.json is not there"), ("model.safetensors", "cannot be loaded")):
        folder = tmp_path / damage
        exported_folder(folder, FILM)
        (folder / damage).unlink()
        with pytest.raises(SpikeLMError, match=says):
            predict_main([str(folder), str(rows)])


def test_rows_are_read_one_after_the_other(film: Path, tmp_path: Path) -> None:
    """Of a file of any length a window is in memory: a broken last line does not keep the first row away."""
    from spikelm.data.sources.row_files import Layout, iter_rows

    for name, text in (("a.jsonl", '{"x": "1"}\nno'), ("a.csv", 'x\n1\n"'), ("a.tsv", "x\n1\n2\t3")):
        path = tmp_path / name
        path.write_text(text)
        rows = iter_rows(path, Layout({"x": ("x",)}))
        assert next(rows)[1] == {"x": "1"}
        with pytest.raises(DataError, match=r"line [23]"):
            next(rows)
