"""Prompts for a GPT-2: an article and "TL;DR:" behind it, by the tokenizer of its running text."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer

from spikelm.config.settings.backbone import BackboneConfig
from spikelm.config.settings.source import SourceConfig
from spikelm.config.settings.task import TaskConfig
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.tokens.running_text_tokenizer import end_of_text, load_text_tokenizer
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer

PROMPT = "\nTL;DR:"


def prompt_tokenizer(tokenizer: Tokenizer) -> TextPairTokenizer:
    """Sources as prompts: the article, cut so that the whole of "TL;DR:" is behind it."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    asked = tuple(tokenizer.encode(PROMPT, add_special_tokens=False).ids)
    end = tokenizer.get_vocab()[end_of_text(tokenizer)]
    return TextPairTokenizer(tokenizer, ((), asked), ((), (end,)), bos=end, pad=end, eos=end, decoder_start=end)


def load_prompt_tokenizer(
    task: TaskConfig, source: SourceConfig, backbone: BackboneConfig, text: LoadedText, cache: Path
) -> TextPairTokenizer:
    """The language model's own tokenizer around the task's texts."""
    return prompt_tokenizer(load_text_tokenizer(source, backbone, cache))
