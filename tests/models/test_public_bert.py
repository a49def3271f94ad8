"""Starting from a published BERT: which systems do at scale=paper, what is on disk, and what a run says of it."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForPreTraining

from spikelm.catalog.checkpoint_files import tokenizer_folder, weights_folder
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.tokens.tokenizer import HUB_TOKENIZER
from spikelm.errors import ConfigError
from spikelm.runs.experiment import run_experiment
from spikelm.runs.identity import id_of, identity
from spikelm.runs.labels import title
from spikelm.runs.prerequisites import prerequisites
from spikelm.store.file_facts import weights_record, weights_warning
from spikelm.training.stage import build_stage

PUBLIC = "google-bert/bert-base-uncased@86b5e0934494bd15c9632b12f734a8a67f723594"
TAUGHT = ["q2bert", "ternarybert", "binarybert_w1a1", "binarybert_w1a2", "bibert", "bit", "bit_multi", "spikebert"]
PRETRAINED = ["bert_3l", "spikelm_t1", "spikelm_t4", "spikelm_6l_t4", "lif_bert", "psn_bert", "spikingformer_t4"]
TEXTS = ["sum/xsum", "sum/cnn_dm", "mt/wmt16_enro"]
QUIET = Console(quiet=True)
COMMIT = "1" * 40


def paper(system: str, task: str = "glue/rte", *words: str) -> Config:
    return load_config(["scale=paper", f"system={system}", f"task={task}", *words])


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("a plan asks nobody"))


def test_bert_is_the_public_one() -> None:
    config = paper("bert")
    assert (config.backbone.path, prerequisites(config)) == (PUBLIC, {})
    assert identity(config)["starts from"] == f"hub:{PUBLIC}"
    first = paper("bert_3l_first")
    assert (first.backbone.path, first.depth, prerequisites(first)) == (PUBLIC, 3, {})


@pytest.mark.parametrize("system", TAUGHT)
def test_every_teacher_is_the_fine_tuned_public_bert(system: str) -> None:
    chain = [paper(system)]
    while needed := prerequisites(chain[-1]):
        chain.append(needed["teacher"])
    assert id_of(chain[-1]) == id_of(paper("bert"))
    assert "pretrain" not in {one.task.name for config in chain for one in prerequisites(config).values()}


@pytest.mark.parametrize("system", PRETRAINED)
def test_the_papers_own_systems_are_pretrained_here(system: str) -> None:
    config = paper(system)
    assert config.backbone.path is None
    assert prerequisites(config)["pretrained"].task.name == "pretrain"


def test_bipft_is_pretrained_further_from_the_public_bert() -> None:
    pretrained = prerequisites(paper("bipft"))["pretrained"]
    assert (pretrained.task.name, pretrained.backbone.path, prerequisites(pretrained)) == ("pretrain", PUBLIC, {})
    assert identity(pretrained)["starts from"] == f"hub:{PUBLIC}"
    scratch = prerequisites(paper("bipft", "pretrain", "backbone.public=null"))
    assert scratch["teacher"].task.name == "pretrain", "from scratch it imitates a plain model that was pretrained here"


@pytest.mark.parametrize("switch", ["backbone.path=null", "backbone.public=null"])
def test_from_scratch_is_a_switch_that_the_run_is_called_by(switch: str) -> None:
    config = paper("bert", "glue/rte", switch)
    assert prerequisites(config)["pretrained"].task.name == "pretrain"
    assert title(config) == "BERT (backbone.path=null)"
    assert title(paper("bert")) == "BERT"
    assert id_of(config) != id_of(paper("bert"))
    assert paper("bert", "pretrain", switch).pretrains


def test_pretraining_the_public_bert_says_the_switch() -> None:
    with pytest.raises(ConfigError) as caught:
        paper("bert", "pretrain")
    assert "backbone.path=null pretrains it here" in str(caught.value)


def test_another_backbone_has_its_own_weights_or_none() -> None:
    assert paper("bert", "glue/rte", "backbone=bert_small").backbone.path is None
    assert paper("bert", "glue/rte", "backbone=bert_6l").backbone.path is None
    assert str(paper("bert", "sum/xsum").backbone.path).startswith("facebook/bart-base@")


@pytest.mark.parametrize("task", TEXTS)
def test_a_teacher_of_text_pairs_has_a_recipe_of_its_own(task: str) -> None:
    student = paper("spikelm_t4", task)
    teacher = prerequisites(student)["teacher"]
    assert id_of(teacher) == id_of(paper("bert", task)), "the plain row of the table"
    assert id_of(teacher) == id_of(load_config(["scale=paper", f"task={task}", "neuron=ann"]))
    assert (teacher.finetune.lr, teacher.finetune.epochs) == (3e-5, 5)
    assert teacher.finetune.optimizer.clip
    assert student.finetune.lr == {"sum/xsum": 3.5e-4, "sum/cnn_dm": 7e-4, "mt/wmt16_enro": 1e-4}[task]
    assert (student.finetune.epochs, student.finetune.optimizer.clip) == (20, None)
    recipe = prerequisites(paper("spikelm_t4", task, "recipe=paper"))["teacher"]
    assert recipe.finetune == teacher.finetune


def test_glue_is_fine_tuned_as_before() -> None:
    for system in ("bert", "spikelm_t4"):
        stage = paper(system).finetune
        assert (stage.lr, stage.epochs, stage.batch, stage.schedule.shape) == (2e-5, 20, 32, "constant")
        assert (stage.optimizer.clip, stage.optimizer.weight_decay) == (None, 0.0)


def test_spikeberts_first_stage_reads_twenty_million_rows() -> None:
    stage = paper("spikebert", "general_distill").general
    assert stage.steps is not None
    assert stage.steps * stage.batch == 20_000_000


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As google-bert/bert-base-uncased is: all heads, a vocab.txt, and norms by their old names, gamma and beta."""
    folder = tmp_path_factory.mktemp("hub") / "bert"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz.,", "the", "##s", "dog"]
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    torch.manual_seed(0)
    BertForPreTraining(BertConfig(vocab_size=len(words), max_position_embeddings=64, **sizes)).save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    torch.manual_seed(1)
    weights = {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in weights.items()}
    old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
           for name, tensor in weights.items()}  # fmt: skip
    save_file(old, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    return folder


def tiny(folder: Path, runs: Path, *words: str) -> Config:
    """A system of scale smoke that starts from the folder as those of scale paper do from the public weights."""
    given = [f"backbone.path={folder}", f"backbone.public={folder}"]
    few = ["source.train_rows=16", "source.dev_rows=8", "source.documents=60", "finetune.epochs=1"]
    return load_config(["scale=smoke", "backbone=hf", *given, f"runs_dir={runs}", *few, *words])


def test_norms_by_their_old_names_are_read(bert: Path, tmp_path: Path) -> None:
    stage = build_stage(tiny(bert, tmp_path, "task=glue/rte", "system=bert"), {}, QUIET)
    model: Any = stage.module.model
    saved = load_file(bert / "model.safetensors")
    norm = model.bert.encoder.layer[1].output.LayerNorm
    assert torch.equal(norm.weight, saved["bert.encoder.layer.1.output.LayerNorm.gamma"])
    assert torch.equal(norm.bias, saved["bert.encoder.layer.1.output.LayerNorm.beta"])
    assert stage.weights == weights_record(str(bert), tmp_path / ".cache")


def test_bipft_starts_its_pretraining_from_the_weights_and_imitates_them(bert: Path, tmp_path: Path) -> None:
    config = tiny(bert, tmp_path, "task=pretrain", "system=bipft", "pretrain.steps=1")
    module: Any = build_stage(config, {}, QUIET).module
    saved = load_file(bert / "model.safetensors")["bert.encoder.layer.0.attention.self.query.weight"]
    for model in (module.model, module.teacher.model):
        weights = dict(model.named_parameters())
        (name,) = (name for name in weights if name.endswith("layer.0.attention.self.query.weight"))
        assert torch.equal(weights[name], saved)
    assert run_experiment(config, QUIET).result.weights is not None


def test_spikebert_is_taught_by_the_weights(bert: Path, tmp_path: Path) -> None:
    option = "backbone.options={num_attention_heads: 2, mask: false, norm_eps: 1e-5, attention_threshold: 0.5}"
    general = ["task=general_distill", "system=spikebert", "backbone.kind=spikformer", option, "general.steps=1"]
    config = tiny(bert, tmp_path, *general)
    assert prerequisites(config) == {}
    result = run_experiment(config, QUIET).result
    assert result.weights is not None
    assert result.weights.path == str(bert)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, without a network (HF_HUB_OFFLINE is set for all tests)."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    return folder


def test_a_branch_is_warned_of_and_its_commit_recorded(cache: Path, bert: Path, tmp_path: Path) -> None:
    place = cache / "models--someone--bert"
    shutil.copytree(bert, place / "snapshots" / COMMIT)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    record = weights_record("someone/bert@main", tmp_path / ".cache")
    assert record["commit"] == COMMIT
    said = f"this run reads commit {COMMIT}; backbone.path=someone/bert@{COMMIT} reads it again"
    for path in ("someone/bert@main", "someone/bert"):
        assert said in weights_warning(path)
    assert weights_warning(f"someone/bert@{COMMIT}") == weights_warning(str(bert)) == ""


def test_the_tokenizer_is_that_of_the_weights_and_offline_says_so(cache: Path) -> None:
    assert HUB_TOKENIZER == PUBLIC
    for find in (weights_folder, tokenizer_folder):
        with pytest.raises(ConfigError) as caught:
            find(PUBLIC)
        told = str(caught.value)
        assert "not in the hub's cache, and HF_HUB_OFFLINE=1 forbids to fetch it" in told
        assert "unset HF_HUB_OFFLINE" in told
        assert f"hf download google-bert/bert-base-uncased --revision {PUBLIC.partition('@')[2]}" in told


def test_a_cache_with_the_weights_alone_has_no_tokenizer(cache: Path, bert: Path) -> None:
    place = cache / "models--google-bert--bert-base-uncased" / "snapshots" / PUBLIC.partition("@")[2]
    shutil.copytree(bert, place)
    assert tokenizer_folder(PUBLIC) == place
    (place / "vocab.txt").unlink()
    with pytest.raises(ConfigError, match="has no tokenizer"):
        tokenizer_folder(PUBLIC)


def test_every_public_weight_but_mbarts_is_pinned_to_a_commit() -> None:
    systems = [("bert", "glue/rte"), ("bert", "sum/xsum"), ("bertsumabs", "sum/xsum"), ("gpt2", "sum/cnn_dm")]
    for system, task in systems:
        revision = str(paper(system, task).backbone.path).partition("@")[2]
        assert len(revision) == 40, system
    assert str(paper("bert", "mt/wmt16_enro").backbone.path).endswith("@main"), "no commit could be confirmed"


def test_public_weights_decide_nothing_by_themselves() -> None:
    config = load_config(["scale=smoke", "task=glue/rte"])
    other = replace(config, backbone=replace(config.backbone, public="someone/else"))
    assert id_of(config) == id_of(other)
    assert json.dumps(identity(config)).count("public") == 0
