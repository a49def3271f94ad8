"""Tokenizers of pairs: exact round trips, BART's and mBART's special tokens, trained once, the hub's when named."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from spikelm.config.compose import load_config
from spikelm.data.microworld import seq2seq
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import SPECIAL_TOKENS, load_text_pair_tokenizer, text_pair_tokenizer, train_bpe
from spikelm.errors import ConfigError, DataError

ROWS = seq2seq("wmt16_enro", rows={"train": 300, "validation": 50, "test": 0})
TEXTS = [text for row in ROWS["train"] for text in row.values()]
CODES = ("en_XX", "ro_RO")


@pytest.fixture(scope="module")
def bart():
    return text_pair_tokenizer(train_bpe(TEXTS, 600))


@pytest.fixture(scope="module")
def mbart():
    return text_pair_tokenizer(train_bpe(TEXTS, 600, CODES), CODES)


EXACT = [
    *(
        "Băiatul ăsta înalt își ține câinele în țarc, așa-i?",
        "ĂÂÎȘȚ ăâîșț",
        "şţ are not șț",
        "  two  spaces \n a line ",
    ),
    *("MiXed CaSe, 'quotes' and “others”", "", "日本 🙂", "tab\there"),
]


@pytest.mark.parametrize("text", EXACT)
def test_what_is_encoded_comes_back(text: str, bart, mbart) -> None:
    for tokenizer in (bart, mbart):
        assert tokenizer.decode(tokenizer.encode_sources([text], 500)) == [text]
        assert tokenizer.decode(tokenizer.encode_targets([text], 500)) == [text]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(blacklist_categories=("Cs",)), max_size=30))
def test_any_text_comes_back(text: str) -> None:
    assume(
        not any(token in text for token in SPECIAL_TOKENS)
    )  # these are no text: a tokenizer reads them as what they are
    assert ANY.decode(ANY.encode_sources([text], 500)) == [text]


ANY = text_pair_tokenizer(train_bpe(TEXTS[:50], 300))


def test_validation_texts_come_back(bart) -> None:
    texts = [text for row in ROWS["validation"] for text in row.values()]
    assert bart.decode(bart.encode_targets(texts, 200)) == texts


def test_special_tokens_are_barts(bart, mbart) -> None:
    assert [bart.tokenizer.token_to_id(name) for name in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert [mbart.tokenizer.token_to_id(name) for name in (*SPECIAL_TOKENS, *CODES)] == [0, 1, 2, 3, 4, 5, 6]
    (ids,) = bart.encode_sources(["Ana"], 20)
    assert (ids[0], ids[-1], bart.decoder_start, bart.pad) == (0, 2, 2, 1)
    source, target = mbart.encode_sources(["Ana"], 20)[0], mbart.encode_targets(["Ana"], 20)[0]
    assert source[-2:] == [2, 5]
    assert target[-2:] == [2, 6]
    assert source[:-2] == target[:-2]
    assert mbart.decoder_start == 6


def test_a_cut_keeps_the_special_tokens(bart, mbart) -> None:
    text = "The tired children were sleeping in the garden behind the old church."
    short = bart.encode_sources([text], 8)[0]
    assert (len(short), short[0], short[-1]) == (8, 0, 2)
    assert mbart.encode_targets([text], 8)[0][-2:] == [2, 6]
    assert len(mbart.encode_targets([text], 8)[0]) == 8


def test_the_same_texts_train_the_same_pieces_in_any_process(tmp_path: Path) -> None:
    code = (
        "from spikelm.data.microworld import seq2seq; from spikelm.data.tokens.bpe import train_bpe\n"
        "rows = seq2seq('wmt16_enro', rows={'train': 200, 'validation': 0, 'test': 0})['train']\n"
        "print(train_bpe([t for r in rows for t in r.values()], 500).to_str())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": n}, capture_output=True, check=True
        ).stdout
        for n in ("1", "2", "3")
    }
    assert len(told) == 1


def test_a_vocabulary_below_the_bytes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"backbone.vocab=200 is too small: 256 bytes"):
        train_bpe(TEXTS, 200)


def test_it_is_trained_once_and_for_any_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(["task=mt/wmt16_enro", "source.train_rows=20", "source.dev_rows=5", "backbone.vocab=400"])
    text = load_text_pairs(config.task, config.source)
    first = load_text_pair_tokenizer(config.task, config.source, config.backbone, text, tmp_path)
    assert first.vocab_size == 400
    assert first.decoder_start == 6
    monkeypatch.setattr("spikelm.data.tokens.bpe.train_bpe", lambda *_: pytest.fail("trained again"))
    again = load_text_pair_tokenizer(config.task, replace(config.source, train_rows=9), config.backbone, text, tmp_path)
    assert again.tokenizer.to_str() == first.tokenizer.to_str()


def test_weights_bring_their_own(tmp_path: Path, mbart) -> None:
    config = load_config(["task=mt/wmt16_enro", "source.train_rows=20", "source.dev_rows=5"])
    text = load_text_pairs(config.task, config.source)
    mbart.tokenizer.save(str(tmp_path / "tokenizer.json"))
    backbone = replace(config.backbone, path=str(tmp_path))
    found = load_text_pair_tokenizer(config.task, config.source, backbone, text, tmp_path / "cache")
    assert found.tokenizer.to_str() == mbart.tokenizer.to_str()
    source = replace(config.source, name="local", tokenizer=str(tmp_path))
    assert load_text_pair_tokenizer(config.task, source, config.backbone, text, tmp_path / "cache").vocab_size == 600
    with pytest.raises(DataError, match="neither BART's nor mBART's"):
        text_pair_tokenizer(Tokenizer(models.BPE()))
    hub = replace(config.backbone, path="facebook/bart-nowhere")
    with pytest.raises(ConfigError, match=r"backbone.path=facebook/bart-nowhere is no folder"):
        load_text_pair_tokenizer(config.task, config.source, hub, text, tmp_path / "cache")


def test_the_frames_are_those_of_transformers(mbart) -> None:
    """The id layout of MBartTokenizer: x </s> code on both sides."""
    from transformers import MBartTokenizer

    theirs = MBartTokenizer(src_lang="en_XX", tgt_lang="ro_RO")
    eos, english, romanian = theirs.convert_tokens_to_ids(["</s>", "en_XX", "ro_RO"])
    assert (theirs.prefix_tokens, theirs.suffix_tokens) == ([], [eos, english])
    theirs.set_tgt_lang_special_tokens("ro_RO")
    assert (theirs.prefix_tokens, theirs.suffix_tokens) == ([], [eos, romanian])
    ours = text_pair_tokenizer(theirs.backend_tokenizer, CODES)
    assert ours.source_frame == ((), (eos, english))
    assert ours.target_frame == ((), (eos, romanian))
    assert ours.decoder_start == romanian
