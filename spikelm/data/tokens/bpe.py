"""The tokenizer of text pairs, a byte-level BPE: BART's or mBART's special tokens around a source and a target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from spikelm.catalog.checkpoint_files import weights_folder
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data import microworld
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.source_identity import tokenizer_file
from spikelm.data.tokens.marian_tokenizer import is_marian, marian_tokenizer
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.data.tokens.tokenizer import trained_once
from spikelm.errors import ConfigError, DataError

SPECIAL_TOKENS: tuple[str, ...] = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # ids 0 to 4, as BART's
TOKENIZER_ROWS = 20_000  # of the training rows, that pieces are counted in
OTHER_FILES = (("vocab.json", "merges.txt"), ("sentencepiece.bpe.model",))  # BART's and mBART's, without tokenizer.json
BYTES = 256  # each is a piece: any text can be written, and read back as it was


def text_pair_tokenizer(tokenizer: Tokenizer, languages: Sequence[str] = ()) -> TextPairTokenizer:
    """BART's way around a tokenizer, or mBART's where it knows the languages."""
    ids: dict[str, int] = tokenizer.get_vocab()
    missing = [name for name in ("<s>", "<pad>", "</s>") if name not in ids]
    if missing:
        raise DataError(f"the tokenizer is neither BART's nor mBART's: it lacks {', '.join(missing)}")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    bos, pad, eos = (ids[name] for name in ("<s>", "<pad>", "</s>"))
    if languages and all(code in ids for code in languages):
        source, target = (((), (eos, ids[code])) for code in languages)
        return TextPairTokenizer(tokenizer, source, target, bos, pad, eos, decoder_start=ids[languages[1]])
    frame = ((bos,), (eos,))
    return TextPairTokenizer(tokenizer, frame, frame, bos, pad, eos, decoder_start=eos)


def train_bpe(texts: Iterable[str], vocab_size: int, languages: Sequence[str] = ()) -> Tokenizer:
    """A byte-level BPE: case, accents and spaces stay as they are."""
    specials = [*SPECIAL_TOKENS, *languages]
    if vocab_size < BYTES + len(specials):
        raise ConfigError(
            f"backbone.vocab={vocab_size} is too small: {BYTES} bytes and {', '.join(specials)} need a piece each"
        )
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=specials,
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load_text_pair_tokenizer(
    task: TaskConfig, source: SourceConfig, backbone: BackboneConfig, text: LoadedText, cache: Path
) -> TextPairTokenizer:
    """The backbone's own, a tokenizer.json of the user's, or one trained on both sides of the task's training rows."""
    if backbone.path and is_marian(folder := weights_folder(backbone.path)):
        return marian_tokenizer(folder, task.languages)
    if backbone.path:
        return text_pair_tokenizer(tokenizer_of_weights(backbone.path), task.languages)
    if source.tokenizer:
        return text_pair_tokenizer(Tokenizer.from_file(str(tokenizer_file(source.tokenizer))), task.languages)
    own = task.name.rpartition("/")[2]
    if source.name == "embedded":  # the same for any number of rows trained on
        name = f"bpe-{own}-v{microworld.SEQ2SEQ_VERSION}-seed{source.seed}-{backbone.vocab}"
    else:
        name = f"bpe-{own}-{text.content_hash[:16]}-{backbone.vocab}"

    def train() -> Tokenizer:
        return train_bpe(tokenizer_texts(task, source, text), backbone.vocab, task.languages)

    return text_pair_tokenizer(trained_once(cache, name, train), task.languages)


def tokenizer_texts(task: TaskConfig, source: SourceConfig, text: LoadedText) -> list[str]:
    """Both sides of the training rows that a tokenizer is trained on: of the micro-world all, however few are read."""
    if "train" not in text.splits:
        raise DataError(f"{task.name} has no rows to train a tokenizer on", "source.tokenizer=tokenizer.json")
    rows = text.splits["train"][:TOKENIZER_ROWS]
    if source.name == "embedded":
        rows = microworld.seq2seq(task.name.rpartition("/")[2], source.seed, {"validation": 0, "test": 0})["train"]
    return [row[column] for row in rows for column in task.columns]


def tokenizer_of_weights(path: str) -> Tokenizer:
    """The tokenizer that the weights were trained with: tokenizer.json beside them, or made from their other files."""
    folder = weights_folder(path)
    if (file := folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(file))
    if not any(all((folder / name).is_file() for name in names) for names in OTHER_FILES):
        # transformers would give a tokenizer without a single piece
        raise DataError(f"backbone.path={path} has no tokenizer", f"put its tokenizer.json into {folder}")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder).backend_tokenizer
