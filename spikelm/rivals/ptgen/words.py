"""Whole words for the pointer-generator: a known vocabulary, and after it the names of all words that may be copied."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.streams import Stream
from spikelm.data.tokens.bpe import text_pair_tokenizer, tokenizer_texts
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.data.tokens.tokenizer import trained_once

#: a line's end is a word: highlights stay one per line
SPECIAL_TOKENS: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "\n")
REST = "<rest>"  # the first id that is not of the known vocabulary


def _words() -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _counted(texts: Iterable[str], most: int) -> list[str]:
    """The `most` commonest words, special tokens first; words as common as each other by name."""
    tokenizer = _words()
    trainer = trainers.WordLevelTrainer(vocab_size=most, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=lambda word: vocabulary[word])


def train_words(texts: Iterable[str], all_texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Ids below that of REST are known: the commonest words of `texts`; above are all other words of `all_texts`."""
    known = _counted(texts, vocab_size)
    names = set(known)
    rest = [word for word in _counted(all_texts, 2**31) if word not in names]
    tokenizer = _words()
    vocabulary = {word: index for index, word in enumerate([*known, REST, *rest])}
    tokenizer.model = models.WordLevel(vocabulary, unk_token="<unk>")
    tokenizer.add_special_tokens([*SPECIAL_TOKENS[:-1], REST])
    tokenizer.add_tokens([AddedToken("\n", lstrip=True, rstrip=True, normalized=False)])
    return tokenizer


def load_word_tokenizer(
    task: TaskConfig, source: SourceConfig, backbone: BackboneConfig, text: LoadedText, cache: Path
) -> TextPairTokenizer:
    """Trained on the task's training rows; the words to copy are those of every split that is read."""
    everything = Stream(
        lambda: (row[column] for rows in text.splits.values() for row in rows for column in task.columns)
    )
    version = microworld.SEQ2SEQ_VERSION if source.name == "embedded" else 0
    name = f"words-{task.name.rpartition('/')[2]}-{text.content_hash[:16]}-v{version}-{backbone.vocab}"
    made = trained_once(
        cache, name, lambda: train_words(tokenizer_texts(task, source, text), everything, backbone.vocab)
    )
    return text_pair_tokenizer(made)


def known_words(tokenizer: TextPairTokenizer) -> int:
    """How many words the model itself can write."""
    return tokenizer.tokenizer.get_vocab()[REST]
