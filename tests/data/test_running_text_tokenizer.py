"""The tokenizer of running text: the marks around a text, where it comes from, and the batches it trains on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models

from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.data.sources.running_text import load_running_text, training_text
from spikelm.data.tokens.bpe import train_bpe
from spikelm.data.tokens.cache import encoded_documents
from spikelm.data.tokens.running_text_tokenizer import (
    end_of_text,
    first_token,
    load_lm_tokenizer,
    load_text_tokenizer,
)
from spikelm.errors import DataError

TEXT = "The cat sat .\nThe dog @-@ like cat left , and sat .\n"


def knows(*marks: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    tokenizer.add_special_tokens(list(marks))
    return tokenizer


def backbone(vocab: int = 300, **settings: Any) -> BackboneConfig:
    return BackboneConfig(name="some", kind="gpt2", vocab=vocab, **settings)


def lm(name: str = "lm/text", **settings: Any) -> TaskConfig:
    return TaskConfig(name=name, kind="lm", splits={"validation": ""}, **settings)


@pytest.mark.parametrize(
    ("marks", "end"),
    [
        (["<|endoftext|>"], "<|endoftext|>"),
        (["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|endoftext|>"),
        (["<s>", "</s>", "<unk>"], "</s>"),
        (["<|begin_of_text|>", "<|end_of_text|>"], "<|end_of_text|>"),
        (["<bos>", "<eos>"], "<eos>"),
        (["<|im_start|>", "<|im_end|>"], "<|im_end|>"),
    ],
)
def test_the_mark_that_ends_a_text(marks: list[str], end: str) -> None:
    assert end_of_text(knows(*marks)) == end


def test_a_tokenizer_without_such_a_mark_is_refused() -> None:
    with pytest.raises(DataError, match="no mark that ends a text"):
        end_of_text(knows("[SEP]"))


@pytest.mark.parametrize(
    ("files", "first"),
    [
        ({}, "</s>"),
        ({"tokenizer_config": {"bos_token": "<s>"}, "config": {"bos_token_id": 0}}, "<s>"),
        ({"tokenizer_config": {"bos_token": {"content": "<s>", "lstrip": False}}}, "<s>"),
        ({"tokenizer_config": {"bos_token": None}, "config": {"bos_token_id": 2}}, "<s>"),
        ({"generation_config": {"bos_token_id": 2}, "config": {"bos_token_id": 3}}, "<s>"),
        ({"config": {"bos_token_id": 50256}}, "</s>"),  # of another vocabulary
        ({"config": {"bos_token_id": None}}, "</s>"),
    ],
)
def test_the_token_that_a_text_is_read_behind(tmp_path: Path, files: dict[str, Any], first: str) -> None:
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    tokenizer = knows("<s>", "</s>")
    assert tokenizer.id_to_token(first_token(tokenizer, tmp_path)) == first
    assert tokenizer.id_to_token(first_token(tokenizer, None)) == "</s>"


def test_a_damaged_file_of_the_weights_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(DataError, match=r"tokenizer_config.json is not JSON"):
        first_token(knows("</s>"), tmp_path)


def test_the_weights_bring_their_own_and_a_user_may_name_one(tmp_path: Path) -> None:
    given = train_bpe([TEXT], 280)
    given.save(str(tmp_path / "tokenizer.json"))
    source = SourceConfig(name="local", root=str(tmp_path), tokenizer=str(tmp_path / "tokenizer.json"))
    (tmp_path / "some.txt").write_text(TEXT)
    text = load_running_text(lm(), source)
    named = load_lm_tokenizer(lm(), source, backbone(), text, tmp_path / "cache")
    of_weights = load_lm_tokenizer(lm(), source, backbone(path=str(tmp_path)), text, tmp_path / "cache")
    assert named.to_str() == of_weights.to_str() == given.to_str()


def test_it_is_trained_on_the_text_as_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(TEXT * 9)
    (tmp_path / "valid.txt").write_text("zzzz zzzz zzzz zzzz\n")
    source, cache = SourceConfig(name="local", root=str(tmp_path)), tmp_path / "cache"
    text = load_running_text(lm(), source)
    read = [load_lm_tokenizer(lm(detokenise=how), source, backbone(), text, cache) for how in ("none", "wikitext")]
    pieces = [set(tokenizer.get_vocab()) for tokenizer in read]
    assert not any("zz" in found for found in pieces), "what is evaluated is not looked at"
    assert "@-" in "".join(pieces[0] - pieces[1])
    expected = train_bpe([(TEXT * 9).removesuffix("\n")], 300)
    assert read[0].to_str() == expected.to_str()


def test_the_micro_world_has_one_for_all(tmp_path: Path) -> None:
    source = SourceConfig(name="embedded", documents=40)
    text = load_running_text(lm("lm/embedded"), source)
    own = load_lm_tokenizer(lm("lm/embedded"), source, backbone(400), text, tmp_path)
    assert own.to_str() == load_text_tokenizer(source, backbone(400), tmp_path).to_str()


def test_batches_are_stretches_of_the_running_text(tmp_path: Path) -> None:
    """Every window but the one at the text's end is full, and is found in the text with its marks."""
    sentences = [f"Cat number {number} sat on the mat." for number in range(40)]
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text("\n".join(sentences[number * 5 : number * 5 + 5]))
    source, cache, length = SourceConfig(name="local", root=str(tmp_path)), tmp_path / "cache", 16
    text = load_running_text(lm(), source)
    tokenizer = load_lm_tokenizer(lm(), source, backbone(), text, cache)
    end = end_of_text(tokenizer)
    trained = training_text(text, "none", end)
    documents = encoded_documents(trained, "train", tokenizer, cache)
    stream = "".join(document[0] for document in trained.splits["train"])
    assert tokenizer.decode(documents.ids.tolist(), skip_special_tokens=False) == stream
    assert documents.ids.tolist().count(tokenizer.get_vocab()[end]) == len(documents)
    batches = CausalBatches(documents, tokenizer, seed=1, batch=4, max_length=length, across=True)
    rows = []
    for step in range(batches.steps_per_epoch):
        batch = batches[step]
        for ids, mask in zip(batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True):
            rows.append(ids[: sum(mask)])
    ids = documents.ids.tolist()
    places = [next(i for i in range(len(ids)) if ids[i : i + len(row)] == row) for row in rows]
    starts = [start for d in range(len(documents)) for start in range(*documents.bounds(d), length)]
    assert len(rows) == len(starts)
    assert set(starts) <= set(places) | {s for s in starts if len(ids) - s < 2}
    assert all(len(row) == length or place + len(row) == len(ids) for row, place in zip(rows, places, strict=True))
