"""The tokenizer of a Marian: SentencePiece for either language, and one vocabulary that numbers the pieces of both."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from spikelm.data.tokens.text_pair_tokenizer import Frame, TextPairTokenizer
from spikelm.errors import DataError

SOURCE, TARGET, VOCABULARY = "source.spm", "target.spm", "vocab.json"
SPACE = "\u2581"  # how SentencePiece writes a space in front of a word
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
SETTINGS = "tokenizer_config.json"
CODE = re.compile(r">>(.+)<<")  # a piece that is a language's code
SHOWN = 12  # codes in a message
UNIGRAM = 1  # SentencePiece's number of that model


@dataclass(frozen=True)
class MarianTokenizer(TextPairTokenizer):
    """`tokenizer` is that of the sources. Both sides are x </s>, and the decoder starts from <pad>.

    One that writes several languages reads the code of one in front of a source: >>fr<< x </s>.
    """

    targets: Tokenizer
    ids: dict[str, int]  # of the vocabulary, by piece
    pieces: dict[int, str]

    @property
    def vocab_size(self) -> int:
        return len(self.ids)

    @property
    def facts(self) -> dict[str, Any]:
        told = json.dumps([self.targets.to_str(), self.ids])
        return {**super().facts, "pieces": hashlib.sha256(told.encode()).hexdigest()}

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self._numbered(self.tokenizer, texts)

    def target_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self._numbered(self.targets, texts)

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        special = {self.pad, self.eos, self.ids[UNKNOWN]}
        told = ("".join(self.pieces[int(id)] for id in row if id >= 0 and int(id) not in special) for row in rows)
        return [text.replace(SPACE, " ").strip() for text in told]

    def _numbered(self, tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the common vocabulary; a piece that only SentencePiece has is unknown, as in transformers."""
        unknown = self.ids[UNKNOWN]
        encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [[self.ids.get(piece, unknown) for piece in encoding.tokens] for encoding in encodings]


def is_marian(folder: Path) -> bool:
    """Whether the tokenizer in a folder of weights is a Marian's."""
    return (folder / SOURCE).is_file()


def marian_tokenizer(folder: Path, languages: Sequence[str] = ()) -> MarianTokenizer:
    """The tokenizer beside a Marian's weights, for texts of one language and translations into another."""
    if missing := [name for name in (SOURCE, TARGET, VOCABULARY) if not (folder / name).is_file()]:
        raise DataError(f"{folder} has no {missing[0]}", f"put the weights' own {missing[0]} beside them")
    try:
        ids: dict[str, int] = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        pad, eos = ids[PAD], ids[END]
        pieces = {id: piece for piece, id in ids.items()}
        assert UNKNOWN in ids
    except (ValueError, AttributeError, KeyError, AssertionError) as error:
        raise DataError(f"{folder / VOCABULARY} is not a Marian's vocabulary: {error!r}", "fetch it again") from error
    _refuse_other_languages(folder, languages)
    frame: Frame = ((), (eos,))
    source_frame = (_code(folder, ids, languages), (eos,))
    sources, targets = (_sentencepiece(folder / name) for name in (SOURCE, TARGET))
    return MarianTokenizer(sources, source_frame, frame, eos, pad, eos, pad, targets, ids, pieces)


def _code(folder: Path, ids: dict[str, int], languages: Sequence[str]) -> tuple[int, ...]:
    """What stands in front of a source: the code of the target's language where the vocabulary has such codes."""
    codes = [match[1] for piece in ids if (match := CODE.fullmatch(piece))]
    wanted = languages[1] if languages else ""
    if not codes:
        return ()
    if wanted not in codes:
        shown = ", ".join(codes[:SHOWN]) + (", ..." if len(codes) > SHOWN else "")
        asked = f"is none for {wanted}" if wanted else "is no word of which"
        raise DataError(
            f"{folder} translates into the language of the code in front of a text, and there {asked}: {shown}",
            f"'task.languages=[{languages[0] if languages else 'en'},CODE]' with one of these codes",
        )
    return (ids[f">>{wanted}<<"],)


def _refuse_other_languages(folder: Path, languages: Sequence[str]) -> None:
    """Raise where the weights say that they translate other languages; groups of languages (roa) say nothing."""
    try:
        told = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        theirs = [str(told.get(key)) for key in ("source_lang", "target_lang")]
    except (OSError, ValueError, AttributeError):
        return
    ours = [language.partition("_")[0].lower() for language in languages]
    if any(len(one) == len(other) == 2 and one != other for one, other in zip(ours, theirs, strict=False)):
        raise DataError(
            f"{folder} translates {theirs[0]} to {theirs[1]} ({SETTINGS}), and the task {ours[0]} to {ours[1]}",
            f"backbone.path=FOLDER of a translator from {ours[0]} to {ours[1]}, or another task",
        )


def _sentencepiece(file: Path) -> Tokenizer:
    """A SentencePiece model of the unigram kind as a fast tokenizer, which gives the same pieces."""
    from google.protobuf.message import DecodeError
    from transformers.convert_slow_tokenizer import import_protobuf

    model = import_protobuf().ModelProto()
    try:
        model.ParseFromString(file.read_bytes())
    except DecodeError as error:
        raise DataError(f"{file} is no SentencePiece model: {error}", "fetch it again") from error
    if model.trainer_spec.model_type != UNIGRAM:
        raise DataError(f"{file} is not of SentencePiece's unigram kind, which a Marian's is", "other weights")
    scores = [(piece.piece, piece.score) for piece in model.pieces]
    tokenizer = Tokenizer(models.Unigram(scores, model.trainer_spec.unk_id, byte_fallback=False))
    steps = [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if model.normalizer_spec.precompiled_charsmap:
        steps.insert(0, normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, "always", split=False)
    return tokenizer
