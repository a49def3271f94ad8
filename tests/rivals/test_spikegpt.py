"""SpikeGPT: WKV against its double sum, one token at a time against whole sequences, saved, audited and counted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spikelm.catalog.energy import energy_mj, rwkv_terms, spiking_energy_mj
from spikelm.config.compose import load_config
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.specs import ClassSpec
from spikelm.config.settings.stages import StageConfig
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.data.tokens.packed import PackedDocuments
from spikelm.errors import ConfigError
from spikelm.measure.audit import audit
from spikelm.measure.trained_model import measure_terms
from spikelm.measure.workload import parameter_count as planned
from spikelm.models.bert import parameter_count
from spikelm.rivals.spikegpt.rwkv import SpikeGPTConfig, SpikeGPTForCausalLM
from spikelm.rivals.spikegpt.wkv import empty_state, wkv, wkv_step
from spikelm.spiking import load_pretrained, neurons, spikify
from spikelm.training.causal import CausalModule
from spikelm.training.optimization import learning_rate, optimizer_and_schedule

torch.set_num_threads(1)
NEURON = ClassSpec("spikelm.neurons.lif_token.LIFToken")
LAYERS, HIDDEN, FFN, VOCAB = 2, 24, 48, 40


def model(scale: float = 0.4) -> Any:
    torch.manual_seed(0)
    config = SpikeGPTConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=FFN,
        hidden_dropout_prob=0.0,
        initializer_range=scale,  # wide enough for spikes
    )
    made: Any = spikify(SpikeGPTForCausalLM(config), NEURON, 1)
    return made.eval()


def ids(rows: int = 3, length: int = 21) -> Tensor:
    return torch.randint(0, VOCAB, (rows, length), generator=torch.Generator().manual_seed(1))


def double_sum(w: Tensor, u: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The definition, token by token and term by term."""
    found = torch.zeros_like(v)
    for t in range(k.shape[1]):
        above = torch.exp(u + k[:, t]) * v[:, t]
        below = torch.exp(u + k[:, t])
        for i in range(t):
            weight = torch.exp(-(t - 1 - i) * w + k[:, i])
            above, below = above + weight * v[:, i], below + weight
        found[:, t] = above / below
    return found


def inputs(n: int) -> list[Tensor]:
    torch.manual_seed(n)
    w, u = torch.rand(5, dtype=torch.float64) * 2, torch.randn(5, dtype=torch.float64)
    k, v = torch.randn(2, 2, n, 5, dtype=torch.float64)
    return [x.requires_grad_() for x in (w, u, k.clone(), v.clone())]


@pytest.mark.parametrize(("n", "chunk"), [(2, 4), (7, 3), (11, 16), (12, 4)])
def test_chunks_and_recurrence_are_the_double_sum(n: int, chunk: int) -> None:
    w, u, k, v = inputs(n)
    expected, found = double_sum(w, u, k, v), wkv(w, u, k, v, chunk)
    torch.testing.assert_close(found, expected)
    state, steps = empty_state(k[:, 0]), []
    for t in range(n):
        y, state = wkv_step(w, u, k[:, t], v[:, t], state)
        steps.append(y)
    torch.testing.assert_close(torch.stack(steps, 1), expected)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    ours = torch.autograd.grad((found * weights).sum(), [w, u, k, v])
    theirs = torch.autograd.grad((expected * weights).sum(), [w, u, k, v])
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


def test_no_key_overflows() -> None:
    w, u, k, v = (x.detach().float() for x in inputs(9))
    k = k.clone()
    k[:, 3] = 500.0  # e^500 is no float; its token then is the whole mean
    k[:, 6] = -500.0
    found = wkv(w, u, k, v, 4)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found[:, 5], v[:, 3])
    torch.testing.assert_close(found[:, 6], v[:, 3])


def test_one_token_at_a_time_says_what_the_whole_sequence_says() -> None:
    made, text = model(), ids()
    with torch.no_grad():
        whole, states = made(text).logits, made.empty_states(len(text))
        for t in range(text.shape[1]):
            torch.testing.assert_close(made.step(text[:, t], states), whole[:, t], rtol=1e-3, atol=1e-3)


def test_no_token_sees_what_follows() -> None:
    made, text = model(), ids()
    changed = text.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % VOCAB
    with torch.no_grad():
        before, after = made(text).logits, made(changed).logits
    torch.testing.assert_close(before[:, :9], after[:, :9])
    assert not torch.allclose(before[:, 9:], after[:, 9:])


def test_spikes_go_between_blocks_and_multiply_nothing() -> None:
    """Table 1: partly spike-driven, MACs."""
    made = model()
    report = audit(made, {"input_ids": ids()}, 1)
    assert (report.verdict, report.operations) == ("partly", "MACs")
    assert len(report.encoder) == 7 * LAYERS
    assert not any(row.spike_driven for row in report.encoder)
    assert [neuron.site for neuron in neurons(made)][:3] == [
        "embeddings.words",
        "blocks.0.time_out",
        "blocks.0.channel_out",
    ]


def test_energy_is_that_of_the_plain_model() -> None:
    terms = rwkv_terms(LAYERS, HIDDEN, FFN, 21)
    macs = LAYERS * 21 * (5 * HIDDEN**2 + 2 * HIDDEN * FFN)
    assert sum(term.macs for term in terms) == macs
    assert sum(row.macs for row in audit(model(), {"input_ids": ids()}, 1).encoder) == 3 * macs
    assert spiking_energy_mj(terms, {}, 1) == energy_mj(terms) == pytest.approx(macs * 4.6e-9)
    measured = measure_terms(model(), [{"input_ids": ids()}], terms, 1, fires=True)
    rates = measured.firing_rate
    assert rates.mean is not None
    assert 0 < rates.mean == pytest.approx(np.mean(list(rates.per_site.values())))
    assert measured.energy_mj == pytest.approx(measured.energy_ann_mj)


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    made = model()
    made.save_pretrained(tmp_path)
    again = load_pretrained(tmp_path).eval()
    with torch.no_grad():
        torch.testing.assert_close(again(ids()).logits, made(ids()).logits)


def test_the_plan_knows_the_sizes() -> None:
    size = BackboneConfig(
        name="x",
        kind="rwkv",
        layers=LAYERS,
        hidden=HIDDEN,
        heads=2,
        intermediate=FFN,
        positions=16,
        vocab=VOCAB,
    )
    assert planned(size, True) == parameter_count(model())


def test_the_loss_is_the_mean_surprise_and_a_pull_on_the_largest_logits() -> None:
    made, text = model(), ids(2, 6)
    mask = torch.ones_like(text)
    mask[1, 4:] = 0
    module = CausalModule(made, StageConfig(steps=1), 1, 0)
    with torch.no_grad():
        logits = made(text).logits
        surprise, tokens, largest = 0.0, 0, []
        for b in range(2):
            for t in range(6):
                largest.append(max(logits[b, t].tolist()))
                if t < 5 and mask[b, t + 1]:
                    surprise -= math.log(logits[b, t].softmax(-1)[text[b, t + 1]])
                    tokens += 1
        found = float(module.step_loss({"input_ids": text, "attention_mask": mask}))
    assert tokens == 8
    assert found == pytest.approx(surprise / tokens + 0.5e-4 * float(np.mean(np.square(largest))), rel=1e-5)


def test_stretches_cover_every_document_once() -> None:
    class Vocabulary:
        def get_vocab(self) -> dict[str, int]:
            return {"[CLS]": 99}

    lengths = [[3, 4], [5], [2, 9, 8]]
    counter = iter(range(1, 60))
    documents = PackedDocuments.of([[np.array([next(counter) for _ in range(n)]) for n in d] for d in lengths])
    batches = CausalBatches(documents, Vocabulary(), seed=0, batch=2, max_length=8)  # type: ignore[arg-type]
    rows = [
        batches[step]["input_ids"][r]
        for step in range(batches.steps_per_epoch)
        for r in range(len(batches[step]["input_ids"]))
    ]
    assert all(int(row[0]) == 99 for row in rows)
    assert sorted(int(t) for row in rows for t in row[1:] if t) == list(range(1, 32)), (
        "31 tokens, in stretches of 7 or less"
    )
    assert all(sorted(row[row > 0][1:].tolist()) == row[row > 0][1:].tolist() for row in rows)


def test_its_recipe_and_what_it_cannot_do() -> None:
    config = load_config(["system=spikegpt", "scale=paper"])
    stage = config.pretrain
    assert (config.backbone.layers, stage.batch, stage.max_length, config.task.name) == (24, 12, 1024, "pretrain")
    assert learning_rate(stage, 1000, 0) == 1
    assert stage.lr * learning_rate(stage, 1000, 1000) == pytest.approx(1e-5)
    optimizer, _ = optimizer_and_schedule(torch.nn.Linear(2, 2), stage, 10)
    assert (optimizer.defaults["betas"], optimizer.defaults["eps"]) == ((0.9, 0.99), 4e-9)
    for more, says in (
        (["task=glue/sst2"], "task=glue/sst2 is not valid for SpikeGPT"),
        (["T=4"], "T=4"),
        (["pretrain.optimizer.betas=[0.9,2]"], r"pretrain\.optimizer\.betas=\[0\.9, 2\.0\] is not valid"),
        (["pretrain.schedule.floor=1"], r"pretrain\.schedule\.floor=1\.0 is not valid"),
    ):
        with pytest.raises(ConfigError, match=says):
            load_config(["system=spikegpt", *more])
