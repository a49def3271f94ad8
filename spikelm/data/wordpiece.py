"""Training a BERT-uncased WordPiece tokenizer on a small corpus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS: tuple[str, ...] = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _empty_tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def _alphabet(texts: Iterable[str], tokenizer: Tokenizer) -> list[str]:
    """Every letter as the start of a word and as its continuation."""
    used = "".join(sorted({char for text in texts for char in text}))
    letters = sorted(set(tokenizer.normalizer.normalize_str(used)))
    starts = [letter for letter in letters if not letter.isspace()]
    return starts + [f"##{letter}" for letter in starts if letter.isalnum()]


def train_wordpiece(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """A WordPiece tokenizer with BERT's normalisation, special tokens and pair template."""
    texts = list(texts)
    trained = _empty_tokenizer({})
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        # The trainer breaks ties by id and numbers letters in hash order: fixed here, as specials.
        special_tokens=[*SPECIAL_TOKENS, *_alphabet(texts, trained)],
        continuing_subword_prefix="##",
        show_progress=False,
    )
    trained.train_from_iterator(texts, trainer)
    vocabulary = trained.get_vocab()
    tokenizer = _empty_tokenizer(vocabulary)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def fast_tokenizer(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """The same tokenizer as transformers' models take it."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
