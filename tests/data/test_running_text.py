"""Running text by split: what is read is the text of the files, whatever it is cut into."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import Table, parquet

from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.data.sources import running_text
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.running_text import (
    cut_documents,
    evaluated_splits,
    load_running_text,
    training_text,
    undone,
)
from spikelm.data.sources.source_identity import source_identity
from spikelm.errors import DataError

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "wikitext-2"
ARTICLES = [
    " \n = Tea = \n \n Tea is hot @-@ brewed . \n It is <unk> . \n \n = = Uses = = \n \n Drinking . \n \n",
    " = Coffee = \n \n Coffee is black . \n = No title = \n \n",
]


def lm(name: str = "lm/wikitext2", **settings: object) -> TaskConfig:
    given: dict[str, object] = {"splits": {"test": ""}, "repo": "Salesforce/wikitext", "hub": "raw", **settings}
    return TaskConfig(name=name, kind="lm", **given)  # type: ignore[arg-type]


def own() -> TaskConfig:
    return lm("lm/text", splits={"validation": ""}, repo="", hub="")


def local(root: Path, documents: int = 100) -> SourceConfig:
    return SourceConfig(name="local", root=str(root), documents=documents)


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def joined(text: LoadedText, split: str) -> str:
    assert all(len(document) == 1 for document in text.splits[split])
    assert len(list(text.splits[split])) == text.rows[split]
    return "\n".join(document[0] for document in text.splits[split])


def bare(text: str) -> str:
    """A file's text as it is read: lines of white space alone are empty."""
    return "\n".join(line if line.strip() else "" for line in text.removesuffix("\n").split("\n"))


@pytest.mark.parametrize("folder", ["wikitext-2", "WikiText_2", "lm/wikitext2"])
@pytest.mark.parametrize("names", [("train.txt", "test.txt"), ("wiki.train.tokens", "wiki.test.tokens")])
def test_articles_are_documents_and_nothing_is_lost(tmp_path: Path, folder: str, names: tuple[str, str]) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / names[0]).write_text("".join(ARTICLES))
    (place / names[1]).write_text(ARTICLES[1])
    text = load_running_text(lm(), local(tmp_path), tmp_path / "cache")
    assert text.rows == {"train": 2, "test": 1}
    assert [document[0].split("\n", 1)[0] for document in text.splits["train"]] == ["", " = Coffee = "]
    assert joined(text, "train") == bare("".join(ARTICLES))
    assert joined(text, "test") == bare(ARTICLES[1])
    assert text.warnings == ()


def test_the_folder_is_in_root_or_root_itself_or_beside_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "data" / "wikitext-2", train=ARTICLES[0], test=ARTICLES[1])
    (tmp_path / "data" / "glue").mkdir()
    hashes = {
        load_running_text(lm(), local(root)).content_hash for root in (folder.parent, folder, folder.parent / "glue")
    }
    assert len(hashes) == 1
    with pytest.raises(DataError, match="no folder for lm/wikitext103"):
        load_running_text(lm("lm/wikitext103", splits={"validation": ""}), local(folder.parent))


def test_a_published_split_is_not_made_of_another(tmp_path: Path) -> None:
    write(tmp_path / "wikitext-2", train=ARTICLES[0], valid=ARTICLES[1])
    with pytest.raises(DataError, match="no file for test: looked for test or wikitest"):
        load_running_text(lm(), local(tmp_path))


def test_a_file_is_a_document(tmp_path: Path) -> None:
    texts = {"one": "First.\n\nStill first.\n", "two": "Second.\n", "blank": " \n\n"}
    text = load_running_text(own(), local(write(tmp_path, valid="Held\nout.\n", **texts)))
    assert list(text.splits["train"]) == [["First.\n\nStill first."], ["Second."]]
    assert list(text.splits["validation"]) == [["Held\nout."]]


def test_without_a_validation_file_the_test_file_or_the_last_lines_are_evaluated(tmp_path: Path) -> None:
    lines = [f"Line {number}." for number in range(60)]
    write(tmp_path / "a", one="\n".join(lines[:50]), two="\n".join(lines[50:]))
    text = load_running_text(own(), local(tmp_path / "a"))
    assert joined(text, "train").split("\n") == lines[:57]
    assert joined(text, "validation").split("\n") == lines[57:]
    assert text.rows == {"train": 2, "validation": 1}
    write(tmp_path / "b", one="Some.", test="Other.")
    tested = load_running_text(own(), local(tmp_path / "b"))
    assert joined(tested, "test") == "Other."
    assert list(tested.splits) == ["train", "test"], "a test's text is not called validation"
    assert evaluated_splits(own(), tested) == ["test"]
    assert evaluated_splits(own(), text) == ["validation"]
    write(tmp_path / "c", one="Some.")
    with pytest.raises(DataError, match="too few to hold some out"):
        load_running_text(own(), local(tmp_path / "c"))


def test_folders_in_the_folder_may_be_splits(tmp_path: Path) -> None:
    write(tmp_path / "train" / "books", b="B.", a="A.")
    write(tmp_path / "dev", c="C.")
    text = load_running_text(own(), local(tmp_path))
    assert (list(text.splits["train"]), list(text.splits["validation"])) == ([["A."], ["B."]], [["C."]])
    write(tmp_path / "empty")
    with pytest.raises(DataError, match="lm/text"):
        load_running_text(own(), local(tmp_path / "empty"))


def test_a_long_document_is_cut_after_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_text, "LONGEST", 10)
    lines = [f"line {number}" for number in range(9)]
    cut = [document[0] for document in cut_documents(iter([*lines, None]))]
    assert "\n".join(cut).split("\n") == lines
    assert [len(part.split("\n")) for part in cut] == [2, 2, 2, 2, 1]


def test_the_hub_gives_what_the_files_give(tmp_path: Path) -> None:
    write(tmp_path / "wikitext-2", train="".join(ARTICLES), test=ARTICLES[1])
    for split, text in (("train", "".join(ARTICLES)), ("test", ARTICLES[1])):
        rows = [{"text": line if line.strip() else ""} for line in text.splitlines(keepends=True)]
        path = tmp_path / "Salesforce" / "wikitext" / "raw" / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(Table.from_pylist(rows), path)
    task, hub = lm(revision="a" * 40), SourceConfig(name="hub", mirror=str(tmp_path), documents=100)
    files, mirrored = load_running_text(task, local(tmp_path)), load_running_text(task, hub)
    assert mirrored.content_hash == files.content_hash
    assert list(mirrored.splits["train"]) == list(files.splits["train"])


def test_rows_of_the_hub_are_documents_where_there_are_no_titles(tmp_path: Path) -> None:
    for split in ("train", "test"):
        path = tmp_path / "Salesforce" / "wikitext" / "raw" / f"{split}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(Table.from_pylist([{"text": "One.\n\nStill one."}, {"text": "Two."}]), path)
    hub = SourceConfig(name="hub", mirror=str(tmp_path), documents=100)
    text = load_running_text(lm(revision="main"), hub)
    assert list(text.splits["train"]) == [["One.\n\nStill one."], ["Two."]]
    assert "main" in text.warnings[0]
    with pytest.raises(DataError, match="no repository on the hub"):
        load_running_text(own(), hub)


def test_the_micro_world_has_the_sentences_of_its_documents(tmp_path: Path) -> None:
    source = SourceConfig(name="embedded", documents=40)
    text = load_running_text(lm("lm/embedded", splits={"validation": ""}), source)
    expected = [[" ".join(document)] for document in microworld.documents(40, seed=0)]
    assert [*text.splits["train"], *text.splits["validation"]] == expected
    assert text.rows == {"train": 38, "validation": 2}
    assert text.content_hash != load_documents(source).content_hash
    with pytest.raises(DataError, match="has no task lm/wikitext2; it has embedded"):
        load_running_text(lm(), source)
    with pytest.raises(DataError, match="task=lm/text"):
        load_running_text(lm("lm/embedded"), local(tmp_path))


def test_an_upper_bound_of_documents_is_told(tmp_path: Path) -> None:
    write(tmp_path / "wikitext-2", train="".join(ARTICLES), test="".join(ARTICLES))
    text = load_running_text(lm(), local(tmp_path, documents=1), tmp_path / "cache")
    assert text.rows == {"train": 1, "test": 2}
    assert text.warnings == (
        "lm/wikitext2: the first 1 of 2 training documents are read (source.documents=2 reads all)",
    )
    again = load_running_text(lm(), local(tmp_path, documents=1), tmp_path / "cache")
    assert (again.warnings, again.content_hash) == (text.warnings, text.content_hash)


def test_the_identity_knows_the_content_and_not_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = local(write(tmp_path / "a" / "wikitext-2", train=ARTICLES[0], test="X ."))
    second = local(write(tmp_path / "b" / "wikitext-2", train=ARTICLES[0], test="X ."))
    cache = tmp_path / "cache"
    identity = source_identity(lm(), first, cache)
    assert identity == source_identity(lm(), second, cache)
    assert set(identity) == {"name", "content"}
    read: list[object] = []
    monkeypatch.setattr(running_text, "_survey", lambda *given: read.append(given))
    assert source_identity(lm(), first, cache) == identity
    assert not read  # kept by the facts of the files
    monkeypatch.undo()
    write(tmp_path / "a" / "wikitext-2", test="Another .")
    assert source_identity(lm(), first, cache) != identity


def test_the_identity_of_the_hub_and_of_the_micro_world(tmp_path: Path) -> None:
    hub = source_identity(lm(revision="abc"), SourceConfig(name="hub", documents=7), tmp_path)
    assert hub["text"] == {"repo": "Salesforce/wikitext", "config": "raw", "revision": "abc"}
    assert hub["documents"] == 7
    embedded = SourceConfig(name="embedded", documents=40)
    identity = source_identity(lm("lm/embedded"), embedded, tmp_path)
    assert (identity["documents"], identity["version"]) == (40, microworld.VERSION)
    with pytest.raises(DataError, match="micro-world"):
        source_identity(lm(), embedded, tmp_path)


def test_text_to_train_on_has_marks_undone_and_ends_marked() -> None:
    text = LoadedText({"train": [[" Hot @-@ brewed , <unk> . \n\n = = Uses = = "], ["Two ."]]}, "hash")
    trained = training_text(text, "wikitext", "</s>")
    assert list(trained.splits["train"]) == [["Hot-brewed, <unk>.\n\n== Uses ==</s>"], ["Two.</s>"]]
    assert trained.rows == {"train": 2}
    assert len({text.content_hash, trained.content_hash, training_text(text, "none", "</s>").content_hash}) == 3
    assert undone(" a @-@ b ", "none") == " a @-@ b "


@pytest.mark.skipif(not REAL.is_dir(), reason="WikiText-2 is not here")
def test_the_real_test_text_is_the_file() -> None:
    text = load_running_text(lm(), local(REAL.parent))
    raw = (REAL / "test.txt").read_text()
    assert joined(text, "test") == bare(raw)
    assert len(raw.split()) == 241_211
    assert text.rows["test"] >= 60
