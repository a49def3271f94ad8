"""One text as the tokens that a model goes on from, and the tokens that it writes as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spikelm.catalog.kinds import LM, kind_of
from spikelm.config.settings.schema import Config
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import load_text_pair_tokenizer
from spikelm.data.tokens.marian_tokenizer import is_marian, marian_tokenizer
from spikelm.data.tokens.running_text_tokenizer import ENDS, first_token, load_text_tokenizer
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

#: any of these groups of files holds a tokenizer
FILES = (
    ("tokenizer.json",),
    ("vocab.json", "merges.txt"),
    ("tokenizer.model",),
    ("sentencepiece.bpe.model",),
)
WHOLE = 1 << 30  # tokens of a text that is not cut


@dataclass(frozen=True)
class Encoded:
    """The tokens of a text; `whole` are as many as it would have if nothing were cut."""

    ids: list[int]
    whole: int


@dataclass(frozen=True)
class TextCodec:
    """Text to tokens and back.

    `written` is given the tokens that were read and those that came after them, and says what the latter add: some
    tokenizers drop the space in front of a text, so that the latter alone would lack it.
    """

    encode: Callable[[str], Encoded]
    written: Callable[[Sequence[int], Sequence[int]], str]
    end: int | None = None  # the token that ends a text, where a model does not name one itself
    chat: Callable[[str], list[int]] | None = None  # one question in the template of the tokenizer


def codec_of_folder(folder: Path, pairs: bool) -> TextCodec:
    """That of a saved model; of an encoder-decoder (`pairs`) what is written is a text of its own."""
    if pairs and is_marian(folder):
        return _pair_codec(marian_tokenizer(folder), WHOLE)
    return _codec(_saved_tokenizer(folder), folder, pairs)


def codec_of_run(config: Config, model: Path, cache: Path) -> TextCodec:
    """That of a run: of text pairs the task's, else the one beside the weights, else that of its running text."""
    if config.task.kind == "seq2seq" and kind_of(config.backbone).seq2seq:
        text = load_text_pairs(config.task, config.source)
        pairs = load_text_pair_tokenizer(config.task, config.source, config.backbone, text, cache)
        return _pair_codec(pairs, config.task.source_length)
    if (model / "tokenizer.json").is_file() or config.task.kind == LM:
        return codec_of_folder(model, pairs=False)
    return _codec(_wrapped(load_text_tokenizer(config.source, config.backbone, cache)), model, pairs=False)


def _pair_codec(tokenizer: TextPairTokenizer, longest: int) -> TextCodec:
    def encode(text: str) -> Encoded:
        (whole,) = tokenizer.encode_sources([text], WHOLE)
        (ids,) = tokenizer.encode_sources([text], longest)
        return Encoded(ids, len(whole))

    return TextCodec(encode, lambda read, written: tokenizer.decode([written])[0], tokenizer.eos)


def _saved_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    if not any(all((folder / name).is_file() for name in names) for names in FILES):
        # transformers would give a tokenizer without a single piece
        raise DataError(f"{folder} has no tokenizer", f"put the tokenizer.json of the model into {folder}")
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    # tokenizer.json as it stands: a class by the name of the model may build the tokenizer anew, by rules of its own
    fast = (folder / "tokenizer.json").is_file()
    loader: Any = PreTrainedTokenizerFast if fast else AutoTokenizer
    try:
        tokenizer: PreTrainedTokenizerBase = loader.from_pretrained(folder)
    except Exception as error:  # tokenizers raises nothing narrower
        raise DataError(f"the tokenizer in {folder} cannot be loaded: {str(error).splitlines()[0]}") from error
    return tokenizer


def _wrapped(tokenizer: Tokenizer) -> PreTrainedTokenizerBase:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def _codec(tokenizer: PreTrainedTokenizerBase, folder: Path, pairs: bool) -> TextCodec:
    inner: Tokenizer | None = getattr(tokenizer, "backend_tokenizer", None)
    if inner is not None:  # lengths are those of the model, not of what the file was last used for
        inner.no_truncation()
        inner.no_padding()
    known = tokenizer.get_vocab()

    def decode(ids: Sequence[int]) -> str:
        text = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return str(text)

    def encode(text: str) -> Encoded:
        ids = [int(id) for id in tokenizer.encode(text)]
        if not pairs:
            ids = _behind_first(ids, text, inner, folder)
        return Encoded(ids, len(ids))

    def written(read: Sequence[int], new: Sequence[int]) -> str:
        before, all_of_it = decode(read), decode([*read, *new])
        return all_of_it[len(before) :] if all_of_it.startswith(before) else decode(new)

    def chat(question: str) -> list[int]:
        turns = [{"role": "user", "content": question}]
        text = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        return [int(id) for id in tokenizer.encode(str(text), add_special_tokens=False)]

    return TextCodec(
        encode=encode,
        written=(lambda read, new: decode(new)) if pairs else written,
        end=next((known[mark] for mark in (tokenizer.eos_token, *ENDS) if mark in known), None),
        chat=chat if tokenizer.chat_template else None,
    )


def _behind_first(ids: list[int], text: str, tokenizer: Tokenizer | None, folder: Path) -> list[int]:
    """What a decoder reads: as the tokenizer writes it, or behind the first token where nothing says how a text begins.

    Without a tokenizer_config.json nobody has said it; the perplexity of a text is measured behind that token, too.
    """
    if (ids and (folder / "tokenizer_config.json").is_file()) or tokenizer is None:
        if not ids:
            raise ConfigError("the text is empty", 'spikelm-generate RUN "a text"')
        return ids
    try:
        first = first_token(tokenizer, folder)
    except DataError as error:
        if not ids:
            raise ConfigError(f"the text is empty, and {error.what}", 'spikelm-generate RUN "a text"') from error
        return ids
    return ids if ids[:1] == [first] else [first, *ids]
