"""Which runs a log holds: one, or several that its columns tell apart."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

from ...errors import InputError
from .files import opened
from .layouts import MEASURED, RUN

Run = Mapping[str, str]


def is_log(path: str | Path) -> bool:
    """Say whether a file is a log of requests: JSON, or a CSV with a measured column; False where it cannot be read."""
    try:
        with opened(Path(path)) as file:
            first = next(file, "").strip()
    except InputError:
        return False
    return first.startswith(("{", "[")) or not set(MEASURED).isdisjoint(_cells(first))


def runs_of(path: str | Path, select: Run | None = None) -> tuple[Run, ...]:
    """Return what tells each run of a log by column (gpu, model, tp, ...), as they first appear.

    ``select``: only runs with these texts; columns that no run is told by stay in each. A log without such
    columns is one run. Raises InputError where the file cannot be read.
    """
    chosen = dict(select or {})
    with opened(Path(path)) as file:
        first = next(file, "")
        if first.lstrip().startswith(("{", "[")):
            return (chosen,)
        reader = csv.reader(chain([first], file))
        header = [name.strip() for name in next(reader, [])]
        places = [header.index(name) for name in dict.fromkeys((*RUN, *chosen)) if name in header]
        found: dict[tuple[str, ...], None] = {}
        try:
            for cells in reader:
                if len(cells) == len(header):  # its reader says what is wrong with others
                    found[tuple(cells[place].strip() for place in places)] = None
        except csv.Error as error:
            raise InputError(f"line {reader.line_num}: {error}", where=str(path)) from None
    named = [dict(zip((header[place] for place in places), texts)) for texts in found]
    runs = [run for run in named if all(run.get(name) == text for name, text in chosen.items())]
    # what is selected but nowhere found is an error that the reader of the log words
    return tuple(runs) or (chosen,)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]), [])]
