"""What a product takes, against loops over its operands."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from spikelm.catalog.counts import TOGETHER
from spikelm.measure.product_counts import Operand, Place, Product, count_product
from spikelm.measure.spike_tensors import Code


def sparse(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-1, 2, shape, generator=generator).float()


@pytest.mark.parametrize("transposed", [False, True])
def test_pairs_and_macs_are_those_of_three_loops(transposed: bool) -> None:
    left, right = sparse(2, 3, 5), sparse(2, 5, 4)
    pairs = [
        (float(left[b, row, k]), float(right[b, k, column]))
        for b in range(2)
        for row in range(3)
        for k in range(5)
        for column in range(4)
    ]
    product = Product(left, right.mT if transposed else right, left @ right, transposed=transposed)
    assert product.macs == len(pairs)
    assert product.not_zero() == sum(x != 0 and y != 0 for x, y in pairs)
    assert product.not_zero(product.left) == sum(x != 0 for x, _ in pairs)
    assert product.not_zero(product.right) == sum(y != 0 for _, y in pairs)


def test_a_convolution_is_the_product_with_its_patches() -> None:
    image, filters = sparse(2, 3, 7), sparse(4, 3, 3)
    patches = F.unfold(image[:, :, None], (1, 3)).mT.reshape(-1, 9)
    out = F.conv1d(image, filters)
    product = Product(image, filters, out, ([1], [0], [1], False, [0], 1))
    rows = Product(patches, filters.flatten(1).mT, patches @ filters.flatten(1).mT)
    assert product.macs == rows.macs == 2 * 5 * 9 * 4
    assert product.not_zero() == rows.not_zero()
    assert product.not_zero(image) == rows.not_zero(patches)


def test_a_row_of_weights_is_read_for_a_vector_or_a_group_in_which_something_fires() -> None:
    T, tokens, inner, columns = 2, TOGETHER + 3, 5, 4
    spikes, weights = sparse(T, tokens, inner) * (torch.arange(inner) != 2), sparse(inner, columns)
    fires = [[any(bool(spikes[t, n, k]) for t in range(T)) for k in range(inner)] for n in range(tokens)]
    groups = [fires[:TOGETHER], fires[TOGETHER:]]
    product = Product(spikes, weights, spikes @ weights)
    alone = sum(map(sum, fires)) * columns
    together = sum(any(row[k] for row in group) for group in groups for k in range(inner)) * columns
    assert product.fetched(spikes, T) == (alone, together)
    assert product.sharing(spikes) == tokens


def test_a_linear_that_reads_spikes() -> None:
    T, tokens, inner, columns = 2, 3, 5, 4
    spikes, weights = sparse(T, tokens, inner), sparse(inner, columns)
    product = Product(spikes, weights, spikes @ weights)
    rate = float((spikes != 0).double().mean())
    side = Operand(spikes, Code(rate, 1, 3), "input")
    place = Place("encoder.layer.0", "encoder", True, T)
    count = count_product(place, "linear", "spikes", [side], product, decodes=False, weights=20, repeated={})
    fired = sum(bool(x) for x in spikes.flatten().tolist())
    once = sum(bool(spikes[0, n, k]) or bool(spikes[1, n, k]) for n in range(tokens) for k in range(inner))
    assert (count.events, count.active, count.distinct) == (fired, fired * columns, once * columns)
    assert (count.macs, count.inner, count.columns, count.inputs) == (T * tokens * inner * columns, inner, columns, 30)
    assert (count.module, count.part, count.hooked, count.steps) == ("encoder.layer.0", "encoder", True, T)
    assert (count.unit, count.signed, count.cached) == (True, True, False)
