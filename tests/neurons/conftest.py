"""Neuron tests run on one thread, as they share the machine with other tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

settings.register_profile("neurons", max_examples=40, deadline=None)
settings.load_profile("neurons")


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
