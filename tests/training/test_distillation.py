"""Losses of distillation against plain loops and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from torch import Tensor

from spikelm.config.settings.distill import DistillConfig, StatesConfig
from spikelm.training.distill.losses import (
    attention_losses,
    hidden_losses,
    layer_weights,
    logits_loss,
    perturb,
    relation_losses,
    score_losses,
    weighted,
)
from spikelm.training.places import replaceable, where_true

MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])
REAL = where_true(MASK)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_logits_loss_is_the_scaled_divergence(temperature: float) -> None:
    student, teacher = random(5, 3, seed=1), random(5, 3, seed=2)
    p, q = (softmax(logits.double().numpy() / temperature, axis=-1) for logits in (teacher, student))
    expected = temperature**2 * rel_entr(p, q).sum(-1).mean()
    assert float(logits_loss(student, teacher, temperature)) == pytest.approx(expected, rel=1e-5)
    assert float(logits_loss(teacher, teacher, temperature)) == pytest.approx(0, abs=1e-6)


def test_logits_loss_of_one_output_is_the_squared_error() -> None:
    student, teacher = random(6, 1, seed=1), random(6, 1, seed=2)
    expected = np.mean([(float(s) - float(t)) ** 2 for s, t in zip(student, teacher, strict=True)])
    assert float(logits_loss(student, teacher, 3.0)) == pytest.approx(expected, rel=1e-5)


def test_hidden_losses_are_the_unexplained_share_of_real_tokens() -> None:
    student, teacher = [random(2, 4, 8, seed=1), random(2, 4, 8, seed=2)], [random(2, 4, 8, seed=3)] * 2
    for layer, loss in enumerate(hidden_losses(student, teacher, REAL)):
        errors, goals = [], []
        for b in range(2):
            for i in range(4):
                if MASK[b, i]:
                    errors += ((student[layer][b, i] - teacher[layer][b, i]) ** 2).tolist()
                    goals += teacher[layer][b, i].tolist()
        assert float(loss) == pytest.approx(np.mean(errors) / np.var(goals, ddof=1), rel=1e-5)


def test_attention_losses_leave_out_what_pads_attend_to() -> None:
    student, teacher = (random(2, 3, 4, 4, seed=seed).softmax(-1) for seed in (1, 2))
    errors = [
        float(((student[b, h, i] - teacher[b, h, i]) ** 2).sum())
        for b in range(2)
        for h in range(3)
        for i in range(4)
        if MASK[b, i]
    ]
    assert float(attention_losses([student], [teacher], REAL)[0]) == pytest.approx(np.mean(errors), rel=1e-5)


def test_pads_cannot_change_a_loss() -> None:
    student, teacher = random(2, 4, 8, seed=1), random(2, 4, 8, seed=2)
    changed = torch.where(MASK.bool()[..., None], student, 100.0)
    assert torch.equal(hidden_losses([student], [teacher], REAL)[0], hidden_losses([changed], [teacher], REAL)[0])


@pytest.mark.parametrize(
    ("layers", "progress", "expected"),
    [
        ("all", 0.0, [0.25] * 4),
        ("last", 0.0, [0, 0, 0, 1]),
        ("progressive", 0.0, [1, 0, 0, 0]),
        ("progressive", 0.13, [0.5, 0.5, 0, 0]),
        ("progressive", 0.3, [1 / 3, 1 / 3, 1 / 3, 0]),
        ("progressive", 0.5, [0.25] * 4),
        ("progressive", 1.0, [0.25] * 4),
    ],
)
def test_layer_weights(layers: str, progress: float, expected: list[float]) -> None:
    assert layer_weights(DistillConfig(states=StatesConfig(layers=layers)), 4, progress) == pytest.approx(expected)


def test_a_layer_without_weight_gets_no_gradient() -> None:
    losses = [torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)]
    total = weighted(losses, [0.0, 0.5])
    total.backward()
    assert float(total) == 1.5
    assert losses[0].grad is None
    assert float(losses[1].grad) == 0.5  # type: ignore[arg-type]


def test_noise_replaces_words_by_words_of_the_batch_in_half_of_the_rows() -> None:
    torch.manual_seed(0)
    cls, sep, rows, length = 101, 102, 400, 20
    ids = torch.randint(1000, 1100, (rows, length))
    ids[:, 0], ids[:, 9], ids[:, 14] = cls, sep, sep
    mask = torch.ones_like(ids)
    mask[:, 15:], ids[:, 15:] = 0, 0
    noisy, clean = perturb(ids, mask, 0.3, where_true(replaceable(ids, mask)))
    kept = (ids == cls) | (ids == sep) | (mask == 0)
    assert torch.equal(noisy[kept], ids[kept]), "marks and pads stay"
    assert torch.equal(noisy[clean], ids[clean])
    assert 0.4 < float(clean.float().mean()) < 0.6
    words = ~kept & ~clean[:, None]
    changed = float((noisy != ids)[words].float().mean())
    assert changed == pytest.approx(0.3 * 0.99, abs=0.03), "one in a hundred is replaced by itself"
    assert set(noisy[words].tolist()) <= set(ids[~kept].tolist())


def test_a_batch_without_words_is_left_alone() -> None:
    ids = torch.tensor([[101, 102]])
    mask = torch.ones_like(ids)
    noisy, clean = perturb(ids, mask, 0.9, where_true(replaceable(ids, mask)))
    assert torch.equal(noisy, ids)
    assert clean.all()


def test_soft_cross_entropy_is_a_mean_over_rows_and_classes() -> None:
    student, teacher = random(5, 3, seed=1), random(5, 3, seed=2)
    p, q = (softmax(logits.double().numpy(), axis=-1) for logits in (teacher, student))
    expected = np.mean([-p[i, c] * np.log(q[i, c]) for i in range(5) for c in range(3)])
    assert float(logits_loss(student, teacher, 1.0, "soft")) == pytest.approx(expected, rel=1e-5)


def test_score_losses_count_pads_as_zero_in_both() -> None:
    student, teacher = random(2, 3, 4, 4, seed=1), random(2, 3, 4, 4, seed=2)
    errors = [
        float(student[b, h, i, j] - teacher[b, h, i, j]) ** 2 if MASK[b, i] and MASK[b, j] else 0.0
        for b in range(2)
        for h in range(3)
        for i in range(4)
        for j in range(4)
    ]
    assert float(score_losses([student], [teacher], MASK)[0]) == pytest.approx(np.mean(errors), rel=1e-5)
    few = random(2, 1, 4, 4, seed=1)
    mean = score_losses([few], [teacher.mean(1, keepdim=True)], MASK)[0]
    assert float(score_losses([few], [teacher], MASK)[0]) == pytest.approx(float(mean))


def test_relations_are_compared_by_direction() -> None:
    """|| P_s / ||P_s|| - P_t / ||P_t|| || with P = X X' / sqrt(d) of the real tokens: scale does not matter."""
    student, teacher = random(2, 3, 4, 5, seed=1), random(2, 3, 4, 5, seed=2)
    found = []
    for x in (student, teacher):
        p = np.zeros((2, 3, 4, 4))
        for b in range(2):
            for h in range(3):
                for i in range(4):
                    for j in range(4):
                        if MASK[b, i] and MASK[b, j]:
                            p[b, h, i, j] = float(x[b, h, i] @ x[b, h, j]) / np.sqrt(5)
        found.append(p / np.sqrt((p**2).sum()))
    expected = np.sqrt(((found[0] - found[1]) ** 2).sum())
    assert float(relation_losses([student], [teacher], MASK)[0]) == pytest.approx(expected, rel=1e-5)
    assert float(relation_losses([3 * student], [teacher], MASK)[0]) == pytest.approx(expected, rel=1e-5)
    assert float(relation_losses([teacher], [teacher], MASK)[0]) == pytest.approx(0, abs=1e-6)
