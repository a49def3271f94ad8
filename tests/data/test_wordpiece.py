"""The WordPiece tokenizer: ids, pair layout, determinism, and how the micro-world looks in pieces."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from spikelm.data.microworld import DEFAULT_ROWS, TASKS, documents, glue
from spikelm.data.tokens.wordpiece import SPECIAL_TOKENS, fast_tokenizer, train_wordpiece


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return [sentence for document in documents(1500) for sentence in document]


@pytest.fixture(scope="module")
def tokenizer(corpus: list[str]) -> Tokenizer:
    return train_wordpiece(corpus, 1000)


def test_special_tokens_come_first(tokenizer: Tokenizer) -> None:
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert tokenizer.get_vocab_size() <= 1000


def test_a_pair_is_laid_out_as_bert_reads_it(tokenizer: Tokenizer) -> None:
    pair = tokenizer.encode("Tom slept .", "ANNA slept .")
    assert pair.tokens[0] == "[CLS]"
    assert pair.tokens[1] == "tom"
    assert [index for index, token in enumerate(pair.tokens) if token == "[SEP]"][-1] == len(pair.tokens) - 1
    first = pair.tokens.index("[SEP]") + 1
    assert pair.type_ids == [0] * first + [1] * (len(pair.tokens) - first)
    assert "anna" in pair.tokens


def test_training_twice_gives_the_same_tokenizer(corpus: list[str], tokenizer: Tokenizer) -> None:
    assert train_wordpiece(corpus, 1000).to_str() == tokenizer.to_str()


def test_unknown_letters_become_the_unknown_token(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("ωω").tokens == ["[CLS]", "[UNK]", "[SEP]"]


def test_transformers_reads_the_same_ids(tokenizer: Tokenizer) -> None:
    fast = fast_tokenizer(tokenizer, 64)
    expected = tokenizer.encode("tom gave anna the ball .", "did anna get it ?")
    found = fast("tom gave anna the ball .", "did anna get it ?")
    assert found["input_ids"] == expected.ids
    assert found["token_type_ids"] == expected.type_ids
    assert (fast.pad_token_id, fast.mask_token_id) == (0, 4)


@pytest.mark.parametrize("task", TASKS)
def test_every_row_fits_and_words_are_whole(task: str, tokenizer: Tokenizer) -> None:
    counts = dict.fromkeys(DEFAULT_ROWS[task], 0) | {"train": 400}
    rows = [[value for value in row.values() if isinstance(value, str)] for row in glue(task, rows=counts)["train"]]
    encoded = tokenizer.encode_batch([tuple(texts) if len(texts) == 2 else texts[0] for texts in rows])
    lengths = [len(item.ids) for item in encoded]
    assert max(lengths) <= 64
    assert sum(length <= 32 for length in lengths) > 0.8 * len(lengths)
    pieces = [token for item in encoded for token in item.tokens]
    assert "[UNK]" not in pieces
    assert sum(piece.startswith("##") for piece in pieces) < 0.01 * len(pieces)
