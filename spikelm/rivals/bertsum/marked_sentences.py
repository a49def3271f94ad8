"""Texts as BERTSUM reads and writes them: [CLS] a [SEP] [CLS] b [SEP] .., and lines of a summary marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.tokens.sentence_split import sentences
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.data.tokens.tokenizer import load_tokenizer

BOS, EOS, LINE = "[unused0]", "[unused1]", "[unused2]"  # pieces that a BERT has never used, as BERTSUM takes them


@dataclass(frozen=True)
class SentenceTokenizer(TextPairTokenizer):
    """A BERT's WordPiece; `source_frame` is a sentence's [CLS] and [SEP]."""

    def encode_sources(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        (cls,), (sep,) = self.source_frame
        parts = [sentences(text) or [""] for text in texts]
        encoded = iter(self.tokenizer.encode_batch([one for some in parts for one in some], add_special_tokens=False))
        rows = [[id for _ in some for id in (cls, *next(encoded).ids, sep)] for some in parts]
        return [[*row[: max_length - 1], sep] if len(row) > max_length else row for row in rows]

    def encode_targets(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        return super().encode_targets([text.strip().replace("\n", f" {LINE} ") for text in texts], max_length)

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        return [re.sub(rf"\s*{re.escape(LINE)}\s*", "\n", text) for text in super().decode(rows)]


def sentence_tokenizer(tokenizer: Tokenizer) -> SentenceTokenizer:
    """BERTSUM's way around a BERT's tokenizer; the three marks are added where it does not have them."""
    tokenizer.add_special_tokens([BOS, EOS])
    tokenizer.add_tokens([AddedToken(LINE, normalized=False)])
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = tokenizer.get_vocab()
    pad, cls, sep, bos, eos = (ids[name] for name in ("[PAD]", "[CLS]", "[SEP]", BOS, EOS))
    return SentenceTokenizer(tokenizer, ((cls,), (sep,)), ((), (eos,)), bos, pad, eos, decoder_start=bos)


def load_sentence_tokenizer(
    task: TaskConfig, source: SourceConfig, backbone: BackboneConfig, text: LoadedText, cache: Path
) -> TextPairTokenizer:
    """The tokenizer of the pretrained BERT."""
    return sentence_tokenizer(load_tokenizer(source, backbone, cache))
