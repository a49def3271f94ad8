"""The classes of each kind of encoder: transformers' BERT, or an architecture of our own with BERT's sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification, BertModel

from spikelm.errors import ConfigError
from spikelm.models.membrane import (
    MembraneBertConfig,
    MembraneBertForPreTraining,
    MembraneBertForSequenceClassification,
)
from spikelm.models.rwkv import RwkvConfig, RwkvForCausalLM, RwkvModel
from spikelm.models.spikformer import SpikformerConfig, SpikformerForSequenceClassification, SpikformerModel
from spikelm.schema import BackboneConfig


@dataclass(frozen=True)
class Classes:
    """Config and models of a kind; None where a kind has none."""

    config: Any
    encoder: Any = None
    pretraining: Any = None
    classifier: Any = None


KINDS = {
    "bert": Classes(BertConfig, BertModel, BertForPreTraining, BertForSequenceClassification),
    "spikingformer": Classes(
        MembraneBertConfig, None, MembraneBertForPreTraining, MembraneBertForSequenceClassification
    ),
    "rwkv": Classes(RwkvConfig, RwkvModel, RwkvForCausalLM),
    "spikformer": Classes(SpikformerConfig, SpikformerModel, None, SpikformerForSequenceClassification),
}


def classes_of(backbone: BackboneConfig) -> Classes:
    """The classes of a backbone, which must not be an encoder-decoder."""
    if backbone.kind not in KINDS:
        raise ConfigError(
            f"this task needs a BERT; backbone={backbone.name} is a {backbone.kind}", "backbone=bert_mini"
        )
    return KINDS[backbone.kind]


def own_class(name: str) -> Any:
    """A model class of ours by the name that its checkpoint holds, None for any other."""
    ours = (cls for kind in KINDS.values() for cls in (kind.encoder, kind.pretraining, kind.classifier))
    return next((cls for cls in ours if cls and cls.__name__ == name), None)
