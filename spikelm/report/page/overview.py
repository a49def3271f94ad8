"""What the first page shows: how much there is, score against energy, what is going on and what went wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from spikelm.report.page.svg import Point, legend, scatter

STATES = ("finished", "running", "interrupted", "failed", "broken", "new")
LATEST = 12
PROBLEMS = 25
MARKS = 400  # of one chart, the newest
Row = Mapping[str, Any]


def overview(rows: Sequence[Row], sections: Mapping[str, Any]) -> dict[str, Any]:
    """The blocks of index.html."""
    finished = [row for row in rows if row["state"] == "finished"]
    states = Counter(row["state"] for row in rows)
    kinds = Counter((row["scale"], row["source"]) for row in finished)
    return {
        "states": [(state, states[state]) for state in STATES if states[state]],
        "kinds": [{"scale": scale, "source": source, "runs": n} for (scale, source), n in sorted(kinds.items())],
        "charts": _charts(finished),
        "running": [row for row in rows if row["state"] == "running"],
        "latest": finished[:LATEST],
        "problems": [row for row in rows if row["state"] in ("failed", "broken", "interrupted")][:PROBLEMS],
        "sections": sections,
        "total": len(rows),
    }


def _charts(finished: Sequence[Row]) -> list[dict[str, Any]]:
    """Score against energy: a group a scale and source, a chart a task, a mark a run."""
    usable = [row for row in finished if row["score"] is not None and row["energy"]]
    groups: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in usable:
        groups.setdefault((row["scale"], row["source"]), {}).setdefault(row["task"], []).append(row)
    found = []
    for (scale, source), tasks in sorted(groups.items()):
        several = {task: runs for task, runs in sorted(tasks.items()) if len({run["neuron"] for run in runs}) > 1}
        neurons = sorted({run["neuron"] for runs in several.values() for run in runs}, key=lambda n: (n != "ann", n))
        if several:
            charts = [_chart(task, runs[:MARKS], neurons) for task, runs in several.items()]
            found.append({"scale": scale, "source": source, "charts": charts, "legend": legend(neurons, marks=True)})
    return found


def _chart(task: str, runs: Sequence[Row], neurons: Sequence[str]) -> dict[str, Any]:
    points = [
        Point(
            run["energy"],
            run["score"],
            run["neuron"],
            f"{run['system']}: {run['metric']} {run['score']:.2f}, {run['energy']:.4g} mJ, "
            f"{run['scale']} {run['source']}",
            f"run/{run['name']}.html",
        )
        for run in runs
    ]
    chart: Markup = scatter(points, neurons, "mJ fp32, one inference", runs[0]["metric"])
    return {"task": task, "chart": chart}
