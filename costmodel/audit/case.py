"""A record under examination: its runs, and what each is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ..records import Figure, Record, Stated
from .runs import Run, Series, runs_of, series_of
from .subject import Subject, subject_of

#: Statistics that a sum or a product of means is made of; a single request or a fixed batch states none.
MEANS = ("mean", None)


@dataclass(frozen=True)
class Case:
    """A record, and conditions ``given`` by the user to compute with: they stay absent from the record."""

    record: Record
    given: Mapping[str, Stated] = field(default_factory=dict, hash=False)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Runs of the record."""
        return tuple(runs_of(self.record))

    @cached_property
    def series(self) -> tuple[Series, ...]:
        """Series of the record."""
        return tuple(series_of(self.record))

    def subject(self, run: Run, figure: Figure | None = None) -> Subject:
        """Return what a run, or one figure of it, is about."""
        own = figure.conditions if figure else {}
        return subject_of({**self.given, **run.conditions, **own})

    def each(self, *metrics: str) -> Iterator[tuple[Run, Figure]]:
        """Yield the figures of these metrics, each once, with the first run that it belongs to."""
        seen: set[int] = set()
        for run in self.runs:
            for figure in run.all(*metrics):
                if id(figure) not in seen:
                    seen.add(id(figure))
                    yield run, figure


def numeric(value: Stated | None) -> float | None:
    """Return a stated condition that is a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
