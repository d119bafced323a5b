"""A record: what a report states of a run, and the figures it gives. What it does not state is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: A stated condition: SI where it is a quantity.
Stated = str | float | int


@dataclass(frozen=True)
class Figure:
    """A figure of a report, in the SI unit of its metric; ``high`` is the upper end where it is a range.

    ``metric`` is a name of :data:`.vocabulary.METRICS`, or the report's own word where it is none of them
    (``dimension`` None: nothing can be computed from it). ``text``: value and unit as written. ``statistic``: mean,
    p50, p95, ..., None where not stated. ``conditions``: what holds for this figure besides the record's.
    ``per_gpu``: it was divided by the number of GPUs.
    """

    name: str
    metric: str
    value: float
    dimension: str | None
    text: str
    unit: str = ""
    statistic: str | None = None
    high: float | None = None
    conditions: Mapping[str, Stated] = field(default_factory=dict, hash=False)
    note: str | None = None
    per_gpu: bool = False


@dataclass(frozen=True)
class Record:
    """A report: its stated conditions by the names of :data:`.vocabulary.CONDITIONS`, and its figures.

    ``form``: the format it was read from. ``confidence``: primary, abstract, secondary or computed. ``unread``: keys
    that nothing here understands, as they stand. ``rows``: which requests of its file are those of this run, by
    column and text; empty: all.
    """

    name: str
    where: str
    form: str
    figures: tuple[Figure, ...]
    conditions: Mapping[str, Stated] = field(default_factory=dict, hash=False)
    source: str | None = None
    confidence: str | None = None
    title: str | None = None
    unread: Mapping[str, object] = field(default_factory=dict, hash=False)
    warnings: tuple[str, ...] = ()
    rows: Mapping[str, str] = field(default_factory=dict, hash=False)

    def conditions_of(self, figure: Figure) -> dict[str, Stated]:
        """Return the record's conditions and those of one figure, which count first."""
        return {**self.conditions, **figure.conditions}
