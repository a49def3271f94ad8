"""Students and teachers from config to result: who starts from what, and what the teacher may not touch."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.errors import ConfigError
from spikelm.runs.experiment import open_run, run_experiment
from spikelm.runs.identity import identity
from spikelm.runs.prerequisites import prerequisites
from spikelm.spiking import load_pretrained, neurons
from spikelm.store.hashing import run_id
from spikelm.store.result import Result
from spikelm.training.checkpoints import checkpoints
from spikelm.training.distill.losses import logits_loss
from spikelm.training.stage import build_stage

QUIET = Console(quiet=True)
RTE = ("task=glue/rte", "neuron=bispike")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def config_of(runs: Path, *overrides: str) -> Config:
    return load_config(["scale=smoke", f"runs_dir={runs}", *overrides])


def smoke(runs: Path, *overrides: str) -> Result:
    return run_experiment(config_of(runs, *overrides), QUIET).result


def stage_of(config: Config) -> Any:
    needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
    return build_stage(config, needed, QUIET)


def id_of(*overrides: str) -> str:
    return run_id(identity(load_config(list(overrides))))


def test_prerequisites_by_role() -> None:
    found = prerequisites(load_config([*RTE, "distill=general", "T=4", "distill.start.general_T=1"]))
    assert {role: run_id(identity(run)) for role, run in found.items()} == {
        "pretrained": id_of("task=general_distill", "neuron=bispike", "T=1"),
        "teacher": id_of("task=glue/rte", "neuron=ann"),
    }
    assert set(prerequisites(load_config([*RTE, "distill=logits"]))) == {"pretrained", "teacher"}
    assert set(prerequisites(load_config([*RTE, "distill.start.weights=teacher"]))) == {"teacher"}
    assert set(prerequisites(load_config([*RTE]))) == {"pretrained"}
    general = prerequisites(load_config(["task=general_distill", "neuron=bispike"]))
    assert {role: run.task.name for role, run in general.items()} == {"teacher": "pretrain"}


def test_the_plain_model_ignores_distillation_and_a_student_does_not() -> None:
    assert id_of("neuron=ann", "distill=general") == id_of("neuron=ann")
    losses = [f"losses.{part}=1" for part in ("logits", "hidden", "attention")]
    changes = [*losses, "start.weights=general", "start.weights=teacher", "start.head=teacher"]
    ids = {id_of(*RTE, f"distill.{change}") for change in changes}
    assert len({*ids, id_of(*RTE)}) == len(changes) + 1
    assert id_of(*RTE, "teacher.lr=7e-4") == id_of(*RTE), "no teacher, no difference"
    assert id_of(*RTE, "distill=logits", "teacher.lr=7e-4") != id_of(*RTE, "distill=logits")


@pytest.mark.parametrize(
    "options",
    [("distill=general",), ("distill=full", "distill.losses.attention=1"), ("distill.start.weights=teacher",)],
)
def test_students_run_end_to_end(options: tuple[str, ...], runs: Path) -> None:
    result = smoke(runs, *RTE, *options)
    assert result.teacher == open_run(config_of(runs, "task=glue/rte", "neuron=ann")).id
    assert result.spike_driven.verdict == "fully"


def test_a_regression_student_runs(runs: Path) -> None:
    assert smoke(runs, "task=glue/stsb", "neuron=lif", "distill=full", "distill.states.layers=progressive").teacher


def test_general_distillation_starts_at_the_teacher_and_leaves_its_embeddings(runs: Path) -> None:
    config = config_of(runs, "task=general_distill", "neuron=bispike")
    finished = run_experiment(config, QUIET)
    teacher = load_pretrained(Path(open_run(prerequisites(config)["teacher"]).directory) / "model")
    student = load_pretrained(finished.directory / "model")
    theirs = teacher.get_input_embeddings().weight  # type: ignore[operator]
    assert torch.equal(student.get_input_embeddings().weight, theirs)  # type: ignore[operator]
    assert all(neuron.ready for neuron in neurons(student))  # type: ignore[attr-defined]
    assert set(finished.result.metrics) == {"loss", "last_loss", "cosine"}


def test_training_brings_the_student_closer(runs: Path) -> None:
    short = smoke(runs, "task=general_distill", "neuron=bispike", "general.steps=1", "general.lr=1e-9")
    longer = smoke(runs, "task=general_distill", "neuron=bispike", "general.steps=60", "general.lr=3e-3")
    assert longer.metrics["loss"] < 0.9 * short.metrics["loss"]


def test_the_teacher_is_frozen_and_not_part_of_the_student(runs: Path) -> None:
    module = stage_of(config_of(runs, *RTE, "distill=full")).module
    teacher = module.teacher.model
    assert not teacher.training
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    ours = {id(parameter) for parameter in module.parameters()}
    assert not ours & {id(parameter) for parameter in teacher.parameters()}


def test_the_loss_is_the_weighted_sum(runs: Path) -> None:
    def loss(*options: str) -> float:
        stage = stage_of(config_of(runs, *RTE, "backbone.dropout=0", "backbone.attention_dropout=0", *options))
        torch.manual_seed(0)
        stage.module.train()
        return float(stage.module.step_loss(stage.train[0]))

    # start=teacher takes the head over, so all four see one and the same model
    base = ("distill.start.weights=teacher", "distill.start.head=teacher")
    parts = {
        part: loss(*base, "distill.losses.labels=0", f"distill.losses.{part}=1")
        for part in ("logits", "hidden", "attention")
    }
    labels = loss(*base)
    assert all(value > 0 for value in parts.values())
    both = loss(
        *base,
        "distill.losses.labels=2",
        "distill.losses.logits=3",
        "distill.losses.hidden=0.5",
        "distill.losses.attention=4",
    )
    expected = 2 * labels + 3 * parts["logits"] + 0.5 * parts["hidden"] + 4 * parts["attention"]
    assert both == pytest.approx(expected, rel=1e-4)


def test_more_time_steps_take_over_weights_and_set_amplitudes_anew(runs: Path) -> None:
    stage = stage_of(config_of(runs, *RTE, "T=3", "distill=general", "distill.start.general_T=1"))
    general = config_of(runs, "task=general_distill", "neuron=bispike", "T=1")
    saved = load_pretrained(Path(open_run(general).directory) / "model")
    ours, theirs = stage.module.model.bert.encoder.layer[0], saved.encoder.layer[0]  # type: ignore[union-attr]
    assert torch.equal(ours.intermediate.dense.weight, theirs.intermediate.dense.weight)  # type: ignore[union-attr]
    assert [tuple(neuron.alpha.shape) for neuron in neurons(stage.module.model)] == [(3,)] * 12  # type: ignore[union-attr]
    assert not any(neuron.ready for neuron in neurons(stage.module.model))  # type: ignore[attr-defined]


def test_a_head_is_taken_over(runs: Path) -> None:
    module = stage_of(config_of(runs, *RTE, "distill=general")).module
    assert torch.equal(module.model.classifier.weight, module.teacher.model.classifier.weight)
    assert torch.equal(module.model.bert.pooler.dense.weight, module.teacher.model.bert.pooler.dense.weight)


@pytest.mark.parametrize("task", ["glue/rte", "glue/stsb"])
def test_rows_of_other_tasks_learn_from_the_teacher_alone(task: str, runs: Path) -> None:
    options = (
        f"task={task}",
        "neuron=bispike",
        "distill=general",
        "distill.rows.other_tasks=20",
        "distill.losses.hidden=0",
    )
    stage = stage_of(config_of(runs, *options))
    batches = (stage.train[step] for step in range(stage.train.steps_per_epoch))
    batch = next(one for one in batches if 0 < (one["labels"] >= 0).sum() < len(one["labels"]))
    labelled, module = batch["labels"] >= 0, stage.module.eval()
    logits = module.logits(batch)
    own = {name: tensor[labelled] for name, tensor in batch.items()}
    labels = module.label_loss(logits[labelled], own) * labelled.float().mean()
    answers = logits_loss(logits, module.teacher(batch).logits.float(), module.settings.logits.temperature)
    assert torch.allclose(module.step_loss(batch), labels + answers)


def test_a_source_without_other_tasks_leaves_a_task_its_own_rows(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spikelm.training.stage.other_rows", lambda *_: [])
    config = config_of(runs, *RTE, "distill=logits", "distill.rows.other_tasks=20", "distill.start.weights=teacher")
    needed = {role: run_experiment(run, QUIET).directory for role, run in prerequisites(config).items()}
    told = Console(record=True, width=200, file=io.StringIO())
    stage = build_stage(config, needed, told)
    assert "the source has no other task like glue/rte" in told.export_text()
    assert len(stage.train.lengths) == stage.source["rows"]["train"]  # type: ignore[attr-defined]


def test_embeddings_can_be_left_as_they_are(runs: Path) -> None:
    def trained(*options: str) -> set[str]:
        module = stage_of(config_of(runs, *RTE, "distill=general", *options)).module
        updated = {id(p) for group in module.configure_optimizers()["optimizer"].param_groups for p in group["params"]}
        return {name for name, parameter in module.model.named_parameters() if id(parameter) in updated}

    every, some = trained(), trained("distill.start.frozen_embeddings=true")
    assert every - some == {name for name in every if name.startswith("bert.embeddings.")} != set()


@pytest.mark.parametrize("start", [("convert=first",), ("distill.start.weights=teacher",)])
def test_a_student_can_be_without_dropout_and_its_teacher_stays_the_same(start: tuple[str, ...], runs: Path) -> None:
    words = (*RTE, "distill=full", "backbone.dropout=0.1", "backbone.attention_dropout=0.1", *start)

    def dropout(*options: str) -> set[float]:
        model = stage_of(config_of(runs, *words, *options)).module.model
        return {module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)}

    assert dropout() == {0.1}
    assert dropout("distill.start.dropout=false") == {0.0}
    ids = [id_of(*words, "scale=smoke", *more) for more in ([], ["distill.start.dropout=false"])]
    assert ids[0] != ids[1]
    teachers = [
        prerequisites(config_of(runs, *words, *more))["teacher"] for more in ([], ["distill.start.dropout=false"])
    ]
    assert identity(teachers[0]) == identity(teachers[1])


@pytest.mark.usefixtures("kept_checkpoints")
@pytest.mark.parametrize("options", [("task=general_distill", "neuron=bispike"), (*RTE, "distill=general")])
def test_a_resumed_student_ends_where_the_whole_one_ends(options: tuple[str, ...], tmp_path: Path) -> None:
    whole = smoke(tmp_path / "whole", *options)
    runs = tmp_path / "cut"
    config = config_of(runs, *options)
    for run in prerequisites(config).values():
        run_experiment(run, QUIET)
    run = open_run(config)
    smoke(runs, *options, "trainer.checkpoint_every=5")
    newest, last = checkpoints(run.checkpoints)
    newest.unlink()  # of the last step: nothing would be left to do
    assert int(last.stem.removeprefix("step-")) % 4, "steps are left to be made again: 8 and 12 are all of them"
    (run.directory / "result.json").unlink()
    assert smoke(runs, *options).metrics == whole.metrics


def test_a_cached_teacher_says_what_the_teacher_says(runs: Path) -> None:
    stage = stage_of(config_of(runs, *RTE, "distill=full", "distill.teacher.cache=true"))
    plain = stage_of(config_of(runs, *RTE, "distill=full"))
    for step in (0, 5, 7):
        batch = stage.train[step]
        cached, asked = stage.module.teacher(batch), plain.module.teacher(batch)
        real = batch["attention_mask"].bool()
        torch.testing.assert_close(cached.logits, asked.logits, atol=1e-5, rtol=1e-5)
        for ours, theirs in zip(cached.hidden_states[1:], asked.hidden_states[1:], strict=True):
            torch.testing.assert_close(ours[real], theirs[real], atol=2e-3, rtol=2e-3)  # float16
    folders = [path for path in (runs / ".cache" / "teachers").iterdir() if path.is_dir()]
    changed = {path: path.stat().st_mtime_ns for folder in folders for path in folder.iterdir()}
    assert {path.name for path in changed} == {"hidden.npy", "logits.npy", "SHA256SUMS"}
    stage_of(config_of(runs, *RTE, "distill=full", "distill.teacher.cache=true", "T=2"))
    assert {path: path.stat().st_mtime_ns for path in changed} == changed, "another student finds it there"


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigError, match="spiking student"):
        load_config(["task=general_distill", "neuron=ann"])
    with pytest.raises(ConfigError, match=r"distill\.start"):
        load_config([*RTE, "distill.start.weights=genral"])
    with pytest.raises(ConfigError, match=r"general\.amplitudes\.follow"):
        load_config(["task=general_distill", "neuron=bispike", "general.amplitudes.follow=2"])
    with pytest.raises(ConfigError, match=r"attention maps"):
        load_config([*RTE, "distill.teacher.cache=true", "distill.losses.attention=1"])
    with pytest.raises(ConfigError, match=r"general_T"):
        load_config([*RTE, "distill.start.general_T=0"])
