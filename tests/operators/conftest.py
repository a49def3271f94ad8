"""Operator tests run on one thread and read the same tensors of public implementations as those of neurons."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import settings

sys.path.append(str(Path(__file__).resolve().parents[1] / "neurons" / "unfolding"))  # golden.py

settings.register_profile("operators", max_examples=40, deadline=None)
settings.load_profile("operators")


@pytest.fixture(autouse=True)
def _one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
