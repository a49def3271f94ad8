"""What the audit says of softmax, norms and activations, and that claims of operators are looked at."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, BertConfig, BertForSequenceClassification

from spikelm.cli.audit_command import print_audit
from spikelm.config.settings.specs import AttentionSpec, NormSpec
from spikelm.measure.audit import AuditReport, audit
from spikelm.operators.bspn import BSPN
from spikelm.operators.ptsoftmax import PTSoftmax
from spikelm.spiking import calibrate, spikify

BATCH = {"input_ids": torch.randint(50, (4, 8), generator=torch.Generator().manual_seed(0))}


def bert(implementation: str = "sdpa", activation: str = "gelu") -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "vocab_size": 50}
    config = BertConfig(num_hidden_layers=2, hidden_act=activation, attn_implementation=implementation, **sizes)
    return BertForSequenceClassification(config)


def inside(report: AuditReport) -> dict[str, str]:
    return {use.name: use.arithmetic for use in report.operators if use.part == "encoder"}


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("spiking", [False, True])
def test_the_operators_of_a_bert_are_real_valued_whatever_its_neurons(implementation: str, spiking: bool) -> None:
    model = bert(implementation)
    if spiking:
        model = calibrate(spikify(model, "bispike", T=2), BATCH)
    report = audit(model, BATCH, T=2 if spiking else 1)
    assert report.verdict == ("fully" if spiking else "none"), "operators are no part of the verdict"
    assert inside(report) == dict.fromkeys(("softmax", "LayerNorm", "GELU"), "real-valued")
    assert {use.name for use in report.operators if use.part == "outside"} == {"LayerNorm", "tanh"}
    (norms,) = (use.modules for use in report.operators if use.part == "encoder" and use.name == "LayerNorm")
    assert norms == ["bert.encoder.layer.*.attention.output.LayerNorm", "bert.encoder.layer.*.output.LayerNorm"]


def test_a_rotation_is_named_among_them_and_its_products_with_signs_are_no_matmuls_of_the_model() -> None:
    model = calibrate(spikify(bert(), "residual", T=1, rotation="hadamard"), BATCH)
    report = audit(model, BATCH, T=1)
    assert report.verdict == "fully"
    assert not any(row.module.rpartition(".")[2].startswith("turn") for row in report.rows)
    assert inside(report)["rotation"] == "real-valued"
    (turns,) = (use.modules for use in report.operators if use.name == "rotation")
    assert {name.rpartition(".")[2] for name in turns} == {"turn_in"}


@pytest.mark.parametrize(("rounding", "arithmetic"), [("none", "partly"), ("power", "shifts and additions")])
def test_operators_in_their_place_are_named_with_their_arithmetic(rounding: str, arithmetic: str) -> None:
    model = bert(activation="relu")
    spikify(model, "bispike", T=2, attention=AttentionSpec.of(PTSoftmax), norm=NormSpec.of(BSPN, rounding=rounding))
    model.train()(**BATCH)
    report = audit(model, BATCH, T=2)
    assert report.verdict == "fully"
    shifts = "shifts and additions"
    assert inside(report) == {"PTsoftmax": shifts, "BSPN": arithmetic, "ReLU": shifts}
    assert not any(module._forward_hooks for module in model.modules() if isinstance(module, BSPN | PTSoftmax))
    assert report.to_dict()["operators"][0]["name"] == "PTsoftmax"


class NotPowers(PTSoftmax):
    """It says that it gives powers of two, and does not."""

    def forward(self, scores: Tensor) -> Tensor:
        return 0.9 * super().forward(scores)


def test_a_claim_of_powers_of_two_is_not_believed() -> None:
    model = spikify(bert(), None, T=1, attention=AttentionSpec.of(PTSoftmax))
    for module in model.modules():
        if isinstance(module, PTSoftmax):
            module.__class__ = NotPowers
    report = audit(model, BATCH, T=1)
    assert inside(report)["PTsoftmax"] == "real-valued"
    assert "other values than powers of two" in next(use.does for use in report.operators)


def test_equal_weights_of_ptsoftmax_are_no_spikes() -> None:
    """Where all scores are equal and some keys are masked, the weights have one level: that is no spike."""
    model: Any = spikify(bert(), None, T=1, attention=AttentionSpec.of(PTSoftmax))
    with torch.no_grad():
        for block in model.bert.encoder.layer:
            nn.init.zeros_(block.attention.self.query.weight)
    mask = torch.ones(4, 8, dtype=torch.long)
    mask[:, 4:] = 0
    report = audit(model, {**BATCH, "attention_mask": mask}, T=1)
    rows = [row for row in report.encoder if row.kind == "attention x value"]
    assert len(rows) == 2
    assert not any(row.spike_driven for row in rows)


def test_the_table_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_audit(audit(bert(), BATCH, T=1), Console(width=80))
    printed = capsys.readouterr().out
    assert "softmax: real-valued (exponentials and divisions); encoder" in printed
    assert "tanh: real-valued (exponentials and a division); outside" in printed


@pytest.mark.parametrize(("kind", "norm"), [("llama", "RMSNorm"), ("gemma", "RMSNorm"), ("cohere", "LayerNorm")])
def test_the_operators_of_a_decoder_are_found_where_transformers_writes_them_out(
    kind: str, norm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 48, "pad_token_id": 0}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes))
    report = audit(calibrate(spikify(model, "bispike", T=1), BATCH), BATCH, T=1)
    activation = "GELU" if kind == "gemma" else "SiLU"
    assert inside(report) == dict.fromkeys(("softmax", norm, activation, "product with the gate"), "real-valued")
    assert [use.name for use in report.operators if use.part == "outside"] == [norm]
    print_audit(report, Console(width=80))
    printed = capsys.readouterr().out
    assert "the decoder is fully spike-driven" in printed
    assert "product with the gate: real-valued (a multiplication a value); decoder" in printed
