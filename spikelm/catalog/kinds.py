"""The kinds of backbone, in one table: what each can be asked for, and where what it is made of is found.

It is read before anything heavy is imported: models, batches and stages are named here and loaded when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from spikelm.config.backbone import BackboneConfig

from spikelm.catalog.energy import Term, encoder_terms
from spikelm.catalog.own_terms import rwkv_terms, spikformer_terms
from spikelm.catalog.parameters import (
    bart_parameters,
    bert_parameters,
    mbart_parameters,
    rwkv_parameters,
    spikformer_parameters,
    spikingformer_parameters,
)

LABELLED = ("classification", "regression")
ALL = (*LABELLED, "seq2seq", "pretrain", "general")


@dataclass(frozen=True)
class Number:
    """What an option may be: a number from `least` on (or above it), whole or not, or a list of such."""

    least: float
    whole: bool = False
    above: bool = False
    many: bool = False


@dataclass(frozen=True)
class Kind:
    """A kind of backbone. Classes are dotted names; a kind has no class where it has no such model."""

    title: str
    stages: str  # the module with its `pretraining`, `general`, `fine_tuning` or `pairs`
    tasks: tuple[str, ...] = ALL  # kinds of task
    neuron: Literal["any", "spiking", "plain"] = "any"
    options: Mapping[str, Any] = field(default_factory=dict)  # of backbone.options: choices, bool or a Number
    config: str = ""
    encoder: str = ""
    pretraining: str = ""
    classifier: str = ""
    batches: str = ""  # of pretraining
    parameters: Callable[[BackboneConfig, bool, int], int] | None = None
    plain: Callable[[int, int, int, int], list[Term]] | None = None  # matmuls of layers, hidden, FFN and length
    spiking: Callable[[int, int, int, int], list[Term]] | None = None  # where the neurons make them others
    weights: str = ""  # model_type of the weights that it can start from (backbone.path)
    starts: str = ""  # the kind that is pretrained before a task with pairs of texts; empty: none
    seq2seq: bool = False  # counted as BART is
    decoder: bool = False  # knows decoder_layers
    untrained: bool = False  # fine-tuning may have no steps


_BERT = "transformers.Bert"
_RIVALS = "spikelm.rivals"
_DATA = "spikelm.data"

KINDS = {
    "bert": Kind(
        "BERT",
        "training.encoders",
        config=f"{_BERT}Config",
        encoder=f"{_BERT}Model",
        pretraining=f"{_BERT}ForPreTraining",
        classifier=f"{_BERT}ForSequenceClassification",
        batches=f"{_DATA}.batches.mlm_nsp.PretrainingBatches",
        parameters=bert_parameters,
        plain=encoder_terms,
        weights="bert",
    ),
    "bart": Kind(
        "BART",
        "training.seq2seq_builder",
        parameters=bart_parameters,
        plain=encoder_terms,
        weights="bart",
        seq2seq=True,
        decoder=True,
    ),
    "mbart": Kind(
        "mBART",
        "training.seq2seq_builder",
        parameters=mbart_parameters,
        plain=encoder_terms,
        weights="mbart",
        seq2seq=True,
        decoder=True,
    ),
    "spikingformer": Kind(
        "SpikingFormer",
        "training.encoders",
        ("pretrain", *LABELLED),
        "spiking",
        {
            "norm": ("ln", "bn"),
            "norm_eps": Number(0, above=True),
            "ffn_activation": ("none", "gelu", "relu"),
            "attention_threshold": Number(0, above=True),
        },
        config=f"{_RIVALS}.spikingformer.membrane_bert.MembraneBertConfig",
        pretraining=f"{_RIVALS}.spikingformer.membrane_bert.MembraneBertForPreTraining",
        classifier=f"{_RIVALS}.spikingformer.membrane_bert.MembraneBertForSequenceClassification",
        batches=f"{_DATA}.batches.mlm_nsp.PretrainingBatches",
        parameters=spikingformer_parameters,
        plain=encoder_terms,
    ),
    "spikformer": Kind(
        "SpikeBERT",
        "training.encoders",
        ("general", *LABELLED),
        "spiking",
        {
            "num_attention_heads": Number(1, whole=True),
            "mask": bool,
            "norm_eps": Number(0, above=True),
            "attention_threshold": Number(0, above=True),
        },
        config=f"{_RIVALS}.spikebert.spikformer.SpikformerConfig",
        encoder=f"{_RIVALS}.spikebert.spikformer.SpikformerModel",
        classifier=f"{_RIVALS}.spikebert.spikformer.SpikformerForSequenceClassification",
        parameters=spikformer_parameters,
        plain=encoder_terms,
        spiking=spikformer_terms,
    ),
    "rwkv": Kind(
        "SpikeGPT",
        "training.causal",
        ("pretrain",),
        "spiking",
        {"max_logit_l2": Number(0, above=True)},
        config=f"{_RIVALS}.spikegpt.rwkv.RwkvConfig",
        encoder=f"{_RIVALS}.spikegpt.rwkv.RwkvModel",
        pretraining=f"{_RIVALS}.spikegpt.rwkv.RwkvForCausalLM",
        batches=f"{_DATA}.batches.causal_blocks.CausalBatches",
        parameters=rwkv_parameters,
        plain=rwkv_terms,
    ),
    "elmo": Kind(
        "ELMo",
        "rivals.elmo.elmo_training",
        ("pretrain", *LABELLED),
        "plain",
        {
            **dict.fromkeys(("character_size", "task_hidden", "task_mlp"), Number(1, whole=True)),
            "characters": Number(3, whole=True),
            "filters": Number(1, whole=True, many=True),
            "highways": Number(0, whole=True),
            "task_dropout": Number(0),
        },
        batches=f"{_DATA}.batches.sentences.SentenceBatches",
    ),
    "ptgen": Kind(
        "PTGEN",
        "rivals.ptgen.ptgen_training",
        ("seq2seq",),
        "plain",
        {"embedding": Number(1, whole=True), "coverage": Number(0), "coverage_from": Number(0)},
        decoder=True,
    ),
    "bertsum": Kind(
        "BERTSUMABS",
        "rivals.bertsum.bertsum_training",
        ("seq2seq",),
        "plain",
        {
            **dict.fromkeys(("decoder_heads", "decoder_intermediate"), Number(1, whole=True)),
            **dict.fromkeys(("decoder_dropout", "label_smoothing"), Number(0)),
            "no_repeat_ngram": Number(0, whole=True),
        },
        weights="bert",
        starts="bert",
        decoder=True,
    ),
    "gpt2": Kind(
        "GPT-2",
        "rivals.gpt2_zero_shot.zero_shot",
        ("pretrain", "seq2seq"),
        "plain",
        dict.fromkeys(("top_k", "new_tokens", "sentences"), Number(1, whole=True)),
        batches=f"{_DATA}.batches.causal_blocks.CausalBatches",
        weights="gpt2",
        starts="gpt2",
        untrained=True,
    ),
}


def kind_of(backbone: BackboneConfig) -> Kind:
    """The kind of a backbone."""
    return KINDS[backbone.kind]


def named(path: str) -> Any:
    """What a dotted name means, imported now."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def own_class(name: str) -> Any:
    """A model class of ours by the name that its checkpoint holds, None for any other."""
    ours = [path for kind in KINDS.values() for path in (kind.encoder, kind.pretraining, kind.classifier)]
    return next((named(path) for path in ours if path == f"{path.rpartition('.')[0]}.{name}" and _RIVALS in path), None)


def plain_terms(size: BackboneConfig, length: int) -> list[Term]:
    """The matmuls of the plain model of a backbone's sizes."""
    count = kind_of(size).plain
    if count is None:
        raise ValueError(f"the matmuls of a {size.kind} depend on more than one length")
    return count(size.layers, size.hidden, size.intermediate, length)


def spiking_terms(size: BackboneConfig, length: int) -> list[Term]:
    """The matmuls of the spiking model, each with the site that feeds it."""
    count = kind_of(size).spiking
    return count(size.layers, size.hidden, size.intermediate, length) if count else plain_terms(size, length)
