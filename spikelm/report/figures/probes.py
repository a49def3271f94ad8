"""Probes of trained models that figures are drawn from, kept as numbers: the weights are needed once."""

from __future__ import annotations

import json
from typing import Any

from spikelm.errors import CheckpointError
from spikelm.report.query.selection import Found, Results
from spikelm.store.records import write_json


def kept_probe(found: Found, results: Results, name: str) -> dict[str, Any]:
    """What `spikelm.runs.probe` says of a finished run; from runs/figures/data/ where it was asked before."""
    path = results.selection.root / "figures" / "data" / f"{name}-{found.run.id}.json"
    if path.is_file():
        return json.loads(path.read_text())
    if not (found.run.directory / "model" / "config.json").is_file():
        raise CheckpointError(f"{found.run.directory} has no weights", "run it again with force=true")
    from spikelm.runs import probe

    saved = (found.result or {})["config"]
    model, batch = probe.load_for_probe(found.run.directory, saved, results.selection.root)
    value = getattr(probe, name)(model, batch)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, value)
    return value
