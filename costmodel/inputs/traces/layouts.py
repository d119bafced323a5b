"""CSV traces by their headers: which column of which format says what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...errors import InputError, nearest
from .checks import NO_TIMES, Names
from .clocks import Clock, Dates, Seconds
from .reading import Notes, Reading

#: Columns in which engines' logs say what was measured, seconds.
MEASURED = ("queue_s", "ttft_s", "ttft_from_queued_s", "e2e_s", "e2e_from_queued_s", "tpot_s")
#: Columns that tell the runs of a log apart.
RUN = ("gpu", "model", "tp", "max_num_seqs", "max_num_batched_tokens", "vllm")


@dataclass(frozen=True)
class Layout:
    """A CSV format: its name and columns, whether times are dates, whether rows without tokens are skipped."""

    name: str
    names: Names
    dated: bool = False
    skips_empty: bool = False

    def clock(self) -> Clock:
        """Return a clock that reads the format's times."""
        return Dates() if self.dated else Seconds()


OWN = Layout(
    "costmodel CSV",
    Names(
        "arrival_s",
        "prompt_tokens",
        "output_tokens",
        cached="cached_tokens",
        hits="cached_prefix_tokens",
        session="session_id",
        ident="request_id",
    ),
)
LAYOUTS = (
    OWN,
    Layout(
        "Azure LLM inference CSV",
        Names("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
        dated=True,
        skips_empty=True,
    ),
    Layout(
        "BurstGPT CSV",
        Names("Timestamp", "Request tokens", "Response tokens", session="Session ID"),
        skips_empty=True,
    ),
)


@dataclass(frozen=True)
class Table:
    """A header understood: where each field of a layout stands, None where it does not.

    ``runs`` are the columns that tell a log's runs apart, ``select`` those by which rows are chosen.
    """

    layout: Layout
    names: Names
    header: tuple[str, ...]
    runs: tuple[int, ...]
    select: tuple[tuple[int, str], ...]

    def place(self, name: str) -> int:
        """Return the place of a column, from 0."""
        return self.header.index(name)

    def run(self, cells: Sequence[str]) -> list[str]:
        """Return what tells the run of a row."""
        return [cells[place] for place in self.runs]


def understand(header: Sequence[str], where: str, how: Reading, notes: Notes) -> Table:
    """Return what a header says. Raises InputError for columns that are missing or stand twice."""
    layout = max(LAYOUTS, key=lambda known: len(_required(known.names) & set(header)))
    names = _present(layout.names, header)
    problems = _problems(layout, names, header, how)
    if problems:
        raise InputError(problems, where=where)
    log = any(name in header for name in MEASURED)
    runs = [name for name in RUN if log and name in header]
    read = {*vars(names).values(), *runs, *how.select}
    notes.format = "request log CSV" if log else layout.name
    notes.unread += [
        name or f"number {i + 1}" for i, name in enumerate(header) if name not in read or not name
    ]
    notes.has_sessions = names.session in header and bool(names.session)
    notes.has_arrivals = names.arrival in header
    select = tuple((header.index(name), text) for name, text in how.select.items())
    return Table(layout, names, tuple(header), tuple(map(header.index, runs)), select)


def _required(names: Names) -> set[str]:
    return {names.arrival, names.prompt, names.output}


def _present(names: Names, header: Sequence[str]) -> Names:
    optional = {part: getattr(names, part) for part in ("cached", "hits", "session", "ident")}
    return replace(names, **{part: name if name in header else "" for part, name in optional.items()})


def _problems(layout: Layout, names: Names, header: Sequence[str], how: Reading) -> list[str]:
    present = [name for name in header if name]
    required = [names.arrival] * how.timed + [names.prompt, names.output]
    problems = [_missing(name, present) for name in [*required, *how.select] if name not in header]
    if how.timed and names.arrival not in header and {names.prompt, names.output} <= set(header):
        problems.append(NO_TIMES)
    read = [name for name in vars(names).values() if name]
    problems += [
        f"column {name!r} stands {header.count(name)} times" for name in read if header.count(name) > 1
    ]
    if names.cached and names.hits:
        problems.append(f"{names.cached} and {names.hits} both say what is cached; keep one")
    if how.sessions and not names.session:
        wanted = layout.names.session
        problems.append(_missing(wanted, present) if wanted else f"{layout.name} has no sessions")
    if how.sessions and (names.cached or names.hits):
        problems.append(f"{names.cached or names.hits} already says what is cached; read it without sessions")
    return problems


def _missing(name: str, present: Sequence[str]) -> str:
    match = nearest(name, present)
    return f"missing column {name!r}" + (f"; nearest present: {match!r}" if match else "")
