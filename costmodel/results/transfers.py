"""Tables of KV copies: bytes and times, a series a link and software."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from io import StringIO

from ..errors import InputError, nearest, shorten
from ..records.record import Record
from ..units import format_si
from .sheet import Sheet

FORM = "transfer table"
SIZES = ("bytes", "size_bytes", "payload_bytes", "message_bytes")
#: Columns of times and their units.
TIMES = {
    f"{name}_{unit}": unit for name in ("time", "latency", "duration") for unit in ("s", "ms", "us", "ns")
}
#: Columns of collectives, which have bytes and times too.
COLLECTIVE = ("num_gpus", "num_workers")
#: What tells series apart, and the condition it is.
_SERIES = {
    "group": None,
    "link": "link",
    "hardware": "hardware",
    "software": "connector",
    "direction": None,
}
_DESCRIPTORS = ("n_descriptors", "descriptors", "num_descriptors")
_PEAK, _ACHIEVED = "theoretical_GBps", "GBps"
MOST_ROWS = 100_000


def is_table(header: Sequence[str]) -> bool:
    """Say whether a header is that of copies: a column of bytes and one of times."""
    if any(name in header for name in COLLECTIVE):
        return False
    return any(name in header for name in SIZES) and any(name in header for name in TIMES)


def read_transfers(text: str, where: str, name: str) -> list[Record]:
    """Return a record for each series, with a figure for each row; rows without bytes or time are counted.

    Raises InputError for a header or cell that cannot be read.
    """
    series: dict[tuple[str, ...], list[tuple[int, dict[str, str]]]] = {}
    rows = _rows(text, where)
    for line, cells in rows:
        series.setdefault(tuple(cells.get(key, "") for key in _SERIES), []).append((line, cells))
    if not series:
        raise InputError("has a header but no copy", where=where)
    found, groups = [], [names[0] for names in series]
    for names, part in series.items():
        label = ", ".join(dict.fromkeys(text for text in names if text))
        sheet = Sheet(
            {}, where, (names[0] if groups.count(names[0]) == 1 else label) if len(series) > 1 else ""
        )
        for (key, condition), text in zip(_SERIES.items(), names):
            if condition and text:
                sheet.state(condition, text, f"column {key}")
        _read_series(sheet, part)
        if sheet.figures or sheet.problems:
            found.append(sheet.record(name, FORM, label or FORM))
    if not found:
        raise InputError("no row has both bytes and a time", where=where)
    return found


def _read_series(sheet: Sheet, rows: list[tuple[int, dict[str, str]]]) -> None:
    left = 0
    size_column = next(name for name in SIZES if name in rows[0][1])
    time_column, unit = next((name, unit) for name, unit in TIMES.items() if name in rows[0][1])
    for line, cells in rows:
        at = f"line {line}"
        size, time = (_number(sheet, at, column, cells) for column in (size_column, time_column))
        peak = _number(sheet, at, _PEAK, cells)
        if peak:
            sheet.state("link_bandwidth", peak * 1e9, f"{at}, {_PEAK}")
        if not size or time is None:
            left += 1
            continue
        conditions: dict[str, float] = {"payload": size}
        for column in _DESCRIPTORS:
            count = _number(sheet, at, column, cells)
            if count is not None:
                conditions["descriptors"] = count
        note, text = cells.get("note") or None, f"{cells[time_column]} {unit}"
        name = f"{at}, {format_si(size, 'byte')}"
        sheet.figure(
            "kv_transfer_time", name, time, unit, conditions=conditions, note=note, text=text, again=line
        )
        _check_rate(sheet, at, cells, size, time / {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit])
    if left:
        sheet.warn(f"{left:,} of {len(rows):,} rows state no bytes or no time")


def _check_rate(sheet: Sheet, at: str, cells: dict[str, str], size: float, seconds: float) -> None:
    """Warn where the rate of a row is not its bytes over its time: one of the three is of something else."""
    rate = _number(sheet, at, _ACHIEVED, cells)
    if rate and seconds and abs(size / seconds / 1e9 / rate - 1) > 0.1:
        sheet.warn(
            f"{at}: {rate:g} GB/s is not {size:,.0f} bytes over {seconds:.4g} s, {size / seconds / 1e9:.3g} GB/s"
        )


def _number(sheet: Sheet, at: str, column: str, cells: dict[str, str]) -> float | None:
    text = cells.get(column, "")
    if not text:
        return None
    try:
        value = float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        value = None
    if value is None:
        sheet.note(f"{at}, column {column!r}: {shorten(text)!r} is not a number")
        return None
    return sheet.checked(f"{at}, column {column!r}", value, 1e18)


def _rows(text: str, where: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.reader(StringIO(text))
    try:
        header = [name.strip() for name in next(reader, [])]
        twice = [name for name in header if name and header.count(name) > 1]
        if twice:
            raise InputError(f"column {twice[0]!r} stands {header.count(twice[0])} times", where=where)
        if not any(name in header for name in SIZES):
            match = nearest(SIZES[0], header)
            raise InputError(
                f"missing column {SIZES[0]!r}" + (f"; nearest present: {match!r}" if match else ""),
                where=where,
            )
        for cells in reader:
            if not any(cells):
                continue
            if len(cells) != len(header):
                problem = f"line {reader.line_num}: {len(cells)} cells, the header has {len(header)}"
                raise InputError(problem, where=where)
            if reader.line_num > MOST_ROWS:
                raise InputError(f"holds more than {MOST_ROWS:,} lines", where=where)
            yield reader.line_num, dict(zip(header, (cell.strip() for cell in cells)))
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: {error}", where=where) from None
