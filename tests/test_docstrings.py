"""The examples in the doc strings of what a person calls from Python work as they are printed by help()."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "spikelm.catalog.energy",
    "spikelm.measure.audit",
    "spikelm.measure.firing",
    "spikelm.measure.trained_model",
    "spikelm.neurons.neuron",
    "spikelm.spiking.calibrate",
    "spikelm.spiking.load",
    "spikelm.spiking.spikify",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_work(name: str) -> None:
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 1
    assert done.failed == 0
