"""Rows in files: TSV, CSV, JSONL and Parquet, each row with the place it was read from."""

from __future__ import annotations

import csv
import json
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from spikelm.errors import DataError

LONGEST_SHOWN = 120  # characters of a file's value in a message
#: the place of each row, and its wanted columns; None for a broken row that is left out
Rows = Iterator[tuple[str, dict[str, Any] | None]]


@dataclass(frozen=True)
class Layout:
    """What a file must hold: for each wanted column the names it may have, and how forgiving to be."""

    columns: Mapping[str, Sequence[str]]
    headerless: Sequence[str] = ()  # columns of a TSV whose first line is a row
    skip_broken: bool = False  # rows with another number of fields are left out and counted
    nested: str = ""  # a column that may hold the others: {"translation": {"en": ..., "ro": ...}}
    others: Sequence[Sequence[str]] = ()  # names of all columns together, where a file has none of their own


def column_names(columns: Sequence[str], file_columns: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """For each column the names it may have in a file: the one that is said to be the file's first, then its own."""
    return {name: tuple(dict.fromkeys((file_columns.get(name, name), name))) for name in columns}


@dataclass
class FileRows:
    """The wanted columns of a file's rows, each with its place for errors; how many rows were left out."""

    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    skipped: int = 0


def numbered_lines(path: Path, keep_ends: bool = False) -> Iterator[tuple[int, str]]:
    """Numbered lines, cut at line feeds alone (other separators are text); a line that is not UTF-8 is named."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path} line {number}: not UTF-8 (byte {error.start + 1} of the line)", "save the file as UTF-8"
                ) from error
            yield number, line if keep_ends else line.removesuffix("\n").removesuffix("\r")


def shortened(value: object) -> str:
    """A value of a file as a message shows it: a long text is cut in its middle."""
    limited = reprlib.Repr()
    limited.maxstring = limited.maxother = LONGEST_SHOWN
    return limited.repr(value)


def iter_rows(path: Path, layout: Layout) -> Rows:
    """The rows of a file by its ending, one after the other; errors name file, line and what was expected."""
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty")
    yield from READERS[path.suffix.lower()](path, layout)


def read_rows(path: Path, layout: Layout) -> FileRows:
    """All rows of a file."""
    table = _collected(iter_rows(path, layout))
    if not table.rows:
        raise DataError(f"{path} has no rows, only a header")
    return table


def _collected(rows: Rows) -> FileRows:
    table = FileRows()
    for where, row in rows:
        if row is None:
            table.skipped += 1
        else:
            table.rows.append((where, row))
    return table


def _pick(names: Sequence[str], layout: Layout) -> dict[str, str] | None:
    """Wanted column -> its name in the file, or None when one is missing."""
    picked = {
        column: name
        for column, options in layout.columns.items()
        if (name := next((option for option in options if option in names), None)) is not None
    }
    if len(picked) == len(layout.columns):
        return picked
    together = next((others for others in layout.others if not picked and set(others) <= set(names)), ())
    return dict(zip(layout.columns, together, strict=True)) if together else None


def _flat(record: Mapping[str, Any], layout: Layout) -> Mapping[str, Any]:
    inner = record.get(layout.nested) if layout.nested else None
    return inner if isinstance(inner, Mapping) else record


def _missing(where: str, names: Sequence[str], layout: Layout) -> DataError:
    lacking = {column: o for column, o in layout.columns.items() if not set(o) & set(names)}
    held = ", ".join(repr(name if len(name) <= 40 else f"{name[:37]}...") for name in names)
    named = ", ".join(f"{column}: NAME" for column in lacking)
    headless = "; without a header, 'task.tsv_columns=[NAME,NAME]' lists its columns" if ".tsv" in where else ""
    return DataError(
        f"{where}: no column {', '.join(' or '.join(map(repr, o)) for o in lacking.values())}; the columns are {held}",
        f"'task.file_columns={{{named}}}' says what the file calls {'it' if len(lacking) == 1 else 'them'}{headless}",
    )


def _from_fields(path: Path, header: Sequence[str], rows: Iterator[tuple[int, list[str]]], layout: Layout) -> Rows:
    picked = _pick(header, layout)
    if picked is None:
        raise _missing(f"{path} line 1", header, layout)
    positions = {column: list(header).index(name) for column, name in picked.items()}
    for number, fields in rows:
        where = f"{path} line {number}"
        if len(fields) == len(header):
            yield where, {column: fields[position] for column, position in positions.items()}
        elif layout.skip_broken:
            yield where, None
        else:
            raise DataError(f"{where}: {len(fields)} fields, expected {len(header)}: {', '.join(header)}")


def _tsv(path: Path, layout: Layout) -> Rows:
    """Tabs separate, nothing quotes: the official files hold stray quotes that are text."""
    rows = ((number, line.split("\t")) for number, line in numbered_lines(path) if line)
    first = next(rows, (1, [""]))
    header = first[1]
    if _pick(header, layout) is None and layout.headerless and len(header) == len(layout.headerless):
        return _from_fields(path, layout.headerless, chain([first], rows), layout)
    return _from_fields(path, header, rows, layout)


def _csv(path: Path, layout: Layout) -> Rows:
    reader = csv.reader((line for _, line in numbered_lines(path, keep_ends=True)), strict=True)
    try:
        header = next(reader, [""])
        yield from _from_fields(path, header, ((reader.line_num, fields) for fields in reader if fields), layout)
    except csv.Error as error:
        raise DataError(f"{path} line {reader.line_num}: not CSV ({error})") from error


def _jsonl(path: Path, layout: Layout) -> Rows:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        where = f"{path} line {number}"
        try:
            record = json.loads(line)
            json.dumps(record, ensure_ascii=False).encode()
        except json.JSONDecodeError as error:
            raise DataError(f"{where}: not JSON ({error.msg} at character {error.pos + 1})") from error
        except UnicodeEncodeError as error:
            raise DataError(f"{where}: half of a surrogate pair, which is no character") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets in brackets
            raise DataError(f"{where}: not JSON that can be read ({str(error)[:80]})") from error
        if not isinstance(record, dict):
            raise DataError(f"{where}: a {type(record).__name__}, expected an object with the columns as keys")
        record = _flat(record, layout)
        picked = _pick(list(record), layout)
        if picked is None:
            raise _missing(where, list(record), layout)
        yield where, {column: record[name] for column, name in picked.items()}


def rows_from_records(path: Path, records: Iterable[Mapping[str, Any]], layout: Layout) -> FileRows:
    """The wanted columns of rows that have no lines to be named by."""
    return _collected(_from_records(path, records, layout))


def _from_records(path: Path, records: Iterable[Mapping[str, Any]], layout: Layout) -> Rows:
    for index, outer in enumerate(records):
        record = _flat(outer, layout)
        picked = _pick(list(record), layout)
        if picked is None:
            raise _missing(str(path), list(record), layout)
        yield f"{path} row {index}", {column: record[name] for column, name in picked.items()}


def _parquet(path: Path, layout: Layout) -> Rows:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            picked = {layout.nested: layout.nested} if layout.nested in names else _pick(names, layout)
            if picked is None:
                raise _missing(str(path), names, layout)
            batches = file.iter_batches(columns=list(picked.values()))
            yield from _from_records(path, (record for batch in batches for record in batch.to_pylist()), layout)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{path} is not a Parquet file: {str(error).splitlines()[0]}") from error


READERS: dict[str, Callable[[Path, Layout], Rows]] = {
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".parquet": _parquet,
}
