"""BERTSUMABS on summaries: label smoothing, and an encoder that learns more slowly than the decoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

from spikelm.catalog.checkpoint_files import weights_folder
from spikelm.catalog.energy import Term, bertsum_terms, energy_mj, lm_head_terms
from spikelm.catalog.kinds import Kind
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.measure.generated_text import measure_plain_generation
from spikelm.measure.trained_model import Measured
from spikelm.models.architecture import Architecture
from spikelm.models.bart import SpecialTokens
from spikelm.rivals.bertsum.bertsumabs import BertSumAbs, build_bertsum
from spikelm.rivals.bertsum.marked_sentences import load_sentence_tokenizer
from spikelm.training.generation import Generator
from spikelm.training.seq2seq import INPUTS, PairTask, Seq2SeqModule, text_pairs_stage
from spikelm.training.stage import Stage


def architecture(kind: Kind) -> Architecture:
    """Summaries; what is pretrained before is a BERT."""
    return Architecture(generator=BertSumAbs, text_pairs=text_pairs)


class BertSumModule(Seq2SeqModule):
    """Cross entropy with smoothed labels; evaluated by the plain one."""

    smoothing: float = 0.0

    def step_loss(self, batch: Batch) -> Tensor:
        output = self.model(**{name: batch[name] for name in INPUTS}, use_cache=False)
        logits, labels = output.logits.float().flatten(0, 1), batch["labels"].flatten()
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORED, label_smoothing=self.smoothing)
        return loss * batch.get("label_share", 1.0)


def text_pairs(config: Config, needed: Mapping[str, Path], console: Console) -> Stage:
    """A decoder over the BERT of the pretrained run, or of backbone.path."""
    own = config.backbone.options
    folder = needed["pretrained"] / "model" if "pretrained" in needed else weights_folder(config.backbone.path or "")

    def module(total: int, generator: Generator, tokenizer: TextPairTokenizer) -> BertSumModule:
        tokens = SpecialTokens(tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.decoder_start)
        (cls,), _ = tokenizer.source_frame
        model = build_bertsum(config, folder, tokenizer.vocab_size, cls, tokens)
        summariser = BertSumModule(model, config.task, config.finetune, total, config.seed, generator)
        summariser.smoothing = own["label_smoothing"]
        return summariser

    def measure(model: nn.Module, samples: list[Batch], generator: Generator, vocab: int) -> Measured:
        return measure_bertsum(config, generator, vocab)

    # no trigram is written twice
    options = {"no_repeat_ngram_size": own["no_repeat_ngram"]}
    return text_pairs_stage(config, console, PairTask(module, measure, load_sentence_tokenizer, options))


def measure_bertsum(config: Config, generator: Generator, vocab: int) -> Measured:
    """Energy at the task's lengths and of what was generated, as for BART."""
    task, size = config.task, config.backbone
    layers, widths = size.decoder_layers or size.layers, (size.intermediate, size.options["decoder_intermediate"])

    def terms(source: int, target: int, beams: int = 1) -> list[Term]:
        return bertsum_terms(size.layers, layers, size.hidden, widths, source, target, beams)

    head = energy_mj(lm_head_terms(config.backbone.hidden, vocab, task.target_length))
    lengths = (task.source_length, task.target_length)
    beams = int(generator.options["num_beams"])
    return measure_plain_generation(terms, lengths, generator.lengths, beams, head, ("encoder", "decoder"))
