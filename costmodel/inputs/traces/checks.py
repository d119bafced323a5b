"""What every row of every trace must hold, with all problems of the first bad row at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import InputError, nearest, shorten
from ..workload import LONGEST, Request
from .clocks import LATEST_S, Clock
from .reading import Notes

#: Ids of requests that are kept to find one that comes twice; later ones are compared with these only.
IDS_KEPT = 1_000_000
NO_TIMES = (
    "requests without arrival times; give them some (--rate with --arrivals poisson, gamma, weibull, onoff or "
    "constant), or hold their number constant (--concurrency)"
)
EMPTY = "no prompt or no output token"
_COUNT = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True)
class Names:
    """What a format calls its fields; an empty name: it has no such field.

    ``hits`` in place of ``cached``: what a cache holds of the prompt. An engine computes the last token all
    the same, so a hit of the whole prompt counts as one token less.
    """

    arrival: str
    prompt: str
    output: str
    cached: str = ""
    hits: str = ""
    session: str = ""
    ident: str = ""


class Ids:
    """Finds ids that come twice, among the first ``IDS_KEPT``."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def add(self, ids: Sequence[str]) -> bool:
        """Add ids, all or none of them: True where none comes twice."""
        hashes = set(map(hash, ids))
        if len(hashes) < len(ids) or not self._seen.isdisjoint(hashes):
            return False
        if len(self._seen) < IDS_KEPT:
            self._seen |= hashes
        return True


class Checks:
    """Makes requests of one file's rows, which are texts by name of field.

    ``skips_empty``: a row without a prompt or an output token is counted and passed over, as public traces
    hold failed requests. ``timed``: a row without a time is an error; else it arrives with the one before.
    """

    def __init__(
        self,
        where: str,
        names: Names,
        clock: Clock,
        notes: Notes,
        skips_empty: bool = False,
        timed: bool = True,
    ) -> None:
        self.where, self.names, self.clock, self.notes = where, names, clock, notes
        self.skips_empty, self.timed = skips_empty, timed
        self.previous = 0.0
        self.ids = Ids()

    def request(self, at: str, cells: Mapping[str, str]) -> Request | None:
        """Return the request of the row that stands ``at``, None for one that is passed over.

        Raises InputError with every problem of the row.
        """
        names, problems = self.names, list[str]()
        arrival = self._arrival(cells, problems)
        least = 0 if self.skips_empty else 1
        prompt = self._count(cells, names.prompt, least, problems)
        output = self._count(cells, names.output, least, problems)
        cached = self._cached(cells, prompt, problems)
        ident = cells.get(names.ident, "") if names.ident else ""
        if ident and not self.ids.add([ident]):
            problems.append(f"{names.ident} {shorten(ident)!r} stands in an earlier row too")
        if problems:
            raise InputError([f"{at}: {problem}" for problem in problems], where=self.where)
        self.previous = arrival
        if prompt == 0 or output == 0:
            self.notes.skip(EMPTY)
            return None
        return Request(arrival, prompt - cached, cached, output)

    def _arrival(self, cells: Mapping[str, str], problems: list[str]) -> float:
        name, text = self.names.arrival, cells.get(self.names.arrival)
        if text is None:
            if self.timed:
                problems.append(self._missing(name, cells) + f". {NO_TIMES}")
            self.notes.has_arrivals = False
            return self.previous
        time = self.clock.one(text)
        if time is None or time > LATEST_S:
            problems.append(f"{name} {shorten(text)!r} is not {self.clock.expected}")
        elif time < self.previous:
            problems.append(f"{name} {time:.12g} comes after {self.previous:.12g}; sort the trace by arrival")
        return self.previous if time is None else time

    def _count(self, cells: Mapping[str, str], name: str, least: int, problems: list[str]) -> int:
        text = cells.get(name)
        if text is None:
            problems.append(self._missing(name, cells))
        elif not _COUNT.fullmatch(text) or not least <= int(text) <= LONGEST:
            problems.append(
                f"{name} {shorten(text)!r} is not a whole number of at least {least} and at most {LONGEST:,}"
            )
        else:
            return int(text)
        return least

    def _cached(self, cells: Mapping[str, str], prompt: int, problems: list[str]) -> int:
        name = self.names.cached or self.names.hits
        if not name:
            return 0
        before = len(problems)
        cached = self._count(cells, name, 0, problems)
        if len(problems) > before or prompt == 0:
            return 0
        if self.names.hits:
            return min(cached, prompt - 1)
        if not problems and cached >= prompt:
            problems.append(f"{name} {cached} leaves no uncached token of {prompt} prompt tokens")
        return cached

    @staticmethod
    def _missing(name: str, cells: Mapping[str, str]) -> str:
        match = nearest(name, [key for key in cells if key])
        return f"missing {name!r}" + (f"; nearest present: {match!r}" if match else "")
