"""Tables and claims as their commands write them, for the page to read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WHERE = "scale=mini, source=embedded, seed 42"


def cell(
    ours: float | None, text: str, runs: Sequence[str] = (), by_seed: Sequence[float] = (), best: bool = False
) -> dict[str, Any]:
    """A cell of which the paper has no number."""
    linked = [{"id": id, "directory": "x"} for id in runs]
    texts = {"ours": text, "paper": "–", "difference": ""}
    return {"ours": ours, "by_seed": list(by_seed), "best": best, "text": texts, "runs": linked, "footnotes": []}


def write_table(root: Path, number: int, lines: Sequence[dict[str, Any]], columns: dict[str, str]) -> None:
    (root / "tables").mkdir(exist_ok=True)
    known = {"id": number, "title": "GLUE dev set", "where": WHERE, "columns": columns, "lines": list(lines)}
    path = root / "tables" / f"table{number}-mini-embedded.json"
    path.write_text(json.dumps({**known, "footnotes": [], "notes": [], "missing": []}))


def score_and_energy(root: Path, number: int, systems: dict[str, tuple[str, float | None, float | None]]) -> None:
    """A table of name -> preset, average and energy; None is not run."""
    lines = [
        {
            "name": name,
            "system": preset,
            "cells": {
                "energy_fp32": cell(energy, "" if energy is None else f"{energy:.3g}"),
                "avg": cell(score, "" if score is None else f"{score:.1f}"),
            },
        }
        for name, (preset, score, energy) in systems.items()
    ]
    write_table(root, number, lines, {"energy_fp32": "mJ fp32", "avg": "avg"})


def write_claims(root: Path, *claims: dict[str, Any]) -> None:
    (root / "tables").mkdir(exist_ok=True)
    empty = {"section": "5.2", "check": "a > b", "numbers": {}, "paper": {}, "runs": [], "missing": [], "reason": ""}
    record = {"where": WHERE, "claims": [{**empty, **claim} for claim in claims]}
    (root / "tables" / "claims-mini-embedded.json").write_text(json.dumps(record))
