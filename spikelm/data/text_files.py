"""Pretraining text from files: WikiText or plain text as documents, which are lists of sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from spikelm.data.local import listing, squeezed
from spikelm.data.tables import lines
from spikelm.errors import DataError

ENDINGS = (".txt", ".tokens", ".raw")
TRAIN = ("train", "wikitrain")
HELD_OUT = ("valid", "validation", "dev", "val", "wikivalid")
TEST = ("test", "wikitest")  # never read
UNKNOWN = "[UNK]"  # the tokenizer's own sign takes the place of WikiText's <unk>

_HEAD = re.compile(r"= .* =")
_TITLE = re.compile(r"= (?!= ).*(?<! =) =")
_CLOSING = ('"', ")", "]", "'", "''")
_SENTENCE = re.compile(r"""(?<=[.!?])(["')\]]*)\s+(?=["'(\[]*[A-Z0-9])""")
_DETOKENISE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r" ?@([-,.])@ ?"), r"\1"),
    (re.compile(r"<unk>"), UNKNOWN),
    (re.compile(r'" ([^"]*) "'), r'"\1"'),
    (re.compile(r" ([,.;:!?%)\]}])"), r"\1"),
    (re.compile(r"([(\[{]) "), r"\1"),
    (re.compile(r" '(s|t|re|ve|ll|d|m)\b"), r"'\1"),
    (re.compile(r"([$£€]) (?=\d)"), r"\1"),
)


def text_files(root: Path) -> dict[str, list[Path]]:
    """The files of the train and, where there is one, the validation split.

    They lie in a folder wikitext* of root, in root itself, or, where root has no text, in a wikitext* beside it.
    """
    folders = _wikitexts(root)
    if not folders and not any(path.suffix.lower() in ENDINGS for path in root.iterdir()):
        folders = _wikitexts(root.absolute().parent)
    if len(folders) > 1:
        raise DataError(
            f"{root} has more than one pretraining text: {', '.join(path.name for path in folders)}",
            f"source.root={folders[0]} takes one of them",
        )
    folder = folders[0] if folders else root
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in ENDINGS and path.is_file()]
    by_name = {path: squeezed(path.stem) for path in files}
    held_out = [path for path in files if by_name[path] in HELD_OUT]
    train = [path for path in files if by_name[path] in TRAIN]
    train = train or [path for path in files if by_name[path] not in (*HELD_OUT, *TEST)]
    if not train:
        raise DataError(
            f"no pretraining text in {folder}: looked for a folder wikitext*, train.txt or other *.txt; "
            f"there is {listing(folder)}",
            "put the text there, or set source.root",
        )
    return {"train": train, **({"validation": held_out} if held_out else {})}


def _wikitexts(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and squeezed(path.name).startswith("wikitext")]


def local_documents(files: dict[str, list[Path]], limit: int) -> dict[str, list[list[str]]]:
    """At most `limit` documents to train on, and the held-out ones: of their own file, else the last twentieth."""
    found = {split: [document for path in paths for document in read_documents(path)] for split, paths in files.items()}
    train, held_out = found["train"][:limit], found.get("validation")
    if held_out is None:
        cut = max(2, len(train) // 20)
        train, held_out = train[:-cut], train[-cut:]
    for split, documents in (("train", train), ("validation", held_out)):
        if len(documents) < 2:  # the next sentence of a pair is, half of the time, another document's
            path = files.get(split, files["train"])[0]
            raise DataError(f"{path}: {len(documents)} documents for {split}, expected at least 2")
    return {"train": train, "validation": held_out}


def read_documents(path: Path) -> list[list[str]]:
    """The documents of one file: articles under WikiText's heads, else blocks between blank lines (BERT's format)."""
    text = [line.strip() for _, line in lines(path)]
    titles = [index for index in range(len(text)) if _is_title(text, index)]
    documents = list(_articles(text, titles) if titles else _blocks(text))
    if not documents:
        raise DataError(f"{path} is empty: it has no sentence")
    return documents


def _is_title(text: Sequence[str], index: int) -> bool:
    """` = Title = ` between blank lines; table rows with equals signs are not."""
    if not _TITLE.fullmatch(text[index]):
        return False
    before, after = text[index - 1] if index else "", text[index + 1] if index + 1 < len(text) else ""
    return not before and not after


def _articles(text: Sequence[str], titles: Sequence[int]) -> Iterator[list[str]]:
    """One document an article; heads are left out, as they are no sentences."""
    for start, end in zip(titles, [*titles[1:], len(text)], strict=True):
        body = (line for line in text[start:end] if line and not _HEAD.fullmatch(line))
        if document := [sentence for line in body for sentence in wikitext_sentences(line)]:
            yield document


def _blocks(text: Sequence[str]) -> Iterator[list[str]]:
    document: list[str] = []
    for line in [*text, ""]:
        if line:
            document += plain_sentences(line)
        elif document:
            yield document
            document = []


def wikitext_sentences(paragraph: str) -> list[str]:
    """Cut after a full stop of its own (an abbreviation's is part of its word), then undo the tokenisation."""
    sentences: list[list[str]] = [[]]
    ended = False
    for token in paragraph.split():
        current = sentences[-1]
        closes = token in _CLOSING and (token != '"' or current.count('"') % 2 == 1)
        if ended and not closes:
            if not token[0].islower():
                sentences.append([])
            ended = False
        sentences[-1].append(token)
        ended = ended or token in (".", "!", "?")
    # What has no letter or digit is a quote left alone, not a sentence.
    return [detokenised(text) for text in map(" ".join, sentences) if any(char.isalnum() for char in text)]


def detokenised(text: str) -> str:
    """WikiText's marks and spaces around punctuation undone."""
    for pattern, replacement in _DETOKENISE:
        text = pattern.sub(replacement, text)
    return text


def plain_sentences(paragraph: str) -> list[str]:
    """Cut at white space after . ! or ? before a capital or a digit."""
    marked = _SENTENCE.sub(lambda match: f"{match[1]}\n", paragraph)
    return [sentence for sentence in marked.split("\n") if sentence]
