"""spikelm-report curves: a metric of the runs of a sweep over their steps, in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from spikelm.errors import ConfigError
from spikelm.report.query.output import writable
from spikelm.report.query.settings import system_name
from spikelm.report.query.sweep_runs import Job, jobs_of
from spikelm.store.store import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: colours that stay apart for the colour-blind and in grey print (Okabe and Ito), with a line style of their own
STYLES = (("#000000", "-"), ("#D55E00", "--"), ("#0072B2", "-"), ("#009E73", "-."), ("#CC79A7", ":"), ("#E69F00", "-"))
SMOOTHED = 25  # logged values averaged around each one; the raw ones stay visible behind


def draw_curves(
    overrides: Sequence[str], metric: str, root: Path, output: Path | None, folder: Path | None = None
) -> Path:
    """One line per run, the raw values pale behind a moving average; as PNG and SVG.

    They go to the file `output`, or to figures/ of `folder`, which is report/ of the store where none is given.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    jobs = jobs_of(overrides, root)
    series = [(job, points) for job in jobs if len((points := read_metric(job.run, metric))[0])]
    if not series:
        raise ConfigError(f"no run of these overrides has logged {metric!r}", "run them first: spikelm-run -m ...")
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for (job, (steps, values)), (colour, line) in zip(series, STYLES * len(series), strict=False):
        _draw(axes, _name(job, values), steps, values, colour, line)
    config = series[0][0].config
    axes.set_xlabel("step")
    axes.set_ylabel(metric)
    axes.set_title(f"{config.task.name}, {config.backbone.name}, {config.scale} scale, source {config.source.name}")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    path = (
        output
        or (folder or root / "report")
        / "figures"
        / f"{metric.replace('/', '-')}-{config.task.name.replace('/', '-')}.png"
    )
    writable(path.parent)
    figure.savefig(path, dpi=160)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
    Console().print(f"{len(series)} curves of {metric} in {path}", soft_wrap=True)
    return path


def read_metric(run: Run, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of one logged metric of a run."""
    rows = [(step, value) for step, metric, value in run.metrics() if metric == name]
    return np.array([step for step, _ in rows]), np.array([value for _, value in rows])


def smooth(values: np.ndarray, width: int) -> np.ndarray:
    """The mean of the `width` values around each one, of fewer at the ends."""
    half = width // 2
    return np.array([values[max(0, i - half) : i + half + 1].mean() for i in range(len(values))])


def drawn(values: np.ndarray) -> np.ndarray:
    """The values of a curve: a moving average of many, as noisy as a training loss; a few as they are."""
    return smooth(values, SMOOTHED) if len(values) > 2 * SMOOTHED else values


def _draw(axes: Axes, name: str, steps: np.ndarray, values: np.ndarray, colour: str, line: str) -> None:
    curve = drawn(values)
    if curve is not values:
        axes.plot(steps, values, color=colour, alpha=0.15, linewidth=0.8)
    axes.plot(steps, curve, line, color=colour, linewidth=1.6, label=name)


def _name(job: Job, values: np.ndarray) -> str:
    state = "" if job.run.finished else ", unfinished"
    return f"{system_name(job.config)} ({drawn(values)[-1]:.2f} at the end{state})"
