"""The pointer-generator: a biLSTM reads, an LSTM writes words of its vocabulary or of what was read.

e_i = v^T tanh(W_h h_i + W_s s_t + w_c c_i + b),  a = softmax(e),  p = sigmoid(w_h ctx + w_s s_t + w_x x_t + b)
P(w) = p P_vocab(w) + (1 - p) sum_{i: w_i = w} a_i,  over the vocabulary and the rare words of the batch's sources

An id of `vocab_size` or above is a rare word. Inside, the rare words of a batch are columns behind the vocabulary;
outside (`generate`'s result, labels) they are ids again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput

SMALLEST = 1e-30  # of a probability: its logarithm stays finite


class PointerConfig(PreTrainedConfig):
    """Sizes, special tokens, and whether coverage is on."""

    model_type = "ptgen"

    vocab_size: int = 50000
    embedding_size: int = 128
    hidden_size: int = 256
    initializer_range: float = 0.02
    covering: bool = False  # whether attention sees what it has read before: switched on for the last phase
    unk_token_id: int = 3
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | None = 2
    decoder_start_token_id: int | None = 2
    is_encoder_decoder: bool = True


@dataclass
class PointerEncoding(ModelOutput):
    """What was read, one row per source, so that beams can be made of it."""

    last_hidden_state: Any = None  # (B, n, 2H)
    features: Any = None  # W_h h_i
    state: Any = None  # (B, 2, H): h and c that the decoder starts from
    columns: Any = None  # (B, n): where each word's probability is added
    rare: Any = None  # (B, r): ids of the batch's rare words, the same in each row


@dataclass
class PointerOutput(ModelOutput):
    """logits are log P(w) over the extended vocabulary: (B, m, V + r)."""

    logits: Any = None
    past_key_values: Any = None
    attentions: Any = None  # (B, m, n)


@dataclass
class PointerState:
    """What a decoder step leaves to the next one: a cache that beam search can reorder."""

    h: Tensor
    c: Tensor
    context: Tensor
    coverage: Tensor

    def reorder_cache(self, rows: Tensor) -> None:
        for name, tensor in vars(self).items():
            setattr(self, name, tensor.index_select(0, rows))


class PointerEncoder(nn.Module):
    """One biLSTM layer; its last states are reduced to the decoder's first one."""

    main_input_name = "input_ids"

    def __init__(self, config: PointerConfig, embedding: nn.Embedding) -> None:
        super().__init__()
        size, self.vocab, self.unk = config.hidden_size, config.vocab_size, config.unk_token_id
        self.embedding = embedding
        self.lstm = nn.LSTM(config.embedding_size, size, batch_first=True, bidirectional=True)
        self.reduce_h = nn.Linear(2 * size, size)
        self.reduce_c = nn.Linear(2 * size, size)
        self.features = nn.Linear(2 * size, 2 * size, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> PointerEncoding:
        words = self.embedding(torch.where(input_ids < self.vocab, input_ids, self.unk))
        lengths = attention_mask.sum(1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        out, (h, c) = self.lstm(packed)
        states = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=input_ids.shape[1])[0]
        first = [reduce(torch.cat([*x], dim=-1)).relu() for reduce, x in ((self.reduce_h, h), (self.reduce_c, c))]
        rare = input_ids[input_ids >= self.vocab].unique()
        columns = torch.where(input_ids < self.vocab, input_ids, self.vocab + places(rare, input_ids))
        return PointerEncoding(
            last_hidden_state=states,
            features=self.features(states),
            state=torch.stack(first, dim=1),
            columns=columns,
            rare=rare.expand(len(input_ids), -1),
        )


class PointerGenerator(PreTrainedModel, GenerationMixin):
    """Encoder, decoder and the mixture of writing and copying."""

    config_class = PointerConfig
    config: PointerConfig
    base_model_prefix = "ptgen"
    main_input_name = "input_ids"
    _tied_weights_keys = {"encoder.embedding.weight": "embedding.weight"}  # noqa: RUF012 (as transformers has it)

    def __init__(self, config: PointerConfig) -> None:
        super().__init__(config)
        size, words = config.hidden_size, config.embedding_size
        self.embedding = nn.Embedding(config.vocab_size, words)
        self.encoder = PointerEncoder(config, self.embedding)
        self.fed = nn.Linear(words + 2 * size, words)  # the word and the context before it
        self.cell = nn.LSTMCell(words, size)
        self.query = nn.Linear(2 * size, 2 * size)
        self.covered = nn.Linear(1, 2 * size, bias=False)
        self.score = nn.Linear(2 * size, 1, bias=False)
        self.writes = nn.Linear(2 * size + 2 * size + words, 1)
        self.out = nn.Linear(3 * size, size)
        self.lm_head = nn.Linear(size, config.vocab_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if "bias" in name:
                init.zeros_(parameter)
            else:
                bound = self.config.initializer_range
                init.uniform_(parameter, -bound, bound)

    def get_encoder(self, *args: Any, **kwargs: Any) -> nn.Module:
        return self.encoder

    def step(self, word: Tensor, state: PointerState, encoding: Any, mask: Tensor) -> tuple[PointerState, tuple]:
        """One word: the next state, and (what is written from, attention, p) of this one."""
        x = self.fed(torch.cat([word, state.context], dim=-1))
        h, c = self.cell(x, (state.h, state.c))
        energy = encoding.features + self.query(torch.cat([h, c], dim=-1))[:, None]
        if self.config.covering:
            energy = energy + self.covered(state.coverage[..., None])
        score = self.score(energy.tanh()).squeeze(-1)
        attention = score.masked_fill(mask == 0, -torch.inf).softmax(-1)  # (B, n)
        context = torch.einsum("bn,bnd->bd", attention, encoding.last_hidden_state)
        p = self.writes(torch.cat([context, h, c, x], dim=-1)).sigmoid()
        after = PointerState(h, c, context, state.coverage + attention)
        return after, (self.out(torch.cat([h, context], dim=-1)), attention, p)

    def forward(
        self,
        input_ids: Tensor | None = None,
        *,
        attention_mask: Tensor,
        decoder_input_ids: Tensor,
        encoder_outputs: Any = None,
        past_key_values: PointerState | None = None,
        **_: Any,
    ) -> PointerOutput:
        """Teacher-forced over all of decoder_input_ids, going on from a state where there is one."""
        encoding = encoder_outputs if encoder_outputs is not None else self.encoder(input_ids, attention_mask)
        vocab = self.config.vocab_size
        words = self.embedding(torch.where(decoder_input_ids < vocab, decoder_input_ids, self.config.unk_token_id))
        state = past_key_values or self.start(encoding)
        outputs = []
        for word in words.unbind(1):  # each step reads the context of the one before it
            state, output = self.step(word, state, encoding, attention_mask)
            outputs.append(output)
        out, attention, p = (torch.stack(parts, dim=1) for parts in zip(*outputs, strict=True))
        probabilities = mixture(self.lm_head(out).softmax(-1), attention, p, encoding.columns, encoding.rare.shape[1])
        logits = probabilities.clamp_min(SMALLEST).log()
        return PointerOutput(logits=logits, past_key_values=state, attentions=attention)

    def start(self, encoding: Any) -> PointerState:
        """Before the first word nothing was attended to."""
        h, c = encoding.state.unbind(1)
        states = encoding.last_hidden_state
        return PointerState(h, c, torch.zeros_like(states[:, 0]), torch.zeros_like(states[..., 0]))

    def label_columns(self, labels: Tensor, input_ids: Tensor) -> Tensor:
        """Labels as columns: a rare word that its own source does not hold cannot be written and is unknown."""
        vocab = self.config.vocab_size
        rare = input_ids[input_ids >= vocab].unique()
        in_source = (labels[..., None] == input_ids[:, None]).any(-1)
        copied = torch.where(in_source, vocab + places(rare, labels), self.config.unk_token_id)
        return torch.where(labels < vocab, labels, copied)

    @torch.no_grad()
    def generate(self, input_ids: Tensor, **options: Any) -> Tensor:  # type: ignore[override]
        """transformers' generate() over the extended vocabulary, with rare words by their ids."""
        generated: Any = super().generate(input_ids=input_ids, **options)  # type: ignore[misc]
        vocab = self.config.vocab_size
        rare = input_ids[input_ids >= vocab].unique()
        if not len(rare):
            return generated
        return torch.where(generated < vocab, generated, rare[(generated - vocab).clamp_min(0)])

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the state is its own cache

    def prepare_inputs_for_generation(self, input_ids: Tensor, **known: Any) -> Mapping[str, Any]:  # type: ignore[override]
        names = ("attention_mask", "encoder_outputs", "past_key_values")
        last = input_ids[:, -1:] if known.get("past_key_values") is not None else input_ids
        return {"decoder_input_ids": last, **{name: known[name] for name in names if name in known}}


def places(rare: Tensor, ids: Tensor) -> Tensor:
    """Where each id is among the sorted rare ones; of any other id it is not to be used."""
    return torch.searchsorted(rare, ids.contiguous())


def mixture(vocabulary: Tensor, attention: Tensor, p: Tensor, columns: Tensor, rare: int) -> Tensor:
    """p P_vocab + (1 - p) times the attention added up by column: (B, m, V + rare)"""
    extended = torch.nn.functional.pad(p * vocabulary, (0, rare))
    return extended.scatter_add(-1, columns[:, None].expand(-1, attention.shape[1], -1), (1 - p) * attention)


def coverage_loss(attention: Tensor, mask: Tensor) -> Tensor:
    """Mean over the target's tokens of sum_i min(a_i, c_i), c the sum of the attentions before."""
    before = attention.cumsum(1) - attention
    return (torch.minimum(attention, before).sum(-1) * mask).sum() / mask.sum()
