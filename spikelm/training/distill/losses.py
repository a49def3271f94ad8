"""What a student can take from a teacher: logits, hidden states, attention maps; one loss each, pads left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.config.settings.distill import DistillConfig
from spikelm.data.batches.by_step import Batch
from spikelm.training.devices.ranks import summed
from spikelm.training.places import replaceable, rows_at


def logits_loss(student: Tensor, teacher: Tensor, temperature: float, kind: str = "kl") -> Tensor:
    """t^2 KL(teacher / t || student / t), mean over rows; mse, or one output (regression): the squared error.

    soft: mean over rows and classes of -p_teacher log p_student, as in TernaryBERT and BiBERT.
    """
    if kind == "mse" or student.shape[-1] == 1:
        return F.mse_loss(student, teacher)
    if kind == "soft":
        goal = F.softmax(teacher / temperature, dim=-1)
        return -(goal * F.log_softmax(student / temperature, dim=-1)).mean()
    goal = F.log_softmax(teacher / temperature, dim=-1)
    log_student = F.log_softmax(student / temperature, dim=-1)
    return temperature**2 * F.kl_div(log_student, goal, reduction="batchmean", log_target=True)


def hidden_losses(
    student: Sequence[Tensor],
    teacher: Sequence[Tensor],
    real: Tensor | None,
    scaled: bool = True,
    variances: Tensor | None = None,
) -> list[Tensor]:
    """For each layer mean (s - t)^2 / var(t) over the real tokens: the share of the teacher that is not explained.

    `real` are their places, None for all tokens. Not `scaled` it is the plain squared error. `variances` are given
    where the batch is shared by devices or cut into parts: they are those of all of it (Variances).
    """
    losses = []
    for layer, (ours, theirs) in enumerate(zip(student, teacher, strict=True)):
        states, goal = (counted(x, real).float() for x in (ours, theirs))
        error = F.mse_loss(states, goal)
        losses.append(error / (goal.var() if variances is None else variances[layer]) if scaled else error)
    return losses


def counted(x: Tensor, real: Tensor | None) -> Tensor:
    """The tokens at the given places, or all of them."""
    return x if real is None else rows_at(x, real)


class Variances:
    """The variance of each list of a teacher's states over a whole batch that devices share or parts make up."""

    def __init__(self) -> None:
        self._of_step: dict[str, Tensor] = {}

    def look_ahead(self, parts: Mapping[str, Sequence[Tensor]]) -> None:
        """Keep what the sums of all parts of a step come to, until `forget`."""
        self._of_step = {name: variances_of(summed(torch.stack(list(sums)).sum(0))) for name, sums in parts.items()}

    def forget(self) -> None:
        """The next step has a batch of its own."""
        self._of_step = {}

    def __call__(self, name: str, states: Sequence[Tensor], real: Tensor | None, batch: Batch) -> Tensor | None:
        """Of a list of states (layers,); None where the rows at hand are the whole batch."""
        if name in self._of_step or "row_share" not in batch:
            return self._of_step.get(name)
        return variances_of(summed(state_sums(states, real, batch)))


def state_sums(states: Sequence[Tensor], real: Tensor | None, batch: Batch) -> Tensor:
    """(layers, 3): how many values each layer has, their sum and the sum of their squares; a row without a share
    counts nothing.
    """
    double = torch.float64
    values = [counted(x, real).float() for x in states]
    sums = [
        torch.stack([x.new_full((), x.numel(), dtype=double), x.sum(dtype=double), x.square().sum(dtype=double)])
        for x in values
    ]
    counts = batch["row_share"] > 0 if "row_share" in batch else 1
    return torch.stack(sums) * counts


def variances_of(sums: Tensor) -> Tensor:
    """The variances of what `state_sums` has added up, as torch's var() counts them."""
    count, total, squares = sums.unbind(-1)
    return ((squares - total.square() / count) / (count - 1)).float()


def representation_loss(losses: Sequence[Tensor], rows: Tensor | int) -> Tensor:
    """Stage 1 of SpikeBERT: (1/B) sum over the layers of the mean squared error."""
    return torch.stack(list(losses)).sum() / rows


def embedding_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared error of two matrices of word embeddings."""
    return F.mse_loss(student.float(), teacher.float())


def attention_losses(student: Sequence[Tensor], teacher: Sequence[Tensor], real: Tensor) -> list[Tensor]:
    """For each layer the squared error of the maps (B, heads, n, n), summed over keys, mean over heads and queries.

    `real` are the places of the queries that count.
    """
    losses = []
    for ours, theirs in zip(student, teacher, strict=True):
        error = (ours.float() - theirs.float()).square().sum(-1).mean(1)  # what pads attend to does not count
        losses.append(rows_at(error, real).mean())
    return losses


def score_losses(student: Sequence[Tensor], teacher: Sequence[Tensor], mask: Tensor) -> list[Tensor]:
    """For each layer the squared error of the scores (B, heads, n, n) before the softmax, mean over all entries.

    Scores of pads count as zero in both, as in TernaryBERT. A student with fewer heads is compared with
    its teacher by the mean over the heads.
    """
    kept, losses = pairs_of(mask), []
    for ours, theirs in zip(student, teacher, strict=True):
        if ours.shape[1] != theirs.shape[1]:
            ours, theirs = (scores.mean(1, keepdim=True) for scores in (ours, theirs))
        losses.append(F.mse_loss(ours * kept, theirs * kept))
    return losses


def direction_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """|| P_s / ||P_s|| - P_t / ||P_t|| ||, Frobenius norms over the whole batch (BiBERT's DMD)."""
    return (student / student.norm() - teacher / teacher.norm()).norm()


def relation_losses(student: Sequence[Tensor], teacher: Sequence[Tensor], mask: Tensor) -> list[Tensor]:
    """For each X of (B, heads, n, d) the direction loss of P = X X' / sqrt(d), without what pads have to do with."""
    kept = pairs_of(mask)
    return [
        direction_loss(similarity(ours, ours) * kept, similarity(theirs, theirs) * kept)
        for ours, theirs in zip(student, teacher, strict=True)
    ]


def similarity(left: Tensor, right: Tensor) -> Tensor:
    """left right' / sqrt(d): attention scores, or the relations of tokens to each other."""
    return left @ right.mT / math.sqrt(left.shape[-1])


def pairs_of(mask: Tensor) -> Tensor:
    """(B, 1, n, n) of the mask (B, n): 1 where both tokens are real."""
    return (mask[:, None, :, None] * mask[:, None, None, :]).float()


def layer_weights(settings: DistillConfig, layers: int, progress: float) -> list[float]:
    """Weights of the layers' losses, summing to one; `progress` is the share of the steps already done.

    progressive: the first layer alone at the start, one more at a time, all of them after half of the steps.
    """
    if settings.states.layers == "last":
        active = [layer == layers - 1 for layer in range(layers)]
    elif settings.states.layers == "progressive":
        reached = min(layers, 1 + math.floor(2 * progress * layers))
        active = [layer < reached for layer in range(layers)]
    else:
        active = [True] * layers
    return [float(on) / sum(active) for on in active]


def weighted(losses: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """Their weighted sum; what has no weight is not part of the graph."""
    return torch.stack([weight * loss for weight, loss in zip(weights, losses, strict=True) if weight]).sum()


def perturb(ids: Tensor, mask: Tensor, share: float, words: Tensor) -> tuple[Tensor, Tensor]:
    """Other tokens of the batch in place of a `share` of those of half the rows, and which rows are still clean.

    A teacher can be asked about any text: few training rows become as many as there are steps. Each row's first
    token and every token like its last ([CLS] and [SEP]) stay. `words` are the places of the others.
    """
    rows = len(ids)
    clean = torch.rand(rows, device=ids.device) < 0.5
    if not len(words):
        return ids, torch.ones_like(clean)
    drawn = rows_at(ids, words)[torch.randint(len(words), ids.shape, device=ids.device)]
    replaced = replaceable(ids, mask) & (torch.rand(ids.shape, device=ids.device) < share) & ~clean[:, None]
    return torch.where(replaced, drawn, ids), clean
