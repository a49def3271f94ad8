"""How a training step's cost grows with T, length, width and batch: fitted powers (1 linear, 2 quadratic).

python -m benchmarks.scaling [--quick] [--layers 2] [--hidden 256] [--batch 4] [--length 128]
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from transformers import BertConfig, BertModel

from benchmarks.timing import arguments, report, rounds, slope
from spikelm.config.settings.specs import ClassSpec
from spikelm.spiking import spikify

BISPIKE = ClassSpec("spikelm.neurons.bispike.BiSpike")
SIZES = {"T": (1, 2, 4, 8), "length": (64, 128, 256, 512), "hidden": (128, 256, 512, 768), "batch": (1, 2, 4, 8)}


def step(model: Any, ids: torch.Tensor) -> None:
    model.zero_grad(set_to_none=True)
    model(input_ids=ids).last_hidden_state.square().mean().backward()


def contestant(layers: int, hidden: int, batch: int, length: int, T: int) -> Any:
    config = BertConfig(
        vocab_size=1000,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=4 * hidden,
        max_position_embeddings=length,
    )
    model = spikify(BertModel(config), BISPIKE, T).train()
    return partial(step, model, torch.randint(0, 1000, (batch, length)))


def main() -> None:
    args = arguments("Growth of a step", layers=2, hidden=256, batch=4, length=128)
    base = {"layers": args.layers, "hidden": args.hidden, "batch": args.batch, "length": args.length, "T": 1}
    rows = []
    for name, sizes in SIZES.items():
        sizes = sizes[:: 3 if args.quick else 1]
        timings = rounds(
            {str(size): contestant(**{**base, name: size}) for size in sizes}, min(args.repeats, 2 if args.quick else 7)
        )
        seconds = [timings[str(size)].seconds for size in sizes]
        rows.append(
            {
                "size": name,
                "from": sizes[0],
                "to": sizes[-1],
                "power": slope([float(size) for size in sizes], seconds),
                "last / first": seconds[-1] / seconds[0],
                "seconds": {size: timing.record() for size, timing in timings.items()},
            }
        )
    report("scaling", f"training step, around {base}", rows, args)


if __name__ == "__main__":
    main()
