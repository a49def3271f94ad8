"""The kinds of backbone, in one table: what each can be asked for, and where its models are found.

The table is read before anything heavy is imported. What a kind is made of in torch (its classes, its batches, how its
stages are built) is its Architecture (spikelm/models/architecture.py): it is named here and loaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Literal

from spikelm.catalog.energy import Term, decoder_terms, encoder_terms, rwkv_terms, spikformer_terms
from spikelm.catalog.parameters import (
    bart_parameters,
    bert_parameters,
    bertsum_parameters,
    elmo_parameters,
    gpt2_parameters,
    llama_parameters,
    marian_parameters,
    mbart_parameters,
    ptgen_parameters,
    roberta_parameters,
    rwkv_parameters,
    spikformer_parameters,
    spikingformer_parameters,
)
from spikelm.catalog.size import Size
from spikelm.rules import Rule

LABELLED = ("classification", "regression")
UNLABELLED = ("pretrain", "general")
LM = "lm"  # causal language modelling, which a kind has to name among its tasks
ALL = (*LABELLED, "seq2seq", *UNLABELLED)

_RIVALS = "spikelm.rivals."
_ENCODER = "spikelm.training.encoders.architecture"
_SEQ2SEQ = "spikelm.training.seq2seq.architecture"
_DECODERS = "spikelm.training.decoders."

#: model types of transformers that are built like Llama; tests/spiking/test_llama_family.py tries each of them
LLAMA_FAMILY = (
    *("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "olmo", "olmo2"),
    *("granite", "helium", "cohere", "stablelm", "exaone4", "seed_oss"),
)

Parameters = Callable[[Size, bool, int], int]  # of a size, with its pretraining heads or so many labels
Matmuls = Callable[[int, int, int, int], list[Term]]  # of layers, hidden, intermediate and length


@dataclass(frozen=True)
class Kind:
    """What is known of a kind of backbone without torch."""

    title: str
    architecture: str = _ENCODER  # the function that makes its Architecture, a dotted name
    text_pairs: str = ""  # the function that builds its stage of text pairs, where that is a rival's
    transformers: str = ""  # what the names of its classes in transformers begin with; empty: they are our own
    tasks: tuple[str, ...] = ALL  # kinds of task
    neuron: Literal["any", "spiking", "plain"] = "any"
    options: Mapping[str, Rule] = field(default_factory=dict)  # of backbone.options
    # model_type of the weights that it, or its teacher where it has no plain form, can start from (backbone.path)
    weights: str = ""
    family: tuple[str, ...] = ()  # further model types that its weights may be of
    starts: str = ""  # the kind that is pretrained before a task with text pairs; empty: none
    next_sentence: bool = False  # pretraining predicts the next sentence beside the masked words
    positions_after_pad: bool = False  # the first token's position is the padding's id + 1, so that many are never used
    seq2seq: bool = False  # an encoder-decoder whose matmuls are counted as BART's
    causal: bool = False  # a decoder of transformers, which goes on from the text before
    decoder: bool = False  # has backbone.decoder_layers
    untrained: bool = False  # fine-tuning may have no steps
    own_tokens: bool = False  # tokenises in a way of its own, when it runs: spikelm-prepare leaves that to it
    parameters: Parameters | None = None  # None: its training memory is not estimated
    saved_parameters: Parameters | None = None  # of its files, where `parameters` is None; for the plan's disk
    plain: Matmuls | None = None  # matmuls of the plain model; None: they depend on more than one length
    spiking: Matmuls | None = None  # of the spiking model, where they are others

    @property
    def is_encoder(self) -> bool:
        """Whether it is an encoder of transformers."""
        return bool(self.transformers) and not self.seq2seq and not self.causal

    def reads(self, model_type: str) -> bool:
        """Whether it can start from weights of a model type of transformers."""
        return bool(model_type) and model_type in (self.weights, *self.family)

    def unused_positions(self, pad: int) -> int:
        """Rows of the table of positions that no token uses, with padding of an id."""
        return pad + 1 if self.positions_after_pad else 0


_POSITIVE = Rule(above=0)
_NOT_NEGATIVE = Rule(least=0)
_COUNT = Rule(whole=True, least=1)

KINDS = {
    "bert": Kind(
        "BERT",
        transformers="Bert",
        weights="bert",
        next_sentence=True,
        parameters=bert_parameters,
        plain=encoder_terms,
    ),
    "roberta": Kind(
        "RoBERTa",
        transformers="Roberta",
        tasks=(*LABELLED, *UNLABELLED),
        weights="roberta",
        positions_after_pad=True,
        parameters=roberta_parameters,
        plain=encoder_terms,
    ),
    "bart": Kind(
        "BART",
        _SEQ2SEQ,
        transformers="Bart",
        weights="bart",
        seq2seq=True,
        decoder=True,
        parameters=bart_parameters,
        plain=encoder_terms,
    ),
    "mbart": Kind(
        "mBART",
        _SEQ2SEQ,
        transformers="MBart",
        weights="mbart",
        seq2seq=True,
        decoder=True,
        parameters=mbart_parameters,
        plain=encoder_terms,
    ),
    "marian": Kind(
        "Marian",
        _SEQ2SEQ,
        transformers="Marian",
        weights="marian",
        seq2seq=True,
        decoder=True,
        untrained=True,
        parameters=marian_parameters,
        plain=encoder_terms,
    ),
    "spikingformer": Kind(
        "SpikingFormer",
        f"{_RIVALS}spikingformer.membrane_bert.architecture",
        tasks=("pretrain", *LABELLED),
        neuron="spiking",
        options={
            "norm": Rule(choices=("ln", "bn")),
            "norm_eps": _POSITIVE,
            "ffn_activation": Rule(choices=("none", "gelu", "relu")),
            "attention_threshold": _POSITIVE,
        },
        next_sentence=True,
        parameters=spikingformer_parameters,
        plain=encoder_terms,
    ),
    "spikformer": Kind(
        "SpikeBERT",
        f"{_RIVALS}spikebert.spikformer.architecture",
        tasks=("general", *LABELLED),
        neuron="spiking",
        options={
            "num_attention_heads": _COUNT,
            "mask": Rule(flag=True),
            "norm_eps": _POSITIVE,
            "attention_threshold": _POSITIVE,
        },
        weights="bert",
        parameters=spikformer_parameters,
        plain=encoder_terms,
        spiking=spikformer_terms,
    ),
    "rwkv": Kind(
        "SpikeGPT",
        f"{_RIVALS}spikegpt.spikegpt_training.architecture",
        tasks=("pretrain", LM),
        neuron="spiking",
        options={"max_logit_l2": _POSITIVE},
        parameters=rwkv_parameters,
        plain=rwkv_terms,
    ),
    "elmo": Kind(
        "ELMo",
        f"{_RIVALS}elmo.elmo_training.architecture",
        tasks=("pretrain", *LABELLED),
        neuron="plain",
        options={
            **dict.fromkeys(("character_size", "task_hidden", "task_mlp"), _COUNT),
            "characters": Rule(whole=True, least=3),
            "filters": Rule(whole=True, least=1, many=True),
            "highways": Rule(whole=True, least=0),
            "task_dropout": _NOT_NEGATIVE,
        },
        saved_parameters=elmo_parameters,
    ),
    "ptgen": Kind(
        "PTGEN",
        f"{_RIVALS}ptgen.ptgen_training.architecture",
        tasks=("seq2seq",),
        neuron="plain",
        options={"embedding": _COUNT, "coverage": _NOT_NEGATIVE, "coverage_from": _NOT_NEGATIVE},
        decoder=True,
        saved_parameters=ptgen_parameters,
    ),
    "bertsum": Kind(
        "BERTSUMABS",
        f"{_RIVALS}bertsum.bertsum_training.architecture",
        tasks=("seq2seq",),
        neuron="plain",
        options={
            **dict.fromkeys(("decoder_heads", "decoder_intermediate"), _COUNT),
            **dict.fromkeys(("decoder_dropout", "label_smoothing"), _NOT_NEGATIVE),
            "no_repeat_ngram": Rule(whole=True, least=0),
        },
        weights="bert",
        starts="bert",
        decoder=True,
        own_tokens=True,
        saved_parameters=bertsum_parameters,
    ),
    "gpt2": Kind(
        "GPT-2",
        f"{_DECODERS}gpt2",
        transformers="GPT2",
        text_pairs=f"{_RIVALS}gpt2_zero_shot.zero_shot.text_pairs",
        tasks=("pretrain", "seq2seq", LM),
        options=dict.fromkeys(("top_k", "new_tokens", "sentences"), _COUNT),
        weights="gpt2",
        causal=True,
        starts="gpt2",
        untrained=True,
        own_tokens=True,
        parameters=gpt2_parameters,
    ),
    "llama": Kind(
        "Llama",
        f"{_DECODERS}llama",
        transformers="Llama",
        tasks=(LM,),
        options={**dict.fromkeys(("key_value_heads", "head_size"), _COUNT), "tied": Rule(flag=True)},
        weights="llama",
        family=LLAMA_FAMILY,
        causal=True,
        untrained=True,
        own_tokens=True,
        parameters=llama_parameters,
    ),
}


def data_unit(task: str) -> str:
    """What the data of a kind of task consist of."""
    return "documents" if task in (*UNLABELLED, LM) else "rows"


def kind_of(size: Size) -> Kind:
    """The kind of a backbone."""
    return KINDS[size.kind]


@cache
def architecture(kind: str) -> Any:
    """The Architecture of a kind, imported now: its type is of a room above this one."""
    return named(KINDS[kind].architecture)(KINDS[kind])


def named(name: str) -> Any:
    """The function with a dotted name, imported now."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(module), function)


def own_class(name: str) -> Any:
    """A model class of ours by the name that its checkpoint holds, None for any other.

    It imports the rivals; ask transformers first, which has none of these names.
    """
    for kind in (kind for kind, facts in KINDS.items() if not facts.transformers):
        for cls in architecture(kind).classes:
            if cls.__name__ == name:
                return cls
    return None


def decoder_facts(size: Size) -> dict[str, Any]:
    """The sizes of a decoder as its config.json would have them."""
    if size.kind == "gpt2":
        return {"model_type": "gpt2", "n_layer": size.layers, "n_embd": size.hidden, "n_inner": size.intermediate}
    return {
        "model_type": "llama",
        "num_hidden_layers": size.layers,
        "hidden_size": size.hidden,
        "intermediate_size": size.intermediate,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.options.get("key_value_heads"),
        "head_dim": size.options.get("head_size"),
    }


def plain_terms(size: Size, length: int) -> list[Term]:
    """The matmuls of the plain model of a backbone's sizes."""
    if kind_of(size).causal:
        return decoder_terms(decoder_facts(size), length, spiking=False)
    count = kind_of(size).plain
    if count is None:
        raise ValueError(f"the matmuls of a {size.kind} depend on more than one length")
    return count(size.layers, size.hidden, size.intermediate, length)


def spiking_terms(size: Size, length: int) -> list[Term]:
    """The matmuls of the spiking model, each with the site that feeds it."""
    if kind_of(size).causal:
        return decoder_terms(decoder_facts(size), length, spiking=True)
    count = kind_of(size).spiking
    return count(size.layers, size.hidden, size.intermediate, length) if count else plain_terms(size, length)
