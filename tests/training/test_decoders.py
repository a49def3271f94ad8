"""Language models from config to result: perplexity by hand, students in plain arithmetic, starts and resumption."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.special import log_softmax, rel_entr, softmax
from tokenizers import Tokenizer
from torch import nn
from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

from spikelm.catalog.energy import decoder_terms, energy_mj
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import IGNORED
from spikelm.errors import ConfigError, SpikeLMError
from spikelm.models.decoders import load_decoder
from spikelm.runs.experiment import Finished, open_run, run_experiment
from spikelm.runs.identity import id_of
from spikelm.runs.prerequisites import prerequisites
from spikelm.runs.tracking import Tracker
from spikelm.spiking import load_pretrained
from spikelm.training.best_epoch import BestDev
from spikelm.training.stage import build_stage

QUIET = Console(quiet=True)
FEW = ("source.documents=60", "finetune.steps=6", "teacher.steps=6")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def config_of(runs: Path, *overrides: str) -> Config:
    return load_config(["scale=smoke", "task=lm/embedded", f"runs_dir={runs}", *FEW, *overrides])


def smoke(runs: Path, *overrides: str) -> Finished:
    return run_experiment(config_of(runs, *overrides), QUIET)


def stage_of(config: Config) -> Any:
    needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
    return build_stage(config, needed, QUIET)


@pytest.mark.parametrize(
    ("overrides", "verdict", "decoding"),
    [
        (("neuron=bispike", "T=2"), "fully", "fully"),
        (("backbone=gpt2_smoke", "neuron=residual"), "fully", "fully"),
        (("system=spikegpt",), "partly", None),
        (("neuron=ann",), "none", None),
    ],
)
def test_the_perplexity_of_a_saved_model_is_that_of_its_logits(
    overrides: tuple[str, ...], verdict: str, decoding: str | None, runs: Path
) -> None:
    finished = smoke(runs, *overrides)
    result, stage = finished.result, stage_of(config_of(runs, *overrides))
    assert (result.spike_driven.verdict, result.spike_driven.decoding) == (verdict, decoding)
    assert list(result.metrics) == ["perplexity", "word_perplexity", "bits_per_byte", "loss", "accuracy"]
    model, losses = load_pretrained(finished.directory / "model"), []
    with torch.no_grad():
        for batch in stage.evaluation[0]:
            logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.numpy()
            logs, labels = log_softmax(logits, axis=-1), batch["labels"].numpy()
            losses += [-logs[place][labels[place]] for place in zip(*np.nonzero(labels != IGNORED), strict=True)]
    assert len(losses) == len(stage.module.evaluated[0].ids), "every token is predicted once"
    assert result.metrics["perplexity"] == pytest.approx(math.exp(np.mean(losses)), rel=1e-4)
    words, size = stage.module.evaluated[0].words, stage.module.evaluated[0].bytes
    assert result.metrics["word_perplexity"] == pytest.approx(math.exp(np.sum(losses) / words), rel=1e-3)
    assert result.metrics["bits_per_byte"] == pytest.approx(np.sum(losses) / size / math.log(2), rel=1e-4)
    assert "windows of 64" in result.metric_notes["perplexity"]


def test_the_energy_of_a_token_is_the_mean_over_a_text(runs: Path) -> None:
    result = smoke(runs, "neuron=ann").result
    facts = json.loads((open_run(config_of(runs, "neuron=ann")).directory / "model" / "config.json").read_text())
    whole = energy_mj(decoder_terms(facts, 64, spiking=False))
    assert result.energy_mj.fp32 == pytest.approx(whole)
    assert result.energy_token is not None
    assert result.energy_token.tokens == 64
    assert result.energy_token.fp32 == pytest.approx(whole / 64)
    assert result.energy_token.lm_head_fp32 == pytest.approx(32 * facts["vocab_size"] * 4.6e-9)


def test_a_run_can_be_used_without_this_package(runs: Path) -> None:
    folder = smoke(runs, "neuron=ann").directory / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token == "</s>"
    text = "the baker went to town ."
    assert (
        tokenizer(text, add_special_tokens=False).input_ids
        == Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    )


def test_a_student_learns_logits_and_states_and_leaves_the_words_as_they_are(runs: Path) -> None:
    words = ("neuron=residual", "distill=lm", "distill.losses.labels=0.5")
    stage = stage_of(config_of(runs, *words))
    module, batch = stage.module, stage.train[0]
    module.model.train()
    loss = module.step_loss(batch)  # sets the amplitudes
    with torch.no_grad():
        loss = float(module.step_loss(batch))
        asked = {name: batch[name] for name in ("input_ids", "attention_mask")}
        output, goal = (m(**asked, output_hidden_states=True) for m in (module.model, module._teacher[0]))
    real = batch["attention_mask"].bool()
    followed = real[:, 1:]
    ours, theirs = (side.logits[:, :-1][followed].numpy() for side in (output, goal))
    wanted = batch["input_ids"][:, 1:][followed].numpy()
    labels = -np.mean(log_softmax(ours, axis=-1)[np.arange(len(wanted)), wanted])
    logits = rel_entr(softmax(theirs, axis=-1), softmax(ours, axis=-1)).sum(-1).mean()
    layers = [
        ((s[real] - t[real]) ** 2).mean() / t[real].var()
        for s, t in zip(output.hidden_states[1:], goal.hidden_states[1:], strict=True)
    ]
    assert loss == pytest.approx(0.5 * labels + logits + float(torch.stack(layers).mean()), rel=1e-4)

    finished = smoke(runs, *words)
    teacher = run_experiment(prerequisites(config_of(runs, *words))["teacher"], QUIET)
    assert finished.result.teacher == teacher.result.run_id
    student, plain = (load_pretrained(one.directory / "model") for one in (finished, teacher))
    assert torch.equal(student.get_input_embeddings().weight, plain.get_input_embeddings().weight)
    assert not torch.equal(student.model.layers[0].mlp.up_proj.weight, plain.model.layers[0].mlp.up_proj.weight)


def test_a_conversion_is_compared_with_the_plain_model_and_training_goes_on_from_it(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Tracker, "table", lambda self, *given: handed.append(given))
    words = ("neuron=residual", "neuron.scale=token", "neuron.steps=4", "convert.rotation=hadamard")
    converted = smoke(runs, *words, "convert=only").result
    assert converted.conversion is not None
    assert set(converted.conversion.plain_metrics) == set(converted.metrics)
    assert [block.name for block in converted.conversion.blocks] == ["layers.0"]
    assert converted.metrics["perplexity"] == pytest.approx(converted.conversion.plain_metrics["perplexity"], rel=0.02)
    [(step, [row])] = [(step, rows) for step, name, rows in handed if name == "conversion" and rows]
    [block], sites = converted.conversion.blocks, converted.conversion.sites
    assert (step, row["block"], row["cosine"], row["error"]) == (0, "layers 0", block.cosine, block.relative_error)
    assert row["largest"] == max(site.relative_error for site in sites)
    assert row["spikes"] == pytest.approx(np.mean([*converted.firing_rate.per_site.values()]))
    trained = smoke(runs, *words, "convert=first", "distill=lm").result
    assert trained.converted == converted.run_id
    assert trained.steps == 6


def test_the_best_epoch_is_that_of_the_lowest_perplexity() -> None:
    keeper, module = BestDev("perplexity"), nn.Module()
    module.model = nn.Linear(1, 1)
    for step, perplexity in enumerate((30.0, 20.0, 25.0)):
        module.scores = {"perplexity": perplexity}
        nn.init.constant_(module.model.weight, step)
        keeper.on_validation_end(SimpleNamespace(global_step=step), module)
    assert keeper.scores == {"perplexity": 20.0}
    assert float(keeper.weights["weight"]) == 1.0


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory, runs: Path) -> Path:
    """Weights of a user's own, of an architecture that is built like Llama, with an untied head."""
    folder = tmp_path_factory.mktemp("mistral")
    tokenizer = smoke(runs, "neuron=ann").directory / "model" / "tokenizer.json"
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings = MistralConfig(vocab_size=1000, num_key_value_heads=2, max_position_embeddings=64, **sizes)
    MistralForCausalLM(settings).half().save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    return folder


def test_given_weights_are_taken_as_they_are(mistral: Path, runs: Path) -> None:
    words = ["scale=smoke", "task=lm/embedded", f"runs_dir={runs}", FEW[0], "backbone=hf", f"backbone.path={mistral}"]
    config = load_config([*words, "neuron=ann"])
    assert config.finetune.steps == 0
    assert config.backbone.kind == "llama"
    assert config.backbone.options == {"key_value_heads": 2, "head_size": 8, "tied": False}
    plain = run_experiment(config, QUIET)
    assert plain.result.steps == 0
    saved, given = (load_pretrained(folder).state_dict() for folder in (plain.directory / "model", mistral))
    assert all(torch.equal(saved[name], value.float()) for name, value in given.items())
    converted = run_experiment(load_config([*words, "neuron=dynamic", "convert=only"]), QUIET).result
    assert converted.teacher == plain.result.run_id
    assert converted.spike_driven.verdict == converted.spike_driven.decoding == "fully"


def test_the_dropout_of_given_weights_is_theirs_and_no_other_can_be_said(mistral: Path, tmp_path: Path) -> None:
    words = ["scale=smoke", "task=lm/embedded", "neuron=ann", "finetune.steps=2", "backbone=hf"]
    given = [*words, f"backbone.path={mistral}"]
    load_config(given)
    load_config([*given, "backbone.attention_dropout=0.0"])
    with pytest.raises(ConfigError, match=r"keep the attention_dropout of their config.json, 0.0"):
        load_config([*given, "backbone.attention_dropout=0.3"])
    with pytest.raises(ConfigError, match=r"backbone.dropout=0.3 is not valid; a Llama has no such dropout"):
        load_config([*given, "backbone.dropout=0.3"])
    copy = shutil.copytree(mistral, tmp_path / "copy")
    said = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**said, "attention_dropout": 0.3}))
    config = load_config([*words, f"backbone.path={copy}", "backbone.attention_dropout=0.3"])
    assert load_decoder(config).config.attention_dropout == 0.3
    with pytest.raises(ConfigError, match="keep the resid_pdrop of their config"):
        load_config(["scale=paper", "source=hub", "task=lm/wikitext2", "neuron=ann", "backbone.dropout=0.2"])
    load_config(["scale=paper", "source=hub", "task=lm/wikitext2", "backbone.path=null", "backbone.dropout=0.2"])


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (("backbone=bert_tiny",), "task=lm/embedded is not valid for BERT"),
        (("neuron=bispike", "distill=lm", "finetune.steps=0"), "a model that nothing is done for"),
        (("neuron=bispike", "distill=general"), "for tasks with labels"),
        (("neuron=bispike", "distill=lm", "distill.losses.attention=1"), "distill.losses.attention"),
        (("neuron=ann", "finetune.steps=0"), "random weights"),
        (("neuron=ann", "measure.length=999"), "longer than backbone.positions"),
        (("neuron=ann", "backbone.keep_layers=1"), "for encoders"),
        (("system=spikegpt", "distill=lm", "distill.start.weights=pretrained"), "no plain form"),
        (("neuron=bispike", "distill=lm", "distill.states.total=true"), "distill.states.total"),
        (("task=glue/sst2", "backbone=llama_tiny"), "task=glue/sst2 is not valid for Llama"),
        (("task=lm/wikitext2", "source=hub", "select=best_dev"), "would choose by a test text"),
        (("task.window=99999",), "longer than backbone.positions"),
        (("backbone.options.key_value_heads=3",), "does not divide"),
    ],
)
def test_what_cannot_be_is_refused_with_a_fix(overrides: tuple[str, ...], told: str, runs: Path) -> None:
    with pytest.raises(ConfigError, match=told):
        config_of(runs, *overrides)


def test_no_epoch_is_chosen_by_a_test_text(runs: Path, tmp_path: Path) -> None:
    lines = "".join(f"The dog number {number} sees a cat.\n" for number in range(200))
    for name in ("train", "test"):
        (tmp_path / f"{name}.txt").write_text(lines)
    words = ("task=lm/text", "source=local", f"source.root={tmp_path}", "neuron=bispike", "distill=lm")
    with pytest.raises(ConfigError, match="select=best_dev would choose by a test text"):
        smoke(runs, *words, "select=best_dev")
    assert not list((runs / "lm").glob("text/**/result.json")), "the teacher is not trained first"
    finished = smoke(runs, *words, "neuron=ann", "distill=none")
    assert finished.result.source.rows.keys() == {"train", "test"}
    (tmp_path / "validation.txt").write_text(lines)
    assert smoke(runs, *words, "neuron=ann", "distill=none", "select=best_dev").result.select == "best_dev"


def test_what_a_published_model_would_have_been_trained_with_makes_no_other_run(mistral: Path, runs: Path) -> None:
    words = ["scale=smoke", "task=lm/embedded", f"runs_dir={runs}", "backbone=hf", f"backbone.path={mistral}"]
    plain = id_of(load_config([*words, "neuron=ann"]))
    assert id_of(load_config([*words, "neuron=ann", "finetune.lr=7e-3"])) == plain
    assert id_of(load_config([*words, "neuron=ann", "task.window=64", "task.stride=64"])) == plain, "as it is anyway"
    assert id_of(load_config([*words, "neuron=ann", "task.window=32"])) != plain
    student = load_config([*words, "neuron=bispike", "distill=lm", "finetune.steps=3", "finetune.lr=7e-3"])
    assert id_of(prerequisites(student)["teacher"]) == plain
    windowed = load_config([*words, "neuron=ann", "task.window=48"])
    shorter = ("task.window=48", "finetune.steps=3", "finetune.max_length=32")
    student = load_config([*words, "neuron=bispike", "distill=lm", *shorter])
    assert id_of(prerequisites(student)["teacher"]) == id_of(windowed), "its window is said, however short the rows"
    short = load_config([*words, "neuron=residual", "convert=only", "finetune.max_length=32"])
    assert prerequisites(short)["teacher"].task.window == 32, "both are measured alike"
    settings = json.loads((mistral / "config.json").read_text())
    other = mistral.with_name("other")
    shutil.copytree(mistral, other)
    (other / "config.json").write_text(json.dumps({**settings, "rope_theta": 77.0}))
    assert id_of(load_config([*words[:-1], f"backbone.path={other}", "neuron=ann"])) != plain


def test_a_neuron_that_sees_what_is_to_be_predicted_is_refused(runs: Path) -> None:
    with pytest.raises(SpikeLMError, match="depends on the tokens behind it"):
        smoke(runs, "neuron=twn")


def test_an_interrupted_run_goes_on_to_the_same_weights(runs: Path, tmp_path: Path) -> None:
    words = ("neuron=bispike", "trainer.checkpoint_every=2", "finetune.steps=8")
    whole = run_experiment(config_of(tmp_path / "whole", *words), QUIET)

    class Stop(Exception):
        pass

    from spikelm.training.decoders import LanguageModule

    own = LanguageModule.on_train_batch_start

    def stop(self: Any, batch: Any, batch_idx: int) -> None:
        if self.global_step == 5:
            raise Stop
        own(self, batch, batch_idx)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageModule, "on_train_batch_start", stop)
        with pytest.raises(Exception, match="Stop"):
            run_experiment(config_of(tmp_path / "cut", *words), QUIET)
    resumed = run_experiment(config_of(tmp_path / "cut", *words), QUIET)
    assert resumed.result.metrics == whole.result.metrics
    one, other = (load_pretrained(run.directory / "model").state_dict() for run in (whole, resumed))
    assert all(torch.equal(one[name], other[name]) for name in one)
