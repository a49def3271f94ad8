"""Starting from published BART and mBART: scale=paper by default, folders in the hub's layout, the hub's cache."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import BartConfig, BartModel, MBartConfig, MBartForConditionalGeneration

from spikelm.catalog.checkpoint_files import pinned, weights_folder
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.tokens.bpe import train_bpe
from spikelm.errors import CheckpointError, ConfigError, DataError
from spikelm.models.bart import SpecialTokens, load_public
from spikelm.runs.experiment import run_experiment
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.hashing import run_id
from spikelm.training.stage import build_stage

BART = "facebook/bart-base@aadd2ab0ae0c8268c7c9693540e9904811f36177"
PAPER = {
    "sum/xsum": ("bart_base", BART),
    "sum/cnn_dm": ("bart_base", BART),
    "mt/wmt16_enro": ("mbart_large", "facebook/mbart-large-cc25@main"),
}
FEW = ("source.train_rows=24", "source.dev_rows=6", "finetune.epochs=1")
CODES = ("en_XX", "ro_RO")
QUIET = Console(quiet=True)


def tokenizer(*codes: str) -> Tokenizer:
    return train_bpe(["A story about a town and a dog.", "Băiatul ține câinele."], 300, codes)


def sizes(vocab: int) -> dict[str, Any]:
    stacks = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in SIZE.items()}
    return {"vocab_size": vocab, "d_model": 32, "max_position_embeddings": 256, **stacks}


SIZE = {"layers": 1, "ffn_dim": 48, "attention_heads": 2}


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As facebook/bart-base is published: without a head, its settings of generate() in config.json; here in half."""
    folder, pieces = tmp_path_factory.mktemp("hub") / "bart", tokenizer()
    torch.manual_seed(0)
    BartModel(BartConfig(**sizes(pieces.get_vocab_size()))).half().save_pretrained(folder)
    told = json.loads((folder / "config.json").read_text())
    told |= {"no_repeat_ngram_size": 3, "num_beams": 4, "forced_bos_token_id": 0, "early_stopping": True}
    (folder / "config.json").write_text(json.dumps(told))
    pieces.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def mbart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As facebook/mbart-large-cc25 is: torch's own file, and not a word on the language to start with."""
    folder, pieces = tmp_path_factory.mktemp("hub") / "mbart", tokenizer(*CODES)
    torch.manual_seed(0)
    settings = {"scale_embedding": True, "decoder_start_token_id": None}
    model = MBartForConditionalGeneration(MBartConfig(**sizes(pieces.get_vocab_size()), **settings))
    model.config.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    pieces.save(str(folder / "tokenizer.json"))
    return folder


def config_of(folder: Path, runs: Path, *overrides: str) -> Config:
    base = ["scale=smoke", "backbone=hf", f"backbone.path={folder}", f"runs_dir={runs}", *FEW]
    return load_config([*base, "task=sum/xsum", *overrides])


@pytest.mark.parametrize("task", PAPER)
def test_the_papers_scale_starts_from_published_weights(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "socket", lambda *_, **__: pytest.fail("a plan asks nobody"))
    config = load_config(["scale=paper", f"task={task}", "neuron=bispike", "T=4"])
    assert (config.backbone.name, config.backbone.path) == PAPER[task]
    assert pinned(PAPER[task][1])
    (teacher,) = prerequisites(config).values()
    assert (teacher.backbone, teacher.spiking, prerequisites(teacher)) == (config.backbone, False, {})
    assert identity(teacher)["starts from"] == f"hub:{PAPER[task][1]}"
    assert identity(config)["needs"] == {"teacher": run_id(identity(teacher))}


def test_a_folder_takes_the_place_of_the_published_weights(bart: Path) -> None:
    with pytest.raises(ConfigError, match=r"backbone\.layers=6, but the weights in .* have 1"):
        load_config(["scale=paper", "task=sum/xsum", f"backbone.path={bart}"])
    assert load_config(["task=sum/xsum", "backbone=bart_base", "backbone.path=null"]).backbone.path is None
    with pytest.raises(ConfigError, match=r"backbone\.path is not given"):
        load_config(["task=sum/xsum", "backbone=hf"])


def test_kind_and_sizes_are_the_checkpoints(bart: Path, mbart: Path, tmp_path: Path) -> None:
    for folder in (bart, mbart):
        size = config_of(folder, tmp_path).backbone
        assert (size.kind, size.layers, size.decoder_layers, size.hidden) == (folder.name, 1, 1, 32)
        assert (size.intermediate, size.positions) == (48, 256)


def test_a_teacher_is_the_published_model_with_the_tasks_settings(bart: Path, tmp_path: Path) -> None:
    stage = build_stage(config_of(bart, tmp_path, "neuron=ann"), {}, QUIET)
    model: Any = stage.module.model
    saved, ours = load_file(bart / "model.safetensors"), model.state_dict()
    assert all(torch.equal(ours[f"model.{name}"], tensor.float()) for name, tensor in saved.items())
    assert model.dtype == torch.float32
    assert (model.config.dropout, model.config.attention_dropout) == (0.1, 0.1), "hf has the schema's"
    settings = model.generation_config
    assert settings.decoder_start_token_id == 2
    assert not settings.no_repeat_ngram_size, "what the task does not say is not done"
    assert settings.num_beams in (None, 1)
    assert settings.forced_bos_token_id is None
    source = stage.train[0]["input_ids"]
    assert (source[:, 0] == 0).all()
    assert int(source.max()) < json.loads((bart / "config.json").read_text())["vocab_size"]


def test_mbart_starts_in_the_target_language(mbart: Path, tmp_path: Path) -> None:
    stage = build_stage(config_of(mbart, tmp_path, "neuron=ann", "task=mt/wmt16_enro"), {}, QUIET)
    model, batch = stage.module.model.eval(), stage.train[0]
    romanian = Tokenizer.from_file(str(mbart / "tokenizer.json")).token_to_id("ro_RO")
    assert (batch["decoder_input_ids"][:, 0] == romanian).all()
    made = model.generate(input_ids=batch["input_ids"][:2], max_new_tokens=3)
    assert (made[:, 0] == romanian).all()
    saved = torch.load(mbart / "pytorch_model.bin", weights_only=True)
    assert torch.equal(model.model.shared.weight, saved["model.shared.weight"])


def test_a_tokenizer_must_fit_the_weights(bart: Path, tmp_path: Path) -> None:
    config = config_of(bart, tmp_path, "neuron=ann")
    with pytest.raises(CheckpointError, match="the tokenizer has 400 pieces"):
        load_public(config, 400, SpecialTokens())
    bare = tmp_path / "bare"
    shutil.copytree(bart, bare)
    (bare / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"put its tokenizer\.json into"):
        build_stage(config_of(bare, tmp_path, "neuron=ann"), {}, QUIET)
    Tokenizer.from_file(str(bart / "tokenizer.json")).model.save(str(bare))  # vocab.json and merges.txt
    batches = [build_stage(config_of(one, tmp_path, "neuron=ann"), {}, QUIET).train[0] for one in (bart, bare)]
    assert torch.equal(batches[0]["input_ids"], batches[1]["input_ids"])
    (bare / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"neither model\.safetensors nor pytorch_model\.bin"):
        identity(config_of(bare, tmp_path, "neuron=ann"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, without a network (HF_HUB_OFFLINE is set for all tests)."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    return folder


def test_offline_says_what_to_do(cache: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        weights_folder(BART)
    told = str(caught.value)
    assert "not in the hub's cache, and HF_HUB_OFFLINE=1 forbids" in told
    assert "unset HF_HUB_OFFLINE" in told
    assert f"hf download facebook/bart-base --revision {BART.partition('@')[2]}" in told
    assert "backbone.path=FOLDER" in told


@pytest.mark.parametrize("kind", ["bart", "mbart"])
def test_what_the_cache_holds_is_found_offline(cache: Path, bart: Path, mbart: Path, kind: str) -> None:
    folder, commit = {"bart": bart, "mbart": mbart}[kind], "0" * 40
    place = cache / f"models--someone--{kind}"
    shutil.copytree(folder, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    for path in (f"someone/{kind}", f"someone/{kind}@main", f"someone/{kind}@{commit}"):
        assert weights_folder(path) == place / "snapshots" / commit
    found = load_config(["task=sum/xsum", "backbone=hf", f"backbone.path=someone/{kind}@{commit}"])
    assert found.backbone.layers == 1
    assert (
        identity(load_config(["task=sum/xsum", "backbone=hf", f"backbone.path=someone/{kind}"]))["starts from"]
        == (identity(load_config(["task=sum/xsum", "backbone=hf", f"backbone.path={folder}"]))["starts from"])
    ), "without a revision the weights themselves are looked at"


def test_sizes_of_a_pinned_name_are_checked_when_it_is_loaded(cache: Path, bart: Path) -> None:
    commit = BART.partition("@")[2]
    shutil.copytree(bart, cache / "models--facebook--bart-base" / "snapshots" / commit)
    config = load_config(["scale=paper", "task=sum/xsum", "neuron=ann"])
    with pytest.raises(ConfigError, match=r"backbone\.layers=6, but the weights in facebook/bart-base@.* have 1"):
        load_public(config, 300, SpecialTokens())


@pytest.mark.slow
@pytest.mark.parametrize("task", ["sum/xsum", "mt/wmt16_enro"])
def test_a_whole_run_from_a_folder(bart: Path, mbart: Path, tmp_path: Path, task: str) -> None:
    folder = bart if task == "sum/xsum" else mbart
    result = run_experiment(config_of(folder, tmp_path, f"task={task}", "neuron=bispike", "T=2"), QUIET).result
    assert result.weights is not None
    assert result.teacher
    assert result.spike_driven.verdict == "fully"
    assert len(result.weights.sha256) == 64
