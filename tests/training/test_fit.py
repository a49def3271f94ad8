"""How a fit computes: attention in bf16 on a CPU avoids the kernel whose backward is slow."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from spikelm.training.fit import _attention


@pytest.mark.parametrize(
    ("precision", "on_gpu", "plain"),
    [("bf16-mixed", False, True), ("bf16-mixed", True, False), ("32-true", False, False)],
)
def test_attention_in_bf16_on_a_cpu_is_plain_products(precision: str, on_gpu: bool, plain: bool) -> None:
    q, k, v = (torch.randn(2, 2, 8, 4, requires_grad=True) for _ in range(3))
    with _attention(precision, on_gpu), torch.profiler.profile() as profile:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    called = {event.key for event in profile.key_averages()}
    assert any("flash_attention" in name for name in called) != plain
