"""ELMo's bidirectional language model: characters to words to two stacks of LSTMs that never meet.

forward:  p(t_k | t_1 .. t_{k-1})    backward: p(t_k | t_{k+1} .. t_n), one softmax for both
The original clips cells and projections at 3 and takes a sampled softmax over 800k words; here there is no clipping
(torch's LSTM has none) and the softmax is whole, over the project's word pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init

from spikelm.catalog.parameters import CHARACTERS
from spikelm.data.batches.by_step import reversed_rows

PAD, FIRST, START, END = 0, 1, 257, 258  # of a character: none, the byte 0, the ends of a word


class BiLMConfig(PreTrainedConfig):
    """Sizes of the biLM; those of the task's model (elmo.py) are beside them."""

    model_type = "elmo"

    vocab_size: int = 30522
    num_hidden_layers: int = 2
    hidden_size: int = 512  # what the cells are projected to
    cells: int = 4096
    characters: int = 50  # most bytes of a word, its ends included
    filters: list[int] | tuple[int, ...] = (32, 32, 64, 128, 256, 512, 1024)  # of widths 1, 2, 3 ..
    character_size: int = 16
    highways: int = 2
    dropout: float = 0.1
    task_hidden: int = 1500
    task_mlp: int = 512
    task_dropout: float = 0.2
    pairs: bool = False  # whether the task has two sentences
    initializer_range: float = 0.02


def spelling(tokenizer: Tokenizer, characters: int) -> Tensor:
    """Each piece of a vocabulary as its bytes between START and END, cut or padded to `characters`."""
    table = torch.zeros(tokenizer.get_vocab_size(), characters, dtype=torch.int16)
    for piece, index in tokenizer.get_vocab().items():
        spelled = [START, *(FIRST + byte for byte in piece.encode()[: characters - 2]), END]
        table[index, : len(spelled)] = torch.tensor(spelled, dtype=torch.int16)
    return table


class CharacterEncoder(nn.Module):
    """Filters over the characters of a word, their maxima, highway layers, a projection."""

    spellings: Tensor

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        width = sum(config.filters)
        self.register_buffer("spellings", torch.zeros(config.vocab_size, config.characters, dtype=torch.int16))
        self.embedding = nn.Embedding(CHARACTERS, config.character_size, padding_idx=PAD)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(config.character_size, count, kernel_size=size) for size, count in enumerate(config.filters, 1)
        )
        self.highways = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(config.highways))
        self.projection = nn.Linear(width, config.hidden_size)

    def forward(self, input_ids: Tensor) -> Tensor:
        # A word is spelled out once, however often it is there.
        words, places = input_ids.unique(return_inverse=True)
        letters = self.embedding(self.spellings[words].long()).transpose(1, 2)  # (words, size, characters)
        features = torch.cat([convolution(letters).amax(-1) for convolution in self.convolutions], dim=-1).relu()
        for highway in self.highways:
            candidate, gate = highway(features).chunk(2, dim=-1)
            gate = gate.sigmoid()
            features = gate * features + (1 - gate) * candidate.relu()
        return self.projection(features)[places]


class DirectedStack(nn.Module):
    """LSTM layers with projection, read from left to right; from the second on each adds to its input."""

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__()
        size, cells = config.hidden_size, config.cells
        projection = size if cells > size else 0  # torch's: 0 is none
        self.layers = nn.ModuleList(
            nn.LSTM(size, cells, proj_size=projection, batch_first=True) for _ in range(config.num_hidden_layers)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> list[Tensor]:
        states: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            out, _ = layer(self.dropout(x))
            x = out + x if number else out
            states.append(x)
        return states


@dataclass
class BiLMOutput:
    """States of each layer, embeddings first: (B, n, 2D) with the forward half before the backward half."""

    hidden_states: list[Tensor]


class BiLM(PreTrainedModel):
    """The language model: token encoder, a stack for each direction, and the softmax that they share."""

    config_class = BiLMConfig
    config: BiLMConfig
    base_model_prefix = "bilm"

    def __init__(self, config: BiLMConfig) -> None:
        super().__init__(config)
        self.tokens = CharacterEncoder(config)
        self.forwards = DirectedStack(config)
        self.backwards = DirectedStack(config)
        self.softmax = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """torch's own for convolutions and linears, whose fans differ; a highway starts as nearly a copy."""
        if isinstance(module, CharacterEncoder):
            init.zeros_(module.spellings)
            for highway in module.highways:
                init.constant_(highway.bias[highway.out_features // 2 :], 1.0)  # type: ignore[index,operator]
        elif isinstance(module, nn.Embedding | nn.LSTM):
            super()._init_weights(module)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> BiLMOutput:
        x = self.tokens(input_ids)
        states = [torch.cat([x, x], dim=-1)]
        ahead = self.forwards(x)
        back = [reversed_rows(h, attention_mask) for h in self.backwards(reversed_rows(x, attention_mask))]
        states += [torch.cat(both, dim=-1) for both in zip(ahead, back, strict=True)]
        return BiLMOutput(states)

    def losses(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Mean cross entropy of the next token and of the one before, over rows of at least two tokens."""
        ahead, back = self(input_ids, attention_mask).hidden_states[-1].chunk(2, dim=-1)
        real = attention_mask[:, 1:].bool()
        following, previous = input_ids[:, 1:][real], input_ids[:, :-1][real]
        return {
            "forward_loss": F.cross_entropy(self.softmax(ahead[:, :-1][real]).float(), following),
            "backward_loss": F.cross_entropy(self.softmax(back[:, 1:][real]).float(), previous),
            "count": real.sum(),
        }


def bilm_sizes(own: dict[str, Any]) -> dict[str, Any]:
    """The keys of `backbone.options` that are sizes here."""
    names = ("characters", "filters", "character_size", "highways", "task_hidden", "task_mlp", "task_dropout")
    return {name: own[name] for name in names if name in own}
