"""The samples that a run is measured on, found again from its config: what `spikelm-audit` and the figures look at."""

from __future__ import annotations

from rich.console import Console

from spikelm.catalog.kinds import LM, UNLABELLED
from spikelm.config.settings.schema import Config
from spikelm.data.batches.by_step import Batch
from spikelm.data.sources.documents import load_documents
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens.cache import encoded_rows
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.training.decoders import language_samples
from spikelm.training.seq2seq import load_task, pair_samples
from spikelm.training.stage import cache_of, labelled_samples, text_batches, unlabelled_samples


def measurement_samples(config: Config) -> list[Batch]:
    """The same batches as the run's own Stage has, without building its model."""
    task, cache = config.task, cache_of(config)
    if task.kind == LM:
        return language_samples(config)
    if task.kind == "seq2seq":
        _, pair_tokenizer, encoded = load_task(config, Console(quiet=True))
        return pair_samples(config, encoded, pair_tokenizer)
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    if task.kind in UNLABELLED:
        text = load_documents(config.source, cache, config.unlabelled_rows)
        return unlabelled_samples(config, text_batches(config, text, "train", tokenizer, config.stage.batch))
    first = next(iter(task.splits))
    rows = encoded_rows(load_rows(task, config.source), first, task, tokenizer, config.finetune.max_length, cache)
    return labelled_samples(config, rows)
