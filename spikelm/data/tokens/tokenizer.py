"""The tokenizer of a source: trained and cached, read from a vocab.txt, or the hub's."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from filelock import FileLock
from tokenizers import Tokenizer

from spikelm.catalog.checkpoint_files import tokenizer_folder, weights_folder
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.data import microworld
from spikelm.data.sources.documents import documents_hash, load_documents
from spikelm.data.sources.row_files import numbered_lines
from spikelm.data.sources.source_identity import vocab_file
from spikelm.data.sources.streams import Stream
from spikelm.data.sources.text_files import UNKNOWN
from spikelm.data.tokens.wordpiece import SPECIAL_TOKENS, train_wordpiece, wordpiece
from spikelm.errors import DataError
from spikelm.machine.disk import disk_errors
from spikelm.store.atomic import write_atomic
from spikelm.store.checksums import broken_seal, seal

_log = logging.getLogger(__name__)
HUB_TOKENIZER = "google-bert/bert-base-uncased@86b5e0934494bd15c9632b12f734a8a67f723594"
TOKENIZER_DOCUMENTS = 1500  # enough for every word of the micro-world; independent of how much is trained on


def load_tokenizer(source: SourceConfig, backbone: BackboneConfig, cache: Path) -> Tokenizer:
    """The backbone's own, or the embedded, local (a vocab.txt, or trained on the text) or hub's WordPiece."""
    if backbone.path:
        return _of_weights(weights_folder(backbone.path))
    if source.name == "embedded":
        name = f"wordpiece-v{microworld.VERSION}-seed{source.seed}-{backbone.vocab}"
        return trained_once(cache, name, lambda: train_wordpiece(_micro_texts(source), backbone.vocab))
    if source.tokenizer:
        return read_vocab(vocab_file(source.tokenizer))
    if source.name == "local":
        try:
            name = f"wordpiece-local-{documents_hash(source, cache)[:16]}-{backbone.vocab}"
        except DataError as error:
            raise DataError(
                f"no tokenizer: {error.what}", "source.tokenizer=PATH/vocab.txt, a BERT WordPiece vocabulary"
            ) from error
        return trained_once(cache, name, lambda: train_wordpiece(_local_texts(source, cache), backbone.vocab))
    if source.mirror:
        return _of_weights(Path(source.mirror) / HUB_TOKENIZER.partition("@")[0])
    return _of_weights(tokenizer_folder(HUB_TOKENIZER))


def _of_weights(folder: Path) -> Tokenizer:
    """The tokenizer that the weights were trained with."""
    if (folder / "tokenizer.json").is_file():
        return Tokenizer.from_file(str(folder / "tokenizer.json"))
    return read_vocab(vocab_file(str(folder)))


def trained_once(cache: Path, name: str, train: Callable[[], Tokenizer]) -> Tokenizer:
    """A tokenizer from the cache, trained and put there the first time."""
    path = cache / f"{name}.json"
    with disk_errors(cache):
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{path.name}.lock"):
            if path.exists() and (broken_seal(path) or not _readable(path)):
                _log.warning("%s is damaged (it does not match its checksum): it is made again", path)
                path.unlink()
            if not path.exists():
                text = train().to_str(pretty=True)
                seal(path, hashlib.sha256(text.encode()).hexdigest())
                write_atomic(path, text)
            return Tokenizer.from_file(str(path))


def _readable(path: Path) -> bool:
    try:
        Tokenizer.from_file(str(path))
    except Exception:  # tokenizers raises nothing narrower
        return False
    return True


def _micro_texts(source: SourceConfig) -> Iterable[str]:
    return (text for document in microworld.documents(TOKENIZER_DOCUMENTS, source.seed) for text in document)


def _local_texts(source: SourceConfig, cache: Path) -> Iterable[str]:
    documents = load_documents(source, cache).splits["train"]
    return Stream(lambda: (text.replace(UNKNOWN, " ") for document in documents for text in document))


def read_vocab(path: Path) -> Tokenizer:
    """A BERT WordPiece from its vocab.txt, one piece per line; lower-cased when no piece has a capital."""
    vocabulary: dict[str, int] = {}
    for number, piece in numbered_lines(path):
        if piece in vocabulary:
            raise DataError(f"{path} line {number}: {piece!r} is there twice, first on line {vocabulary[piece] + 1}")
        vocabulary[piece] = number - 1
    missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise DataError(f"{path} is no BERT vocabulary: it lacks {', '.join(missing)}")
    if vocabulary["[PAD]"] != 0:
        raise DataError(f"{path} line {vocabulary['[PAD]'] + 1}: [PAD] is expected on line 1, padding is id 0")
    lowercase = all(piece == piece.lower() for piece in vocabulary if not piece.startswith("["))
    return wordpiece(vocabulary, lowercase)
