"""Architecture and size of a model, and what a low-bit system changes in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from spikelm.config.settings.fields import FINE_TUNING, GENERAL, NO_RUN, setting
from spikelm.rules import Rule

COUNT = Rule(whole=True, least=1)
SHARE = Rule(least=0)
ACTIVATIONS = ("gelu", "relu", "silu")


@dataclass
class BackboneConfig:
    """Sizes, and where the weights come from."""

    name: str = setting(MISSING, decides=NO_RUN)
    title: str = setting("", decides=NO_RUN)  # what people call it (MiniLM); empty: what they call its kind
    kind: str = setting("bert")  # a name in catalog/kinds.py; auto: that of the weights
    layers: int = setting(MISSING, COUNT)
    decoder_layers: int | None = setting(None, Rule(whole=True, least=1, optional=True))  # null: as many as `layers`
    hidden: int = setting(MISSING, COUNT)
    heads: int = setting(MISSING, COUNT)
    intermediate: int = setting(MISSING, COUNT)
    positions: int = setting(512, COUNT)
    vocab: int = setting(MISSING, COUNT)  # upper bound; the embedded tokenizer may need fewer pieces
    dropout: float = setting(0.1, SHARE)
    attention_dropout: float = setting(0.1, SHARE)
    activation: str = setting("gelu", Rule(choices=ACTIVATIONS))
    # of the MLM head; null: the FFN's
    transform_activation: str | None = setting(None, Rule(choices=ACTIVATIONS, optional=True))
    init: float = setting(0.02, Rule(above=0))  # standard deviation of weights and word embeddings
    position_init: float = setting(0.02, Rule(above=0))  # of position and segment embeddings
    options: dict[str, Any] = setting({})  # sizes and options that only its kind has
    path: str | None = setting(None, decides=NO_RUN)  # pretrained weights; their hash decides; null: a run of our own
    public: str | None = setting(None, decides=NO_RUN)  # published weights of these sizes, which `path` may be set to
    # Fine-tune the first layers of the pretrained model only; null: all.
    keep_layers: int | None = setting(None, Rule(whole=True, least=1, optional=True), {GENERAL, FINE_TUNING})


@dataclass
class VariantConfig:
    """What a low-bit system changes in the model beside neurons and weights (docs/paper/lowbit.md)."""

    attention: str = setting("real", Rule(choices=("real", "quantized", "boolean", "rank1")))
    activation: str | None = setting(None, Rule(choices=ACTIVATIONS, optional=True))  # of the FFN; null: the backbone's
    pooler: bool = setting(False)  # quantise the pooler too
    width: float = setting(1.0, Rule(above=0, most=1))  # share of the heads and of the FFN that is kept (DynaBERT)
