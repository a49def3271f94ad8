"""The marks that a tokenizer puts around sentences: BERT's or RoBERTa's."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Tokenizer

from spikelm.errors import DataError


@dataclass(frozen=True)
class Marks:
    """Ids of the start and end of a row; `segments`: whether two sentences of a row are told apart by segment ids."""

    start: int
    end: int
    segments: bool


def marks_of(tokenizer: Tokenizer) -> Marks:
    """[CLS] and [SEP] with segments, as BERT has it, or <s> and </s> without, as RoBERTa."""
    ids = tokenizer.get_vocab()
    for start, end, segments in (("[CLS]", "[SEP]", True), ("<s>", "</s>", False)):
        if start in ids and end in ids:
            return Marks(ids[start], ids[end], segments)
    raise DataError("the tokenizer has neither [CLS] and [SEP] nor <s> and </s>", "take the tokenizer of the weights")
