"""Perplexity of finished language models on any text, another one than they were evaluated on, or more of the same.

python -m benchmarks.perplexity RUN_OR_FOLDER ... -- OVERRIDE ...

A folder holds a saved decoder with its tokenizer.json, spiking or not; a run is named by its folder. The overrides
say the text and the protocol as for spikelm-run: task=lm/wikitext2 source=local source.root=DIR, with
backbone=hf backbone.path=FOLDER where windows are longer than the positions of a small backbone. Products are computed
in single precision, or in bf16 with trainer.precision=bf16-mixed; what is compared needs the same.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer
from torch import Tensor

from spikelm.config.compose import load_config
from spikelm.config.settings.schema import Config
from spikelm.config.settings.task import window_and_stride
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.data.batches.windows import EvaluatedText, evaluated_text, windows
from spikelm.data.sources.running_text import evaluated_splits, load_running_text
from spikelm.data.tokens.running_text_tokenizer import first_token
from spikelm.measure.perplexity import Predicted, lm_scores
from spikelm.spiking import load_pretrained

TOKENS = 2048  # at a time
METRICS = ("perplexity", "word_perplexity", "bits_per_byte")


@torch.no_grad()
def predicted(model: Any, text: EvaluatedText, batches: Sequence[Batch]) -> Predicted:
    """Every token of the text, predicted once."""
    seen = torch.zeros(3, dtype=torch.float64)
    started = time.monotonic()
    for number, batch in enumerate(batches):
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        labels = batch["labels"]
        chosen = labels != IGNORED
        rows: Tensor = logits[chosen].float()
        loss = torch.nn.functional.cross_entropy(rows, labels[chosen], reduction="sum")
        right = (rows.argmax(-1) == labels[chosen]).sum()
        seen += torch.stack([loss.double(), right.double(), chosen.sum().double()])
        if number % 10 == 0:
            done, left = number + 1, (time.monotonic() - started) / (number + 1) * (len(batches) - number - 1)
            print(f"{done} of {len(batches)} batches, {left / 60:.1f} min left", file=sys.stderr, flush=True)
    loss_sum, right_sum, tokens = seen.tolist()
    return Predicted(loss_sum, right_sum, tokens, text.words, text.bytes)


def row(folder: Path, config: Config, task_text: Any, console: Console) -> list[str]:
    """The scores of one model, and how long they took."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    split = evaluated_splits(config.task, task_text)[0]
    text = evaluated_text(task_text, split, config.task, tokenizer, config.stage.max_length)
    console.print(text.note, soft_wrap=True)
    window, stride = window_and_stride(config.task, config.stage.max_length)
    first = first_token(tokenizer, folder)
    started = time.monotonic()
    model = load_pretrained(folder, dtype=torch.float32).eval()
    mixed = torch.autocast("cpu", torch.bfloat16, enabled=config.trainer.precision == "bf16-mixed")
    with mixed:
        found = predicted(model, text, windows(text.ids, first, window, stride, max(1, TOKENS // window)))
    scores = lm_scores(found, METRICS)
    minutes = (time.monotonic() - started) / 60
    name = folder.parent.name if folder.name == "model" else folder.name
    return [name, f"{found.tokens:,.0f}", *(f"{scores[metric]:.4g}" for metric in METRICS), f"{minutes:.1f}"]


def main() -> None:
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    folders = [Path(name) for name in sys.argv[1:cut]]
    config = load_config([*sys.argv[cut + 1 :], "neuron=ann"])
    if config.trainer.threads:
        torch.set_num_threads(config.trainer.threads)
    console = Console()
    text = load_running_text(config.task, config.source)
    table = Table(title=f"{config.task.name}: perplexity, precision {config.trainer.precision}")
    for column in ("model", "tokens", *METRICS, "minutes"):
        table.add_column(column.replace("_", " "), justify="left" if column == "model" else "right")
    for folder in folders:
        inside = folder / "model"
        table.add_row(*row(inside if inside.is_dir() else folder, config, text, console))
    console.print(table)


if __name__ == "__main__":
    main()
