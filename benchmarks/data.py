"""The data pipeline: tokenising a task's rows, reading them back from the cache, batches a second against a step.

python -m benchmarks.data [--quick] [--rows 4000] [--batch 32]
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.timing import arguments, report, rounds
from spikelm.config.compose import load_config
from spikelm.data.batches.by_step import RowBatches
from spikelm.data.sources.rows import load_rows
from spikelm.data.tokens.cache import encoded_rows
from spikelm.data.tokens.tokenizer import load_tokenizer


def main() -> None:
    args = arguments("Data pipeline", rows=4000, batch=32)
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(["task=glue/mnli", f"source.train_rows={args.rows}", f"runs_dir={folder}"])
        text = load_rows(config.task, config.source)
        tokenizer = load_tokenizer(config.source, config.backbone, Path(folder))
        fresh = itertools.count()

        def encode(cache: Path) -> Any:
            return encoded_rows(text, "train", config.task, tokenizer, config.finetune.max_length, cache)

        kept = Path(folder) / "kept"
        batches = RowBatches(encode(kept), 0, args.batch)
        lengths = batches.lengths
        timings = rounds(
            {
                "tokenise": lambda: encode(Path(folder) / f"fresh-{next(fresh)}"),
                "again": lambda: encode(kept),
                "epoch": lambda: [batches[step] for step in range(batches.steps_per_epoch)],
            },
            min(args.repeats, 5),
        )
    padded = sum(batch["input_ids"].numel() for batch in map(batches.__getitem__, range(batches.steps_per_epoch)))
    rows = [
        {
            "task": "glue/mnli",
            "rows": args.rows,
            "tokenise / from the cache": timings["tokenise"].seconds / timings["again"].seconds,
            "rows tokenised a second": args.rows / timings["tokenise"].seconds,
            "batches a second": batches.steps_per_epoch / timings["epoch"].seconds,
            "padded / real tokens": padded / float(lengths.sum()),
            "padded / real, unsorted": float(lengths.max()) * len(lengths) / float(lengths.sum()),
            "seconds": {name: timing.record() for name, timing in timings.items()},
        }
    ]
    report("data", f"data pipeline, batches of {args.batch}", rows, args)


if __name__ == "__main__":
    main()
