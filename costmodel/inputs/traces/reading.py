"""How a trace is to be read, and what its reader noted beside the requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import InputError, unknown

COLD, INFINITE = "cold", "infinite"
NO_HASHES = "has no hashes of prompt blocks, which an infinite prefix cache needs"


@dataclass(frozen=True)
class Reading:
    """How to read a trace.

    ``prefix``: "cold", a prompt's cached tokens are those that the file records, else none; "infinite", those
    that a shared cache without bound would hold, from the hashes of its blocks. ``sessions``: a later turn
    of a session finds cached what the earlier one left. ``timed``: False also takes requests without arrival
    times; they arrive with the row before. ``select``: read only rows with these texts in these CSV columns.
    ``block_tokens``: tokens of a hashed block, where they are not those of the format.
    Raises InputError for values that contradict each other.
    """

    prefix: str = COLD
    sessions: bool = False
    timed: bool = True
    select: Mapping[str, str] = field(default_factory=dict)
    block_tokens: int | None = None

    def __post_init__(self) -> None:
        problems = []
        if self.prefix not in (COLD, INFINITE):
            problems.append(unknown("prefix cache", self.prefix, (COLD, INFINITE)))
        if self.sessions and self.prefix == INFINITE:
            problems.append("sessions and an infinite prefix cache both say what is cached; ask for one")
        if self.block_tokens is not None and self.block_tokens < 1:
            problems.append(f"a block holds at least 1 token, not {self.block_tokens}")
        if problems:
            raise InputError(problems)


@dataclass
class Notes:
    """What a reader says about a trace: filled in while its requests are read.

    ``format`` and ``unread`` (columns or keys that are not read) stand before the first request; ``skipped``
    counts rows by the reason why they are no request.
    """

    format: str = ""
    unread: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    has_arrivals: bool = True
    has_blocks: bool = False
    has_sessions: bool = False

    def skip(self, reason: str) -> None:
        """Count a row that is no request."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def told(self) -> str:
        """Return what is not read, for a reader; empty where everything is."""
        said = [f"columns not read: {', '.join(self.unread)}"] if self.unread else []
        said += [f"{count:,} rows skipped: {reason}" for reason, count in self.skipped.items()]
        return "; ".join(said)
