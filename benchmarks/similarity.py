"""How well sentence vectors tell similar sentences from others, without labels: STS-B by cosine, Spearman.

python -m benchmarks.similarity FILE RUN ...    FILE: dev.tsv of STS-B; RUN: folders of runs of task=general_distill

The vector of a sentence is the mean of the last hidden states of its tokens. The plain model that the first run was
made of comes first, for comparison.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr
from torch import Tensor

from spikelm.cli.find_run import find_run
from spikelm.config.paths import default_runs_dir
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.models.teachers import load_encoder_teacher
from spikelm.spiking import load_pretrained

BATCH = 64
LENGTH = 128


def sentences(file: Path) -> tuple[list[tuple[str, str]], list[float]]:
    """The pairs of an STS-B file, and how similar people found them."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [(row["sentence1"], row["sentence2"]) for row in rows], [float(row["score"]) for row in rows]


@torch.no_grad()
def vectors(model: Any, tokenizer: Any, texts: list[str]) -> Tensor:
    """The mean states of each text, short ones together."""
    encoded = [tokenizer.encode(text).ids[:LENGTH] for text in texts]
    order = sorted(range(len(texts)), key=lambda index: len(encoded[index]))
    result = torch.empty(len(texts), model.config.hidden_size)
    for start in range(0, len(order), BATCH):
        chosen = order[start : start + BATCH]
        longest = max(len(encoded[index]) for index in chosen)
        ids = torch.zeros(len(chosen), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, index in enumerate(chosen):
            ids[row, : len(encoded[index])] = torch.tensor(encoded[index])
            mask[row, : len(encoded[index])] = 1
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state * mask[..., None]
        result[chosen] = states.sum(1) / mask.sum(1, keepdim=True)
    return result


def similarity(model: Any, tokenizer: Any, pairs: list[tuple[str, str]], scores: list[float]) -> float:
    """100 times the rank correlation of cosines and scores."""
    first, second = (vectors(model.eval(), tokenizer, list(side)) for side in zip(*pairs, strict=True))
    cosines = torch.nn.functional.cosine_similarity(first, second)
    return 100 * float(spearmanr(cosines.numpy(), scores).statistic)


def main() -> None:
    file, *names = sys.argv[1:]
    pairs, scores = sentences(Path(file))
    table = Table(title=f"STS-B without labels, {len(pairs):,} pairs: Spearman of cosines of mean states")
    for column in ("run", "system", "Spearman", "spikes a value", "energy against the plain model"):
        table.add_column(column, justify="right" if column[0] in "Se" else "left")
    for number, name in enumerate(names):
        found = find_run(name, Path(default_runs_dir()))
        result = found.result
        config = result.config
        tokenizer = load_tokenizer(config.source, config.backbone, Path(config.runs_dir) / ".cache")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if number == 0:
            plain = load_encoder_teacher(config, None)
            table.add_row("", config.architecture, f"{similarity(plain, tokenizer, pairs, scores):.1f}", "", "1")
        model = load_pretrained(found.run.directory / "model")
        energy = (result.energy_mj.fp32 or 0) / (result.energy_ann_mj.fp32 or 1)
        rate = result.firing_rate.mean
        score = f"{similarity(model, tokenizer, pairs, scores):.1f}"
        table.add_row(result.run_id[:8], result.system, score, f"{rate:.2f}" if rate else "", f"1/{1 / energy:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
