"""Parameters of the rivals against their own models, built without memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.models.bert import bert_config, num_labels
from spikelm.models.gpt2 import build_gpt2
from spikelm.rivals.bertsum.bertsumabs import BertSumAbs, SentenceBert, decoder_config
from spikelm.rivals.elmo.bilm import BiLM
from spikelm.rivals.elmo.elmo import ElmoForSequenceClassification, bilm_config
from spikelm.rivals.ptgen.pointer_generator import PointerConfig, PointerGenerator
from spikelm.runs.cost import saved_parameters
from spikelm.runs.prerequisites import pretraining_of


def built(config: Config) -> nn.Module:
    size: Any = config.backbone
    if size.kind == "elmo" and config.task.kind == "pretrain":
        return BiLM(bilm_config(config, size.vocab))
    if size.kind == "elmo":
        return ElmoForSequenceClassification(bilm_config(config, size.vocab, num_labels=num_labels(config), pairs=True))
    if size.kind == "ptgen":
        return PointerGenerator(
            PointerConfig(vocab_size=size.vocab, embedding_size=size.options["embedding"], hidden_size=size.hidden)
        )
    if size.kind == "gpt2":
        return build_gpt2(config, size.vocab, 0)
    from transformers import BertLMHeadModel

    encoder = SentenceBert(bert_config(pretraining_of(config).backbone, size.vocab), add_pooling_layer=False)
    return BertSumAbs(encoder=encoder, decoder=BertLMHeadModel(decoder_config(config, size.vocab)))


@pytest.mark.parametrize("scale", ["smoke", "paper"])
@pytest.mark.parametrize(
    ("system", "task"),
    [
        ("elmo", "pretrain"),
        ("elmo", "glue/rte"),
        ("ptgen", "sum/xsum"),
        ("bertsumabs", "sum/xsum"),
        ("gpt2", "sum/xsum"),
    ],
)
def test_rivals_have_the_parameters_of_their_models(system: str, task: str, scale: str) -> None:
    given = ["backbone.path=null"] if scale == "paper" and system in ("bertsumabs", "gpt2") else []
    config = load_config([f"scale={scale}", f"system={system}", f"task={task}", *given])
    with torch.device("meta"):
        model = built(config)
    assert saved_parameters(config) == sum(parameter.numel() for parameter in model.parameters())
