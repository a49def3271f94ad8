"""Batches of pairs: transformers' shift, masked labels, resumable order, shares of several devices, the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.models.bart.modeling_bart import shift_tokens_right as bart_shift
from transformers.models.mbart.modeling_mbart import shift_tokens_right as mbart_shift

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import shard_batch
from spikelm.data.batches.text_pair_batches import (
    TextPairBatches,
    evaluation_text_pairs,
    text_pair_batch,
)
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens import cache as caching
from spikelm.data.tokens.bpe import text_pair_tokenizer, train_bpe
from spikelm.data.tokens.cache import encoded_text_pairs
from spikelm.data.tokens.encode import EncodedTextPairs, encode_text_pairs
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer

CODES = ("en_XX", "ro_RO")


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config(["task=mt/wmt16_enro", "source.train_rows=70", "source.dev_rows=20"])


@pytest.fixture(scope="module", params=["bart", "mbart"])
def made(request: pytest.FixtureRequest, config: Config) -> tuple[EncodedTextPairs, TextPairTokenizer]:
    rows = load_text_pairs(config.task, config.source).splits["train"]
    codes = CODES if request.param == "mbart" else ()
    tokenizer = text_pair_tokenizer(train_bpe([text for row in rows for text in row.values()], 500, codes), codes)
    return encode_text_pairs(config.task, rows, tokenizer), tokenizer


Made = tuple[EncodedTextPairs, TextPairTokenizer]


def test_the_decoder_reads_what_transformers_would_give_it(made: Made) -> None:
    data, tokenizer = made
    for step in range(3):
        batch = TextPairBatches(data, tokenizer, seed=1, batch=8)[step]
        padded = batch["labels"].masked_fill(batch["labels"] == -100, tokenizer.pad)
        if tokenizer.decoder_start == tokenizer.eos:
            wanted = bart_shift(padded, tokenizer.pad, tokenizer.eos)
        else:
            wanted = mbart_shift(padded, tokenizer.pad)
        assert torch.equal(batch["decoder_input_ids"], wanted)


def test_texts_and_rows_stay_together(made: Made, config: Config) -> None:
    data, tokenizer = made
    rows = load_text_pairs(config.task, config.source).splits["train"]
    batch = text_pair_batch(data, [5, 0, 17], tokenizer)
    assert batch["rows"].tolist() == [5, 0, 17]
    assert tokenizer.decode(batch["input_ids"].tolist()) == [rows[index]["en"] for index in (5, 0, 17)]
    assert tokenizer.decode(batch["labels"].tolist()) == [rows[index]["ro"] for index in (5, 0, 17)]
    assert ((batch["input_ids"] == tokenizer.pad) == (batch["attention_mask"] == 0)).all()
    assert not (batch["labels"] == tokenizer.pad).any()
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())


def test_a_batch_depends_on_seed_and_step_alone(made: Made) -> None:
    data, tokenizer = made
    whole = TextPairBatches(data, tokenizer, seed=3, batch=16)
    late = TextPairBatches(data, tokenizer, seed=3, batch=16)
    assert whole.steps_per_epoch == 5
    rows = [whole[step]["rows"].tolist() for step in range(10)]
    assert late[7]["rows"].tolist() == rows[7]
    assert [b["rows"].tolist() for b in late.loader(6, 10, workers=0)] == rows[6:]
    for epoch in (rows[:5], rows[5:]):
        assert sorted(row for batch in epoch for row in batch) == list(range(70))
    assert rows[:5] != rows[5:]
    assert TextPairBatches(data, tokenizer, seed=4, batch=16)[0]["rows"].tolist() != rows[0]


def test_pairs_of_like_length_are_together(made: Made) -> None:
    data, tokenizer = made
    spans = [np.ptp(data.lengths[TextPairBatches(data, tokenizer, 0, 8)[step]["rows"].numpy()]) for step in range(9)]
    assert np.mean(spans) < np.ptp(data.lengths) / 2


def test_devices_share_a_batch_and_its_mean(made: Made) -> None:
    data, tokenizer = made
    whole = TextPairBatches(data, tokenizer, 1, 9)[0]
    parts = [TextPairBatches(data, tokenizer, 1, 9, shard=(rank, 2))[0] for rank in range(2)]
    assert sorted(parts[0]["rows"].tolist() + parts[1]["rows"].tolist()) == sorted(whole["rows"].tolist())
    # A value for each label token: the ranks' means, weighted and averaged, are the mean of all.
    values = [part["labels"][part["labels"] != -100].double().mean() * part["label_share"] for part in parts]
    assert torch.isclose(sum(values) / 2, whole["labels"][whole["labels"] != -100].double().mean())
    alone = text_pair_batch(data, [3], tokenizer)
    assert [float(shard_batch(alone, rank, 2)["label_share"]) for rank in range(2)] == [2.0, 0.0]


def test_evaluation_has_every_row_once_short_sources_first(made: Made) -> None:
    data, tokenizer = made
    batches = evaluation_text_pairs(data, tokenizer, 16)
    assert sorted(row for batch in batches for row in batch["rows"].tolist()) == list(range(70))
    widths = [batch["input_ids"].shape[1] for batch in batches]
    assert widths == sorted(widths)


def test_pairs_are_tokenised_once(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = load_text_pairs(config.task, config.source)
    tokenizer = text_pair_tokenizer(train_bpe(["a b c"], 300))
    first = encoded_text_pairs(text, "validation", config.task, tokenizer, tmp_path)
    monkeypatch.setattr(caching, "encode_text_pairs", lambda *_: pytest.fail("tokenised again"))
    again = encoded_text_pairs(text, "validation", config.task, tokenizer, tmp_path)
    assert np.array_equal(first.target_ids, again.target_ids)
    assert len(again) == 20
    assert first.source(3).tolist() == tokenizer.encode_sources([text.splits["validation"][3]["en"]], 48)[0]
    other = text_pair_tokenizer(train_bpe(["a b c"], 300, CODES), CODES)
    with pytest.raises(pytest.fail.Exception, match="tokenised again"):
        encoded_text_pairs(text, "validation", config.task, other, tmp_path)
