"""What the browser reads of one run: its curves for its own page, and all that comparing it with others shows.

It is a script, because a page that is opened from disk may load scripts beside it but read no other file.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from spikelm.report.page.details import RunPage
from spikelm.report.page.entries import RunRow
from spikelm.report.page.numbers import rounded, score_text


def run_data(row: RunRow, page: RunPage, command: str) -> str:
    """The script: one call with a record as its argument."""
    steps = f" T={row.T}" if row.T is not None and "T=" not in row.system else ""
    data: dict[str, Any] = {
        "name": row.name,
        "task": row.task,
        "system": row.system,
        "title": f"{row.system}{steps}",
        "where": f"{row.scale} · {row.source}",
        "seed": row.seed,
        "state": row.state,
        "look": asdict(row.look),
        "command": command,
        "curves": [asdict(chart) for chart in page.curves],
        "scores": [
            {"name": one.name, "value": one.value, "text": score_text(one.value, one.better), "better": one.better}
            for one in page.scores
        ],
        "measures": [asdict(one) for one in page.measures],
        "firing": [
            {"stack": grid.stack, "layer": layer, "kind": kind, "rate": rounded(cell.rate)}
            for grid in page.firing
            for layer, cells in grid.layers.items()
            for kind, cell in cells.items()
        ],
        "energy": [{"name": line.name, "mj": rounded(line.mj)} for line in page.energy.lines] if page.energy else [],
        "config": {key: _config_text(value) for key, value in page.config.items()},
        "samples": [sample.model_dump() for sample in page.samples],
    }
    return f"spikelm.take({json.dumps(data, ensure_ascii=False, separators=(',', ':'), allow_nan=False)});\n"


def _config_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
