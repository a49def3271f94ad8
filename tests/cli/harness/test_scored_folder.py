"""Which folder is scored, and what is said where there is none; without the harness itself."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_up_result import ENVIRONMENT, made_up
from tiny_decoders import SIZES
from tokenizers import Tokenizer
from transformers import BartConfig, BartForConditionalGeneration, BertConfig, BertForSequenceClassification, BertModel

from spikelm.cli.harness.scored_folder import model_folder, refuse_other_models, scored_tokenizer
from spikelm.config.compose import load_config
from spikelm.errors import CheckpointError, ConfigError, DataError, SpikeLMError
from spikelm.store.store import Run, Store

ID = "5aaa000000000000"


def run_in(root: Path, model: Path | None = None, finished: bool = True) -> Run:
    run = Store(root).open(ID, "one", "glue/rte")
    config = load_config(["task=glue/rte", "scale=smoke", "neuron=bispike", "T=2"])
    run.start(config, ENVIRONMENT)
    if model:
        shutil.copytree(model, run.model, dirs_exist_ok=True)
    if finished:
        run.finish(made_up(run_id=ID, config=config))
    return run


def test_a_run_is_named_by_digits_or_folder_and_a_model_by_its_folder(
    decoder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_in(tmp_path / "runs", decoder("plain"))
    for name in ("5aa", ID, str(run.directory), str(run.model)):
        assert model_folder(name, str(tmp_path / "runs")) == run.model
    assert model_folder(str(run.directory)) == run.model, "whose folder says its store"
    monkeypatch.setenv("SPIKELM_RUNS", str(tmp_path / "runs"))
    assert model_folder("5aa") == run.model
    monkeypatch.chdir(run.directory)
    assert model_folder("model") == run.model


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", ConfigError, "does not say which model to score"),
        (None, ConfigError, "does not say which model to score"),
        (12, ConfigError, "read run=12 as a number"),
        (1e23, ConfigError, "read run=1e+23 as a number"),
        ("abc", ConfigError, "no run abc in"),
        ("/not/there", ConfigError, "no run /not/there in"),
        (".", CheckpointError, "holds neither a model"),
    ],
)
def test_what_names_no_model_is_refused(name: object, error: type[SpikeLMError], message: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        model_folder(name, str(tmp_path))
    assert caught.value.fix


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        model_folder("abc", str(tmp_path / "nope"))


def test_a_run_that_is_not_finished_or_has_lost_its_weights(tmp_path: Path) -> None:
    run_in(tmp_path / "begun", finished=False)
    with pytest.raises(SpikeLMError, match="is not finished"):
        model_folder("5aaa", str(tmp_path / "begun"))
    run_in(tmp_path / "bare")
    with pytest.raises(CheckpointError, match="weights are not there"):
        model_folder("5aaa", str(tmp_path / "bare"))


def test_models_that_predict_no_next_token_are_refused(decoder: Callable[[str], Path], tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    bert = BertConfig(vocab_size=20, **sizes)
    small = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 1}
    bart = BartConfig(vocab_size=20, decoder_attention_heads=1, encoder_ffn_dim=8, decoder_ffn_dim=8, **small)
    for model in (BertModel(bert), BertForSequenceClassification(bert), BartForConditionalGeneration(bart)):
        model.save_pretrained(tmp_path)
        with pytest.raises(ConfigError, match=f"holds a {type(model).__name__}, which gives no text a likelihood"):
            refuse_other_models(tmp_path)
    for name in ("plain", "bispike T=2", "lif GPT-2 T=4"):
        refuse_other_models(decoder(name))


@pytest.mark.parametrize("content", ["{", "{}", '{"architectures": []}', '{"architectures": null}', "[]"])
def test_a_config_that_names_no_model_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match="does not hold a saved model"):
        refuse_other_models(tmp_path)


def test_a_lone_tokenizer_knows_its_marks(decoder: Callable[[str], Path], text_tokenizer: Tokenizer) -> None:
    tokenizer = scored_tokenizer(decoder("plain"), decoder("plain"))
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<s>", "</s>")
    assert tokenizer.encode("tom and anna") == text_tokenizer.encode("tom and anna").ids


def test_without_a_begin_in_the_config_a_text_begins_with_the_mark_that_ends_one(
    decoder: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **SIZES["llama"]}))
    assert scored_tokenizer(decoder("plain"), tmp_path).bos_token == "</s>"


def test_the_files_of_transformers_say_their_own_marks(decoder: Callable[[str], Path], tmp_path: Path) -> None:
    saved = scored_tokenizer(decoder("plain"), decoder("plain"))
    saved.add_special_tokens({"bos_token": "<mask>"})
    saved.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text((decoder("plain") / "config.json").read_text())
    again = scored_tokenizer(tmp_path, tmp_path)
    assert again.bos_token == "<mask>"
    assert again.encode("tom and anna") == saved.encode("tom and anna")


def test_a_tokenizer_that_is_missing(decoder: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no tokenizer\.json") as error:
        scored_tokenizer(tmp_path, decoder("plain"))
    assert "tokenizer=DIR" in error.value.fix
