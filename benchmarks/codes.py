"""One training step of a BERT whose neurons unfold inside a layer, against the plain BERT of its size: CPU time, bytes.

python -m benchmarks.codes [--quick] [--layers 4] [--hidden 512] [--batch 16] [--length 128]
"""

from __future__ import annotations

import torch

from benchmarks.saved import saved_bytes
from benchmarks.step import bert, row, step
from benchmarks.timing import arguments, report
from spikelm.config.settings.specs import ClassSpec
from spikelm.spiking import spikify

ROOM = "spikelm.neurons.unfolding"
RESIDUAL = ClassSpec(f"{ROOM}.residual.Residual")
CODES = {
    "residual, 2 virtual steps": RESIDUAL,
    "residual, 3 virtual steps": RESIDUAL.having(steps=3),
    "residual, 3, by token": RESIDUAL.having(steps=3, scale="token"),
    "place, 8 bits": ClassSpec(f"{ROOM}.place.Place"),
    "dynamic": ClassSpec(f"{ROOM}.dynamic.Dynamic"),
    "ilif, 4": ClassSpec(f"{ROOM}.ilif.ILIF"),
    "phase, 8": ClassSpec(f"{ROOM}.phase.Phase"),
    "stbif, 16 levels": ClassSpec(f"{ROOM}.stbif.STBIF"),
    "levels, 16": ClassSpec(f"{ROOM}.levels.Levels"),
    "gif, 4 bits": ClassSpec(f"{ROOM}.gif.GIF"),
    "bispike": ClassSpec("spikelm.neurons.bispike.BiSpike"),
}
QUICK = ("residual, 2 virtual steps", "bispike")


def main() -> None:
    args = arguments("A step with codes against the plain one", layers=4, hidden=512, batch=16, length=128)
    args.repeats = min(args.repeats, 2 if args.quick else 7)
    if args.quick:
        args.batch = min(args.batch, 4)
    ids = torch.randint(0, 1000, (args.batch, args.length))
    plain = bert(args)
    kept = saved_bytes(lambda: plain(input_ids=ids).last_hidden_state, [*plain.parameters(), *plain.buffers()])
    rows = []
    for name, spec in CODES.items():
        if args.quick and name not in QUICK:
            continue
        model = spikify(bert(args), spec, 1)
        found = row(name, 1, step(model, ids), step(plain, ids), args.repeats)
        owned = [*model.parameters(), *model.buffers()]
        found["kept / plain's"] = saved_bytes(lambda model=model: model(input_ids=ids).last_hidden_state, owned) / kept
        rows.append(found)
    title = f"codes inside a layer, {args.layers} layers x {args.hidden}, batch {args.batch} x {args.length}, T=1"
    report("codes", title, rows, args)


if __name__ == "__main__":
    main()
