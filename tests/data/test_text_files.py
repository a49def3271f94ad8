"""Pretraining text from files: articles become documents, tokenisation marks disappear, sentences are cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.text_files import detokenised, plain_sentences, wikitext_sentences
from spikelm.data.tokens.tokenizer import load_tokenizer, read_vocab
from spikelm.errors import DataError

ARTICLE = (
    " \n = {0} = \n \n It was red @-@ tipped . It was <unk> . \n \n = = Life = = \n \n {0} had 1 @,@ 000 eggs . \n"
)
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", "was", "red", ".", "##s"]


def wikitext(path: Path, titles: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(ARTICLE.format(title) for title in titles))


def config(root: Path, *overrides: str) -> Config:
    return load_config(["task=pretrain", "source=local", f"source.root={root}", *overrides])


def load(root: Path, *overrides: str) -> LoadedText:
    text = load_documents(config(root, *overrides).source)
    splits = {split: list(documents) for split, documents in text.splits.items()}
    assert {split: len(documents) for split, documents in text.splits.items()} == {
        split: len(documents) for split, documents in splits.items()
    }
    return replace(text, splits=splits)


@pytest.mark.parametrize(
    "names",
    [
        ("wikitext-2/train.txt", "wikitext-2/valid.txt", "wikitext-2/test.txt"),
        ("wikitext/wiki.train.tokens", "wikitext/wiki.valid.tokens", "wikitext/wiki.test.tokens"),
        ("train.txt", "validation.txt", "test.txt"),
    ],
)
def test_articles_are_documents(names: tuple[str, ...], tmp_path: Path) -> None:
    for name, titles in zip(names, ("AB", "CD", "EF"), strict=True):
        wikitext(tmp_path / name, titles)
    documents = [["It was red-tipped.", "It was [UNK].", f"{title} had 1,000 eggs."] for title in "ABCD"]
    assert load(tmp_path).splits == {"train": documents[:2], "validation": documents[2:]}


def test_without_a_held_out_file_the_last_documents_are(tmp_path: Path) -> None:
    wikitext(tmp_path / "a.txt", "ABC")
    wikitext(tmp_path / "b.txt", "DE")
    text = load(tmp_path)
    assert [document[2][0] for document in text.splits["train"]] == ["A", "B", "C"]
    assert len(text.splits["validation"]) == 2
    assert len(load(tmp_path, "source.documents=4").splits["train"]) == 2


def test_the_text_may_lie_elsewhere_than_the_tasks(tmp_path: Path) -> None:
    for name in ("root", "elsewhere/wikitext-2"):
        wikitext(tmp_path / name / "train.txt", "ABCDE" if name == "root" else "VWXYZ")
    text = load(tmp_path / "root", f"source.text_root={tmp_path / 'elsewhere'}")
    assert [document[2][0] for document in text.splits["train"]] == ["V", "W", "X"]
    assert text.content_hash == load(tmp_path / "elsewhere").content_hash


def test_tasks_without_text_take_the_wikitext_beside_them(tmp_path: Path) -> None:
    (tmp_path / "glue" / "RTE").mkdir(parents=True)
    wikitext(tmp_path / "wikitext-2" / "train.txt", "VWXYZ")
    assert [document[2][0] for document in load(tmp_path / "glue").splits["train"]] == ["V", "W", "X"]
    wikitext(tmp_path / "glue" / "own.txt", "ABCDE")
    assert [document[2][0] for document in load(tmp_path / "glue").splits["train"]] == ["A", "B", "C"]


def test_plain_text_has_documents_between_blank_lines(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("One. Two!\nThree\n\nMr. x = 2 = y said 3.5 is it? Yes.\n")
    (tmp_path / "valid.txt").write_text("A.\n\n\nB.\n")
    text = load(tmp_path)
    assert text.splits["train"] == [["One.", "Two!", "Three"], ["Mr. x = 2 = y said 3.5 is it?", "Yes."]]
    assert text.splits["validation"] == [["A."], ["B."]]


def test_a_table_row_with_equals_signs_is_no_title(tmp_path: Path) -> None:
    wikitext(tmp_path / "valid.txt", "AB")
    (tmp_path / "train.txt").write_text(ARTICLE.format("A") + " = Played , W = \n It ended . \n" + ARTICLE.format("B"))
    assert [len(document) for document in load(tmp_path).splits["train"]] == [4, 3]


def test_marks_and_spaces_are_undone() -> None:
    tokens = "He said \" it 's 2 @.@ 5 % ( or so ) ; I didn 't \" , for $ 3 ."
    assert detokenised(tokens) == "He said \"it's 2.5% (or so); I didn't\", for $3."
    assert detokenised("in 1916 @,@") == "in 1916,"


def test_sentences_end_at_full_stops_of_their_own() -> None:
    text = 'H. gammarus is big . " It is . " He left . The U.S. won ! why ? because . " '
    sentences = ["H. gammarus is big.", '"It is."', "He left.", "The U.S. won! why? because."]
    assert wikitext_sentences(text)[:3] == sentences[:3]
    assert wikitext_sentences(text)[3].startswith(sentences[3])
    assert plain_sentences('He left. "Why?" she said. (So.) End') == ["He left.", '"Why?" she said.', "(So.)", "End"]


def test_missing_empty_and_broken_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "RTE").mkdir()
    with pytest.raises(DataError, match=r"no pretraining text in .*looked for .*train\.txt.*there is RTE/"):
        load(tmp_path)
    (tmp_path / "train.txt").write_text("\n \n")
    with pytest.raises(DataError, match=r"train\.txt is empty"):
        load(tmp_path)
    (tmp_path / "train.txt").write_bytes(b"good\n\xff bad\n")
    with pytest.raises(DataError, match=r"train\.txt line 2: not UTF-8"):
        load(tmp_path)
    (tmp_path / "train.txt").write_text("One document.")
    with pytest.raises(DataError, match=r"train\.txt: 0 documents for train, expected at least 2"):
        load(tmp_path)
    for name in ("wikitext-2", "wikitext-103"):
        wikitext(tmp_path / name / "train.txt", "AB")
    with pytest.raises(DataError, match="more than one pretraining text"):
        load(tmp_path)


def test_a_vocabulary_file_or_its_folder_is_the_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    for path in (tmp_path, tmp_path / "vocab.txt"):
        found = config(tmp_path, f"source.tokenizer={path}")
        tokenizer = load_tokenizer(found.source, found.backbone, tmp_path / "cache")
        assert tokenizer.get_vocab_size() == len(VOCAB)
        assert tokenizer.encode("It was [UNK] reds.").ids == [2, 5, 6, 1, 7, 9, 8, 3]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("pieces", "says"),
    [
        (VOCAB[:4], r"lacks \[MASK\]"),
        ([*VOCAB, "was"], "line 11: 'was' is there twice, first on line 7"),
        ([VOCAB[1], VOCAB[0], *VOCAB[2:]], r"line 2: \[PAD\] is expected on line 1"),
    ],
)
def test_a_vocabulary_that_is_not_berts_is_refused(pieces: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    with pytest.raises(DataError, match=says):
        read_vocab(tmp_path / "vocab.txt")


def test_a_cased_vocabulary_keeps_capitals(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join([*VOCAB, "It"]) + "\n")
    assert read_vocab(tmp_path / "vocab.txt").encode("It").tokens[1] == "It"


def test_without_a_vocabulary_one_is_trained_on_the_text_or_asked_for(tmp_path: Path) -> None:
    found = config(tmp_path)
    with pytest.raises(DataError) as caught:
        load_tokenizer(found.source, found.backbone, tmp_path / "cache")
    assert "source.tokenizer" in caught.value.fix
    wikitext(tmp_path / "wikitext-2" / "train.txt", "ABCDEF")
    tokenizer = load_tokenizer(found.source, found.backbone, tmp_path / "cache")
    assert tokenizer.encode("it was [UNK]").tokens == ["[CLS]", "it", "was", "[UNK]", "[SEP]"]
    assert "unk" not in tokenizer.get_vocab(), "the sign of an unknown word is no word"
    found.backbone.vocab = 24
    small = load_tokenizer(found.source, found.backbone, tmp_path / "cache")
    assert small.get_vocab_size() <= 24, "rare letters give way"
