"""What an export takes of a run beside its weights: the rows that models are compared on, and the tokenizer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from spikelm.catalog.checkpoint_files import weights_folder
from spikelm.catalog.kinds import LABELLED, LM
from spikelm.config.settings.schema import Config
from spikelm.config.settings.task import window_and_stride
from spikelm.data.batches.by_step import Batch, evaluation_batches
from spikelm.data.batches.text_pair_batches import text_pair_batch
from spikelm.data.batches.windows import evaluated_text, windows
from spikelm.data.sources.rows import load_rows
from spikelm.data.sources.running_text import evaluated_splits, load_running_text
from spikelm.data.sources.text_pairs import load_text_pairs
from spikelm.data.tokens.bpe import load_text_pair_tokenizer
from spikelm.data.tokens.cache import encoded_rows, encoded_text_pairs
from spikelm.data.tokens.marian_tokenizer import SOURCE, TARGET, VOCABULARY, MarianTokenizer
from spikelm.data.tokens.running_text_tokenizer import BESIDE, first_token, load_lm_tokenizer
from spikelm.data.tokens.text_pair_tokenizer import TextPairTokenizer
from spikelm.data.tokens.tokenizer import load_tokenizer
from spikelm.data.tokens.wordpiece import fast_tokenizer

BATCH = 32
TOKENS = 1 << 14  # of a text that are predicted
TOGETHER = 2048  # tokens of a batch: the logits of large vocabularies are what takes the memory
PAIRS = 256  # rows whose targets are predicted
TEXTS = 8  # rows that both models write


@dataclass(frozen=True)
class Texts:
    """Rows that a model of text pairs writes: what it reads, what is expected, and how it writes."""

    batch: Batch
    sources: Sequence[str]
    references: Sequence[str]
    decode: Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class RunData:
    """`sets` are batches by the suffix of their metrics; `about` says which rows they are."""

    sets: Mapping[str, Sequence[Batch]]
    about: str
    save_tokenizer: Callable[[Path], object]
    texts: Texts | None = None


def run_data(config: Config, model: Path) -> RunData:
    """Of a run's task; `model` is the folder of its weights."""
    cache = Path(config.runs_dir) / ".cache"
    if config.task.kind in LABELLED:
        return _labelled(config, cache)
    return _running_text(config, model, cache) if config.task.kind == LM else _text_pairs(config, cache)


def _labelled(config: Config, cache: Path) -> RunData:
    tokenizer = load_tokenizer(config.source, config.backbone, cache)
    text, longest, sets = load_rows(config.task, config.source), config.finetune.max_length, {}
    for split, suffix in config.task.splits.items():
        rows = encoded_rows(text, split, config.task, tokenizer, longest, cache)
        sets[suffix] = evaluation_batches(rows, BATCH)
    return RunData(sets, "all rows", fast_tokenizer(tokenizer, longest).save_pretrained)


def _running_text(config: Config, model: Path, cache: Path) -> RunData:
    task, longest = config.task, config.stage.max_length
    text = load_running_text(task, config.source, cache)
    tokenizer = load_lm_tokenizer(task, config.source, config.backbone, text, cache)
    folder = weights_folder(config.backbone.path) if config.backbone.path else None
    first = first_token(tokenizer, folder)
    window, stride = window_and_stride(task, longest)
    sets, most = {}, 0
    for split, suffix in zip(evaluated_splits(task, text), task.splits.values(), strict=False):
        ids = evaluated_text(text, split, task, tokenizer, longest).ids
        sets[suffix] = windows(ids[:TOKENS], first, window, stride, max(1, TOGETHER // window))
        most = max(most, len(ids))
    about = "all tokens" if most <= TOKENS else f"the first {TOKENS:,} tokens"
    return RunData(sets, f"{about} in windows of {window:,}", partial(_copy, model, ("tokenizer.json", *BESIDE)))


def _text_pairs(config: Config, cache: Path) -> RunData:
    task = config.task
    text = load_text_pairs(task, config.source)
    tokenizer = load_text_pair_tokenizer(task, config.source, config.backbone, text, cache)
    sets, whole = {}, True
    for split, suffix in task.splits.items():
        data = encoded_text_pairs(text, split, task, tokenizer, cache)
        count = min(PAIRS, len(data))
        whole = whole and count == len(data)
        rows = [range(start, min(start + BATCH, count)) for start in range(0, count, BATCH)]
        sets[suffix] = [text_pair_batch(data, part, tokenizer) for part in rows]
    split = next(iter(task.splits))
    first = encoded_text_pairs(text, split, task, tokenizer, cache)
    written = range(min(TEXTS, len(first)))
    sources, references = ([text.splits[split][row][column] for row in written] for column in task.columns)
    texts = Texts(
        text_pair_batch(first, written, tokenizer), sources, references, lambda ids: tokenizer.decode([ids])[0]
    )
    about = "all rows" if whole else f"the first {PAIRS} rows"
    return RunData(sets, about, partial(_save_pairs, tokenizer, config), texts)


def _copy(folder: Path, names: Sequence[str], to: Path) -> None:
    """The files of these names that there are."""
    for name in names:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, to / name)


def _save_pairs(tokenizer: TextPairTokenizer, config: Config, to: Path) -> None:
    """The tokenizer of the sources as AutoTokenizer loads it; it decodes the targets, too."""
    if isinstance(tokenizer, MarianTokenizer):  # two models of SentencePiece, which no tokenizer.json holds
        names = (SOURCE, TARGET, VOCABULARY, "tokenizer_config.json")
        _copy(weights_folder(config.backbone.path or ""), names, to)
        return
    fast, (before, after) = tokenizer.tokenizer, tokenizer.source_frame
    pieces = {fast.id_to_token(id): id for id in (*before, *after)}
    frame = [*(fast.id_to_token(id) for id in before), "$A", *(fast.id_to_token(id) for id in after)]
    fast.post_processor = processors.TemplateProcessing(single=frame, special_tokens=list(pieces.items()))
    marks = {"bos_token": tokenizer.bos, "eos_token": tokenizer.eos, "pad_token": tokenizer.pad}
    PreTrainedTokenizerFast(
        tokenizer_object=fast,
        model_max_length=config.task.source_length,
        model_input_names=["input_ids", "attention_mask"],
        **{name: fast.id_to_token(id) for name, id in marks.items()},
    ).save_pretrained(to)
