"""SpikingFormer for text: BERT whose residual stream is a real-valued membrane.

    x0 = N(x);  q = LN(Wq x0), k = N(LN(Wk x0)), v = N(LN(Wv x0));  x = x + LN(Wo N(softmax(q k' / sqrt d) v))
    x = x + LN(W2 N(LN(W1 N(x))))

N are the neurons, put in by spikify. The query and the attention weights stay real; every linear reads spikes, is
followed by its norm, and nothing normalises the residual path.
"""

from __future__ import annotations

from transformers import BertConfig, BertForPreTraining, BertForSequenceClassification

from spikelm.catalog.kinds import Kind
from spikelm.data.batches.mlm_nsp import PretrainingBatches
from spikelm.models.architecture import Architecture
from spikelm.rivals.normed_layers import norm_after_linears
from spikelm.training.encoders import fine_tuning, pretraining


class MembraneBertConfig(BertConfig):
    """BERT's config; `norm` after each linear, `ffn_activation` between the FFN's two (the original has none).

    `norm_eps` is torch's: a linear that reads no spike gives a row of equal values, whose gradient a norm multiplies by
    1 / sqrt(eps). BERT's 1e-12 makes the gradient's norm infinite, and a clipped step then changes nothing.
    `attention_threshold` is that of the neuron on the attention's output, over the other neurons' threshold.
    """

    model_type = "spikingformer"

    norm: str = "ln"
    norm_eps: float = 1e-5
    ffn_activation: str = "none"
    attention_threshold: float = 0.5


class MembraneBertForPreTraining(BertForPreTraining):
    """With BERT's MLM and NSP heads."""

    config_class = MembraneBertConfig

    def __init__(self, config: MembraneBertConfig) -> None:
        super().__init__(config)
        for layer in self.bert.encoder.layer:
            norm_after_linears(layer, config.norm, config.ffn_activation, eps=config.norm_eps)


class MembraneBertForSequenceClassification(BertForSequenceClassification):
    """With a classifier on BERT's pooler."""

    config_class = MembraneBertConfig

    def __init__(self, config: MembraneBertConfig) -> None:
        super().__init__(config)
        for layer in self.bert.encoder.layer:
            norm_after_linears(layer, config.norm, config.ffn_activation, eps=config.norm_eps)


def architecture(kind: Kind) -> Architecture:
    """Pretrained and fine-tuned as a BERT is."""
    return Architecture(
        config=MembraneBertConfig,
        pretrainer=MembraneBertForPreTraining,
        classifier=MembraneBertForSequenceClassification,
        batches=PretrainingBatches,
        pretraining=pretraining,
        fine_tuning=fine_tuning,
    )
