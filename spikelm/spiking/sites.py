"""Where neurons sit in each architecture. Another Hugging Face architecture is one entry here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import nn

from spikelm.catalog.kinds import LLAMA_FAMILY
from spikelm.errors import ConfigError

HIDDEN = "hidden_states"
OURS = "spikelm_"  # what the model types of exported models begin with, before the plain one's


@dataclass(frozen=True)
class Site:
    """One place for a neuron in a block: at the input or at the output of the module at `path`, or at its cache.

    `cache` is where an attention hands its keys to the cache, with their rotary positions: a neuron behind the linear
    of the keys would see them before these. `argument` names the input that is spiked where a module has two (cross
    attention also reads the encoder); `part` = (i, n) spikes only the i-th of n equal parts of an output that packs
    several (GPT-2's q, k and v). `readers` are the linears that read the spikes of an input, where a rotation may stand
    in front of the neuron. `met_by` is the other operand of the product that reads keys (the query) or values (the
    attention map, which is the softmax's).
    """

    name: str
    path: str
    at: Literal["input", "output", "cache"]
    memory: bool = True
    argument: str = HIDDEN
    part: tuple[int, int] | None = None
    source: bool = False  # its tokens are the encoder's, although it sits in a decoder
    threshold: str = ""  # the key of the model's config that scales the neuron's threshold here
    readers: tuple[str, ...] = ()
    met_by: Literal["query", "map"] | None = None

    @property
    def child(self) -> str:
        """The name of the neuron inside its module, hence in a checkpoint."""
        if self.at == "cache":
            return "spike_key"
        if self.at == "input":
            return "spike_in" if self.argument == HIDDEN else f"spike_in_{self.argument}"
        return "spike_out" if self.part is None else f"spike_out_{self.part[0]}"

    @property
    def turn(self) -> str:
        """The name of the rotation in front of its neuron, beside it in its module."""
        return self.child.replace("spike", "turn")


@dataclass(frozen=True)
class Projection:
    """A linear of a block, or the i-th of the n equal parts of what it gives."""

    path: str
    part: tuple[int, int] | None = None


@dataclass(frozen=True)
class Heads:
    """The projections of an attention; `output` reads the values that the heads have mixed.

    Nothing but a scale stands between query and key, and nothing but the map between value and output, so that a
    rotation inside each head can be moved from one to the other. With rotary positions, which turn each token in a way
    of its own, something does stand between query and key: they are None there.
    """

    query: Projection | None
    key: Projection | None
    value: Projection
    output: str

    @classmethod
    def of(cls, paths: tuple[str, str, str], output: str) -> Heads:
        """Of three linears and the one that reads the mixed values."""
        query, key, value = map(Projection, paths)
        return cls(query, key, value, output)

    @classmethod
    def packed(cls, path: str, output: str) -> Heads:
        """Of one linear that gives q, k and v side by side."""
        query, key, value = (Projection(path, (part, 3)) for part in range(3))
        return cls(query, key, value, output)


@dataclass(frozen=True)
class Stack:
    """A stack of equal blocks inside the base model; time is folded into the batch around it.

    `entry` is the module of the stack whose output is copied T times (None: what enters the stack itself is); where
    the module is the first block, it is what enters it. `read` says that a decoder reads the stack's output, so that it
    keeps its time steps; `cached`, that keys and values of past tokens are kept while generating.
    """

    path: str  # "" is the base model itself
    blocks: str
    sites: tuple[Site, ...]
    entry: str | None = None
    read: bool = False
    cached: bool = False
    heads: tuple[Heads, ...] = ()  # of the attentions of a block; none where no rotation can be moved through them

    @property
    def prefix(self) -> str:
        """Where the blocks are, seen from the base model."""
        return f"{self.path}.{self.blocks}".lstrip(".")

    @property
    def enters_blocks(self) -> bool:
        """Whether what enters the first block is copied, and not what leaves a module before it."""
        return self.entry == f"{self.blocks}.0"


# SpikeLM (paper section 3.1): six linears per layer, of which q, k and v share one input neuron, and the outputs of key
# and value.
_BERT_QKV = ("attention.self.query", "attention.self.key", "attention.self.value")
BERT = Stack(
    path="encoder",
    blocks="layer",
    sites=(
        Site("qkv_in", "attention.self", "input", readers=_BERT_QKV),
        Site("key_out", "attention.self.key", "output", memory=False, met_by="query"),
        Site("value_out", "attention.self.value", "output", memory=False, met_by="map"),
        Site("attn_out_in", "attention.output.dense", "input"),
        Site("ffn1_in", "intermediate.dense", "input", readers=("intermediate.dense",)),
        Site("ffn2_in", "output.dense", "input", readers=("output.dense",)),
    ),
    heads=(Heads.of(_BERT_QKV, output="attention.output.dense"),),
)

# SpikingFormer has the same places; keys and values are normed before they are spiked (docs/paper/spiking_rivals.md).
SPIKINGFORMER = replace(
    BERT,
    sites=tuple(
        replace(site, memory=True, threshold="attention_threshold" if site.name == "attn_out_in" else "")
        for site in BERT.sites
    ),
    heads=(),
)

# The student of SpikeBERT spikes what leaves each linear and its norm, and what enters the attention's output.
SPIKFORMER = Stack(
    path="encoder",
    blocks="layer",
    sites=(
        Site("query_out", "attention.self.query", "output"),
        Site("key_out", "attention.self.key", "output"),
        Site("value_out", "attention.self.value", "output"),
        Site("attn_out_in", "attention.output.dense", "input", threshold="attention_threshold"),
        Site("attn_out", "attention.output.dense", "output"),
        Site("ffn1_out", "intermediate.dense", "output"),
        Site("ffn2_out", "output.dense", "output"),
    ),
)

# SpikeGPT spikes what leaves a block's two halves; its linears read what is not spiked.
SPIKEGPT = Stack(
    path="",
    blocks="blocks",
    sites=(Site("time_out", "time", "output"), Site("channel_out", "channel", "output")),
    entry="embeddings",
)

# The same in BART and mBART. A decoder layer has ten linears: q, k, v of self attention share one input neuron, k and v
# of cross attention another. BART_base: 96 linears fed by 66 neurons, 36 more on keys and values.
_SELF_QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_CROSS_QKV = ("encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj")
_SELF_HEADS = Heads.of(_SELF_QKV, output="self_attn.out_proj")
_CROSS_HEADS = Heads.of(_CROSS_QKV, output="encoder_attn.out_proj")
_SELF = (
    Site("qkv_in", "self_attn", "input", readers=_SELF_QKV),
    Site("key_out", "self_attn.k_proj", "output", memory=False, met_by="query"),
    Site("value_out", "self_attn.v_proj", "output", memory=False, met_by="map"),
    Site("attn_out_in", "self_attn.out_proj", "input"),
)
_CROSS = (
    Site("cross_q_in", "encoder_attn", "input", readers=_CROSS_QKV[:1]),
    Site("cross_kv_in", "encoder_attn", "input", argument="key_value_states", source=True, readers=_CROSS_QKV[1:]),
    Site("cross_key_out", "encoder_attn.k_proj", "output", memory=False, met_by="query", source=True),
    Site("cross_value_out", "encoder_attn.v_proj", "output", memory=False, met_by="map", source=True),
    Site("cross_out_in", "encoder_attn.out_proj", "input"),
)
_FFN = (Site("ffn1_in", "fc1", "input", readers=("fc1",)), Site("ffn2_in", "fc2", "input", readers=("fc2",)))
_EMBEDDED = "layernorm_embedding"
BART = (
    Stack(path="encoder", blocks="layers", sites=(*_SELF, *_FFN), entry=_EMBEDDED, read=True, heads=(_SELF_HEADS,)),
    Stack(
        path="decoder",
        blocks="layers",
        sites=(*_SELF, *_CROSS, *_FFN),
        entry=_EMBEDDED,
        cached=True,
        heads=(_SELF_HEADS, _CROSS_HEADS),
    ),
)

# Marian has BART's blocks, without a LayerNorm behind the embeddings: what enters the first block is copied over time.
MARIAN = tuple(replace(stack, entry="layers.0") for stack in BART)

GPT2 = Stack(
    path="",
    blocks="h",
    sites=(
        Site("qkv_in", "attn", "input", readers=("attn.c_attn",)),
        Site("key_out", "attn.c_attn", "output", memory=False, met_by="query", part=(1, 3)),
        Site("value_out", "attn.c_attn", "output", memory=False, met_by="map", part=(2, 3)),
        Site("attn_out_in", "attn.c_proj", "input"),
        Site("ffn1_in", "mlp.c_fc", "input", readers=("mlp.c_fc",)),
        Site("ffn2_in", "mlp.c_proj", "input", readers=("mlp.c_proj",)),
    ),
    entry="drop",
    cached=True,
    heads=(Heads.packed("attn.c_attn", output="attn.c_proj"),),
)

# Llama and those built like it: rotary positions, so that keys are spiked where they enter the cache, and heads of keys
# and values that several queries share. Gate and up read one neuron; their product, value by value, is no matmul.
_GATED = ("mlp.gate_proj", "mlp.up_proj")
LLAMA = Stack(
    path="",
    blocks="layers",
    sites=(
        Site("qkv_in", "self_attn", "input", readers=_SELF_QKV),
        Site("key_out", "self_attn", "cache", memory=False, met_by="query"),
        Site("value_out", "self_attn.v_proj", "output", memory=False, met_by="map"),
        Site("attn_out_in", "self_attn.o_proj", "input"),
        Site("ffn1_in", "mlp", "input", readers=_GATED),
        Site("ffn2_in", "mlp.down_proj", "input", readers=("mlp.down_proj",)),
    ),
    entry="layers.0",
    cached=True,
    heads=(Heads(None, None, Projection("self_attn.v_proj"), output="self_attn.o_proj"),),
)

ARCHITECTURES: dict[str, tuple[Stack, ...]] = {
    "bert": (BERT,),
    "roberta": (BERT,),
    "bart": BART,
    "mbart": BART,
    "marian": MARIAN,
    "gpt2": (GPT2,),
    **dict.fromkeys(LLAMA_FAMILY, (LLAMA,)),
    "spikingformer": (SPIKINGFORMER,),
    "spikformer": (SPIKFORMER,),
    "spikegpt": (SPIKEGPT,),
}


def architecture_of(model: Any) -> str:
    """The Hugging Face model type of a model, of an exported one that of the model that it was."""
    kind: str = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    return kind.removeprefix(OURS)


def stacks_of(model: nn.Module) -> tuple[Stack, ...]:
    """The stacks of a model, by its Hugging Face model type."""
    config: Any = getattr(model, "config", None)
    kind = architecture_of(model)
    if kind not in ARCHITECTURES:
        raise ConfigError(
            f"no sites are known for architecture {kind!r} (known: {', '.join(ARCHITECTURES)})",
            "add an entry to spikelm/spiking/sites.py",
        )
    if kind == "gpt2" and config.add_cross_attention:
        raise ConfigError("no sites are known for the cross attention of GPT-2", "take BART, or add them to sites.py")
    return ARCHITECTURES[kind]


def features(host: nn.Module, site: Site) -> int:
    """The size of the last axis of what a site's neuron sees."""
    if site.at == "cache":
        projection: Any = host.get_submodule("k_proj")
        return int(projection.weight.shape[0])
    # A linear has weights (out, in); GPT-2's Conv1D has them the other way round.
    inside: Any = host.modules()
    linear = next(m for m in inside if getattr(m, "weight", None) is not None and m.weight.dim() == 2)
    shape = linear.weight.shape if isinstance(linear, nn.Linear) else linear.weight.shape[::-1]
    size = int(shape[1] if site.at == "input" else shape[0])
    return size if site.part is None else size // site.part[1]


def readers(block: Any, site: Site) -> list[nn.Module]:
    """The linears that read the spikes of an input; none behind an output or cache, which attention reads."""
    if site.at != "input":
        return []
    if site.readers:
        return [block.get_submodule(path) for path in site.readers]
    host = block.get_submodule(site.path)
    return [host] if getattr(host, "weight", None) is not None else []
