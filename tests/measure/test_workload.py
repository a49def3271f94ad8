"""What a device computes at a time: the fewest equal parts of its rows that fit its memory."""

from __future__ import annotations

import pytest

from spikelm.config.compose import load_config
from spikelm.measure.workload import USABLE_MEMORY, carried_out, device_share, trained_parameters, training_memory_gb

PRETRAINING = ("scale=paper", "task=pretrain", "system=spikelm_t4", "trainer.accelerator=cpu")


def test_all_rows_at_once_where_the_memory_of_the_device_is_not_known() -> None:
    share = device_share(load_config([*PRETRAINING, "trainer.devices=8"]))
    assert (share.rows, share.micro_batch, share.accumulate, share.fits) == (64, 64, 1, None)
    assert share.memory_gb is not None


@pytest.mark.parametrize("memory", [24, 80])
@pytest.mark.parametrize("devices", [1, 2, 8])
def test_the_fewest_parts_that_fit(devices: int, memory: int) -> None:
    config = load_config([*PRETRAINING, f"trainer.devices={devices}", f"trainer.device_memory={memory}"])
    share, parameters = device_share(config), trained_parameters(config)
    assert share.rows == 512 // devices
    assert share.fits
    assert share.micro_batch * (share.accumulate - 1) < share.rows <= share.micro_batch * share.accumulate
    assert share.memory_gb == training_memory_gb(config, parameters, share.micro_batch) <= USABLE_MEMORY * memory
    if share.accumulate > 1:
        fewer = -(-share.rows // (share.accumulate - 1))
        assert training_memory_gb(config, parameters, fewer) > USABLE_MEMORY * memory


def test_a_micro_batch_that_is_given_is_taken_and_judged() -> None:
    given = (*PRETRAINING, "trainer.devices=1", "trainer.micro_batch=512")
    assert device_share(load_config([*given, "trainer.device_memory=24"])).fits is False
    share = device_share(load_config([*given, "trainer.device_memory=2000"]))
    assert (share.micro_batch, share.accumulate, share.fits) == (512, 1, True)


def test_one_row_that_does_not_fit_is_said() -> None:
    share = device_share(load_config([*PRETRAINING, "trainer.devices=8", "trainer.device_memory=0.5"]))
    assert (share.micro_batch, share.accumulate, share.fits) == (1, 64, False)


def test_a_model_that_is_counted_when_it_is_built_has_no_estimate() -> None:
    share = device_share(load_config(["scale=smoke", "task=glue/sst2", "system=elmo", "trainer.accelerator=cpu"]))
    assert share.memory_gb is None
    assert share.fits is None


MBART = ("scale=paper", "task=mt/wmt16_enro", "system=spikelm_t4", "trainer.accelerator=cpu", "trainer.devices=8")


def test_activations_are_computed_again_where_nothing_else_fits() -> None:
    large, small = (device_share(load_config([*MBART, f"trainer.device_memory={gb}"])) for gb in (80, 24))
    assert (large.fits, large.checkpointing) == (True, False)
    assert (small.fits, small.checkpointing) == (True, True)
    kept = device_share(load_config([*MBART, "trainer.device_memory=24", "trainer.activation_checkpointing=false"]))
    assert (kept.fits, kept.checkpointing, kept.micro_batch) == (False, False, 1)
    assert device_share(load_config([*MBART, "trainer.device_memory=5"])).fits is False
    assert carried_out(load_config([*MBART, "trainer.device_memory=24"])).trainer.activation_checkpointing is True
