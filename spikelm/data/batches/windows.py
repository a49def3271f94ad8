"""Windows over a text of which each token is predicted once: how a perplexity is measured.

The protocol is that of lm-evaluation-harness (loglikelihood_rolling), over a whole split as one text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from spikelm.config.settings.task import TaskConfig, window_and_stride
from spikelm.data.batches.by_step import IGNORED, Batch
from spikelm.data.sources.loaded import LoadedText
from spikelm.data.sources.running_text import undone
from spikelm.errors import DataError

UNDONE = {
    "none": "nothing was detokenised",
    "wikitext": "WikiText's marks (@-@, spaces before punctuation) were undone, <unk> is as it was",
}


@dataclass(frozen=True)
class EvaluatedText:
    """A split as one text; words and bytes are of the text as the source has it, before any mark was undone."""

    text: str  # what was tokenised
    ids: np.ndarray
    words: int
    bytes: int
    note: str  # how it is measured, in one sentence


def evaluated_text(
    text: LoadedText, split: str, task: TaskConfig, tokenizer: Tokenizer, max_length: int
) -> EvaluatedText:
    """The documents of a split of `load_running_text`, joined by line feeds without any mark; most_tokens cuts it.

    `max_length` is the stage's, the window where the task has none.
    """
    original = "\n".join(document[0] for document in text.splits[split])
    read = undone(original, task.detokenise)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encoding = tokenizer.encode(read, add_special_tokens=False)
    whole = len(encoding.ids)
    if cut := 0 < task.most_tokens < whole:
        end = encoding.offsets[task.most_tokens][0]
        paragraphs = read[:end].count("\n")  # lines, as many of either text
        original, read = ("\n".join(some.split("\n")[:paragraphs]) for some in (original, read))
        encoding = tokenizer.encode(read, add_special_tokens=False)
    if not read.strip():
        few = f"task.most_tokens={task.most_tokens} is less than the first paragraph of {task.name} {split}"
        raise DataError(few if cut else f"{task.name} {split} has no text", "task.most_tokens=0 evaluates all")
    words, size = len(re.split(r"\s+", original)), len(original.encode())
    window, stride = window_and_stride(task, max_length)
    count = len(encoding.ids)
    part = f"the first {count:,} of {whole:,} tokens" if cut else f"all {count:,} tokens"
    note = (
        f"{split}: {part} ({words:,} words, {size:,} bytes) in windows of {window:,} that advance by {stride:,}, "
        f"each token predicted once; {UNDONE[task.detokenise]}"
    )
    return EvaluatedText(read, np.asarray(encoding.ids, np.int64), words, size, note)


def windows(ids: np.ndarray, first: int, window: int, stride: int, batch: int) -> list[Batch]:
    """Batches of windows: `labels` (B, n) are the tokens to be predicted from each position, or IGNORED.

    The text is read behind the token `first`. The first window predicts as many tokens as it reads; each later one
    reads `window` tokens and predicts the next `stride`, so that the last reads back as far as it can.
    """
    if not 1 <= stride <= window:
        raise ValueError(f"a window of {window} tokens cannot advance by {stride}")
    stream = np.concatenate([[first], np.asarray(ids, np.int64)])
    read: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    done, length = 0, min(window, len(ids))
    while done < len(ids):
        end = min(len(ids), done + (stride if done else length))
        read.append(stream[end - length : end])
        predicted = stream[end - length + 1 : end + 1].copy()
        predicted[: length - (end - done)] = IGNORED
        labels.append(predicted)
        done = end
    return [_batch(read[i : i + batch], labels[i : i + batch]) for i in range(0, len(read), batch)]


def _batch(read: list[np.ndarray], labels: list[np.ndarray]) -> Batch:
    inputs = torch.from_numpy(np.stack(read))
    return {
        "input_ids": inputs,
        "attention_mask": torch.ones_like(inputs),
        "labels": torch.from_numpy(np.stack(labels)),
    }
