"""SpikeGPT: RWKV blocks whose outputs are spikes over tokens; their linears read real values.

    x = x + N(TimeMix(LN x));  x = x + N(ChannelMix(LN x))

N is a neuron whose time is the sequence, put in by spikify; words enter as the signs of their embeddings.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from spikelm.rivals.spikegpt.wkv import empty_state, wkv, wkv_step
from spikelm.rivals.word_spikes import WordEmbeddings

BlockState = dict[str, Any]


class SpikeGPTConfig(BertConfig):
    """BERT's names of sizes; `max_logit_l2` weighs the square of each token's largest logit in the loss."""

    model_type = "spikegpt"

    max_logit_l2: float = 1e-4


def shifted(x: Tensor) -> Tensor:
    """Each token's predecessor, zero for the first."""
    return F.pad(x, (0, 0, 1, -1))


class TimeMix(nn.Module):
    """Wo(sigmoid(r) wkv(k, v)), r, k and v linears of a mix of a token and its predecessor."""

    def __init__(self, config: SpikeGPTConfig, layer: int) -> None:
        super().__init__()
        width, deep = config.hidden_size, layer / max(1, config.num_hidden_layers - 1)
        channel = torch.arange(width) / max(1, width - 1)
        self.decay = nn.Parameter(-5 + 8 * channel ** (0.7 + 1.3 * deep))
        self.bonus = nn.Parameter(math.log(0.3) + ((torch.arange(width) + 1) % 3 - 1) * 0.5)
        shallow = 1 - layer / config.num_hidden_layers
        self.mix = nn.Parameter(
            torch.stack([channel**shallow, channel**shallow + 0.3 * deep, channel ** (shallow / 2)])
        )
        self.key, self.value = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.receptance, self.output = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

    def project(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v, r = (x * mix + before * (1 - mix) for mix in self.mix)
        return self.key(k), self.value(v), torch.sigmoid(self.receptance(r))

    def forward(self, x: Tensor) -> Tensor:
        k, v, gate = self.project(x, shifted(x))
        return self.output(gate * wkv(self.decay.exp(), self.bonus, k, v))

    def step(self, x: Tensor, state: BlockState) -> Tensor:
        """One token (B, D); the state is taken on."""
        k, v, gate = self.project(x, state["time"])
        y, state["wkv"] = wkv_step(self.decay.exp(), self.bonus, k, v, state["wkv"])
        state["time"] = x
        return self.output(gate * y)


class ChannelMix(nn.Module):
    """sigmoid(r) Wv relu(Wk x)^2."""

    def __init__(self, config: SpikeGPTConfig, layer: int) -> None:
        super().__init__()
        width = config.hidden_size
        channel = torch.arange(width) / max(1, width - 1)
        self.mix = nn.Parameter((channel ** (1 - layer / config.num_hidden_layers)).repeat(2, 1))
        self.key = nn.Linear(width, config.intermediate_size, bias=False)
        self.value = nn.Linear(config.intermediate_size, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)

    def mixed(self, x: Tensor, before: Tensor) -> Tensor:
        k, r = (x * mix + before * (1 - mix) for mix in self.mix)
        return torch.sigmoid(self.receptance(r)) * self.value(F.relu(self.key(k)).square())

    def forward(self, x: Tensor) -> Tensor:
        return self.mixed(x, shifted(x))

    def step(self, x: Tensor, state: BlockState) -> Tensor:
        """One token (B, D); the state is taken on."""
        y = self.mixed(x, state["channel"])
        state["channel"] = x
        return y


class RwkvBlock(nn.Module):
    """Both mixes, each with its norm before it and its neuron behind it."""

    def __init__(self, config: SpikeGPTConfig, layer: int) -> None:
        super().__init__()
        self.time_norm, self.channel_norm = nn.LayerNorm(config.hidden_size), nn.LayerNorm(config.hidden_size)
        self.time, self.channel = TimeMix(config, layer), ChannelMix(config, layer)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.time(self.time_norm(x)))
        return x + self.dropout(self.channel(self.channel_norm(x)))

    def step(self, x: Tensor, state: BlockState) -> Tensor:
        """One token (B, D), without dropout; membranes are part of the state."""
        for name, mix, norm in (("time", self.time, self.time_norm), ("channel", self.channel, self.channel_norm)):
            neuron: Any = mix.spike_out
            spikes, state[f"v_{name}"] = neuron.step(mix.step(norm(x), state), state[f"v_{name}"])
            x = x + spikes
        return x


class SpikeGPTModel(PreTrainedModel):
    """Words to the last block's normed states."""

    config_class = SpikeGPTConfig
    base_model_prefix = "rwkv"

    def __init__(self, config: SpikeGPTConfig) -> None:
        super().__init__(config)
        self.embeddings = WordEmbeddings(config)
        self.blocks = nn.ModuleList(RwkvBlock(config, layer) for layer in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.embeddings.word_embeddings

    def forward(self, input_ids: Tensor, **unused: Any) -> BaseModelOutput:
        """Masks are not needed: pads come last, and no token sees what follows it."""
        x = self.embeddings(input_ids)
        for block in self.blocks:
            x = block(x)
        return BaseModelOutput(last_hidden_state=self.norm(x))


class SpikeGPTForCausalLM(PreTrainedModel):
    """With a head of its own over the vocabulary."""

    config_class = SpikeGPTConfig
    base_model_prefix = "rwkv"

    def __init__(self, config: SpikeGPTConfig) -> None:
        super().__init__(config)
        self.rwkv = SpikeGPTModel(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids: Tensor, **unused: Any) -> CausalLMOutput:
        return CausalLMOutput(logits=self.head(self.rwkv(input_ids).last_hidden_state))

    def empty_states(self, rows: int) -> list[BlockState]:
        """Before the first token, one state per block."""
        nothing = self.head.weight.new_zeros(rows, self.config.hidden_size)
        names = ("time", "channel", "v_time", "v_channel")
        return [{**dict.fromkeys(names, nothing), "wkv": empty_state(nothing)} for _ in self.rwkv.blocks]

    def step(self, input_ids: Tensor, states: list[BlockState]) -> Tensor:
        """Logits (B, V) behind one token (B,), in time and memory that do not grow with the text."""
        x = self.rwkv.embeddings(input_ids[:, None])[:, 0]
        for block, state in zip(self.rwkv.blocks, states, strict=True):
            x = block.step(x, state)  # type: ignore[operator]
        return self.head(self.rwkv.norm(x))
