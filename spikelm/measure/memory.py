"""How much memory one device needs to train a config, by arithmetic and without torch.

A training step is largest where the last layer has been computed, where the losses are, or where the backward begins.
At each of these moments the device holds

    weights, gradients, the optimiser's moments, the teacher     for every parameter
    what every layer keeps for the backward                      for every row, token and time step
    what only that moment needs                                  the scratch of a neuron, logits, maps, answers

tests/accelerator compares the result with the account of a device without data, operation by operation.
"""

from __future__ import annotations

from dataclasses import dataclass

from spikelm.catalog.kinds import LM, kind_of
from spikelm.config.devices import device_count
from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.schema import Config
from spikelm.config.settings.specs import NeuronSpec

FLOAT, HALF, BYTE = 4, 2, 1
FEW_TOKENS = 64  # whose logits a student of text pairs has at a time: spikelm/training/distill/token_losses.py
MASKED = 0.15  # of the tokens, whose logits a pretraining on masked words computes
#: neurons that keep packed levels and masks for the backward; any other keeps its input and its output
CODES = "spikelm.neurons.unfolding."
STEPS_IN_A_BYTE = 5  # of balanced ternary: numbers up to 121, and one more
LARGEST_IN_A_BYTE = 6  # bits of a magnitude: one value more at each end says what is out of range
PACKING = ("spikelm.neurons.bispike.BiSpike", "spikelm.neurons.lif.LIF")
#: maps that the losses on one layer's maps, scores and relations keep, counted on the fake device of tests/accelerator
KEPT_BY_MAPS, KEPT_BY_SCORES, KEPT_BY_RELATIONS = 1, 5, 10
MAPS_IN_BACKWARD = 3  # attention maps that are alive at once while one layer's are differentiated
#: logits over the whole vocabulary that a decoder's step holds at once, counted like the maps: of its own loss, of the
#: divergence from its teacher's, of any other loss beside the teacher's
OF_WORDS, OF_DIVERGENCE, BESIDE_A_TEACHER = 3, 9, 4


def training_memory_gb(config: Config, parameters: int, rows: int) -> float:
    """Of one device that computes `rows` at a time, at its largest moment."""
    model = (_Decoder if kind_of(config.backbone).causal else _Model)(config, rows)
    static = _for_parameters(config, parameters)
    learned = parameters - _frozen(config)
    update = static + FLOAT * learned / _shards(config)  # the optimiser's scratch, when nothing else is held
    return max(update, static + model.largest_moment()) / 1e9


def _shards(config: Config) -> int:
    """Over how many devices parameters and moments are shared out."""
    return device_count(config) if config.trainer.strategy == "fsdp" else 1


def _for_parameters(config: Config, parameters: int) -> float:
    """Bytes of weights, gradients and moments, of the copy of gradients that devices exchange, and of the teacher."""
    moments = 1 if config.stage.optimizer.name == "adagrad" else 2
    copies = 2.0 + moments
    frozen = (copies - 1) * _frozen(config)  # these have weights alone
    if _shards(config) > 1:
        # a gathered layer, with its gradients, beside the shares: the largest is the table of words
        table = 2 * config.backbone.vocab * config.backbone.hidden
        return FLOAT * ((copies * parameters - frozen) / _shards(config) + table + _teacher(config) * parameters)
    copies += device_count(config) > 1
    half = HALF / FLOAT if _autocast(config) else 0  # of every weight that a product reads
    quantised = 1 if config.quantized else 0
    return FLOAT * (parameters * (copies + half + quantised + _teacher(config)) - frozen)


def _frozen(config: Config) -> int:
    """Parameters that have no gradients: the words of a student that keeps its teacher's."""
    keeps_words = config.distills and config.distill.imitates and config.distill.start.frozen_embeddings
    return config.backbone.vocab * config.backbone.hidden if keeps_words else 0


def _teacher(config: Config) -> bool:
    """Whether a teacher answers beside the model."""
    if config.task.kind == "pretrain":
        return config.converted and config.distill.pretrain
    return config.task.kind == "general" or (config.distills and config.distill.imitates)


def _code_bytes(neuron: NeuronSpec, T: int) -> int:
    """Bytes that a neuron and the linear behind it keep of a value as a whole number; 0: they keep no such numbers.

    A step that learns needs the value itself as well.
    """
    name, settings = neuron.target.removeprefix(CODES), neuron.arguments
    if name in ("stbif.STBIF", "levels.Levels"):
        return BYTE + FLOAT
    if name == "residual.Residual" and settings.get("heights") == "ratio" and settings.get("divisor") == 3:
        number = BYTE if settings.get("steps", 2) <= STEPS_IN_A_BYTE else 2 * BYTE
        return number + (FLOAT if settings.get("alpha") == "learnable" else 0)
    without_membrane = T == 1 or not settings.get("beta")
    if name == "ilif.ILIF" and settings.get("half") == "even" and not settings.get("normalized") and without_membrane:
        return BYTE
    width = {"place.Place": settings.get("width"), "phase.Phase": settings.get("steps")}.get(name)
    if width is None or settings.get("learnable"):
        return 0
    return BYTE if width <= LARGEST_IN_A_BYTE else 2 * BYTE


def _autocast(config: Config) -> bool:
    return config.trainer.precision != "32-true"


@dataclass(frozen=True)
class _Stack:
    """Equal layers over `tokens` of each row; a decoder also reads the `source`."""

    layers: int
    tokens: int
    source: int = 0

    @property
    def maps(self) -> int:
        """Elements of one head's attention maps of one layer."""
        return self.tokens * (self.tokens + self.source)


class _Model:
    """What a config's model holds while it computes `rows`, in bytes."""

    def __init__(self, config: Config, rows: int) -> None:
        self.config = config
        self.size: BackboneConfig = config.backbone
        self.rows = rows
        self.copies = rows * config.time_steps  # of a row, one per time step
        self.product = HALF if _autocast(config) else FLOAT  # what linears and attention write
        self.pairs = config.task.kind == "seq2seq"
        losses = config.distill.losses
        self.imitates = _teacher(config)
        by_layers = self.imitates and config.task.kind not in ("general", "pretrain")
        self.maps = by_layers and bool(losses.attention)
        self.compared_maps = by_layers * (
            KEPT_BY_MAPS * bool(losses.attention)
            + KEPT_BY_SCORES * bool(losses.scores)
            + KEPT_BY_RELATIONS * bool(losses.relations)
        )
        self.states = self.imitates and (not by_layers or bool(losses.hidden))
        self.answers = by_layers and bool(losses.logits) and self.pairs
        self.by_tokens = by_layers and self.pairs  # a student of text pairs never has the logits of all tokens
        own = config.variant.attention != "real" or bool(config.attention)
        self.whole_maps = self.maps or own  # torch's fused attention keeps none
        self.stacks: tuple[_Stack, ...] = (_Stack(config.depth, config.stage.max_length),)
        if self.pairs:
            source, target = config.task.source_length, config.task.target_length
            decoder = self.size.decoder_layers or self.size.layers
            self.stacks = (_Stack(self.size.layers, source), _Stack(decoder, target, source))

    def largest_moment(self) -> float:
        """Bytes beside those for parameters: behind the last layer, at the losses, or where the backward begins."""
        layers = [self.copies * self.layer_bytes(stack) for stack in self.stacks]
        scratch = [self.scratch(stack) for stack in self.stacks]
        if self.config.trainer.activation_checkpointing:
            inputs = sum(self.copies * stack.layers * stack.tokens * self.size.hidden * FLOAT for stack in self.stacks)
            kept = self.embeddings() + inputs
            again = max(layer + more for layer, more in zip(layers, scratch, strict=True))
            losses = self.compared() + max(again, self.head() + self.answered())
            return kept + max(self.recorded(), losses)
        kept = self.embeddings() + sum(s.layers * layer for s, layer in zip(self.stacks, layers, strict=True))
        backward = kept + self.compared() + (self.map_scratch(self.stacks[0]) if self.whole_maps else 0)
        return max(kept + max(scratch), backward, kept + self.compared() + self.head() + self.answered())

    def layer_bytes(self, stack: _Stack) -> float:
        """What one layer keeps for the backward, of one row at one time step."""
        size, n, source = self.size, stack.tokens, stack.source
        h, heads = size.hidden, size.heads
        attentions = [(n, n), *([(n, source)] if source else [])]
        sublayers = len(attentions) + 1
        kept = sublayers * n * h * FLOAT  # what each norm reads
        kept += sublayers * n * h * BYTE * (size.dropout > 0)
        kept += n * size.intermediate * self.product  # before the activation
        for queries, keys in attentions:
            kept += (queries + 2 * keys) * h * self.product
            if self.whole_maps:
                kept += heads * queries * keys * self.map_bytes()
            else:
                kept += queries * h * self.product + queries * (heads * FLOAT + keys * self.product)
        return kept + self.input_bytes(attentions)

    def input_bytes(self, attentions: list[tuple[int, int]]) -> float:
        """What the linears of a layer, and the neurons before them, keep of what they read."""
        size, n = self.size, attentions[0][0]
        h, i = size.hidden, size.intermediate
        values = h * n + i * n + h * sum(2 * (queries + keys) for queries, keys in attentions)
        values += h * sum(keys for _, keys in attentions[1:])  # the source that cross attention reads
        neuron = self.config.neuron
        if neuron.target in PACKING:
            membranes = FLOAT if neuron.arguments.get("alpha") == "learnable" else 0
            return values * (self.packed_bytes() + membranes)
        if kept := _code_bytes(neuron, self.config.time_steps):
            return values * kept
        if _autocast(self.config):  # each linear keeps a copy of its own
            copies = n * (3 + 1) + sum(queries + 2 * keys for queries, keys in attentions[1:])
        else:
            copies = n * (len(attentions) + 1) * FLOAT // self.product
        plain = (copies * h + n * i) * self.product
        if self.whole_maps:  # else the attention keeps its result itself
            plain += sum(queries for queries, _ in attentions) * h * self.product
        keeps_nothing = neuron.target == f"{CODES}dynamic.Dynamic"  # its gradient passes everywhere
        return plain + (values * self.product if self.config.spiking and not keeps_nothing else 0)

    def packed_bytes(self) -> float:
        """Bytes of a value's level and mask (spikelm/neurons/kernels/packing.py): rows of time steps share them."""
        T = self.config.time_steps
        rows = T * (4 // T if 4 % T == 0 else 1)
        return (-(-rows // 4) + -(-rows // 8)) / rows

    def map_bytes(self) -> int:
        """An entry of an attention map: probabilities, those that stay and which they are, and their roundings."""
        dropped = self.size.attention_dropout > 0
        rounded = 0 if self.config.variant.attention == "real" else 2 * FLOAT
        return FLOAT + (self.product + BYTE if dropped else self.product % FLOAT) + rounded

    def embeddings(self) -> float:
        """The sum of embeddings before its norm, what is dropped, and the copies that enter the layers."""
        tokens = sum(stack.tokens for stack in self.stacks)
        return tokens * self.size.hidden * ((FLOAT + BYTE) * self.rows + FLOAT * self.copies)

    def scratch(self, stack: _Stack) -> float:
        """The most that one layer needs beside what it keeps: the widest neuron's, or its maps."""
        T, values = self.config.time_steps, self.rows * stack.tokens * self.size.intermediate
        widened = 2 * self.product if self.product < FLOAT else 0
        memory = 3 if T > 1 else 1  # membranes of one time step at a time
        neuron = T * (self.product + FLOAT + widened) + memory * FLOAT + BYTE if self.config.spiking else 2 * FLOAT
        return max(values * neuron, self.map_scratch(stack) if self.whole_maps else 0)

    def map_scratch(self, stack: _Stack) -> float:
        """Gradients of one layer's maps."""
        return self.copies * self.size.heads * stack.maps * FLOAT * MAPS_IN_BACKWARD

    def outputs(self, stack: _Stack) -> float:
        """The states and maps of a stack that are compared, once, as floats."""
        states = (stack.layers + 1) * stack.tokens * self.size.hidden if self.states else 0
        maps = stack.layers * self.size.heads * stack.maps if self.maps else 0
        return FLOAT * (states + maps)

    def compared(self) -> float:
        """What losses on layers keep: both states, differences of maps, products of scores and relations."""
        each = sum(
            (2 if self.states else 0) * (s.layers + 1) * s.tokens * self.size.hidden
            + self.compared_maps * s.layers * self.size.heads * s.maps
            for s in self.stacks
        )
        return self.rows * each * FLOAT

    def answered(self) -> float:
        """The teacher's answers, the student's means over time, and one difference that is squared.

        Without time steps what the student records is what its layers keep, unless they keep it rounded or not at all.
        """
        rounded = _autocast(self.config) and self.size.attention_dropout > 0
        apart = self.config.time_steps > 1 or rounded or self.config.trainer.activation_checkpointing
        sides = 2 if apart else 1
        largest = max(self.size.heads * stack.maps for stack in self.stacks) * FLOAT if self.maps else 0
        return self.rows * (sides * sum(map(self.outputs, self.stacks)) + largest)

    def recorded(self) -> float:
        """Behind a stack whose layers are computed again: all it recorded, its means over time, and the answers."""
        largest = max(map(self.outputs, self.stacks))
        means = self.rows if self.config.time_steps > 1 else 0
        return self.rows * sum(map(self.outputs, self.stacks)) + (self.copies + means) * largest

    def head(self) -> float:
        """Logits, their logarithms and their gradient where words are predicted; of a student's few tokens, more."""
        kind, n = self.config.task.kind, self.stacks[-1].tokens
        if kind in ("pretrain", "seq2seq", LM):
            share = MASKED if kind == "pretrain" and kind_of(self.size).next_sentence else 1.0
            tensors = 3 + 3 * self.answers + (self.product < FLOAT)
            tokens = min(self.rows * n, FEW_TOKENS) if self.by_tokens else self.rows * n * share
            return tokens * self.size.vocab * FLOAT * tensors
        return 0.0


class _Decoder(_Model):
    """A GPT-2 or Llama: norms before each half of a layer, an activation in several operations, logits of every token.

    Keys and values that several queries share are repeated for each of them, as where rows have pads.
    """

    def layer_bytes(self, stack: _Stack) -> float:
        size, n = self.size, stack.tokens
        h, i, product = size.hidden, size.intermediate, self.product
        gpt2 = size.kind == "gpt2"
        head = size.options.get("head_size") or h // size.heads
        queries = size.heads * head
        keys = (size.options.get("key_value_heads") or size.heads) * head
        dropped = 2 * h * BYTE * (size.dropout > 0) * gpt2
        norms = 2 * h * (FLOAT if gpt2 else 2 * FLOAT)  # RMSNorm keeps what it reads, and that divided by its norm
        # GPT-2 writes its GELU out: half of x, x that is cubed, the tangent, one more than it. Llama: gate, SiLU, up
        activation = i * (product + 3 * FLOAT if gpt2 else 3 * product)
        attention = 4 * queries * product + size.heads * FLOAT + n * product
        return n * (dropped + norms + activation + attention + self.read_bytes(queries, keys))

    def read_bytes(self, queries: int, keys: int) -> float:
        """What the linears of a layer, and the neurons before them, keep of one token that they read."""
        h, i, neuron, T = self.size.hidden, self.size.intermediate, self.config.neuron, self.config.time_steps
        conv = self.size.kind == "gpt2"  # GPT-2's linears are of a class of its own, which keeps what it reads
        copies = 2 if conv or self.product == FLOAT else 5  # by autocast q, k, v, gate and up keep a copy each
        plain = (copies * h + i) * self.product
        if not self.config.spiking:
            return plain
        sites = 2 * h + queries + 2 * keys + i
        if neuron.target in PACKING:
            membranes = FLOAT if neuron.arguments.get("alpha") == "learnable" else 0
            noted, keeps_spikes = sites * (self.packed_bytes() + membranes), conv
        elif kept := _code_bytes(neuron, T):
            noted, keeps_spikes = sites * kept, conv
        else:
            keeps_nothing = neuron.target == f"{CODES}dynamic.Dynamic"
            noted, keeps_spikes = 0 if keeps_nothing else sites * self.product, True
        return noted + keeps_spikes * (plain + queries * self.product)

    def head(self) -> float:
        """Logits of every token, their logarithms and gradients, and those of a teacher."""
        losses, kl = self.config.distill.losses, self.config.distill.logits.loss != "mse"
        tensors = OF_WORDS
        if self.imitates and losses.logits:
            tensors = (OF_DIVERGENCE - (self.product < FLOAT) if kl else BESIDE_A_TEACHER) + bool(losses.labels)
        elif self.imitates:
            tensors = BESIDE_A_TEACHER
        return self.rows * self.stacks[-1].tokens * self.size.vocab * FLOAT * tensors
