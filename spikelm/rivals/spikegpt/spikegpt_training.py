"""SpikeGPT: causal language modelling from scratch, on the text of pretraining or of a task."""

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
from spikelm.training.decoders import LanguageModule, ReadText, language_stage
from spikelm.training.modules import StageModule
from spikelm.training.stage import Stage, unlabelled_stage


def architecture(kind: Kind) -> Architecture:
    """A language model, trained from scratch."""
    return Architecture(
        config=SpikeGPTConfig,
        encoder=SpikeGPTModel,
        pretrainer=SpikeGPTForCausalLM,
        batches=CausalBatches,
        pretraining=pretraining,
        language_modelling=language_modelling,
    )


def pretraining(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A SpikeGPT from scratch on the project's text."""

    def module(tokenizer: Tokenizer, total: int) -> StageModule:
        settings: Any = bert_config(config.backbone, tokenizer.get_vocab_size())
        model = spiking_if_asked(SpikeGPTForCausalLM(settings), config)
        return CausalModule(model, config.pretrain, total, config.seed)

    return unlabelled_stage(config, console, module)


def language_modelling(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A SpikeGPT from scratch on a task's text, evaluated as decoders are."""

    def module(total: int, text: ReadText) -> LanguageModule:
        settings: Any = bert_config(config.backbone, text.tokenizer.get_vocab_size())
        model = spiking_if_asked(SpikeGPTForCausalLM(settings), config)
        return LanguageModule(model, config, total, text.evaluated, config.stage)

    return language_stage(config, console, module)
