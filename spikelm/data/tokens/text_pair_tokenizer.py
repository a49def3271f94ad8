"""What stands between the texts of a pair and their ids: a tokenizer, and the special tokens around either text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer

Frame = tuple[tuple[int, ...], tuple[int, ...]]  # ids before and after a text


@dataclass(frozen=True)
class TextPairTokenizer:
    """Texts to ids and back. BART: <s> x </s>, both sides; mBART: x </s> en_XX and y </s> ro_RO."""

    tokenizer: Tokenizer
    source_frame: Frame
    target_frame: Frame
    bos: int
    pad: int
    eos: int
    decoder_start: int  # the first token that the decoder reads: </s>, or the code of the target's language

    @property
    def vocab_size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def facts(self) -> dict[str, Any]:
        """What decides the ids beside `tokenizer`."""
        return {"frames": [self.source_frame, self.target_frame]}

    def encode_sources(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Each source in its frame, the text cut so that both fit."""
        return _framed(self.source_ids(texts), self.source_frame, max_length)

    def encode_targets(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Each target in its frame: the labels."""
        return _framed(self.target_ids(texts), self.target_frame, max_length)

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The texts alone."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def target_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The same of targets."""
        return self.source_ids(texts)

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Texts without special tokens; negative ids (labels that do not count) are left out."""
        cleaned = [[int(id) for id in row if id >= 0] for row in rows]
        texts: list[str] = self.tokenizer.decode_batch(cleaned, skip_special_tokens=True)
        return texts


def _framed(rows: Iterable[Sequence[int]], frame: Frame, max_length: int) -> list[list[int]]:
    before, after = frame
    room = max_length - len(before) - len(after)
    return [[*before, *ids[:room], *after] for ids in rows]
