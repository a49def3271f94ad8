"""A batch in parts: the gradients and the model of the whole batch, on one device and on two, cut and resumed."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import torch
from test_devices import BASE, FSDP, TWO, start, wait_for_checkpoint, weights
from test_ranks import gradient, module, whole_batch

from spikelm.config.compose import load_config
from spikelm.data.batches.by_step import shard_batch, split_batch
from spikelm.errors import ConfigError
from spikelm.runs.experiment import open_run
from spikelm.training.launch import refuse_too_large, refuse_without_gpu

#: per name a run, and how far its weights may be from those of the whole batch: spikes at their edge round otherwise
RUNS = {
    "pretraining": (("task=pretrain", "neuron=lif", "T=2", "pretrain.steps=5"), 1e-5),
    "fine-tuning": (("task=glue/mrpc", "neuron=lif", "source.train_rows=37", "finetune.batch=4"), 1e-4),
    "distillation": (("task=glue/rte", "neuron=lif", "distill=full"), 1e-4),
    "general distillation": (("task=general_distill", "neuron=lif", "general.steps=12"), 1e-4),
    "text pairs": (("task=sum/xsum", "neuron=lif", "distill=seq2seq"), 1e-4),
}


@pytest.mark.parametrize(("task", "rows", "world"), [("pretrain", 7, 1), ("pretrain", 5, 2), ("glue/rte", 5, 2)])
@pytest.mark.parametrize("micro_batch", [1, 2, 3])
def test_the_mean_over_parts_is_the_gradient_of_the_whole_batch(
    task: str, rows: int, world: int, micro_batch: int
) -> None:
    trained, batch = module(task), whole_batch(rows, task == "pretrain")
    expected = gradient(trained, batch)
    parts = [split_batch(shard_batch(batch, rank, world), micro_batch, world) for rank in range(world)]
    assert len({len(of_rank) for of_rank in parts}) == 1, "all ranks have as many parts"
    assert max(len(part["input_ids"]) for of_rank in parts for part in of_rank) <= micro_batch
    gradients = [gradient(trained, part) for of_rank in parts for part in of_rank]
    for name, whole in expected.items():
        mean = torch.stack([of_part[name] for of_part in gradients]).mean(0)
        torch.testing.assert_close(mean, whole, rtol=1e-4, atol=1e-7, msg=name)


def test_a_batch_that_fits_is_left_as_it_is() -> None:
    batch = whole_batch(4, pretraining=True)
    assert split_batch(batch, None) == [batch]
    assert split_batch(batch, 4) == [batch]


def same_model(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], close: float) -> None:
    assert one.keys() == other.keys()
    for name in one:
        alpha = name.endswith("alpha")
        torch.testing.assert_close(other[name], one[name], rtol=1e-5 if alpha else 0, atol=close, msg=name)


@pytest.mark.parametrize(
    "name", [name if name == "pretraining" else pytest.param(name, marks=pytest.mark.slow) for name in RUNS]
)
def test_parts_train_the_model_of_the_whole_batch(name: str, tmp_path: Path) -> None:
    words, close = RUNS[name]
    whole = weights(tmp_path / "whole", *words)
    same_model(whole, weights(tmp_path / "parts", *words, "trainer.micro_batch=3"), close)
    runs = [open_run(load_config([*BASE, *words, f"runs_dir={tmp_path / name}"])) for name in ("whole", "parts")]
    rows = [{(step, metric): value for step, metric, value in run.metrics()} for run in runs]
    losses = [{key: value for key, value in values.items() if key[1] == "train/loss"} for values in rows]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3, abs=1e-3)
    assert len(runs[1].metrics()) == len(rows[1]), "every value is recorded once"
    assert runs[0].id == runs[1].id, "parts do not make another run"


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_parts_on_two_devices(name: str, tmp_path: Path) -> None:
    words, close = RUNS[name]
    whole = weights(tmp_path / "whole", *words)
    same_model(whole, weights(tmp_path / "parts", *words, "trainer.micro_batch=3", "trainer.devices=2"), close)


@pytest.mark.slow
def test_scales_that_follow_every_batch_see_the_whole_of_it(tmp_path: Path) -> None:
    words = ("task=glue/rte", "system=q2bert")
    whole, parts = (weights(tmp_path / str(rows), *words, f"trainer.micro_batch={rows}") for rows in ("null", 3))
    scales = [name for name in whole if name.endswith("alpha")]
    assert scales
    same_model({name: whole[name] for name in scales}, {name: parts[name] for name in scales}, 1e-3)


@pytest.mark.slow
def test_shards_and_parts_together(tmp_path: Path) -> None:
    words = ("task=glue/mrpc", "neuron=lif", "source.train_rows=37", "finetune.batch=4")
    whole = weights(tmp_path / "whole", *words)
    same_model(whole, weights(tmp_path / "parts", *words, TWO, FSDP, "trainer.micro_batch=1"), 1e-4)


@pytest.mark.slow
def test_amplitudes_that_follow_are_those_of_the_whole_batch(tmp_path: Path) -> None:
    words = ("task=general_distill", "neuron=bispike", "general.steps=24", "general.amplitudes.follow=1.0")
    whole, parts = (weights(tmp_path / str(rows), *words, f"trainer.micro_batch={rows}") for rows in ("null", 3))
    same_model(whole, parts, 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("after", ["3", "null", "2"])
def test_a_run_in_parts_is_cut_and_goes_on_with_other_parts(after: str, tmp_path: Path) -> None:
    """A signal or a kill comes in the middle of an accumulation: what is kept is always a whole step."""
    args = ("task=pretrain", "neuron=lif", "T=2", "pretrain.steps=24", "trainer.checkpoint_every=3")
    process = start(tmp_path / "cut", *args, "trainer.micro_batch=3")
    wait_for_checkpoint(tmp_path / "cut", process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    cut = weights(tmp_path / "cut", *args, f"trainer.micro_batch={after}")
    whole = weights(tmp_path / "whole", *args, "trainer.micro_batch=3")
    if after == "3":
        assert all(torch.equal(cut[name], whole[name]) for name in whole)
    same_model(whole, cut, 1e-4)


LARGE = ("scale=paper", "task=pretrain", "system=spikelm_t4", "trainer.devices=1")
KEPT = "trainer.activation_checkpointing=false"


def test_a_model_that_cannot_fit_is_refused_with_settings_that_do() -> None:
    with pytest.raises(
        ConfigError, match=r"512 rows at a time needs about [\d.]+ GB of a device that has 80 GB"
    ) as caught:
        refuse_too_large(load_config([*LARGE, "trainer.device_memory=80", "trainer.micro_batch=512", KEPT]))
    assert "trainer.micro_batch=null" in caught.value.fix
    refuse_too_large(load_config([*LARGE, "trainer.device_memory=80"]))
    with pytest.raises(ConfigError, match=r"1 rows at a time") as caught:
        refuse_too_large(load_config([*LARGE, "trainer.device_memory=1"]))
    assert "a smaller backbone" in caught.value.fix


def test_the_papers_sizes_are_not_trained_on_a_cpu_by_accident() -> None:
    with pytest.raises(ConfigError, match="torch sees none") as caught:
        refuse_without_gpu(load_config([*LARGE]), accelerator=False)
    assert "trainer.accelerator=cpu" in caught.value.fix
    refuse_without_gpu(load_config([*LARGE]), accelerator=True)
    refuse_without_gpu(load_config([*LARGE, "trainer.accelerator=cpu"]), accelerator=False)
    with pytest.raises(ConfigError, match=r"trainer\.accelerator=gpu, but torch sees no GPU here"):
        refuse_without_gpu(load_config(["trainer.accelerator=gpu"]), accelerator=False)
    refuse_without_gpu(load_config(["scale=mini", "task=pretrain"]), accelerator=False)
