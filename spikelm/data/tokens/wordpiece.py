"""Training a BERT-uncased WordPiece tokenizer on a small corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS: tuple[str, ...] = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _empty_tokenizer(vocabulary: dict[str, int], lowercase: bool = True) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def _letters(texts: Iterable[str], tokenizer: Tokenizer, most: int) -> list[str]:
    """The `most` commonest letters after normalisation, in order."""
    raw = Counter(char for text in texts for char in text)
    counts: Counter[str] = Counter()
    for char, count in raw.items():
        for letter in tokenizer.normalizer.normalize_str(char):
            if not letter.isspace():
                counts[letter] += count
    kept = sorted(counts, key=lambda letter: (-counts[letter], letter))[:most]
    return sorted(kept)


def train_wordpiece(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """A WordPiece tokenizer with BERT's normalisation, special tokens and pair template; reads the texts twice."""
    if isinstance(texts, Iterator):  # it could be read once only
        texts = list(texts)
    trained = _empty_tokenizer({})
    # A letter is up to two pieces (start and continuation): rare ones must not take the place of words.
    letters = _letters(texts, trained, most=max(1, vocab_size // 4))
    alphabet = letters + [f"##{letter}" for letter in letters if letter.isalnum()]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        # The trainer breaks ties by id and numbers letters in hash order: fixed here, as specials.
        special_tokens=[*SPECIAL_TOKENS, *alphabet],
        continuing_subword_prefix="##",
        show_progress=False,
        initial_alphabet=letters,
        limit_alphabet=len(letters),
    )
    trained.train_from_iterator(texts, trainer)
    return wordpiece(trained.get_vocab())


def wordpiece(vocabulary: dict[str, int], lowercase: bool = True) -> Tokenizer:
    """A WordPiece tokenizer over a finished vocabulary."""
    tokenizer = _empty_tokenizer(vocabulary, lowercase)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def fast_tokenizer(tokenizer: Tokenizer, max_length: int) -> PreTrainedTokenizerFast:
    """The same tokenizer as transformers' models take it, saved beside an exported model."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
