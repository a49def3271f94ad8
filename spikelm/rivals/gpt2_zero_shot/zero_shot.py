"""GPT-2 on summaries without training: "TL;DR:" behind the article, top-k sampling, first sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from spikelm.catalog.checkpoint_files import weights_folder
from spikelm.catalog.energy import Term, causal_terms, energy_mj, lm_head_terms
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import Batch, reversed_rows, step_seed
from spikelm.data.tokens.sentence_split import sentences
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.measure.generated_text import measure_plain_generation
from spikelm.measure.trained_model import Measured
from spikelm.models.gpt2 import load_gpt2
from spikelm.rivals.gpt2_zero_shot.prompts import load_prompt_tokenizer
from spikelm.training.decoders import GPT2_PARTS
from spikelm.training.generation import Generator
from spikelm.training.seq2seq import PairTask, Seq2SeqModule, text_pairs_stage
from spikelm.training.stage import Stage


def padded_left(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows that end together, as a model that goes on from their ends needs them."""
    turned = reversed_rows(ids, mask).flip(1)
    return turned, mask.flip(1)


def first_sentences(text: str, count: int) -> str:
    """The first `count` sentences, one per line, as ROUGE's summary level reads them."""
    return "\n".join(sentences(text)[:count])


@dataclass
class PromptGenerator(Generator):
    """Goes on from prompts; what is sampled depends on the seed and the rows alone."""

    seed: int = 0
    kept: int = 3  # sentences

    @torch.no_grad()
    def _decode(self, model: Any, batch: Batch, split: int) -> None:
        ids, mask = padded_left(batch["input_ids"], batch["attention_mask"])
        rows = batch["rows"].tolist()
        torch.manual_seed(step_seed(self.seed, split, f"sampling {rows}"))
        generated = model.generate(input_ids=ids, attention_mask=mask, **self.options)[:, ids.shape[1] :]
        end = self.options["pad_token_id"]
        for row, source, tokens in zip(rows, batch["attention_mask"].sum(1).tolist(), generated.tolist(), strict=True):
            written = tokens[: tokens.index(end)] if end in tokens else tokens
            self.texts[split][row] = first_sentences(self.decode(written), self.kept)
            if split == 0:
                self.lengths.append((source, max(1, len(written))))


class ZeroShotModule(Seq2SeqModule):
    """Nothing is trained: the one evaluation generates."""

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        self.generator.generate(self.model, batch, dataloader_idx)

    def on_validation_epoch_end(self) -> None:
        self.scores = self.generator.scores()


def text_pairs(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """Summaries by prompt, of the GPT-2 of the pretrained run or of backbone.path."""
    own = config.backbone.options
    folder = needed["pretrained"] / "model" if "pretrained" in needed else weights_folder(config.backbone.path or "")

    def module(total: int, generator: Generator, tokenizer: TextPairTokenizer) -> ZeroShotModule:
        options = {
            "do_sample": True,
            "top_k": own["top_k"],
            "max_new_tokens": own["new_tokens"],
            "num_beams": 1,
            "pad_token_id": tokenizer.eos,
            "eos_token_id": tokenizer.eos,
        }
        prompts = PromptGenerator(
            generator.metrics,
            generator.splits,
            options,
            generator.decode,
            progress=generator.progress,
            entities=generator.entities,
            seed=config.seed,
            kept=own["sentences"],
        )
        return ZeroShotModule(load_gpt2(folder), config.task, config.finetune, total, config.seed, prompts)

    def measure(model: nn.Module, samples: list[Batch], generator: Generator, vocab: int) -> Measured:
        return measure_gpt2(config, generator, vocab)

    return text_pairs_stage(config, console, PairTask(module, measure, load_prompt_tokenizer))


def measure_gpt2(config: Config, generator: Generator, vocab: int) -> Measured:
    """Energy of prompt and answer together, at the task's lengths and as generated."""
    size, task = config.backbone, config.task

    def terms(source: int, target: int, beams: int = 1) -> list[Term]:
        return causal_terms(size.layers, size.hidden, size.intermediate, source + target)

    new = size.options["new_tokens"]
    head = energy_mj(lm_head_terms(size.hidden, vocab, new))
    return measure_plain_generation(terms, (task.source_length, new), generator.lengths, 1, head, GPT2_PARTS)
