"""CSV traces, a chunk of rows at a time: ordinary chunks by whole columns, odd ones row by row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ...errors import InputError, shorten, unknown
from ..workload import Request
from .checks import Checks
from .columns import OddError, whole_columns
from .layouts import understand
from .reading import INFINITE, NO_HASHES, Notes, Reading
from .reuse import Sessions

#: Rows of a chunk: enough to hide what a chunk costs, few enough to take no memory worth counting.
CHUNK = 256
_MOST_LISTED = 20
Rows = list[list[str]]
Cells = Mapping[str, str]


def csv_requests(file: Iterator[str], where: str, how: Reading, notes: Notes) -> Iterator[Request]:
    """Yield the requests of a CSV trace. Raises InputError for the header or at the first bad row."""
    sheet = _Sheet(file, where, how, notes)
    for rows, line in sheet.chunks():
        try:
            requests = sheet.by_columns(rows)
        except OddError:
            requests = (request for request, _ in sheet.by_rows(rows, line))
        yield from requests
    sheet.check_end()


def csv_rows(file: Iterator[str], where: str, how: Reading, notes: Notes) -> Iterator[tuple[Request, Cells]]:
    """Yield the requests of a CSV trace, each with all cells of its row by column."""
    sheet = _Sheet(file, where, how, notes)
    for rows, line in sheet.chunks():
        yield from sheet.by_rows(rows, line)
    sheet.check_end()


class _Sheet:
    """A CSV trace that is being read."""

    def __init__(self, file: Iterator[str], where: str, how: Reading, notes: Notes) -> None:
        self._where, self._notes = where, notes
        self._reader = csv.reader(file)
        header = next((rows[0] for rows, _ in self.chunks(1)), [])
        if not header:
            expected = "arrival_s, prompt_tokens, output_tokens"
            raise InputError(f"is empty; expected a header with {expected}", where=where)
        if how.prefix == INFINITE:
            raise InputError(NO_HASHES, where=where)
        self._table = understand([name.strip() for name in header], where, how, notes)
        layout, names = self._table.layout, self._table.names
        self._checks = Checks(where, names, layout.clock(), notes, layout.skips_empty, how.timed)
        self._sessions = Sessions() if how.sessions else None
        self._run: list[str] = []
        self._others: list[set[str]] = [set() for _ in self._table.select]
        self._found = 0

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[Rows, int]]:
        """Yield rows with the number of the line before them, also those before a line that is no CSV."""
        failure: csv.Error | None = None
        while failure is None:
            line, rows = self._reader.line_num, Rows()
            try:
                rows.extend(islice(self._reader, size))
            except csv.Error as error:
                failure = error
            if rows:
                yield rows, line
            elif failure is None:
                return
        raise InputError(f"line {self._reader.line_num}: {failure}", where=self._where)

    def by_columns(self, rows: Rows) -> Iterator[Request]:
        """Return the requests of a chunk, read by whole columns. Raises OddError where only rows will do."""
        if self._table.select:
            if any(cells and len(cells) != len(self._table.header) for cells in rows):
                raise OddError
            rows = [cells for cells in rows if cells and self._chosen(cells)]
        if not rows or (self._run and self._table.run(rows[0]) != self._run):
            raise OddError
        requests = whole_columns(rows, self._table, self._checks)
        self._run = self._table.run(rows[0])
        self._found += len(rows)
        if self._sessions is None:
            return requests
        place = self._table.place(self._checks.names.session)
        return map(self._sessions.turn, requests, [cells[place].strip() for cells in rows])

    def by_rows(self, rows: Rows, line: int) -> Iterator[tuple[Request, Cells]]:
        """Yield the requests of a chunk with their cells, row by row."""
        header = self._table.header
        for cells in rows:
            line += 1 + sum(cell.count("\n") for cell in cells)
            if not cells:
                continue
            if len(cells) != len(header):
                problem = f"line {line}: {len(cells)} cells, the header has {len(header)}"
                raise InputError(problem, where=self._where)
            if not self._chosen(cells):
                continue
            self._check_run(cells, line)
            self._found += 1
            row = {name: cell.strip() for name, cell in zip(header, cells)}
            request = self._checks.request(f"line {line}", row)
            if request is not None:
                if self._sessions is not None:
                    request = self._sessions.turn(request, row[self._checks.names.session])
                yield request, row

    def _chosen(self, cells: Sequence[str]) -> bool:
        chosen = True
        for (place, text), others in zip(self._table.select, self._others):
            if cells[place].strip() != text:
                chosen = False
                if len(others) < _MOST_LISTED:
                    others.add(cells[place].strip())
        return chosen

    def _check_run(self, cells: Sequence[str], line: int) -> None:
        run = self._table.run(cells)
        self._run = self._run or run
        if run != self._run:
            names = [self._table.header[place] for place in self._table.runs]
            changed = [
                f"line {line}: {name} {shorten(now)!r} after {shorten(first)!r}: the file holds several runs; "
                f"select one by {name}"
                for name, first, now in zip(names, self._run, run)
                if first != now
            ]
            raise InputError(changed, where=self._where)

    def check_end(self) -> None:
        """Raise InputError where no row was a request."""
        skipped = self._notes.skipped
        if self._found > sum(skipped.values()):
            return
        problems = [f"all {count:,} rows are skipped: {reason}" for reason, count in skipped.items()]
        for (place, text), others in zip(self._table.select, self._others):
            if others and not problems:
                remedy = f"(there are: {', '.join(sorted(map(shorten, others)))})"
                problems = [unknown(self._table.header[place], text, others, remedy=remedy)]
        raise InputError(problems or "has a header but no request", where=self._where)
