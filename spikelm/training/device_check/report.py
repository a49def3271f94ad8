"""The whole check of a device, as one record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from spikelm.config.compose import load_config
from spikelm.config.plugins import option_names
from spikelm.config.settings.specs import NeuronSpec, QuantizerSpec
from spikelm.errors import ConfigError
from spikelm.machine.environment import Environment, environment
from spikelm.machine.torch_build import build_of
from spikelm.training.device_check.comparison import Check, failed
from spikelm.training.device_check.model_checks import Sizes, compiled_model_check, model_checks
from spikelm.training.device_check.neuron_checks import (
    TIME_STEPS,
    compiled_checks,
    neuron_checks,
    one_of_each_kernel,
    quantizer_checks,
)
from spikelm.training.device_check.speed import Speed, memory_checks, speeds
from spikelm.training.device_check.two_ranks import two_rank_check


@dataclass(frozen=True)
class Thoroughness:
    """How large the models and inputs of a check are, and how often a step is timed."""

    neuron: tuple[int, int, int]  # rows, tokens, channels
    matrix: int
    models: Sizes
    timed: Sizes
    repeats: int


#: BERT-base and BART-base: ten minutes on a GPU. Comparisons have few rows, because the reference runs on the CPU.
FULL = Thoroughness(
    (16, 128, 768), 768, Sizes("bert_base", "bart_base", 4, 128, 32), Sizes("bert_base", "bart_base", 32, 128, 0), 20
)
#: A minute or two on two cores.
QUICK = Thoroughness(
    (8, 32, 512), 512, Sizes("bert_small", "bart_mini", 4, 48, 12), Sizes("bert_mini", "bart_mini", 8, 48, 0), 7
)


@dataclass(frozen=True)
class DeviceReport:
    """What a device was seen to compute, how fast, and where."""

    device: str
    quick: bool
    seconds: float
    environment: Environment
    checks: tuple[Check, ...]
    speeds: tuple[Speed, ...]

    @property
    def problems(self) -> list[Check]:
        return [check for check in self.checks if check.state == "problem"]


def neuron_specs() -> list[NeuronSpec]:
    """Every neuron of conf/ and of plugins, but the plain model's none."""
    named = [load_config(["task=pretrain", f"neuron={name}"]).neuron for name in option_names("neuron")]
    return [spec for spec in named if spec]


def quantizer_specs() -> list[QuantizerSpec]:
    """Every quantiser of conf/ and of plugins."""
    named = [load_config(["task=pretrain", f"weights={name}"]).weights for name in option_names("weights")]
    return [spec for spec in named if spec]


def the_device(name: str) -> torch.device:
    """The device that is asked for."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError("torch finds no GPU", "spikelm-doctor says why; --device cpu checks the check itself")
    return torch.device(name)


def check_device(name: str, quick: bool, heard: Callable[[Check | Speed], None]) -> DeviceReport:
    """Everything, one after the other; `heard` is told of each result as it comes."""
    device, how = the_device(name), QUICK if quick else FULL
    started = time.monotonic()
    checks: list[Check] = []
    for check in _comparisons(device, how, quick):
        checks.append(check)
        heard(check)
    timed: list[Speed] = []
    try:
        for speed in speeds(how.timed, device, how.repeats):
            timed.append(speed)
            heard(speed)
    except Exception as error:  # what was compared before is not lost
        checks.append(failed("speed", "training step", error))
        heard(checks[-1])
    for check in memory_checks(timed):
        checks.append(check)
        heard(check)
    label = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    seconds = round(time.monotonic() - started, 1)
    return DeviceReport(label, quick, seconds, environment(build_of(torch)), tuple(checks), tuple(timed))


def _comparisons(device: torch.device, how: Thoroughness, quick: bool) -> Iterator[Check]:
    specs = neuron_specs()
    yield from neuron_checks(specs, device, how.neuron)
    yield from quantizer_checks(quantizer_specs(), device, how.matrix)
    if quick:
        yield from compiled_checks(one_of_each_kernel(specs), device, how.neuron, TIME_STEPS[-1:])
    else:
        yield from compiled_checks(specs, device, how.neuron, TIME_STEPS)
        yield compiled_model_check(how.models, device)
    yield from model_checks(how.models, device, TIME_STEPS)
    yield two_rank_check(how.models, device)
