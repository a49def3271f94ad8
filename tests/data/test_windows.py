"""Windows of a perplexity: lm-evaluation-harness' own, token by token, and the text they are cut from."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tokenizers import Tokenizer

from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.data.batches.windows import evaluated_text, windows
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.tokens.bpe import train_bpe
from spikelm.errors import DataError

FIRST = 99
TEXT = (
    " = Tea = \n\n Tea is a hot @-@ brewed drink , she said . \n It costs $ 1 @,@ 000 . \n\n = = <unk> = = \n\n Yes ."
)


def harness(tokens: list[int], prefix: int, length: int, context: int) -> list[tuple[list[int], list[int]]]:
    """The definition: what a window reads, and the tokens that its last places predict."""
    pairs: list[tuple[list[int], list[int]]] = []
    predicted = 0
    while predicted < len(tokens):
        if predicted == 0:
            end = min(length, len(tokens))
            pairs.append(([prefix, *tokens[: end - 1]], tokens[:end]))
        else:
            end = min(len(tokens), predicted + length - context + 1)
            pairs.append((tokens[end - length - 1 : end - 1], tokens[predicted:end]))
        predicted = end
    return pairs


def as_pairs(batches: list[Batch]) -> list[tuple[list[int], list[int]]]:
    rows = [
        (ids.tolist(), labels.tolist())
        for batch in batches
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)
    ]
    for _, labels in rows:  # what counts is at the end
        counted = [label != IGNORED for label in labels]
        assert counted == sorted(counted)
    return [(ids, [label for label in labels if label != IGNORED]) for ids, labels in rows]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 11, 12, 13, 40])
@pytest.mark.parametrize(("window", "stride"), [(4, 4), (4, 1), (4, 2), (4, 3), (1, 1), (7, 5)])
def test_windows_are_those_of_the_harness(count: int, window: int, stride: int) -> None:
    tokens = list(range(count))
    batches = windows(np.array(tokens), FIRST, window, stride, batch=3)
    assert as_pairs(batches) == harness(tokens, FIRST, window, window - stride + 1)
    assert [token for _, predicted in as_pairs(batches) for token in predicted] == tokens
    assert all(len(batch["input_ids"]) <= 3 and batch["attention_mask"].all() for batch in batches)


def test_each_label_is_the_token_behind_its_place() -> None:
    stream = [FIRST, *range(23)]
    for batch in windows(np.arange(23), FIRST, 6, 2, batch=4):
        for ids, labels in zip(batch["input_ids"].tolist(), batch["labels"].tolist(), strict=True):
            start = stream.index(ids[0])
            assert ids == stream[start : start + len(ids)]
            assert all(label in (IGNORED, stream[start + i + 1]) for i, label in enumerate(labels))


def test_a_window_by_hand() -> None:
    (batch,) = windows(np.array([10, 11, 12, 13, 14, 15, 16]), FIRST, 3, 3, batch=8)
    assert batch["input_ids"].tolist() == [[FIRST, 10, 11], [12, 13, 14], [13, 14, 15]]
    assert batch["labels"].tolist() == [[10, 11, 12], [13, 14, 15], [IGNORED, IGNORED, 16]]
    with pytest.raises(ValueError, match="advance by 4"):
        windows(np.arange(9), FIRST, 3, 4, batch=8)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return train_bpe([TEXT], 300)


def task(**settings: object) -> TaskConfig:
    return TaskConfig(name="lm/some", kind="lm", splits={"test": ""}, **settings)  # type: ignore[arg-type]


def loaded(*documents: str) -> LoadedText:
    return LoadedText({"test": [[document] for document in documents]}, "hash")


def test_the_evaluated_text_is_the_whole_split(tokenizer: Tokenizer) -> None:
    whole = evaluated_text(loaded(TEXT, "And then ."), "test", task(), tokenizer, max_length=32)
    assert whole.text == f"{TEXT}\nAnd then ."
    assert tokenizer.decode(whole.ids.tolist(), skip_special_tokens=False) == whole.text
    assert whole.words == len(re.split(r"\s+", whole.text))
    assert whole.bytes == len(whole.text.encode())
    assert f"all {len(whole.ids)} tokens" in whole.note
    assert "windows of 32 that advance by 32" in whole.note
    assert "nothing was detokenised" in whole.note


def test_words_and_bytes_are_of_the_text_before_marks_are_undone(tokenizer: Tokenizer) -> None:
    asked = task(detokenise="wikitext", window=16, stride=8)
    undone = evaluated_text(loaded(TEXT), "test", asked, tokenizer, max_length=32)
    assert undone.text == ("= Tea =\n\nTea is a hot-brewed drink, she said.\nIt costs $1,000.\n\n== <unk> ==\n\nYes.")
    assert (undone.words, undone.bytes) == (len(re.split(r"\s+", TEXT)), len(TEXT.encode()))
    assert "windows of 16 that advance by 8" in undone.note
    assert "<unk> is as it was" in undone.note


@pytest.mark.parametrize("detokenise", ["none", "wikitext"])
def test_a_part_ends_with_a_paragraph(tokenizer: Tokenizer, detokenise: str) -> None:
    whole = evaluated_text(loaded(TEXT), "test", task(detokenise=detokenise), tokenizer, 32)
    lines = TEXT.split("\n")
    with pytest.raises(DataError, match="first paragraph"):
        evaluated_text(loaded(TEXT), "test", task(detokenise=detokenise, most_tokens=1), tokenizer, 32)
    first = len(tokenizer.encode(whole.text.split("\n")[0] + "\n").ids)
    for most in range(first, len(whole.ids)):
        part = evaluated_text(loaded(TEXT), "test", task(detokenise=detokenise, most_tokens=most), tokenizer, 32)
        count = part.text.count("\n") + 1
        assert part.text == "\n".join(whole.text.split("\n")[:count])
        assert part.bytes == len("\n".join(lines[:count]).encode())
        assert len(part.ids) <= most
        assert f"the first {len(part.ids)} of {len(whole.ids)} tokens" in part.note
    everything = evaluated_text(loaded(TEXT), "test", task(most_tokens=10**6), tokenizer, 32)
    assert everything.note == evaluated_text(loaded(TEXT), "test", task(), tokenizer, 32).note
