"""The plan of a reproduction on the screen: runs by task and by system, their sums, and what cannot be run yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table

from spikelm.catalog.checkpoint_files import pinned
from spikelm.catalog.quantities import counted, duration, gigabytes
from spikelm.report.reproduce.needs import Need
from spikelm.report.tables.build import RefusedRow
from spikelm.runs.cost import speed_of
from spikelm.runs.plan import UNCOUNTED

ROLES = {
    "pretrained": "first models of others",
    "teacher": "teachers of others",
    "converted": "conversions that others start from",
}
WIDTH = 112  # of the table of systems
Cell = Callable[[Sequence[Need]], str]  # a number of some runs


def show_needs(
    title: str, needs: Sequence[Need], console: Console, at_once: int = 1, refused: Sequence[RefusedRow] = ()
) -> None:
    """The runs needed, those there are, what the others cost, and the rows that cannot be run yet."""
    asked = [need for need in needs if need.asked]
    done = sum(need.finished for need in asked)
    first = [need for need in needs if not need.finished and not need.asked]
    console.print(
        f"{title}: {len(asked)} runs, {done} finished, {len(asked) - done} to do"
        f"{f', and {len(first)} that they need first' if first else ''}",
        soft_wrap=True,
    )
    if any(need.to_do for need in needs):
        # Whatever the width of the terminal: a table without its last columns is not read.
        wide = console if console.width >= WIDTH else Console(file=console.file, width=WIDTH)
        wide.print(_by_task(needs))
        wide.print(_by_system(needs))
        _show_again([need for need in needs if need.again], console)
        for line in total_lines([need for need in needs if need.to_do], at_once):
            console.print(f"  {line}", soft_wrap=True, highlight=False)
        _show_weights(needs, console)
    _show_refused(refused, console)


def _by_task(needs: Sequence[Need]) -> Table:
    """One row per task."""
    table, columns = _table(needs, "task")
    for task in dict.fromkeys(need.config.task.name for need in needs):
        group = [need for need in needs if need.config.task.name == task]
        table.add_row(task, *(cell(group) for cell in columns))
    return table


def _by_system(needs: Sequence[Need]) -> Table:
    """One row per system, as the tables have them, with its tasks."""
    table, columns = _table(needs, "system", "T")
    table.add_column("tasks to do")
    groups: dict[tuple[str, str], list[Need]] = {}
    for need in needs:
        row = (need.system, str(need.config.time_steps)) if need.asked else (ROLES.get(need.role, need.system), "")
        groups.setdefault(row, []).append(need)
    for row, group in sorted(groups.items(), key=lambda item: item[0][0] in ROLES.values()):
        table.add_row(*row, *(cell(group) for cell in columns), _tasks(group))
    return table


def _table(needs: Sequence[Need], *names: str) -> tuple[Table, list[Cell]]:
    """An empty table and what its numbers are: operations only where earlier runs do not tell all."""
    columns: dict[str, Cell] = {
        "runs": lambda group: str(len(group)),
        "finished": lambda group: str(sum(need.finished for need in group)),
        "to do": lambda group: str(sum(need.to_do for need in group)),
    }
    if any(need.to_do and need.seconds is None for need in needs):
        columns |= {"FLOPs": _flops, "GPU time": _gpu_time}
    if any(need.seconds is not None for need in needs):
        columns["earlier runs"] = _earlier
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table, list(columns.values())


def _flops(group: Sequence[Need]) -> str:
    costs = [need.cost.flops for need in group if need.to_do]
    if all(flops == 0 for flops in costs):
        return "no training" if costs else ""
    return _sum(costs, lambda total: f"{total:.1e}") or "by the data"


def _gpu_time(group: Sequence[Need]) -> str:
    costs = [need.cost.gpu_hours for need in group if need.to_do]
    return _sum(costs, lambda total: duration(3600 * total)) if any(costs) else ""


def _earlier(group: Sequence[Need]) -> str:
    return _sum([need.seconds for need in group if need.to_do], duration)


def _sum(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """The sum of what is known, with + where something is not; empty where nothing is."""
    known = [value for value in values if value is not None]
    return f"{shown(sum(known))}{'+' if len(known) < len(values) else ''}" if known else ""


def _tasks(group: Sequence[Need]) -> str:
    """Tasks to do in few words: pretrain, 8 glue, 3 texts."""
    families: dict[str, list[str]] = {}
    for name in dict.fromkeys(need.config.task.name for need in group if need.to_do):
        family = name.partition("/")[0]
        families.setdefault("texts" if family in ("sum", "mt") else family, []).append(name)
    words = (f"{len(names)} {family}" if len(names) > 2 else ", ".join(names) for family, names in families.items())
    return ", ".join(words)


@dataclass(frozen=True)
class Totals:
    """What the runs of a plan come to."""

    flops: float
    gpu_hours: float
    wall_hours: float
    unknown: int  # runs whose length only the data can tell
    peak_gb: float
    final_gb: float
    uncounted: int  # runs whose disk is not estimated


def totals(todo: Sequence[Need], at_once: int) -> Totals:
    """Sums; what trains on several devices goes one after the other, the rest `at_once` at a time."""
    counted = [need.cost for need in todo if need.cost.gpu_hours is not None]
    single = [need.cost.wall_hours or 0.0 for need in todo if not need.wide]
    wide = sum(need.cost.wall_hours or 0.0 for need in todo if need.wide)
    side_by_side = max(sum(single) / at_once, max(single, default=0.0))
    on_disk = [need for need in todo if need.cost.finished_gb is not None]
    final = sum(need.cost.finished_gb or 0.0 for need in on_disk)
    checkpoints = {True: [0.0], False: [0.0]}  # of those that train alone, and of those side by side
    for need in on_disk:
        checkpoints[need.wide].append((need.cost.running_gb or 0.0) - (need.cost.finished_gb or 0.0))
    return Totals(
        flops=sum(cost.flops or 0.0 for cost in counted),
        gpu_hours=sum(cost.gpu_hours or 0.0 for cost in counted),
        wall_hours=wide + side_by_side,
        unknown=len(todo) - len(counted),
        peak_gb=final + max(max(checkpoints[True]), sum(sorted(checkpoints[False], reverse=True)[:at_once])),
        final_gb=final,
        uncounted=len(todo) - len(on_disk),
    )


def total_lines(todo: Sequence[Need], at_once: int) -> list[str]:
    """The sums of a plan in sentences."""
    sums = totals(todo, at_once)
    lines = []
    seconds = [need.seconds for need in todo if need.seconds is not None]
    if len(seconds) < len(todo):
        speeds = " or ".join(dict.fromkeys(str(speed_of(need.config.trainer)) for need in todo))
        lines += [
            f"to do: {len(todo)} runs, {sums.flops:.2e} FLOPs, {duration(3600 * sums.gpu_hours)} of a GPU",
            f"at a speed of {speeds}",
            f"on the clock: {duration(3600 * sums.wall_hours)}, {_order(todo, at_once)}",
            f"not in these hours: they are {UNCOUNTED}{_unknown(sums.unknown)}",
        ]
    lines.append(f"by earlier runs: {_time(seconds, len(todo) - len(seconds), at_once)}")
    without = f", without {sums.uncounted} runs whose size is not estimated" if sums.uncounted else ""
    lines.append(
        f"disk: {gigabytes(sums.final_gb)} of models at the end, at most {gigabytes(sums.peak_gb)} meanwhile{without}"
    )
    return lines


def _order(todo: Sequence[Need], at_once: int) -> str:
    wide = [need for need in todo if need.wide]
    rest = len(todo) - len(wide)
    parts = []
    if wide:
        devices = sorted({need.config.trainer.devices or 0 for need in wide} - {0})
        on = f"on {' or '.join(map(str, devices))} devices" if devices else "on all devices"
        parts.append(f"{len(wide)} runs {on}, one after the other")
    if rest:
        parts.append(f"{rest} on one device each, {f'{at_once} at a time' if at_once > 1 else 'one after the other'}")
    return ", then ".join(parts)


def _unknown(count: int) -> str:
    return f"; {counted(count, 'run')} of which only the data tells the length" if count else ""


def _time(times: Sequence[float], unknown: int, at_once: int) -> str:
    """How long it takes, as far as earlier runs tell."""
    if not times:
        return "none tells how long it takes"
    side_by_side = f", {duration(sum(times) / at_once)} with {at_once} at a time" if at_once > 1 else ""
    rest = f", and {counted(unknown, 'run')} of which no earlier one tells" if unknown else ""
    return f"about {duration(sum(times))} of runs one after the other{side_by_side}{rest}"


def _show_again(again: Sequence[Need], console: Console) -> None:
    if again:
        names = ", ".join(need.title for need in again)
        console.print(f"  {len(again)} more are made again for their weights, which are gone: {names}", highlight=False)


def _show_weights(needs: Sequence[Need], console: Console) -> None:
    """Weights of the hub that are not on this machine yet, with the command that brings each of them."""
    users: dict[str, list[str]] = {}
    for need in needs:
        if need.to_do and (path := need.config.backbone.path) and pinned(path):
            users.setdefault(path, []).append(need.system if need.asked else ROLES.get(need.role, need.system))
    missing = {path: systems for path, systems in users.items() if not _at_hand(path)}
    if missing:
        console.print("  weights that are fetched when the first run needs them, or before:", highlight=False)
    for path, systems in missing.items():
        name, _, revision = path.partition("@")
        console.print(f"    hf download {name} --revision {revision}", soft_wrap=True, highlight=False)
        console.print(f"      for {', '.join(dict.fromkeys(systems))}", soft_wrap=True, highlight=False)


def _at_hand(path: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    name, _, revision = path.partition("@")
    return isinstance(try_to_load_from_cache(name, "config.json", revision=revision), str)


def _show_refused(refused: Sequence[RefusedRow], console: Console) -> None:
    """Rows of tables that are not in the plan, with the reason and what makes them runnable."""
    if not refused:
        return
    rows = counted(len(refused), "row")
    console.print(f"  not in this plan: {rows} that cannot be run here yet", highlight=False)
    for row in refused:
        where = f"table{'s' if len(row.tables) > 1 else ''} {', '.join(map(str, row.tables))}"
        console.print(f"    {row.name} ({where}): {row.what}", soft_wrap=True, highlight=False, markup=False)
        if row.fix:
            console.print(f"      fix: {row.fix}", soft_wrap=True, highlight=False, markup=False)
