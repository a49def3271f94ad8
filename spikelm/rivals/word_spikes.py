"""Words that enter a model as spikes: the signs of their embeddings, as in SpikeBERT and SpikeGPT."""

from __future__ import annotations

from torch import Tensor, nn
from transformers import BertConfig

from spikelm.neurons.heaviside import Heaviside


class WordEmbeddings(nn.Module):
    """Words as the signs of their embeddings; neither positions nor segments."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.spike_out = Heaviside()
        self.spike_out.site = "embeddings.words"

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.spike_out(self.word_embeddings(input_ids)[None])[0]
