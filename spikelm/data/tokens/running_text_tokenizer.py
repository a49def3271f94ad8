"""The tokenizer of running text: that of the weights, or a byte-level BPE; the marks that begin and end a text."""

from __future__ import annotations

import json
import shutil
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
from spikelm.data.sources.running_text import undone
from spikelm.data.sources.source_identity import tokenizer_file
from spikelm.data.sources.streams import Documents, Stream
from spikelm.data.tokens.bpe import tokenizer_of_weights, train_bpe
from spikelm.data.tokens.tokenizer import TOKENIZER_DOCUMENTS, trained_once
from spikelm.errors import DataError

#: what ends a text: of GPT-2, Qwen and SmolLM; of Llama 1 and 2, and of a tokenizer trained here; of Llama 3, of Gemma;
#: a chat's end of a turn comes last, as its tokenizers mostly have one of the others too
ENDS = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "<|im_end|>")

#: files that tell how a tokenizer is used, beside its tokenizer.json
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


def end_of_text(tokenizer: Tokenizer) -> str:
    """The mark between documents that a tokenizer knows."""
    known = tokenizer.get_vocab()
    for mark in ENDS:
        if mark in known:
            return mark
    raise DataError(
        f"the tokenizer has no mark that ends a text: it lacks {', '.join(ENDS)}",
        "take the tokenizer.json of a language model",
    )


def first_token(tokenizer: Tokenizer, folder: Path | None) -> int:
    """The token that a text is read behind: the one that begins a text by the files of the weights, else its end mark.

    `folder` is that of the weights, none for a model from scratch.
    """
    known = tokenizer.get_vocab()
    ids = set(known.values())
    if folder is not None:
        begin = _read(folder / "tokenizer_config.json").get("bos_token")
        begin = begin.get("content") if isinstance(begin, dict) else begin
        if begin in known:
            return int(known[begin])
        for name in ("generation_config.json", "config.json"):
            number = _read(folder / name).get("bos_token_id")
            if isinstance(number, int) and number in ids:
                return number
    return int(known[end_of_text(tokenizer)])


def save_lm_tokenizer(tokenizer: Tokenizer, folder: Path | None, first: int, to: Path) -> None:
    """Put the tokenizer beside a saved model, with what the weights' folder says of its marks and of chats.

    `folder` is that of the weights, none for a model from scratch; `first` is the token that a text is read behind.
    """
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(to / "tokenizer.json"))
    given = [folder / name for name in BESIDE] if folder else []
    for path in given:
        if path.is_file():
            shutil.copyfile(path, to / path.name)
    if not (to / "tokenizer_config.json").is_file():
        marks = {"bos_token": tokenizer.id_to_token(first), "eos_token": end_of_text(tokenizer)}
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **marks}
        (to / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}", "fetch the file again") from error
    return found if isinstance(found, dict) else {}


def load_text_tokenizer(source: SourceConfig, backbone: BackboneConfig, cache: Path) -> Tokenizer:
    """The tokenizer of the weights, or a byte-level BPE trained on the pretraining text."""
    if backbone.path:
        return tokenizer_of_weights(backbone.path)
    if source.name == "embedded":
        return _micro_tokenizer(source, backbone, cache)
    name = f"bpe-text-{documents_hash(source, cache)[:16]}-{backbone.vocab}"
    documents = load_documents(source, cache).splits["train"]
    return trained_once(cache, name, lambda: train_bpe(_joined(documents), backbone.vocab))


def load_lm_tokenizer(
    task: TaskConfig, source: SourceConfig, backbone: BackboneConfig, text: LoadedText, cache: Path
) -> Tokenizer:
    """The tokenizer of the weights, a tokenizer.json of the user's, or a BPE trained on the task's training text.

    `text` is that of `load_running_text`; its marks are undone before pieces are counted, where the task says so.
    """
    if backbone.path:
        return tokenizer_of_weights(backbone.path)
    if source.tokenizer:
        return Tokenizer.from_file(str(tokenizer_file(source.tokenizer)))
    if source.name == "embedded":
        return _micro_tokenizer(source, backbone, cache)
    documents, detokenise = text.splits["train"], task.detokenise
    texts = Stream(lambda: (undone(document[0], detokenise) for document in documents))
    name = f"bpe-lm-{text.content_hash[:16]}-{detokenise}-{backbone.vocab}"
    return trained_once(cache, name, lambda: train_bpe(texts, backbone.vocab))


def _micro_tokenizer(source: SourceConfig, backbone: BackboneConfig, cache: Path) -> Tokenizer:
    """The same however many documents are read."""
    name = f"bpe-text-v{microworld.VERSION}-seed{source.seed}-{backbone.vocab}"

    def train() -> Tokenizer:
        return train_bpe(_joined(microworld.documents(TOKENIZER_DOCUMENTS, source.seed)), backbone.vocab)

    return trained_once(cache, name, train)


def _joined(documents: Iterable[list[str]]) -> Stream[str]:
    return Stream(lambda: (" ".join(document) for document in documents))


def marked(text: LoadedText, end: str) -> LoadedText:
    """The documents with a space before each sentence but the first, and the mark after the last."""

    def one(document: list[str]) -> list[str]:
        spaced = [f" {sentence}" if number else sentence for number, sentence in enumerate(document)]
        return [*spaced[:-1], spaced[-1] + end] if spaced else [end]

    def documents(some: Any) -> Documents:
        return Documents(lambda: (one(document) for document in some), len(some))

    return replace(text, splits={split: documents(some) for split, some in text.splits.items()})
