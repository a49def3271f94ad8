"""The spike audit: which matmuls of a model are really spike-driven (paper table 1, "fully" or "partly").

Beside the matmuls it lists the other operators of a forward pass, softmax and norms above all, and says which of them
remain real-valued. They are no part of the verdict, which is the paper's and is about matmuls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from torch import nn

from spikelm.catalog.counts import ModelCounts
from spikelm.errors import SpikeLMError
from spikelm.measure.card import counts_of
from spikelm.measure.watch import OperatorRow, Row, watched
from spikelm.neurons import Neuron


@dataclass(frozen=True)
class AuditReport:
    """What the audit saw.

    The verdict is about the encoder, and the decoder where the model has one; what a neuron multiplies inside is apart.
    """

    T: int
    rows: list[Row]
    parts: tuple[str, ...] = ("encoder",)
    neurons: bool = False  # there are some, whether a matmul reads their spikes or not
    operator_rows: list[OperatorRow] = field(default_factory=list)
    counts: ModelCounts | None = None  # of the same pass

    @property
    def encoder(self) -> list[Row]:
        """The matmuls the verdict is about: those of all `parts`."""
        return [row for row in self.rows if row.part == "encoder"]

    @property
    def verdict(self) -> Literal["fully", "partly", "none"]:
        """Whether all, some or none of the encoder's matmuls are spike-driven.

        Spikes that no matmul reads (SpikeGPT's go from block to block) make a model partly spike-driven: table 1.
        """
        driven = [row.spike_driven for row in self.encoder]
        return "fully" if driven and all(driven) else "partly" if any(driven) or self.neurons else "none"

    @property
    def operations(self) -> Literal["ACs", "MACs"]:
        """What the encoder's matmuls are made of (table 1): additions alone, or multiplications too."""
        return "ACs" if self.verdict == "fully" else "MACs"

    @property
    def spike_driven(self) -> bool:
        """Whether every matmul of the encoder is spike-driven."""
        return self.verdict == "fully"

    @property
    def real_valued(self) -> list[str]:
        """Modules with a real-valued matmul, in the order they ran; of SpikeLM, pooler and heads only."""
        return list(dict.fromkeys(r.module for r in self.rows if not r.spike_driven and r.part != "neuron"))

    @property
    def silent(self) -> list[str]:
        """Modules whose spike operand never fired."""
        return list(dict.fromkeys(row.module for row in self.rows if row.silent))

    @property
    def operators(self) -> list[OperatorUse]:
        """The operators that are no matmuls, the equal ones of all layers as one, in the order in which they ran."""
        groups: dict[tuple[str, str, str, str], list[str]] = {}
        for row in self.operator_rows:
            groups.setdefault((row.part, row.name, row.arithmetic, row.does), []).append(any_layer(row.module))
        return [
            OperatorUse(name, part, arithmetic, does, list(dict.fromkeys(modules)))
            for (part, name, arithmetic, does), modules in sorted(groups.items(), key=lambda group: group[0][0])
        ]

    def to_dict(self) -> dict[str, Any]:
        """What a result keeps of it."""
        return {
            "verdict": self.verdict,
            "operations": self.operations,
            "spike_driven": self.spike_driven,
            "real_valued": self.real_valued,
            "silent": self.silent,
            "operators": [asdict(use) for use in self.operators],
        }


@dataclass(frozen=True)
class OperatorUse:
    """An operator of a model and the modules that use it, `*` for the number of a layer."""

    name: str
    part: str  # encoder (a decoder is meant as well) or outside
    arithmetic: str
    does: str
    modules: list[str]


def any_layer(module: str) -> str:
    """The name of a module with `*` for the numbers of layers."""
    return re.sub(r"\.\d+\b", ".*", module)


def audit(
    model: nn.Module,
    batch: Mapping[str, Any],
    T: int,
    generate: Mapping[str, Any] | None = None,
) -> AuditReport:
    """Run one batch in eval mode and look at every matrix product: does one side hold nothing but spikes?

    Nothing is believed of how the model was built; the numbers themselves are looked at. The verdict is about the
    layers of the model's architecture, not about its pooler and heads.

    Args:
        model: Any model, spiking or not. It is left in the mode in which it was.
        batch: Arguments of the model.
        T: The number of time steps; activations are (T*B, ...), slowest in time.
        generate: Options of `model.generate`; then the batch is decoded token by token, from the cache of spikes.

    Returns:
        An `AuditReport`: its `verdict` is "fully", "partly" or "none", `real_valued` names the modules that multiply
        real numbers, `rows` has every product, and `operators` says what the model computes besides.

    Raises:
        SpikeLMError: If no matrix product ran inside the model's layers.

    Examples:
        >>> import torch
        >>> from transformers import BertConfig, BertModel
        >>> from spikelm.measure.audit import audit
        >>> from spikelm.spiking import calibrate, spikify
        >>> sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
        >>> batch = {"input_ids": torch.randint(100, (8, 16))}
        >>> model = BertModel(BertConfig(vocab_size=100, **sizes))
        >>> audit(model, batch, T=1).verdict
        'none'
        >>> report = audit(calibrate(spikify(model, "bispike", T=2), batch), batch, T=2)
        >>> report.verdict, report.real_valued
        ('fully', ['pooler.dense'])
    """
    watch = watched(model, batch, T, generate)
    spiking = any(isinstance(module, Neuron) for module in model.modules())
    report = AuditReport(T, watch.rows, watch.prefixes, spiking, watch.operators, counts_of(model, [watch], T))
    if not report.encoder:
        raise SpikeLMError(
            f"no matmul ran inside a module called {' or '.join(map(repr, watch.prefixes))}",
            f"name one of the model's parts: {', '.join(name for name, _ in model.named_children())}",
        )
    return report
