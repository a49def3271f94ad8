"""SpikeGPT's one stage: causal language modelling from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from tokenizers import Tokenizer

from spikelm.catalog.kinds import Kind
from spikelm.config.settings.schema import Config
from spikelm.data.batches.causal_blocks import CausalBatches
from spikelm.models.architecture import Architecture
from spikelm.models.bert import bert_config, spiking_if_asked
from spikelm.rivals.spikegpt.rwkv import SpikeGPTConfig, SpikeGPTForCausalLM, SpikeGPTModel
from spikelm.training.causal import CausalModule
from spikelm.training.modules import StageModule
from spikelm.training.stage import Stage, unlabelled_stage


def architecture(kind: Kind) -> Architecture:
    """A language model that is pretrained and no more."""
    return Architecture(
        config=SpikeGPTConfig,
        encoder=SpikeGPTModel,
        pretrainer=SpikeGPTForCausalLM,
        batches=CausalBatches,
        pretraining=pretraining,
    )


def pretraining(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A SpikeGPT from scratch on the project's text."""

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        settings: Any = bert_config(config.backbone, tokenizer.get_vocab_size())
        model = spiking_if_asked(SpikeGPTForCausalLM(settings), config)
        return CausalModule(model, config.pretrain, total, config.seed)

    return unlabelled_stage(config, console, module)
