"""Running text for a GPT-2: its tokenizer, documents that each end with a mark, and prompts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.documents import documents_hash, load_documents
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.streams import Documents, Stream
from spikelm.data.tokens.bpe import TextPairTokenizer, tokenizer_of_weights, train_bpe
from spikelm.data.tokens.tokenizer import TOKENIZER_DOCUMENTS, trained_once
from spikelm.errors import DataError

PROMPT = "\nTL;DR:"
ENDS = ("<|endoftext|>", "</s>")  # GPT-2's mark, and that of a tokenizer trained here


def end_of_text(tokenizer: Tokenizer) -> str:
    """The mark between documents that a tokenizer knows."""
    known = tokenizer.get_vocab()
    for mark in ENDS:
        if mark in known:
            return mark
    raise DataError(f"the tokenizer is not GPT-2's: it lacks {ENDS[0]}")


def load_text_tokenizer(source: SourceConfig, backbone: BackboneConfig, cache: Path) -> Tokenizer:
    """The tokenizer of the weights, or a byte-level BPE trained on the pretraining text."""
    if backbone.path:
        return tokenizer_of_weights(backbone.path)
    if source.name == "embedded":
        name = f"bpe-text-v{microworld.VERSION}-seed{source.seed}-{backbone.vocab}"
        documents: Iterable[list[str]] = microworld.documents(TOKENIZER_DOCUMENTS, source.seed)
    else:
        name = f"bpe-text-{documents_hash(source, cache)[:16]}-{backbone.vocab}"
        documents = load_documents(source, cache).splits["train"]
    texts = Stream(lambda: (" ".join(document) for document in documents))
    return trained_once(cache, name, lambda: train_bpe(texts, backbone.vocab))


def marked(text: LoadedText, end: str) -> LoadedText:
    """The documents with a space before each sentence but the first, and the mark after the last."""

    def one(document: list[str]) -> list[str]:
        spaced = [f" {sentence}" if number else sentence for number, sentence in enumerate(document)]
        return [*spaced[:-1], spaced[-1] + end] if spaced else [end]

    def documents(some: Any) -> Documents:
        return Documents(lambda: (one(document) for document in some), len(some))

    return replace(text, splits={split: documents(some) for split, some in text.splits.items()})


def prompt_tokenizer(tokenizer: Tokenizer) -> TextPairTokenizer:
    """Sources as prompts: the article, cut so that the whole of "TL;DR:" is behind it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    asked = tuple(tokenizer.encode(PROMPT, add_special_tokens=False).ids)
    end = tokenizer.get_vocab()[end_of_text(tokenizer)]
    return TextPairTokenizer(tokenizer, ((), asked), ((), (end,)), bos=end, pad=end, eos=end, decoder_start=end)


def load_prompt_tokenizer(
    task: TaskConfig, source: SourceConfig, backbone: BackboneConfig, text: LoadedText, cache: Path
) -> TextPairTokenizer:
    """The language model's own tokenizer around the task's texts."""
    return prompt_tokenizer(load_text_tokenizer(source, backbone, cache))
