"""Pretraining text from files: WikiText or plain text as a stream of documents, which are lists of sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from spikelm.data.sources.row_files import numbered_lines
from spikelm.data.sources.streams import Documents
from spikelm.data.sources.task_files import listing, squeezed
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
            f"source.text_root={folders[0]} takes one of them",
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
            "source.text_root=DIR (with source.tokenizer=PATH/vocab.txt); weights that are given (backbone=hf "
            "backbone.path=DIR) need none with convert=first distill=imitate",
        )
    return {"train": train, **({"validation": held_out} if held_out else {})}


def _wikitexts(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and squeezed(path.name).startswith("wikitext")]


def count_documents(files: Mapping[str, list[Path]], limit: int) -> dict[str, int]:
    """How many documents each split has: at most `limit` to train on; without a held-out file the last twentieth."""
    train = sum(1 for _ in islice(_all_paragraphs(files["train"]), limit))
    if "validation" in files:
        counts = {"train": train, "validation": sum(1 for _ in _all_paragraphs(files["validation"]))}
    else:
        kept = max(0, train - max(2, train // 20))
        counts = {"train": kept, "validation": train - kept}
    for split, count in counts.items():
        if count < 2:  # the next sentence of a pair is, half of the time, another document's
            path = files.get(split, files["train"])[0]
            raise DataError(f"{path}: {count} documents for {split}, expected at least 2")
    return counts


def local_documents(files: Mapping[str, list[Path]], counts: Mapping[str, int]) -> dict[str, Documents]:
    """The documents of each split as streams over the files, cut by the counts of `count_documents`."""
    held_out, start = (files["validation"], 0) if "validation" in files else (files["train"], counts["train"])
    stop = start + counts["validation"]
    return {
        "train": Documents(lambda: islice(_all(files["train"]), counts["train"]), counts["train"]),
        "validation": Documents(lambda: islice(_all(held_out), start, stop), counts["validation"]),
    }


def _all(paths: Sequence[Path]) -> Iterator[list[str]]:
    return chain.from_iterable(map(read_documents, paths))


def _all_paragraphs(paths: Sequence[Path]) -> Iterator[list[str]]:
    """The documents without the work of cutting sentences: enough to count them."""
    return chain.from_iterable(_paragraphs(path, _titled(path)) for path in paths)


def read_documents(path: Path) -> Iterator[list[str]]:
    """The documents of one file: articles under WikiText's heads, else blocks between blank lines (BERT's format)."""
    titled = _titled(path)
    cut = wikitext_sentences if titled else plain_sentences
    for paragraphs in _paragraphs(path, titled):
        yield [sentence for paragraph in paragraphs for sentence in cut(paragraph)]


def _titled(path: Path) -> bool:
    return any(is_title for _, is_title in _marked(path))


def _paragraphs(path: Path, titled: bool) -> Iterator[list[str]]:
    """The documents of one file as lists of paragraphs, those with at least one sentence."""
    empty = True
    for document in _articles(path) if titled else _blocks(path):
        empty = False
        yield document
    if empty:
        raise DataError(f"{path} is empty: it has no sentence")


def _marked(path: Path) -> Iterator[tuple[str, bool]]:
    """Stripped lines, each with whether it is a title: ` = Title = ` between blank lines; table rows are not."""
    before, current = "", None
    for _, raw in chain(numbered_lines(path), [(0, "")]):
        after = raw.strip()
        if current is not None:
            yield current, is_title(before, current, after)
            before = current
        current = after


def is_title(before: str, line: str, after: str) -> bool:
    """Whether a line is the title of an article, by the lines around it."""
    return not before.strip() and not after.strip() and bool(_TITLE.fullmatch(line.strip()))


def _articles(path: Path) -> Iterator[list[str]]:
    """One document per article; heads are left out, as they are no sentences."""
    document: list[str] | None = None  # none before the first title
    for line, is_title in _marked(path):
        if is_title:
            if document:
                yield document
            document = []
        elif document is not None and not _HEAD.fullmatch(line) and _has_word(line):
            document.append(line)
    if document:
        yield document


def _blocks(path: Path) -> Iterator[list[str]]:
    document: list[str] = []
    for _, raw in chain(numbered_lines(path), [(0, "")]):
        if line := raw.strip():
            document.append(line)
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
    return [detokenised(text) for text in map(" ".join, sentences) if _has_word(text)]


def _has_word(text: str) -> bool:
    return any(char.isalnum() for char in text)


def detokenised(text: str, unknown: str = UNKNOWN) -> str:
    """WikiText's marks and spaces around punctuation undone, and another sign for its <unk>."""
    text = text.replace("<unk>", unknown)
    for pattern, replacement in _DETOKENISE:
        text = pattern.sub(replacement, text)
    return text


def plain_sentences(paragraph: str) -> list[str]:
    """Cut at white space after . ! or ? before a capital or a digit."""
    marked = _SENTENCE.sub(lambda match: f"{match[1]}\n", paragraph)
    return [sentence for sentence in marked.split("\n") if sentence]
