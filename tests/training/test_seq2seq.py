"""Summaries and translations from config to result: teacher first, losses against a plain loop, resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy.special import log_softmax, rel_entr, softmax

from spikelm.cli.audit_command import audit_main
from spikelm.cli.report import main as report_main
from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import IGNORED
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import load_text_pair_tokenizer
from spikelm.errors import ConfigError
from spikelm.runs.experiment import Finished, open_run, run_experiment
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.runs.tracking import Tracker
from spikelm.spiking import load_pretrained
from spikelm.store.hashing import run_id
from spikelm.training.checkpoints import checkpoints
from spikelm.training.stage import build_stage

QUIET = Console(quiet=True)
FEW = ("source.train_rows=48", "source.dev_rows=12", "finetune.epochs=1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def config_of(runs: Path, *overrides: str) -> Config:
    return load_config(["scale=smoke", f"runs_dir={runs}", *FEW, *overrides])


def smoke(runs: Path, *overrides: str) -> Finished:
    return run_experiment(config_of(runs, *overrides), QUIET)


def stage_of(config: Config) -> Any:
    needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
    return build_stage(config, needed, QUIET)


@pytest.mark.parametrize(
    ("task", "neuron", "metrics"),
    [
        ("sum/xsum", "bispike", ("rougeL", "rouge1", "rouge2", "rougeLsum")),
        ("sum/cnn_dm", "lif", ("rougeL", "rouge1", "rouge2", "rougeLsum")),
        ("mt/wmt16_enro", "bispike", ("bleu", "chrf")),
    ],
)
def test_every_task_runs_with_its_teacher_first(
    task: str, neuron: str, metrics: tuple[str, ...], runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[tuple[Any, ...]] = []
    monkeypatch.setattr(Tracker, "table", lambda self, *given: handed.append(given))
    result = smoke(runs, f"task={task}", f"neuron={neuron}", "T=2").result
    metrics = (*metrics, "exact_match", "entity_accuracy")  # of embedded texts, whose makers know what they name
    assert list(result.metrics) == [*metrics, *(f"{name}_test" for name in metrics), "loss"]
    assert result.teacher == open_run(config_of(runs, f"task={task}", "neuron=ann")).id
    assert set(result.teacher_metrics) == set(result.metrics)
    assert result.spike_driven.verdict == "fully"
    assert {site.split(".")[0] for site in result.firing_rate.per_site} == {"encoder", "decoder"}
    detail = result.energy_detail
    assert detail is not None
    assert detail.generated.ann_fp32 > 0
    assert detail.lm_head_fp32 > 0
    assert result.spike_driven.decoding == "fully"
    assert len(result.samples) == 8
    assert handed[-1] == (result.steps, "samples", [dict(sample) for sample in result.samples])
    notes = result.metric_notes
    assert ("version:2" in notes["bleu"]) if task.startswith("mt/") else ("rouge-score" in notes["rouge"])


def test_a_finished_run_is_shown_and_audited_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = smoke(runs, "task=mt/wmt16_enro", "neuron=bispike", "T=2").result
    assert report_main(["run", result.run_id, "--runs-dir", str(runs)]) == 0
    shown = capsys.readouterr().out
    assert all(sample.source in shown and sample.reference in shown for sample in result.samples)
    assert result.metric_notes["bleu"] in shown
    assert audit_main([result.run_id, "--runs-dir", str(runs)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert told.count("the encoder and decoder are fully spike-driven") == 2, "in one pass, and from the cache"


def test_samples_of_the_best_epoch_are_those_of_the_saved_model(runs: Path) -> None:
    finished = smoke(runs, "task=mt/wmt16_enro", "neuron=ann", "select=best_dev", "finetune.epochs=3")
    config = config_of(runs, "task=mt/wmt16_enro")
    text = load_text_pairs(config.task, config.source)
    tokenizer = load_text_pair_tokenizer(config.task, config.source, config.backbone, text, runs / ".cache")
    model: Any = load_pretrained(finished.directory / "model")
    sources = [sample.source for sample in finished.result.samples]
    assert sources == [row["en"] for row in text.splits["validation"][:8]]
    ids = torch.tensor(tokenizer.encode_sources(sources[:1], 48))
    made = model.eval().generate(ids, num_beams=2, max_length=64, early_stopping=True, length_penalty=1.0)
    assert tokenizer.decode(made.tolist()) == [finished.result.samples[0].generated]


def test_firing_is_measured_on_the_first_rows_as_they_come(runs: Path) -> None:
    config = config_of(runs, "task=sum/xsum", "neuron=ann", "measure.samples=5")
    text = load_text_pairs(config.task, config.source)
    tokenizer = load_text_pair_tokenizer(config.task, config.source, config.backbone, text, runs / ".cache")
    documents = [row["document"] for row in text.splits["validation"][:5]]
    expected = [len(ids) for ids in tokenizer.encode_sources(documents, config.task.source_length)]
    (samples,) = stage_of(config).samples
    assert samples["attention_mask"].sum(1).tolist() == expected
    assert expected != sorted(expected)  # else the shortest would pass as well


def test_the_backbone_of_a_scale_has_siblings_for_pairs() -> None:
    named = {task: load_config([f"task={task}"]).backbone for task in ("glue/rte", "sum/xsum", "mt/wmt16_enro")}
    assert {task: size.name for task, size in named.items()} == {
        "glue/rte": "bert_mini",
        "sum/xsum": "bart_mini",
        "mt/wmt16_enro": "mbart_mini",
    }
    assert load_config(["task=sum/xsum", "backbone.layers=3"]).backbone.layers == 3, "an override stays"
    assert load_config(["task=sum/xsum", "backbone=mbart_mini"]).backbone.kind == "mbart"
    with pytest.raises(ConfigError, match="encoder-decoder"):
        load_config(["task=sum/xsum", "backbone=bert_3l"])
    with pytest.raises(ConfigError, match=r"task\.source_length=192 is longer than backbone\.positions=100"):
        load_config(["task=sum/xsum", "backbone.positions=100"])


def test_a_plain_model_has_no_teacher_and_a_student_differs_by_its_losses() -> None:
    def id_of(*overrides: str) -> str:
        return run_id(identity(load_config(["task=sum/xsum", *overrides])))

    assert not prerequisites(load_config(["task=sum/xsum", "neuron=ann"]))
    assert id_of("neuron=ann", "distill=none") == id_of("neuron=ann")
    assert id_of("neuron=lif", "distill=seq2seq") == id_of("neuron=lif"), "the paper's way is the default"
    changes = ["distill.logits.loss=mse", "distill.states.scaled=true", "distill.losses.attention=0", "distill=none"]
    assert len({id_of("neuron=lif", change) for change in changes} | {id_of("neuron=lif")}) == len(changes) + 1


@pytest.mark.parametrize("kind", ["kl", "mse"])
def test_a_students_loss_is_the_plain_sum(kind: str, runs: Path) -> None:
    stage = stage_of(config_of(runs, "task=sum/xsum", "neuron=bispike", f"distill.logits.loss={kind}"))
    module, batch = stage.module, stage.train[0]
    module.model.train()
    loss = float(module.step_loss(batch))
    names = ("input_ids", "attention_mask", "decoder_input_ids")
    options = {"output_hidden_states": True, "output_attentions": True, "use_cache": False}
    with torch.no_grad():
        ours, theirs = (
            model(**{name: batch[name] for name in names}, **options) for model in (module.model, module.teacher.model)
        )
    real = (batch["labels"] != IGNORED).numpy()
    student, teacher = (output.logits.double().numpy()[real] for output in (ours, theirs))
    goal = batch["labels"].numpy()[real]
    expected = -log_softmax(student, axis=-1)[np.arange(len(goal)), goal].mean()
    if kind == "kl":
        expected += rel_entr(softmax(teacher, axis=-1), softmax(student, axis=-1)).sum(-1).mean()
    else:
        expected += ((student - teacher) ** 2).mean()
    read = batch["attention_mask"].numpy().astype(bool)
    for name, mask in (("encoder_hidden_states", read), ("decoder_hidden_states", real)):
        pairs = zip(ours[name], theirs[name], strict=True)
        expected += np.mean([((a - b).double().numpy()[mask] ** 2).mean() for a, b in pairs])
    for name, mask in (("encoder_attentions", read), ("decoder_attentions", real), ("cross_attentions", real)):
        pairs = zip(ours[name], theirs[name], strict=True)
        expected += np.mean([((a - b).double() ** 2).sum(-1).mean(1).numpy()[mask].mean() for a, b in pairs])
    assert loss == pytest.approx(float(expected), rel=1e-4)


def test_the_student_starts_as_the_teacher_with_neurons(runs: Path) -> None:
    module = stage_of(config_of(runs, "task=sum/xsum", "neuron=bispike")).module
    theirs = module.teacher.model.state_dict()
    ours = module.model.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    assert not module.teacher.model.training


@pytest.mark.usefixtures("kept_checkpoints")
def test_a_resumed_run_ends_where_the_whole_one_ends(tmp_path: Path) -> None:
    options = ("task=mt/wmt16_enro", "neuron=ann", "finetune.epochs=2")
    whole = smoke(tmp_path / "whole", *options).result
    smoke(tmp_path / "cut", *options, "trainer.checkpoint_every=5")
    run = open_run(config_of(tmp_path / "cut", *options))
    newest, last = checkpoints(run.checkpoints)
    newest.unlink()  # of the last step: nothing would be left to do
    assert last.stem == "step-5", "of six steps"
    (run.directory / "result.json").unlink()
    again = smoke(tmp_path / "cut", *options).result
    assert again.metrics == whole.metrics
    assert again.samples == whole.samples


def test_options_of_labelled_tasks_are_refused() -> None:
    for option in (
        "distill.rows.noise=0.1",
        "distill.teacher.cache=true",
        "distill.start.weights=general",
        "select=released",
    ):
        with pytest.raises(ConfigError):
            load_config(["task=sum/xsum", "neuron=bispike", option])
