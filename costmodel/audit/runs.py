"""Runs of a record: its figures that belong together because their conditions agree, and series of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..records import Figure, Record, Stated
from ..records.conditions import told

#: Conditions that say nothing of the run itself: figures of one run may differ in them.
OF_FIGURES = ("payload", "descriptors", "slo", "slo_ttft", "slo_tpot", "ttft_from", "tpot_definition",
              "throughput_counts", "prompt_characters", "kv_bytes_per_token", "peak_flops", "memory_bandwidth",
              "memory")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """Figures that were, by what the report states, measured together; ``conditions``: all that it states of them."""

    record: str
    conditions: Mapping[str, Stated] = field(hash=False)
    figures: tuple[Figure, ...]

    @property
    def name(self) -> str:
        """What tells the run apart, in words."""
        words = [f"{key} {told(key, self.conditions[key])}" for key in _TELLING if key in self.conditions]
        return ", ".join(words) or self.record

    def all(self, *metrics: str) -> list[Figure]:
        """Return the figures of these metrics."""
        return [figure for figure in self.figures if figure.metric in metrics]

    def get(self, metric: str, *statistics: str | None) -> Figure | None:
        """Return the figure of a metric, by the first of these statistics that there is (none: any)."""
        found = self.all(metric)
        if not statistics:
            return found[0] if found else None
        return next((f for s in statistics for f in found if f.statistic == s), None)

    def number(self, key: str, figure: Figure | None = None) -> float | None:
        """Return a condition that is a number, of one figure or of the run; None where it is not stated."""
        value = (figure.conditions.get(key) if figure else None) or self.conditions.get(key)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, key: str) -> str:
        """Return a condition in small letters, "" where it is not stated."""
        return str(self.conditions.get(key, "")).lower()


_TELLING = ("workload", "strategy", "topology", "scenario", "concurrency", "batch", "arrival_rate", "burst", "tp",
            "input_tokens", "output_tokens", "cache_state")  # fmt: skip


def runs_of(record: Record) -> list[Run]:
    """Return the runs of a record. A figure joins every run that agrees with all its own conditions.

    A figure of no run's conditions but the record's (bytes of a token, say) belongs to all of them, but for runs that
    have the same metric and statistic of their own: that is another measurement, and makes another run.
    """
    keys = [_own(figure) for figure in record.figures]
    made = [_run(record, own, keys) for own in _widest(keys) or [frozenset()]]
    taken = {id(figure) for run in made for figure in run.figures}
    left = [key for figure, key in zip(record.figures, keys) if id(figure) not in taken]
    return made + [_run(record, own, keys) for own in dict.fromkeys(left)]


def _widest(keys: Sequence[frozenset[tuple[str, Stated]]]) -> list[frozenset[tuple[str, Stated]]]:
    """The sets of conditions that are part of no other, in their order."""
    distinct = list(dict.fromkeys(keys))
    return [key for key in distinct if not any(key < other for other in distinct)]


def _run(
    record: Record, own: frozenset[tuple[str, Stated]], keys: Sequence[frozenset[tuple[str, Stated]]]
) -> Run:
    """The run of a set of conditions: of each metric and statistic the figures that state most of them."""
    agreeing = [(figure, key) for figure, key in zip(record.figures, keys) if key <= own]
    by_kind: dict[tuple[str, str | None], list[frozenset[tuple[str, Stated]]]] = {}
    for figure, key in agreeing:
        by_kind.setdefault((figure.metric, figure.statistic), []).append(key)
    chosen = [
        (figure, key)
        for figure, key in agreeing
        if not any(key < other for other in by_kind[figure.metric, figure.statistic])
    ]
    stated = {**record.conditions, **dict(own)}
    for figure, key in chosen:
        if key == own:
            stated.update({k: v for k, v in figure.conditions.items() if k not in stated})
    return Run(record.name, stated, tuple(figure for figure, _ in chosen))


def _own(figure: Figure) -> frozenset[tuple[str, Stated]]:
    return frozenset((k, v) for k, v in figure.conditions.items() if k not in OF_FIGURES)


@dataclass(frozen=True)
class Series:
    """One metric while one condition varies: points of (condition, figure), by the condition."""

    metric: str
    statistic: str | None
    varies: str
    points: tuple[tuple[float, Figure], ...]
    run: Run

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its figures."""
        return tuple(figure.name for _, figure in self.points)


VARYING = (
    "concurrency",
    "burst",
    "input_tokens",
    "payload",
    "descriptors",
    "descriptor_bytes",
    "arrival_rate",
    "batch",
    "tp",
    "max_num_batched_tokens",
)


def series_of(record: Record, fewest: int = 3) -> Iterator[Series]:
    """Yield the series of a record with at least ``fewest`` points."""
    for varies in VARYING:
        groups: dict[tuple[str, str | None, frozenset[tuple[str, Stated]]], list[tuple[float, Figure]]] = {}
        for figure in record.figures:
            stated = record.conditions_of(figure)
            value = stated.get(varies)
            if not isinstance(value, int | float):
                continue
            rest = frozenset(
                (k, v) for k, v in stated.items() if k not in (varies, *_FOLLOWING.get(varies, ()))
            )
            groups.setdefault((figure.metric, figure.statistic, rest), []).append((float(value), figure))
        for (metric, statistic, rest), points in groups.items():
            if len({x for x, _ in points}) >= fewest:
                ordered = tuple(sorted(points, key=lambda point: point[0]))
                figures = tuple(figure for _, figure in ordered)
                run = Run(record.name, dict(rest), figures)
                yield Series(metric, statistic, varies, ordered, run)


#: Conditions that follow from another one that varies.
_FOLLOWING = {"input_tokens": ("payload", "descriptors"), "payload": ("input_tokens", "descriptors"),
              "descriptor_bytes": ("payload",), "tp": ("gpus", "hardware")}  # fmt: skip


def named(figures: Sequence[Figure]) -> tuple[str, ...]:
    """Return the names of figures."""
    return tuple(figure.name for figure in figures)
