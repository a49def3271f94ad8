"""Indices of the tokens that count give what boolean masks give, to the last digit, in value and gradient."""

from __future__ import annotations

import pytest
import torch

from spikelm.data.batches.mlm_nsp import IGNORED
from spikelm.training.places import FINDERS, places, rows_at, with_places

MASK = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]])
IDS = torch.tensor([[101, 7, 8, 102, 0, 0], [101, 5, 102, 6, 9, 102], [101, 102, 0, 0, 0, 0]])
LABELS = torch.full_like(IDS, IGNORED).index_put((torch.tensor([0, 1, 1]), torch.tensor([1, 3, 4])), torch.tensor(4))
BATCH = {"input_ids": IDS, "attention_mask": MASK, "labels": LABELS}
WORDS = (IDS > 0) & (IDS < 100)
FOLLOWED = torch.cat([MASK[:, 1:], torch.zeros(3, 1, dtype=torch.long)], dim=1).bool()


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("token_places", MASK.bool()),
        ("label_places", LABELS != IGNORED),
        ("next_places", FOLLOWED),
        ("word_places", WORDS),
    ],
)
def test_rows_at_places_are_those_of_the_mask(name: str, mask: torch.Tensor) -> None:
    x = torch.randn(*MASK.shape, 5, generator=torch.Generator().manual_seed(1))
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    for chosen in (rows_at(ours, places(BATCH, name)), theirs[mask]):
        chosen.square().sum().backward()
    assert torch.equal(rows_at(x, places(BATCH, name)), x[mask])
    assert torch.equal(ours.grad, theirs.grad)  # type: ignore[arg-type]


def test_a_batch_brings_its_places() -> None:
    batch = with_places(BATCH, ("label_places",))
    assert set(batch) == {*BATCH, "label_places"}
    assert places(batch, "label_places") is batch["label_places"]
    assert set(with_places(BATCH, tuple(FINDERS))) == {*BATCH, *FINDERS}
