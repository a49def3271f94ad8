"""spikelm-report reference: finished runs as a store of result files, with the tables, figures and claims made of them.

The folder can be committed: it has no weights, checkpoints or curves, and no place of the machine it was made on. It is
read like any other store (--runs-dir), and what is copied from it into another one is not run again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from spikelm.catalog.quantities import counted
from spikelm.config.settings.source import PATHS
from spikelm.errors import ConfigError
from spikelm.report.claims.claims import Verdict, check_claims
from spikelm.report.claims.show_claims import numbers_text, write_claims
from spikelm.report.figures.figures import (
    FIGURES,
    OWN_FIGURES,
    Drawn,
    draw_figure,
    figure_runs,
    load_figure,
    write_figure,
)
from spikelm.report.query.output import writable
from spikelm.report.query.selection import SEEDS, Results, Selection
from spikelm.report.tables.build import build_table, table_runs
from spikelm.report.tables.cells import TableData
from spikelm.report.tables.formats import markdown_table, write_table
from spikelm.report.tables.paper_table import OWN_TABLES, TABLES, load_table
from spikelm.runs.labels import title
from spikelm.store.atomic import write_atomic, write_json
from spikelm.store.result import Result
from spikelm.store.store import Run, Store

TITLE = "# Reference results"
DATA, WEIGHTS = "DATA", "WEIGHTS"  # in place of folders of local files and weights, as the documents call them


def renew(selection: Selection, target: Path, further_seeds: Sequence[int] = ()) -> Path:
    """Make `target` anew from the finished runs of a selection; its index says what is missing.

    Tables, figures and claims are those of the selection. Of further seeds the results alone are kept beside them.
    Nothing is lost: where the new one would lack a run of the one there is, or another file that is not made of its
    runs, the old one stays and an error says so.
    """
    _refuse_other_folder(target)
    runs = _finished(replace(selection, seeds=(*selection.seeds, *further_seeds)))
    _refuse_loss(selection, target, runs)
    if not runs:
        what = f"no finished run in {selection.root} belongs to a table or figure at {selection.where}"
        raise ConfigError(what, "make reproduce-all runs them; --scale, --source and --seeds choose others")
    writable(target.parent)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as place:
        made = Path(place) / target.name
        _make(selection, runs, made, further_seeds)
        if lost := [name for name in _files(target) if not _made_of_runs(name) and not (made / name).exists()]:
            raise _loss(selection, target, f"{len(lost)} of its {len(_files(target))} files, {lost[0]} for one")
        _exchange(made, target, Path(place) / "earlier")
    return target / "README.md"


def _exchange(made: Path, target: Path, earlier: Path) -> None:
    """Put a new folder in the place of the one there is, which stays where that fails."""
    if target.exists():
        os.replace(target, earlier)
    try:
        os.replace(made, target)
    except OSError:
        if earlier.exists():
            os.replace(earlier, target)
        raise


def _refuse_other_folder(target: Path) -> None:
    """A folder of something else is not touched."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        index = target / "README.md"
        if not (index.is_file() and index.read_text().startswith(TITLE)):
            raise ConfigError(f"{target} holds something else than reference results", "--to DIR, an empty folder")


def _refuse_loss(selection: Selection, target: Path, runs: Iterable[Run]) -> None:
    """The runs of an earlier reference have to be among those that are kept now."""
    there = {run.id for run in Store(target).runs()}
    if lost := there - {run.id for run in runs}:
        raise _loss(selection, target, f"{len(lost)} of its {len(there)} runs, in {len(_files(target))} files")


def _loss(selection: Selection, target: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{target} would lose {what}, because {selection.root} does not have them: nothing was changed",
        f"cp -rn {target}/. {selection.root}/ first, to keep these runs as well; --to ANOTHER, to make a second one; "
        f"rm -r {target} first, to give them up",
    )


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _made_of_runs(name: str) -> bool:
    """Whether a file is a table or a figure: other seeds give it another name, and the runs make it at any time."""
    return Path(name).parent in (Path("tables"), Path("figures"))


def _make(selection: Selection, runs: Mapping[Run, Result], target: Path, further_seeds: Sequence[int]) -> None:
    """The whole folder: results, what the figures saw in weights, tables, figures, claims and index."""
    kept = [keep(run, result, target) for run, result in runs.items()]
    folder = target / "figures" / "data"
    for place in (selection.root, selection.folder):
        for probe in (place / "figures" / "data").glob("*.json"):
            if any(probe.stem.endswith(run.id) for run in runs):
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(probe, folder / probe.name)
    here = replace(selection, root=target, to=target)
    results = Results(here)
    own = _begun(results)
    ids: list[int | str] = [*TABLES, *own]
    tables = [build_table(load_table(id), results) for id in ids]
    for table in tables:
        write_table(table, target)
    figures = [draw_figure(id, results) for id in (*FIGURES, *(id for id in OWN_FIGURES if id in own))]
    for figure in figures:
        write_figure(figure, target)
    verdicts = check_claims(results)
    write_claims(verdicts, here)
    write_atomic(target / "README.md", _index(here, kept, tables, figures, verdicts, further_seeds))


def _begun(results: Results) -> list[str]:
    """Our own tables, as far as a run that none of the paper's needs was made for them."""
    known = {run for id in TABLES for run in table_runs(load_table(id), results)}

    def begun(id: str) -> bool:
        runs = table_runs(load_table(id), results)
        return any(run not in known and results.find(*run).result for run in runs)

    return [id for id in OWN_TABLES if begun(id)]


def _finished(selection: Selection) -> dict[Run, Result]:
    """The finished runs of all tables, figures and claims, and those they were made from."""
    results, store = Results(selection), Store(selection.root)
    ids: list[int | str] = [*TABLES, *_begun(results)]
    wanted = [run for id in ids for run in table_runs(load_table(id), results)]
    wanted += [run for id in FIGURES for run in figure_runs(load_figure(id), results)]
    selected = [results.find(*run) for run in dict.fromkeys(wanted)]
    pending = [found.run.id for found in selected if found.result]
    pending += [id for verdict in check_claims(results) for id in verdict.runs]
    for id in FIGURES:  # what is seen in the weights is kept as numbers while there are weights
        plt.close(draw_figure(id, results).figure)
    return with_origins(store, pending)


def with_origins(store: Store, ids: Iterable[str]) -> dict[Run, Result]:
    """The finished runs among these and those that they were made from."""
    pending, finished = list(ids), dict[str, tuple[Run, Result]]()
    while pending:
        id = pending.pop()
        run = store.find(id)
        if id in finished or run is None or (result := run.result()) is None:
            continue
        finished[id] = run, result
        pending += result.needs.values()
    return dict(sorted(finished.values(), key=lambda pair: pair[0].directory))


def keep(run: Run, result: Result, target: Path) -> Result:
    """Write a result under `target`, with a checksum of its own: not where the store was, and with today's title."""
    hidden: dict[str, Any] = {key: DATA for key in PATHS if getattr(result.config.source, key)}
    source, backbone, weights = replace(result.config.source, **hidden), result.config.backbone, result.weights
    if backbone.path and Path(backbone.path).is_absolute():
        backbone = replace(backbone, path=WEIGHTS)
    if weights and Path(weights.path).is_absolute():
        weights = weights.model_copy(update={"path": WEIGHTS})
    config = replace(result.config, runs_dir="runs", source=source, backbone=backbone)
    kept = result.model_copy(update={"config": config, "system": title(result.config), "weights": weights})
    folder = target / run.directory.parent.name / run.directory.name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "result.json", kept.to_record())
    return kept


def _index(
    selection: Selection,
    kept: Sequence[Result],
    tables: Sequence[TableData],
    figures: Sequence[Drawn],
    verdicts: Sequence[Verdict],
    further_seeds: Sequence[int],
) -> str:
    """The folder's README.md: what was made, by which command and when, what is missing, and the claims."""
    words = [f"SCALE={selection.scale}"]
    words += [f"SOURCE={selection.source}"] if selection.source else []
    words += [f"SEEDS={','.join(map(str, selection.seeds))}"] if selection.seeds != SEEDS else []
    words += [f'OVERRIDES="{" ".join(selection.overrides)}"'] if selection.overrides else []
    days = sorted({result.finished_at[:10] for result in kept})
    hours = sum(result.seconds for result in kept) / 3600
    missing = len(
        {command for table in tables for command in table.missing} | {c for one in figures for c in one.missing}
    )
    lines = [
        f"{TITLE} at {selection.where}",
        "",
        f"What {_makers(tables, words)} made{' so far' if missing else ''}, kept by"
        f" `spikelm-report reference --to DIR` on {time.strftime('%Y-%m-%d')}:"
        f" {len(kept)} finished runs ({_span(days)}; {hours:.1f} hours of runs, one after the other, {_threads(kept)}),"
        f" {missing or 'none'} missing. Scores at this scale and source say nothing about the paper's data.",
        "",
        "Every folder but `tables` and `figures` has `result.json` files, without weights. The folder is a store:"
        " `spikelm-report table 3 --runs-dir runs/reference` reads it, and what is copied into another store"
        " (`cp -rn runs/reference/. runs/`) is not run again unless its weights are needed.",
        "",
        *_further(selection, kept, further_seeds),
        *(f"- [{table.name}](tables/{table.name}.md): {table.title}{_lacks(table.missing)}" for table in tables),
        "",
    ]
    for figure in figures:
        lines += [f"**{figure.title}.** {figure.caption}{_lacks(figure.missing)}", ""]
        lines += [f"![{figure.id}](figures/{figure.name}.png)", ""] if figure.figure is not None else []
    counts = [f"{sum(one.status == status for one in verdicts)} {status}" for status in ("held", "failed", "not run")]
    rows = [[one.section, one.statement, one.status, numbers_text(one) or one.reason or ""] for one in verdicts]
    lines += [f"## Claims of the paper: {', '.join(counts)}", ""]
    lines += markdown_table(["section", "claim", "verdict", "ours (the paper's)"], rows)
    return "\n".join([*lines, ""])


def _makers(tables: Sequence[TableData], words: Sequence[str]) -> str:
    """The commands that made it: all of the paper's, and each table of our own."""
    targets = ["all", *(str(table.id) for table in tables if table.id in OWN_TABLES)]
    commands = " and ".join(f"`{' '.join(['make', f'reproduce-{target}', *words])}`" for target in targets)
    return f"{commands} {'has' if len(targets) == 1 else 'have'}"


def _further(selection: Selection, kept: Sequence[Result], further_seeds: Sequence[int]) -> list[str]:
    """What there is of seeds that the tables below do not show."""
    counts = {seed: sum(result.seed == seed for result in kept) for seed in further_seeds}
    if not any(counts.values()):
        return []
    told = ", ".join(f"{count} of seed {seed}" for seed, count in counts.items() if count)
    seeds = ",".join(map(str, (*selection.seeds, *further_seeds)))
    return [
        f"Some systems were run with further seeds: {told} of these results. The tables and figures below are without"
        f" them; `spikelm-report table 3 --seeds {seeds} --runs-dir runs/reference` prints mean ± standard deviation.",
        "",
    ]


def _span(days: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "no day"


def _threads(kept: Iterable[Result]) -> str:
    counts = sorted({result.threads for result in kept})
    return f"{' or '.join(map(str, counts)) or '?'} thread{'s' if counts != [1] else ''} each"


def _lacks(missing: Sequence[str]) -> str:
    return f" ({counted(len(missing), 'run')} missing)" if missing else ""
