"""Reading a table of measurements: CSV or CSV.GZ, columns by name, times in the unit that a column's name says."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, shorten

Array = NDArray[np.float64]
Texts = NDArray[np.str_]
Mask = NDArray[np.bool_]

#: Seconds of one unit of a column whose name ends so.
UNITS = {"_ns": 1e-9, "_us": 1e-6, "_ms": 1e-3, "_s": 1.0}
#: Names that columns of times have before their unit.
TIMES = ("latency", "time", "duration", "median", "elapsed")
#: Largest number of a cell, and the times that a measurement can mean, in seconds.
LARGEST = 1e15
SHORTEST, LONGEST = 1e-12, 1e6
#: How far the cells of two columns of the same times are apart in the median, by rounding.
ROUNDING = 0.05
#: Letters of a cell that are kept: what is longer is a remark, or no cell of a table.
_KEPT = 500
_SHOWN = 5


@dataclass(frozen=True)
class Table:
    """Rows of a file by column, as text, with the line that each row stands on."""

    where: str
    columns: Mapping[str, Texts]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def refuse(self, problem: str | Sequence[str]) -> NoReturn:
        """Raise InputError naming the file."""
        raise InputError(problem, where=self.where)

    def texts(self, *names: str, default: str | None = None) -> Texts:
        """Return the first column of these names. Raises InputError where the file has none of them."""
        for name in names:
            if name in self.columns:
                return self.columns[name]
        if default is not None:
            return np.full(len(self), default)
        self.refuse(missing(names, self.columns))

    def numbers(self, *names: str, low: float = 0.0, above: bool = False) -> Array:
        """Return the first column of these names as numbers from ``low`` (excluded where ``above``).

        Raises InputError naming the lines whose cells are no such number.
        """
        found = self._floats(names)
        wrong = ~(found <= LARGEST) | (found < low) | (above & (found == low))
        self._check(names, wrong, f"a number {'above' if above else 'of at least'} {low:g}")
        return found

    def counts(self, *names: str, low: int = 1) -> Array:
        """Return a column of whole numbers of at least ``low``."""
        found = self._floats(names)
        wrong = ~(found <= LARGEST) | (found < low) | (found != np.floor(found))
        self._check(names, wrong, f"a whole number of at least {low}")
        return found

    def time_column(self) -> str:
        """Return the name of the column that holds the measured time.

        Raises InputError where there is none, naming what such a column is called, or where two tell different times.
        """
        names = [name + unit for name in TIMES for unit in UNITS if name + unit in self.columns]
        if names:
            for other in names[1:]:
                self.agree(names[0], other)
            return names[0]
        bare = next((name for name in self.columns if name.lower() in TIMES), None)
        why = "no column of times" if bare is None else f"column {bare!r} names no unit of its times"
        self.refuse(f"{why}; expected latency_ms, time_us or a like name with its unit")

    def agree(self, one: str, other: str) -> None:
        """Raise InputError where two columns of times differ by more than rounding."""
        first, second = (self._floats((name,)) * scale(name) for name in (one, other))
        both = (first > 0) & (second > 0)
        if both.any() and np.median(np.abs(second[both] / first[both] - 1)) > ROUNDING:
            self.refuse(
                f"columns {one!r} and {other!r} tell different times; remove the one that is not meant"
            )

    def seconds(self, name: str | None = None, *, zero: bool = False) -> Array:
        """Return measured times in seconds: those of the column ``name``, else of the one named as a time.

        ``zero``: one below the resolution may be stated as 0.
        """
        column = name or self.time_column()
        found = self._floats((column,)) * scale(column)
        good = (found >= SHORTEST) & (found <= LONGEST) | (zero & (found == 0))
        self._check((column,), ~good, "a time above 0")
        return found

    def _floats(self, names: Sequence[str]) -> Array:
        """The first column of these names as numbers, NaN where a cell is none."""
        cells = self.texts(*names)
        try:
            return cells.astype(np.float64)
        except ValueError:
            return np.array([_number(cell) for cell in cells])

    def _check(self, names: Sequence[str], wrong: Mask, expected: str) -> None:
        if not wrong.any():
            return
        name = next(name for name in names if name in self.columns)
        places = sorted(np.flatnonzero(wrong), key=lambda place: int(self.lines[place]))
        problems = [
            f"line {self.lines[place]}, column {name!r}: {shorten(str(self.columns[name][place]))!r} is not "
            f"{expected}"
            for place in places[:_SHOWN]
        ]
        more = len(places) - _SHOWN
        self.refuse(problems + ([f"and {more:,} more cells of this column"] if more > 0 else []))

    def where_true(self, keep: Mask) -> Table:
        """Return the rows that ``keep`` marks."""
        columns = {name: cells[keep] for name, cells in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[keep])

    def in_order(self) -> Table:
        """Return the rows in the order of their cells, so that nothing depends on that of the file."""
        rows = list(zip(*(self.columns[name].tolist() for name in sorted(self.columns))))
        order = np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.intp)
        columns = {name: cells[order] for name, cells in self.columns.items()}
        return replace(self, columns=columns, lines=self.lines[order])

    def filled(self, *names: str) -> Table:
        """Return the rows that have text in every one of these columns."""
        keep = np.ones(len(self), dtype=bool)
        for name in names:
            keep &= self.texts(name) != ""
        return self.where_true(keep)

    def groups(self, *labels: Texts) -> Iterable[tuple[tuple[str, ...], Mask]]:
        """Return each distinct combination of labels, sorted, with its rows."""
        rows = list(zip(*(label.tolist() for label in labels)))
        places: dict[tuple[str, ...], list[int]] = {}
        for place, key in enumerate(rows):
            places.setdefault(key, []).append(place)
        for key in sorted(places):
            keep = np.zeros(len(self), dtype=bool)
            keep[places[key]] = True
            yield key, keep


def missing(names: Sequence[str], columns: Iterable[str]) -> str:
    """Return the sentence for a column that is not there: what else it may be called, and the nearest one."""
    others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
    folded = {column.lower(): column for column in columns}
    match = get_close_matches(names[0], folded, n=1)
    hint = f"; nearest present: {folded[match[0]]!r}" if match else ""
    return f"column {names[0]!r} is missing{others}{hint}"


def scale(column: str) -> float:
    """Return the seconds of one unit of a column, by the end of its name; 0 where it names none."""
    return next((seconds for unit, seconds in UNITS.items() if column.endswith(unit)), 0.0)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def read_table(path: str | Path) -> Table:
    """Return the table of a .csv or .csv.gz file.

    Raises InputError where it cannot be read, is not text, holds no rows, or a row has other cells than the
    header says.
    """
    where = str(path)
    rows = list(_rows(_text(Path(path), where), where))
    if len(rows) < 2:
        raise InputError("holds no rows; expected a CSV file with a header", where=where)
    (_, header), body = rows[0], rows[1:]
    names = [shorten(name.strip()) for name in header]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError([f"column {name!r} stands in the header twice" for name in twice], where=where)
    ragged = [(line, len(row)) for line, row in body if len(row) != len(names)]
    if ragged:
        line, cells = ragged[0]
        raise InputError(
            f"line {line}: {cells} cells; expected {len(names)}, as the header has ({len(ragged):,} such lines)",
            where=where,
        )
    columns = {name: _column([row[place].strip() for _, row in body]) for place, name in enumerate(names)}
    return Table(where, columns, np.array([line for line, _ in body], dtype=np.int64))


def _column(cells: list[str]) -> Texts:
    if len(max(cells, key=len)) > _KEPT:
        cells = [cell if len(cell) <= _KEPT else cell[:_KEPT] + "..." for cell in cells]
    return np.array(cells)


def _text(path: Path, where: str) -> str:
    try:
        data = path.read_bytes()
        if where.endswith(".gz") or data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except IsADirectoryError:
        raise InputError("is a folder; expected a CSV file", where=where) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text; expected a CSV file", where=where) from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError("is not a whole gzip file", where=where) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=where) from None


def _rows(text: str, where: str) -> Iterable[tuple[int, list[str]]]:
    """Rows with their line; empty lines and lines that start with # are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if row and not row[0].startswith("#") and any(row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: is not CSV: {error}", where=where) from None
