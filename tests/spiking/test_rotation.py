"""A rotation is orthogonal, costs what it says, and leaves a model without rounding as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.linalg import hadamard
from torch import Tensor
from transformers import (
    BartForConditionalGeneration,
    BertForSequenceClassification,
    GPT2LMHeadModel,
    MarianMTModel,
    MBartForConditionalGeneration,
    RobertaConfig,
    RobertaForMaskedLM,
)

from spikelm.config import trust
from spikelm.config.settings.backbone import VariantConfig
from spikelm.config.settings.specs import ClassSpec
from spikelm.errors import ConfigError
from spikelm.neurons import Neuron
from spikelm.spiking import calibrate, load_pretrained, neurons, spikify
from spikelm.spiking.rotation import Rotation, largest_block, rotations


class Pass(Neuron):
    """A neuron that passes everything on unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        return x


PASS = ClassSpec(f"{__name__}.Pass")


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "_trusted", {*trust.trusted(), __name__})


def drawn(width: int, block: int, seed: int = 0) -> Rotation:
    rotation = Rotation(width, block)
    rotation.draw(torch.Generator().manual_seed(seed))
    return rotation


@pytest.mark.parametrize(("width", "block"), [(8, 8), (40, 8), (6, 2), (5, 1)])
def test_it_is_the_block_hadamard_matrix_behind_random_signs(width: int, block: int) -> None:
    rotation = drawn(width, block)
    blocks = [torch.from_numpy(hadamard(block)).double()] * (width // block)
    matrix = torch.block_diag(*blocks) @ torch.diag(rotation.signs.double()) / block**0.5
    x = torch.randn(3, 4, width, dtype=torch.float64)
    torch.testing.assert_close(rotation(x), x @ matrix.T, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rotation.back(rotation(x)), x, rtol=1e-12, atol=1e-12)
    assert rotation.additions == width * (block.bit_length() - 1)


@pytest.mark.parametrize(
    ("width", "block", "additions"),
    [(24, 24, 12), (576, 576, 24), (960, 960, 32), (36, 12, 11), (64, 64, 6), (50, 2, 1), (5, 1, 0)],
)
def test_the_largest_block_spreads_each_value_evenly_and_is_orthogonal(width: int, block: int, additions: int) -> None:
    """576 = 12 x 12 x 2 x 2 takes 11 + 11 + 1 + 1 additions a value."""
    assert largest_block(width) == block
    rotation = drawn(width, block)
    assert rotation.additions == width * additions
    matrix = rotation(torch.eye(width, dtype=torch.float64))
    inside = torch.block_diag(*[torch.ones(block, block, dtype=torch.float64)] * (width // block))
    torch.testing.assert_close(matrix.abs(), inside / block**0.5, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(width, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(rotation.back(matrix), torch.eye(width, dtype=torch.float64), rtol=1e-12, atol=1e-12)


def test_what_a_neuron_reads_keeps_its_digits_in_mixed_precision() -> None:
    rotation, x = drawn(576, 576), torch.randn(3, 576)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = rotation(x)
    assert torch.equal(mixed, rotation(x))


def test_an_outlier_is_spread_over_its_block() -> None:
    x = torch.zeros(64)
    x[7] = 8.0
    turned = drawn(64, 64)(x)
    torch.testing.assert_close(turned.abs(), torch.ones(64))


def small_roberta() -> Any:
    sizes = {"hidden_size": 24, "num_attention_heads": 4, "intermediate_size": 40, "num_hidden_layers": 2}
    return RobertaForMaskedLM(RobertaConfig(vocab_size=90, max_position_embeddings=24, pad_token_id=1, **sizes))


@pytest.fixture(params=["bert", "roberta", "bart", "mbart", "marian", "gpt2"])
def plain(request: pytest.FixtureRequest, small: Any, small_seq2seq: Any, small_gpt2: Any) -> Any:
    make = {
        "bert": lambda: BertForSequenceClassification(small(initializer_range=0.3)),
        "roberta": small_roberta,
        "bart": lambda: BartForConditionalGeneration(small_seq2seq()),
        "mbart": lambda: MBartForConditionalGeneration(small_seq2seq("mbart")),
        "marian": lambda: MarianMTModel(small_seq2seq("marian")),
        "gpt2": lambda: GPT2LMHeadModel(small_gpt2()),
    }
    model = make[request.param]().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model


@pytest.mark.parametrize("T", [1, 2])
@torch.no_grad()
def test_a_rotated_model_without_rounding_gives_what_the_plain_one_gives(
    plain: Any, batch: dict[str, Tensor], T: int, tmp_path: Path
) -> None:
    if plain.config.model_type == "marian":
        batch = {**batch, "decoder_input_ids": batch["input_ids"]}
    expected = plain(**batch).logits
    before = {name: value.clone() for name, value in plain.state_dict().items()}
    model: Any = spikify(plain, PASS, T=T, rotation="hadamard", rotation_seed=3).eval()
    torch.testing.assert_close(model(**batch).logits, expected, rtol=1e-5, atol=1e-5)
    changed = [name for name, value in model.state_dict().items() if name in before and not value.equal(before[name])]
    assert sum(name.endswith("weight") for name in changed) >= 2 * 4  # of every block's linears
    model.save_pretrained(tmp_path)
    again: Any = load_pretrained(tmp_path)
    assert all(bool((a.signs == b.signs).all()) for a, b in zip(rotations(again), rotations(model), strict=True))
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits, rtol=0, atol=0)


@torch.no_grad()
def test_every_neuron_of_a_block_reads_turned_values(small: Any, batch: dict[str, Tensor]) -> None:
    """The values are others than without a rotation, and each token's (or head's) have the same length."""
    seen: dict[str, list[Tensor]] = {}
    model = BertForSequenceClassification(small(initializer_range=0.3)).eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for rotation in ("none", "hadamard"):
        copy = BertForSequenceClassification(model.config)
        copy.load_state_dict(state)
        copy = spikify(copy.eval(), PASS, T=1, rotation=rotation)  # type: ignore[arg-type]
        for neuron in neurons(copy):
            site = neuron.site
            neuron.register_forward_hook(lambda m, args, y, site=site: seen.setdefault(site, []).append(args[0]))
        copy(**batch)
    assert len(seen) == 2 * 6
    for site, (before, after) in seen.items():
        assert not torch.allclose(before, after, atol=1e-2), site
        head = (4, 8) if site.endswith(("key_out", "value_out", "attn_out_in")) else (1, -1)
        lengths = [x.unflatten(-1, head).norm(dim=-1) for x in (before, after)]
        torch.testing.assert_close(lengths[1], lengths[0], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_beams_are_the_same_from_a_cache_of_turned_keys_and_values(small_seq2seq: Any) -> None:
    model: Any = BartForConditionalGeneration(small_seq2seq()).eval()
    ids = torch.randint(3, 90, (2, 9))
    options = {"num_beams": 2, "max_length": 12, "do_sample": False}
    expected = model.generate(input_ids=ids, **options)
    assert torch.equal(spikify(model, PASS, T=1, rotation="hadamard").generate(input_ids=ids, **options), expected)  # type: ignore[operator]


@torch.no_grad()
def test_a_few_levels_lose_less_behind_a_rotation_where_one_channel_is_large(small: Any) -> None:
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
    model = BertForSequenceClassification(small(**sizes, initializer_range=0.05)).eval()
    for layer in model.bert.encoder.layer:
        layer.output.LayerNorm.weight[3] = 40.0
    model.bert.embeddings.LayerNorm.weight[3] = 40.0
    state = {name: value.clone() for name, value in model.state_dict().items()}
    ids = torch.randint(90, (16, 12))
    expected = model.bert(ids).last_hidden_state
    errors = {}
    for rotation in ("none", "hadamard"):
        copy = BertForSequenceClassification(model.config).eval()
        copy.load_state_dict(state)
        copy = spikify(copy, "residual", T=1, steps=3, scale="token", rotation=rotation)  # type: ignore[arg-type]
        errors[rotation] = float((copy.bert(ids).last_hidden_state - expected).norm() / expected.norm())  # type: ignore[operator]
    assert errors["hadamard"] < 0.8 * errors["none"]


def test_gradients_come_through_and_amplitudes_are_set(small: Any, batch: dict[str, Tensor]) -> None:
    model: Any = spikify(BertForSequenceClassification(small()), "bispike", T=2, rotation="hadamard")
    calibrate(model, batch)
    model.train()
    model(**batch).logits.sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.bert.encoder.parameters())


def test_what_cannot_be_rotated_is_refused(small: Any) -> None:
    with pytest.raises(ConfigError, match="there are none"):
        spikify(BertForSequenceClassification(small()), None, T=1, rotation="hadamard")
    with pytest.raises(ConfigError, match="variant"):
        spikify(
            BertForSequenceClassification(small()),
            "bispike",
            T=1,
            variant=VariantConfig(attention="quantized"),
            rotation="hadamard",
        )
    with pytest.raises(ConfigError, match="odd size"):
        spikify(BertForSequenceClassification(small(hidden_size=36)), "bispike", T=1, rotation="hadamard")
