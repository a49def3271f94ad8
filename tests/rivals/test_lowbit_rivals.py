"""The systems beside BERT and BART from config to result: prerequisites, contents, resuming."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.runs.experiment import open_run, run_experiment
from spikelm.store.result import Result
from spikelm.training.checkpoints import checkpoints

QUIET = Console(quiet=True)
FEW = ("source.train_rows=32", "source.dev_rows=8", "finetune.batch=16", "pretrain.steps=2", "source.documents=60")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def config_of(runs: Path, *overrides: str) -> Config:
    return load_config(["scale=smoke", f"runs_dir={runs}", *FEW, *overrides])


def smoke(runs: Path, *overrides: str) -> Result:
    return run_experiment(config_of(runs, *overrides), QUIET).result


@pytest.mark.usefixtures("kept_checkpoints")
def test_elmo_pretrains_its_bilm_first_and_resumes(runs: Path) -> None:
    result = smoke(runs, "system=elmo", "task=glue/rte", "trainer.checkpoint_every=3")
    assert result.pretrained == open_run(config_of(runs, "system=elmo", "task=pretrain")).id
    assert result.spike_driven.verdict == "none"
    assert result.energy_mj.fp32 > 0
    run = open_run(config_of(runs, "system=elmo", "task=glue/rte"))
    newest, last = checkpoints(run.checkpoints)
    newest.unlink()  # of the last step: nothing would be left to do
    assert last.stem == "step-3", "of four steps"
    (run.directory / "result.json").unlink()
    assert smoke(runs, "system=elmo", "task=glue/rte").metrics == result.metrics


def test_the_pointer_generator_writes_summaries_with_and_without_coverage(runs: Path) -> None:
    options = ("system=ptgen", "task=sum/xsum", "task.generate.max_length=8", "finetune.epochs=1")
    first = run_experiment(config_of(runs, *options), QUIET)
    plain = first.result
    assert plain.metrics.keys() >= {"rouge1", "rouge2", "rougeL", "rougeLsum", "rougeL_test", "loss"}
    assert plain.pretrained is None
    assert plain.energy_detail is not None
    assert plain.energy_detail.generated.fp32 > 0
    coverage = ("backbone.options.coverage=1.0", "backbone.options.coverage_from=0.5")
    covered = run_experiment(config_of(runs, *options, *coverage), QUIET)
    configs = [(one.directory / "model" / "config.json").read_text() for one in (first, covered)]
    assert '"covering": true' in configs[1]
    assert '"covering": true' not in configs[0]
    assert covered.result.run_id != plain.run_id


@pytest.mark.slow
@pytest.mark.parametrize("system", ["bertsumabs", "gpt2"])
def test_summaries_start_from_a_pretrained_run(system: str, runs: Path) -> None:
    own = (
        ["backbone.options.new_tokens=4"] if system == "gpt2" else ["finetune.epochs=1", "task.generate.max_length=14"]
    )
    result = smoke(runs, f"system={system}", "task=sum/cnn_dm", *own)
    assert result.metrics.keys() >= {"rouge1", "rouge2", "rougeL", "rougeLsum", "rougeLsum_test"}
    assert result.pretrained
    assert (result.steps == 0) == (system == "gpt2")
    assert result.energy_mj.fp32 > 0
