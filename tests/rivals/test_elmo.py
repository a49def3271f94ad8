"""ELMo: directions that do not see what they predict, the mix by its formula, sentences apart, freezing, saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from torch import nn

from spikelm.catalog.energy import character_macs, elmo_terms, lstm_macs
from spikelm.config.compose import load_config
from spikelm.data.batches.by_step import reversed_rows
from spikelm.data.tokens.wordpiece import wordpiece
from spikelm.errors import ConfigError
from spikelm.rivals.elmo.bilm import END, FIRST, START, BiLM, BiLMConfig, spelling
from spikelm.rivals.elmo.elmo import ElmoForSequenceClassification, ScalarMix, split_sentences

SIZES = {
    **{"vocab_size": 40, "hidden_size": 6, "cells": 10, "characters": 7, "filters": [3, 4], "character_size": 5},
    **{"highways": 1, "task_hidden": 5, "task_mlp": 4, "dropout": 0.0, "task_dropout": 0.0},
}


@pytest.fixture
def bilm() -> BiLM:
    torch.manual_seed(0)
    model = BiLM(BiLMConfig(**SIZES)).eval()
    model.tokens.spellings.copy_(torch.randint(0, 259, model.tokens.spellings.shape))
    return model


def rows(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(5, 40, mask.shape, generator=generator) * mask, mask


def test_no_direction_sees_what_it_predicts(bilm: BiLM) -> None:
    ids, mask = rows(8, 8)
    before = bilm(ids, mask).hidden_states
    changed = ids.clone()
    changed[:, 5] = (ids[:, 5] + 1) % 35 + 5
    after = bilm(changed, mask).hidden_states
    for a, b in zip(before[1:], after[1:], strict=True):
        (ahead, back), (ahead_b, back_b) = a.chunk(2, -1), b.chunk(2, -1)
        torch.testing.assert_close(ahead[:, :5], ahead_b[:, :5])  # forward states before the change
        assert ((ahead - ahead_b)[:, 5:].abs().amax(-1) > 1e-4).all()
        torch.testing.assert_close(back[:, 6:], back_b[:, 6:])  # backward states after it
        assert (back - back_b)[:, 5].abs().amax() > 1e-4


def test_padding_changes_nothing(bilm: BiLM) -> None:
    ids, mask = rows(8, 5)
    together = bilm(ids, mask).hidden_states
    alone = bilm(ids[1:, :5], mask[1:, :5]).hidden_states
    for a, b in zip(together, alone, strict=True):
        torch.testing.assert_close(a[1:, :5], b)
    assert reversed_rows(ids, mask)[1].tolist() == [*ids[1, :5].flip(0).tolist(), 0, 0, 0]


def test_the_losses_are_those_of_a_plain_loop(bilm: BiLM) -> None:
    ids, mask = rows(6, 4)
    with torch.no_grad():
        found = bilm.losses(ids, mask)
    expected: dict[str, list[float]] = {"forward_loss": [], "backward_loss": []}
    for row, length in zip(ids, (6, 4), strict=True):
        states = bilm(row[None, :length], torch.ones(1, length, dtype=torch.long)).hidden_states[-1][0]
        logits = [bilm.softmax(half).detach().double().numpy() for half in states.chunk(2, -1)]
        for k in range(length - 1):
            expected["forward_loss"].append(-log_softmax(logits[0][k])[row[k + 1]])
            expected["backward_loss"].append(-log_softmax(logits[1][k + 1])[row[k]])
    for name, values in expected.items():
        assert float(found[name]) == pytest.approx(np.mean(values), rel=1e-5)
    assert int(found["count"]) == 8


def test_the_mix_is_the_formula() -> None:
    mix = ScalarMix(3)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([0.3, -1.0, 2.0]))
        mix.gamma.fill_(1.7)
    layers = [torch.randn(2, 4, 6) for _ in range(3)]
    expected = 1.7 * np.einsum("j,jbnd->bnd", softmax([0.3, -1.0, 2.0]), np.stack([h.numpy() for h in layers]))
    np.testing.assert_allclose(mix(layers).detach().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_two_sentences_are_read_apart() -> None:
    cls, sep = 2, 3
    ids = torch.tensor([[cls, 10, 11, sep, 20, sep, 0], [cls, 12, sep, 21, 22, 23, sep]])
    types = torch.tensor([[0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]])
    mask = torch.tensor([[1] * 6 + [0], [1] * 7])
    (a, a_mask), (b, b_mask) = split_sentences(ids, types, mask)
    strip = [
        [row[: int(m.sum())].tolist() for row, m in zip(*side, strict=True)] for side in ((a, a_mask), (b, b_mask))
    ]
    assert strip[0] == [[cls, 10, 11, sep], [cls, 12, sep]]
    assert strip[1] == [[cls, 20, sep], [cls, 21, 22, 23, sep]]
    assert ((a_mask == 0) <= (a == 0)).all()
    assert ((b_mask == 0) <= (b == 0)).all()


@pytest.mark.parametrize("pairs", [False, True])
def test_only_the_task_learns_and_all_of_it_is_saved(pairs: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = ElmoForSequenceClassification(BiLMConfig(**SIZES, pairs=pairs, num_labels=3)).train()
    assert not model.bilm.training, "frozen: no dropout either"
    model.bilm.tokens.spellings.copy_(torch.randint(0, 259, model.bilm.tokens.spellings.shape))
    ids, mask = rows(8, 6)
    types = (torch.arange(8) >= 4).long() * mask
    model(ids, types, mask).logits.square().sum().backward()
    learned = {name.split(".")[0] for name, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    assert learned == {"mix", "encoder", "classifier"}
    model.save_pretrained(tmp_path)
    again = ElmoForSequenceClassification.from_pretrained(tmp_path).eval()
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    torch.testing.assert_close(again(ids, types, mask).logits, model.eval()(ids, types, mask).logits)


def test_words_are_spelled_by_their_bytes() -> None:
    tokenizer = wordpiece({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "né": 5, "##abcdefgh": 6})
    table = spelling(tokenizer, 7)
    assert table[5].tolist() == [START, *(FIRST + byte for byte in "né".encode()), END, 0, 0]
    assert table[6].tolist() == [START, *(FIRST + byte for byte in b"##abc"), END], "cut, both ends kept"


def test_work_is_a_weight_a_token() -> None:
    lstm = nn.LSTM(6, 10, proj_size=4)
    assert lstm_macs(6, 10, 4) == sum(p.numel() for name, p in lstm.named_parameters() if "weight" in name)
    assert lstm_macs(6, 10) == sum(p.numel() for p in (*nn.LSTM(6, 10, bias=False).parameters(),))
    from torch.utils.flop_counter import FlopCounterMode

    model = BiLM(BiLMConfig(**SIZES))
    with FlopCounterMode(display=False) as counter:
        model.tokens(torch.arange(9)[None])
    assert counter.get_total_flops() == 2 * 9 * character_macs(7, 5, [3, 4], 1, 6)
    own = {
        key: SIZES[key] for key in ("characters", "character_size", "filters", "highways", "task_hidden", "task_mlp")
    }
    one, two = (elmo_terms(2, 6, 10, own, 9, pairs, 3) for pairs in (False, True))
    assert sum(t.macs for t in two) - sum(t.macs for t in one) == 3 * 2 * 5 * 4, "the MLP reads four vectors"


def test_published_size() -> None:
    with torch.device("meta"):
        model = BiLM(BiLMConfig())
    size = sum(p.numel() for name, p in model.named_parameters() if not name.startswith("softmax"))
    assert size == pytest.approx(93.6e6, rel=0.002)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["neuron=bispike"], "is a plain model"),
        (["task=sum/xsum"], "task=sum/xsum is not valid for ELMo"),
        (["backbone.path=x"], "backbone.path"),
        (["backbone.options.filters=[3,0]"], r"backbone.options.filters"),
        (["+backbone.options.filter=3"], "unknown key backbone.options.filter"),
    ],
)
def test_what_does_not_fit_is_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(["system=elmo", "task=glue/sst2", *overrides])
