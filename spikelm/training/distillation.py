"""What a student can take from a teacher: logits, hidden states, attention maps; one loss each, pads left out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.schema import DistillConfig


def logits_loss(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """t^2 KL(teacher / t || student / t), mean over rows; one output (regression): the squared error."""
    if student.shape[-1] == 1:
        return F.mse_loss(student, teacher)
    goal = F.log_softmax(teacher / temperature, dim=-1)
    found = F.log_softmax(student / temperature, dim=-1)
    return temperature**2 * F.kl_div(found, goal, reduction="batchmean", log_target=True)


def hidden_losses(
    student: Sequence[Tensor], teacher: Sequence[Tensor], mask: Tensor, scaled: bool = True
) -> list[Tensor]:
    """For each layer mean (s - t)^2 / var(t) over the real tokens: the share of the teacher that is not explained.

    Not `scaled` it is the plain squared error.
    """
    real = mask.bool()
    losses = []
    for ours, theirs in zip(student, teacher, strict=True):
        goal = theirs[real].float()
        error = F.mse_loss(ours[real].float(), goal)
        losses.append(error / goal.var() if scaled else error)
    return losses


def representation_loss(losses: Sequence[Tensor], rows: int) -> Tensor:
    """Stage 1 of SpikeBERT: (1/B) sum over the layers of the mean squared error (facts 2.10)."""
    return torch.stack(list(losses)).sum() / rows


def embedding_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared error of two matrices of word embeddings."""
    return F.mse_loss(student.float(), teacher.float())


def attention_losses(student: Sequence[Tensor], teacher: Sequence[Tensor], mask: Tensor) -> list[Tensor]:
    """For each layer the squared error of the maps (B, heads, n, n), summed over keys, mean over heads and queries."""
    real = mask.bool()
    losses = []
    for ours, theirs in zip(student, teacher, strict=True):
        error = (ours.float() - theirs.float()).square().sum(-1).mean(1)  # what pads attend to does not count
        losses.append(error[real].mean())
    return losses


def layer_weights(settings: DistillConfig, layers: int, progress: float) -> list[float]:
    """Weights of the layers' losses, summing to one; `progress` is the share of the steps already done.

    progressive: the first layer alone at the start, one more at a time, all of them after half of the steps.
    """
    if settings.layers == "last":
        active = [layer == layers - 1 for layer in range(layers)]
    elif settings.layers == "progressive":
        reached = min(layers, 1 + math.floor(2 * progress * layers))
        active = [layer < reached for layer in range(layers)]
    else:
        active = [True] * layers
    return [float(on) / sum(active) for on in active]


def weighted(losses: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Their weighted sum; what has no weight is not part of the graph."""
    return torch.stack([weight * loss for weight, loss in zip(weights, losses, strict=True) if weight]).sum()


def perturb(ids: Tensor, mask: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Other tokens of the batch in place of a `share` of those of half the rows, and which rows are still clean.

    A teacher can be asked about any text: few training rows become as many as there are steps. Each row's first
    token and every token like its last ([CLS] and [SEP]) stay.
    """
    rows = len(ids)
    clean = torch.rand(rows, device=ids.device) < 0.5
    last = ids.gather(1, mask.sum(1, keepdim=True) - 1)
    words = mask.bool() & (ids != last)
    words[:, 0] = False
    pool = ids[words]
    if not len(pool):
        return ids, torch.ones_like(clean)
    drawn = pool[torch.randint(len(pool), ids.shape, device=ids.device)]
    replaced = words & (torch.rand(ids.shape, device=ids.device) < share) & ~clean[:, None]
    return torch.where(replaced, drawn, ids), clean
