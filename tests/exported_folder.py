"""A small random classifier as spikelm-export leaves it, without a run: model, tokenizer and export.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import BertProcessing
from transformers import BertConfig, BertForSequenceClassification

from spikelm.config.settings.specs import ClassSpec
from spikelm.config.settings.task import TaskConfig
from spikelm.data.tokens.wordpiece import fast_tokenizer
from spikelm.export.convert import export
from spikelm.spiking import spikify
from spikelm.store.atomic import write_json
from spikelm.store.export_record import recorded_task

WORDS = ("good", "bad", "film", "a", "not", "very", "the", "was", "it", "fine")


def exported_folder(folder: Path, task: TaskConfig, seed: int = 1) -> dict[str, Any]:
    """Write the folder; what export.json holds."""
    torch.manual_seed(seed)
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = Tokenizer(WordLevel({name: index for index, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48}
    outputs = {"id2label": dict(enumerate(task.labels))} if task.labels else {"num_labels": 1}
    settings = {**sizes, **outputs, "vocab_size": len(names), "initializer_range": 0.4}
    if not task.labels:
        settings["problem_type"] = "regression"
    plain = BertForSequenceClassification(BertConfig(max_position_embeddings=24, **settings))
    model = spikify(plain, ClassSpec("spikelm.neurons.bispike.BiSpike"), 1).train()
    with torch.no_grad():
        model(input_ids=torch.randint(5, len(names), (8, 9)))  # sets the amplitudes
    export(model.eval()).save_pretrained(folder)
    fast_tokenizer(tokenizer, 24).save_pretrained(folder)
    scores = dict.fromkeys((f"{name}{end}" for name in task.metrics for end in task.splits.values()), 0.0)
    record: dict[str, Any] = {
        **{"run_id": "0123456789abcdef", "task": task.name, "scale": "smoke", "source": "embedded"},
        **{
            "precision": "fp32",
            "format": "torch",
            "exact_layers": 0,
            "time_steps": 1,
            "compared_on": "all rows",
            "rows": 8,
            "other_predictions": 1,
        },
        "trained": {name: 61.0 + index for index, name in enumerate(scores)},
        "exported": {name: 51.25 + index for index, name in enumerate(scores)},
        "bytes": {"trained": 200, "exported": 100},
        "reads": recorded_task(task),
    }
    write_json(folder / "export.json", record)
    return record
