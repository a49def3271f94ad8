"""The pointer-generator: the mixture against a plain loop, an unseen word copied, beams, coverage, saving."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from spikelm.catalog.energy import pointer_terms
from spikelm.data.tokens.bpe import text_pair_tokenizer
from spikelm.rivals.ptgen.pointer_generator import PointerConfig, PointerGenerator, coverage_loss, mixture
from spikelm.rivals.ptgen.words import known_words, train_words

V = 12  # known words; 3 is unknown, 1 pads, 2 starts and ends
SIZES = {"vocab_size": V, "embedding_size": 7, "hidden_size": 8, "initializer_range": 0.3}
IDS = torch.tensor([[0, 5, 30, 6, 30, 2], [0, 41, 7, 2, 1, 1]])  # 30 and 41 are rare
MASK = (IDS != 1).long()
WRITTEN = torch.tensor([[2, 5, 30, 6], [2, 7, 41, 8]])


@pytest.fixture
def model() -> PointerGenerator:
    torch.manual_seed(0)
    return PointerGenerator(PointerConfig(**SIZES)).eval()


def test_the_mixture_is_a_distribution_and_a_plain_loops() -> None:
    torch.manual_seed(0)
    vocabulary, attention = torch.randn(2, 3, V).softmax(-1), torch.randn(2, 3, 6).softmax(-1)
    p, columns = torch.rand(2, 3, 1), torch.randint(0, V + 2, (2, 6))
    found = mixture(vocabulary, attention, p, columns, rare=2)
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 3))
    expected = np.zeros((2, 3, V + 2))
    for b in range(2):
        for t in range(3):
            expected[b, t, :V] = p[b, t] * vocabulary[b, t]
            for i in range(6):
                expected[b, t, columns[b, i]] += float((1 - p[b, t]) * attention[b, t, i])
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_every_step_is_a_distribution_over_vocabulary_and_rare_words(model: PointerGenerator) -> None:
    output = model(IDS, attention_mask=MASK, decoder_input_ids=WRITTEN)
    probabilities = output.logits.exp()
    assert probabilities.shape == (2, 4, V + 2)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(2, 4))
    assert (probabilities[0, :, V] > 1e-3).all(), "30 is in the first source"
    assert (probabilities[0, :, V + 1] < 1e-20).all(), "41 is not"
    assert (output.attentions[1, :, 4:] == 0).all(), "nothing is copied from padding"
    labels = model.label_columns(torch.tensor([[5, 30, 41], [41, 30, 99]]), IDS)
    assert labels.tolist() == [[5, V, 3], [V + 1, 3, 3]], "a rare word of another source is unknown"


def test_the_attention_is_the_formula(model: PointerGenerator) -> None:
    """One step in numpy, coverage included."""
    model.config.covering = True
    with torch.no_grad():
        encoding = model.encoder(IDS, MASK)
        state = model.start(encoding)
        state.coverage = torch.rand(2, 6)
        word = model.embedding(torch.tensor([5, 7]))
        after, (_, attention, p) = model.step(word, state, encoding, MASK)
    w = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    x = np.concatenate([word.numpy(), np.zeros((2, 16))], -1) @ w["fed.weight"].T + w["fed.bias"]
    s = np.concatenate([after.h.numpy(), after.c.numpy()], -1)
    h = encoding.last_hidden_state.double().numpy()
    inner = h @ w["encoder.features.weight"].T + (s @ w["query.weight"].T + w["query.bias"])[:, None]
    inner = inner + state.coverage.double().numpy()[..., None] * w["covered.weight"][:, 0]
    e = np.where(MASK.numpy() == 1, np.tanh(inner) @ w["score.weight"][0], -np.inf)
    a = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    np.testing.assert_allclose(attention.numpy(), a, rtol=1e-4, atol=1e-7)
    context = np.einsum("bn,bnd->bd", a, h)
    gate = np.concatenate([context, s, x], -1) @ w["writes.weight"].T + w["writes.bias"]
    np.testing.assert_allclose(p.numpy(), 1 / (1 + np.exp(-gate)), rtol=1e-4)


def test_it_learns_to_copy_a_word_that_it_has_never_seen() -> None:
    """Trained to write the word after 5; the word of the test was in no training row."""
    torch.manual_seed(0)
    model = PointerGenerator(PointerConfig(**{**SIZES, "hidden_size": 16, "initializer_range": 0.1}))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(0)

    def rows(rare: torch.Tensor) -> torch.Tensor:
        ids = torch.randint(6, V, (len(rare), 7), generator=generator)
        place = torch.randint(1, 5, (len(rare), 1), generator=generator)
        ids.scatter_(1, place, 5).scatter_(1, place + 1, rare[:, None])
        ids[:, 0], ids[:, -1] = 0, 2
        return ids

    for _ in range(120):
        rare = torch.randint(20, 60, (16,), generator=generator)
        ids = rows(rare)
        inputs = torch.stack([torch.full_like(rare, 2), rare], 1)
        labels = model.label_columns(torch.stack([rare, torch.full_like(rare, 2)], 1), ids)
        logits = model(ids, attention_mask=torch.ones_like(ids), decoder_input_ids=inputs).logits
        nn.functional.nll_loss(logits.flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    unseen = torch.arange(100, 120)
    ids = rows(unseen)
    made = model.eval().generate(ids, attention_mask=torch.ones_like(ids), num_beams=2, max_length=3, min_length=2)
    assert (made[:, 1] == unseen).float().mean() >= 0.9


def test_beams_find_the_best_of_all_sequences(model: PointerGenerator) -> None:
    """Every sequence of three words scored one by one; with as many beams as words none is lost."""
    ids, mask = IDS[:1], MASK[:1]
    columns = [column for column in range(V + 1) if column != 2]
    several = torch.tensor([[2, a, b] for a in columns for b in columns])
    with torch.no_grad():
        encoded = {"attention_mask": mask.expand(len(several), -1), "decoder_input_ids": several}
        logits = model(ids.expand(len(several), -1), **encoded).logits.double()
    first = logits[:, 0].gather(1, several[:, 1:2]) + logits[:, 1].gather(1, several[:, 2:])
    scores = first + logits[:, 2]
    scores[:, 2] = -torch.inf
    best = int(scores.argmax())
    expected = [*several[best // (V + 1)].tolist(), best % (V + 1)]
    options = {"num_beams": 30, "max_length": 4, "min_length": 4, "length_penalty": 0.0, "do_sample": False}
    made = model.generate(ids, attention_mask=mask, **options)[0].tolist()
    assert made == [30 if column == V else column for column in expected]


def test_a_step_from_the_cache_is_a_step_of_the_whole(model: PointerGenerator) -> None:
    whole = model(IDS, attention_mask=MASK, decoder_input_ids=WRITTEN).logits
    encoding, state, parts = model.encoder(IDS, MASK), None, []
    for t in range(4):
        output = model(
            attention_mask=MASK,
            decoder_input_ids=WRITTEN[:, t : t + 1],
            encoder_outputs=encoding,
            past_key_values=state,
        )
        state = output.past_key_values
        parts.append(output.logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_the_coverage_loss_is_a_plain_loops() -> None:
    attention = torch.randn(2, 4, 5).softmax(-1)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).bool()
    total = 0.0
    for b in range(2):
        seen = np.zeros(5)
        for t in range(int(mask[b].sum())):
            total += np.minimum(attention[b, t].numpy(), seen).sum()
            seen += attention[b, t].numpy()
    assert float(coverage_loss(attention, mask)) == pytest.approx(total / 6, rel=1e-5)


def test_saved_and_loaded(model: PointerGenerator, tmp_path: Path) -> None:
    model.config.covering = True
    model.save_pretrained(tmp_path)
    again = PointerGenerator.from_pretrained(tmp_path).eval()
    assert again.config.covering
    assert again.encoder.embedding.weight is again.embedding.weight
    found = again(IDS, attention_mask=MASK, decoder_input_ids=WRITTEN).logits
    torch.testing.assert_close(found, model(IDS, attention_mask=MASK, decoder_input_ids=WRITTEN).logits)


def test_known_words_come_first_and_all_words_have_names() -> None:
    tokenizer = text_pair_tokenizer(train_words(["the cat sat", "the cat", "the"], ["The cat sat\non Übermut ."], 7))
    assert known_words(tokenizer) == 7
    [ids] = tokenizer.encode_targets(["The cat sat\non Übermut ."], 20)
    words = [tokenizer.tokenizer.id_to_token(index) for index in ids]
    assert words == ["<s>", "the", "cat", "sat", "\n", "on", "übermut", ".", "</s>"]
    assert [index < 7 for index in ids] == [True, True, True, False, True, False, False, False, True]
    assert tokenizer.decode([ids])[0].split("\n")[0].strip() == "the cat sat"


def test_work_is_a_weight_a_token() -> None:
    model = PointerGenerator(PointerConfig(**SIZES))
    weights = {name: p.numel() for name, p in model.named_parameters() if "weight" in name and p.dim() > 1}
    read = sum(weights[name] for name in weights if name.startswith(("encoder.lstm", "encoder.features")))
    written = sum(weights[f"{name}.weight"] for name in ("fed", "query", "writes", "out"))
    written += weights["cell.weight_ih"] + weights["cell.weight_hh"]
    once = weights["encoder.reduce_h.weight"] + weights["encoder.reduce_c.weight"]
    n, m = 9, 4
    attention = m * n * 2 * 16  # each state scored by v, and added up
    assert sum(term.macs for term in pointer_terms(7, 8, n, m)) == n * read + m * written + once + attention
    assert pointer_terms(7, 8, n, m, head=V)[-1].macs == m * weights["lm_head.weight"]
