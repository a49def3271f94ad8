"""Text to tokens and back: where a text begins, spaces that a tokenizer drops, texts that are cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from spikelm.config.compose import load_config
from spikelm.data.tokens.bpe import train_bpe
from spikelm.data.tokens.text_codec import codec_of_folder, codec_of_run
from spikelm.errors import ConfigError, DataError

TEXT = "a bird, and the bird saw the café "


def folder_with(folder: Path, tokenizer: Tokenizer, **settings: object) -> Path:
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"bos_token_id": 0}))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def byte_level() -> Tokenizer:
    return train_bpe([TEXT] * 4, 300)


def words() -> Tokenizer:
    """As Llama's: a mark in front of each word stands for its space, and the first one is dropped."""
    pieces = {"<s>": 0, "<unk>": 1, "</s>": 2, "▁the": 3, "▁bird": 4}
    tokenizer = Tokenizer(models.WordLevel(vocab=pieces, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


def test_what_is_written_keeps_the_space_in_front_of_it(tmp_path: Path) -> None:
    codec = codec_of_folder(folder_with(tmp_path / "words", words()), pairs=False)
    assert codec.encode("the bird").ids == [0, 3, 4], "the mark that the tokenizer writes itself is not written twice"
    assert codec.written([0, 3], [4]) == " bird"
    assert codec.written([0, 3], [4, 2]) == " bird", "special tokens are no text"
    assert codec_of_folder(tmp_path / "words", pairs=True).written([0, 3], [4]) == "bird"


def test_a_text_is_read_behind_the_first_token_unless_a_file_says_how_texts_begin(tmp_path: Path) -> None:
    mine = byte_level()
    ids = mine.encode("the bird").ids
    bare = codec_of_folder(folder_with(tmp_path / "bare", mine), pairs=False)
    assert bare.encode("the bird").ids == [0, *ids]
    assert bare.encode("").ids == [0]
    assert bare.end == mine.token_to_id("</s>")
    assert codec_of_folder(tmp_path / "bare", pairs=True).encode("the bird").ids == ids
    told = codec_of_folder(folder_with(tmp_path / "told", mine, eos_token="<pad>"), pairs=False)
    assert told.encode("the bird").ids == ids
    assert told.encode("").ids == [0], "an empty text has to begin with something"
    assert told.end == mine.token_to_id("<pad>")
    assert (bare.chat, told.chat) == (None, None)


def test_a_text_is_read_whole_whatever_the_file_was_last_used_for(tmp_path: Path) -> None:
    mine = byte_level()
    mine.enable_truncation(4)
    mine.enable_padding(length=9)
    codec = codec_of_folder(folder_with(tmp_path / "cut", mine), pairs=False)
    assert len(codec.encode(TEXT * 3).ids) > 9
    assert codec.written([], codec.encode(TEXT * 3).ids) == TEXT * 3


def test_without_a_tokenizer_or_a_text_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no tokenizer"):
        codec_of_folder(tmp_path, pairs=False)
    unmarked = Tokenizer(models.WordLevel(vocab={"a": 0, "?": 1}, unk_token="?"))
    folder = folder_with(tmp_path / "unmarked", unmarked)
    (folder / "config.json").unlink()
    codec = codec_of_folder(folder, pairs=False)
    assert codec.encode("a").ids == [0]
    with pytest.raises(ConfigError, match="the text is empty"):
        codec.encode("")


def test_a_run_with_text_pairs_frames_its_sources_as_in_training(tmp_path: Path) -> None:
    config = load_config(["task=mt/wmt16_enro", "scale=smoke"])
    codec = codec_of_run(config, tmp_path / "model", tmp_path / "cache")
    short, long = codec.encode("Ana thanked the girl."), codec.encode("Ana thanked the girl. " * 40)
    end, language = short.ids[-2:]
    assert long.ids[-2:] == [end, language] != [0, 0], "</s> en_XX, as mBART's sources end"
    assert len(long.ids) == config.task.source_length < long.whole
    assert len(short.ids) == short.whole
    assert codec.written(short.ids, short.ids) == "Ana thanked the girl."


def test_a_gpt2_s_run_has_the_tokenizer_of_its_running_text(tmp_path: Path) -> None:
    config = load_config(["task=pretrain", "backbone=gpt2_mini", "scale=smoke", "neuron=ann"])
    model = tmp_path / "model"
    model.mkdir()
    codec = codec_of_run(config, model, tmp_path / "cache")
    ids = codec.encode("The girl is here.").ids
    assert ids[0] == codec.end
    assert codec.written(ids[:1], ids[1:]) == "The girl is here."
    folder_with(model, byte_level())
    assert codec_of_run(config, model, tmp_path / "cache").encode("the").ids[0] == 0, "the one beside the weights"
