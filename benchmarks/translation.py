"""BLEU of finished translators and summarisers on other rows than they were evaluated on, or on more of them.

python -m benchmarks.translation RUN_OR_FOLDER ... -- OVERRIDE ...

A folder holds a saved encoder-decoder, spiking or not; a run is named by its folder. The overrides say rows and
settings of generate() as for spikelm-run: task=mt/wmt14_enfr scale=minilm source.root=DIR backbone.path=FOLDER, whose
tokenizer is used, '~task.splits.validation' for the test set alone. Products are computed in single precision, or in
bf16 with trainer.precision=bf16-mixed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.data.batches.text_pair_batches import evaluation_text_pairs
from spikelm.data.tokens.encode import EncodedTextPairs
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.spiking import load_pretrained
from spikelm.training.generation import Generator, ProgressLines
from spikelm.training.seq2seq import EVALUATION_BATCH, generator_of, load_task


@torch.no_grad()
def generated_scores(
    model: Any,
    config: Config,
    encoded: Mapping[str, EncodedTextPairs],
    tokenizer: TextPairTokenizer,
    generator: Generator,
) -> dict[str, float]:
    """The scores of every evaluated split."""
    generator.start()
    with torch.autocast("cpu", torch.bfloat16, enabled=config.trainer.precision == "bf16-mixed"):
        for number, split in enumerate(config.task.splits):
            for batch in evaluation_text_pairs(encoded[split], tokenizer, EVALUATION_BATCH):
                generator.generate(model, batch, number)
    return generator.scores()


def main() -> None:
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    folders = [Path(name) for name in sys.argv[1:cut]]
    config = load_config([*sys.argv[cut + 1 :], "neuron=ann", "distill=none"])
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    console = Console()
    text, tokenizer, encoded = load_task(config, console)
    generator = generator_of(config, text, tokenizer, console)
    generator.progress = ProgressLines(console, config.task.name)
    rows = " + ".join(f"{len(encoded[split]):,}" for split in config.task.splits)
    metrics = [f"{metric}{suffix}" for suffix in config.task.splits.values() for metric in config.task.metrics]
    table = Table(title=f"{config.task.name}: {rows} rows, precision {config.trainer.precision}")
    for column in ("model", *metrics, "minutes"):
        table.add_column(column.replace("_", " "), justify="left" if column == "model" else "right")
    for folder in folders:
        inside = folder / "model"
        started = time.monotonic()
        model = load_pretrained(inside if inside.is_dir() else folder, dtype=torch.float32).eval()
        scores = generated_scores(model, config, encoded, tokenizer, generator)
        minutes = (time.monotonic() - started) / 60
        table.add_row(folder.name, *(f"{scores[metric]:.2f}" for metric in metrics), f"{minutes:.1f}")
    console.print(table)
    for metric, note in generator.notes.items():
        console.print(f"{metric}: {note}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
