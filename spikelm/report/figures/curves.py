"""spikelm-report curves: a metric of the runs of a sweep over their steps, in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from spikelm.catalog.quantities import significant
from spikelm.errors import ConfigError
from spikelm.report.appearance import look_of
from spikelm.report.query.output import writable
from spikelm.report.query.sweep_runs import Job, jobs_of, system_names
from spikelm.runs.labels import title
from spikelm.store.store import Run, safe_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("-", "--", "-.", ":")  # of several runs of one colour, such as the seeds of a system
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
    drawn_jobs = [job for job, _ in series]
    names = curve_names(drawn_jobs)
    for name, (job, (steps, values)), (colour, line) in zip(names, series, styles(drawn_jobs), strict=True):
        _draw(axes, f"{name} ({_end(job, values)})", steps, values, colour, line)
    axes.set_xlabel("step")
    axes.set_ylabel(metric)
    axes.set_title(curves_title(drawn_jobs))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    path = output or (folder or root / "report") / "figures" / f"{file_name(metric, drawn_jobs)}.png"
    writable(path.parent)
    figure.savefig(path, dpi=160)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    plt.close(figure)
    Console().print(f"{len(series)} curves of {metric} in {path}", soft_wrap=True)
    return path


def styles(jobs: Sequence[Job]) -> list[tuple[str, str]]:
    """Colour and marker of each one's system, with a line that tells it from others of that colour."""
    looks = [look_of(title(job.config), job.config.time_steps) for job in jobs]
    colours = [look.colour for look in looks]
    lines = [LINES[colours[:place].count(colour) % len(LINES)] for place, colour in enumerate(colours)]
    return [(look.colour, line + look.marker) for look, line in zip(looks, lines, strict=True)]


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
    axes.plot(steps, curve, line, color=colour, linewidth=1.6, label=name, markersize=5, markevery=0.12)


def _end(job: Job, values: np.ndarray) -> str:
    state = "" if job.run.finished else ", unfinished"
    return f"{significant(float(drawn(values)[-1]))} at the end{state}"


def curve_names(jobs: Sequence[Job]) -> list[str]:
    """What each curve is of: its system, and its task and seed where there are several."""
    several_tasks = len({job.config.task.name for job in jobs}) > 1
    several_seeds = len({job.config.seed for job in jobs}) > 1
    names = []
    for name, job in zip(system_names(jobs), jobs, strict=True):
        task = f"{job.config.task.name}, " if several_tasks else ""
        names.append(f"{task}{name}{f', seed {job.config.seed}' if several_seeds else ''}")
    return names


def curves_title(jobs: Sequence[Job]) -> str:
    """What all curves share, or all there is of it."""
    tasks, backbones, scales, sources = (", ".join(values) for values in _settings(jobs))
    return f"{tasks}\n{backbones}, scale {scales}, source {sources}"


def file_name(metric: str, jobs: Sequence[Job]) -> str:
    """Metric, scale, source and tasks: a figure of other runs has another name."""
    tasks, _, scales, sources = _settings(jobs)
    return safe_name("-".join([metric, *scales, *sources, *tasks]))


def _settings(jobs: Sequence[Job]) -> tuple[list[str], ...]:
    """Tasks, backbones, scales and sources, each once."""
    configs = [job.config for job in jobs]
    every = [(one.task.name, one.backbone.name, one.scale, one.rows_from) for one in configs]
    return tuple(list(dict.fromkeys(values)) for values in zip(*every, strict=True))
