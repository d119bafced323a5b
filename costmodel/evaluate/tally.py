"""Statistics of a run of any length: requests come in one after the other and are forgotten."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from ..inputs.workload import Slo
from .summary import Stages
from .timeline import ACCOUNTS, Record

if TYPE_CHECKING:
    from .columns import Array, Columns
    from .kept import Kept
    from .streamed import Streamed

#: Requests up to which every value is kept, and those that go into the sketches at a time beyond.
KEPT, _CHUNK = 50_000, 16_384
#: Records that wait to become columns.
_BLOCK = 4096
_SLOWEST = 5
_ORDERS = {"ttft": attrgetter("ttft"), "e2e": attrgetter("e2e")}
_index = attrgetter("index")


@dataclass(frozen=True)
class Distribution:
    """Seconds: mean, quantiles and largest value; mean and largest are exact."""

    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True)
class Totals:
    """Figures of the requests so far.

    ``finished`` and ``ideal_prefill_s`` (a sum) are of all requests, the rest of the ``counted`` ones;
    means and quantiles are None where none counts. ``queue`` is the waits for prefill and for decode.
    ``ledger``: mean accounts, ideal and E2E, as ``summary.mean_ledger`` has them; ``recomputed_prefix_s``: the part of
    its stretch that computes what the ideal has cached. ``attainment_error``
    and ``delay_error``: standard errors; ``ttft_p95_ci_s``: half-width of the 95 % confidence interval;
    None below 20 requests a batch. ``quantiles`` says how exact they are.
    """

    finished: int
    ideal_prefill_s: float
    counted: int
    local_share: float | None
    preemptions: int
    prompt_tokens: int
    output_tokens: int
    ttft: Distribution | None
    tpot: Distribution | None
    e2e: Distribution | None
    delay: Distribution | None
    queue: Distribution | None
    ledger: dict[str, float] | None
    ttft_p95_stages: Stages | None
    met: int
    attainment: float | None
    attainment_error: float | None
    delay_error: float | None
    ttft_p95_ci_s: float | None
    held_byte_s: float | None
    recomputed_prefix_s: float | None
    slowest_ttft: tuple[Record, ...]
    slowest_e2e: tuple[Record, ...]
    quantiles: str


def settled(requests: int) -> range:
    """Return the indices between warm-up and drain, as ``summary.settled`` picks them."""
    return range(requests // 5, requests - requests // 20)


class _Moments:
    """Count, sum and largest of one column."""

    def __init__(self) -> None:
        self.count, self.total, self.highest = 0, 0.0, -math.inf

    def add(self, column: Array) -> None:
        if len(column):
            self.count += len(column)
            self.total += float(column.sum())
            self.highest = max(self.highest, float(column.max()))


class Tally:
    """Takes finished requests in the order of finishing and gives their figures at any time.

    ``first_token``: where the first token comes from, as the deployment has it. ``exact`` keeps every
    value, 8 bytes each; otherwise memory stays constant beyond 50,000 requests, and quantiles are within
    0.1 %. ``counted``: the values of ``Record.index`` that count; all where it is None.
    """

    def __init__(self, slo: Slo, first_token: str, exact: bool = False, counted: range | None = None) -> None:
        self._slo, self._first_token, self._exact, self._counted = slo, first_token, exact, counted
        self._waiting: list[Record] = []
        self._finished = self._preempted = self._met = 0
        self._ideal_prefill_s = 0.0
        self._moments: dict[str, _Moments] = {}
        self._sums: dict[str, float] = {}
        self._slowest: dict[str, list[Record]] = {order: [] for order in _ORDERS}
        self._kept: Kept | None = None
        self._streamed: Streamed | None = None

    def prepare(self) -> None:
        """Import what the first block of requests will need, before anything is timed."""
        from . import columns, kept  # noqa: F401

    def add(self, record: Record) -> None:
        """Add a request whose last token is out."""
        self._waiting.append(record)
        if len(self._waiting) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        from .columns import read

        records, self._waiting = self._waiting, []
        self._finished += len(records)
        self._ideal_prefill_s += math.fsum(r.ideal_prefill for r in records)
        if self._counted is not None:
            records = [r for r in records if _index(r) in self._counted]
        if not records:
            return
        columns, sums = read(records, self._slo, self._first_token)
        # a sum of sums over thousands: it would take 10 million of them to lose nine digits
        for name, value in sums.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        for name, column in columns.values.items():
            self._moments.setdefault(name, _Moments()).add(column)
        self._preempted += sum(getattr(r, "preempted", 0) for r in records)
        self._met += int(columns.met.sum())
        self._note_slowest(records, columns)
        self._store(columns)

    def _note_slowest(self, records: list[Record], columns: Columns) -> None:
        for name, order in _ORDERS.items():
            near = (-columns.values[name]).argsort(kind="stable")[:_SLOWEST]
            rivals = self._slowest[name] + [records[i] for i in near]
            self._slowest[name] = heapq.nlargest(_SLOWEST, rivals, key=order)

    def _store(self, columns: Columns) -> None:
        from .kept import Kept

        self._kept = self._kept or Kept()
        self._kept.add(columns)
        if not self._exact and self._kept.count > (_CHUNK if self._streamed else KEPT):
            self._stream(self._kept)

    def _stream(self, kept: Kept) -> None:
        from .batches import MOST
        from .streamed import Streamed

        self._streamed = self._streamed or Streamed(KEPT // MOST)
        if kept.count:
            self._streamed.add(kept.take())

    def totals(self) -> Totals:
        """Return the figures of the requests so far; more may follow."""
        if self._waiting:
            self._flush()
        if self._streamed and self._kept:
            self._stream(self._kept)
        source = self._streamed or self._kept
        count = self._moments["ttft"].count if source else 0
        means = {name: value / count for name, value in self._sums.items()}
        accounts = (*(f"{name}_s" for name in ACCOUNTS), "ideal_s", "e2e_s")
        attainment_error, delay_error, interval = _errors(source)
        return Totals(
            finished=self._finished,
            ideal_prefill_s=self._ideal_prefill_s,
            counted=count,
            local_share=means.get("local"),
            preemptions=self._preempted,
            prompt_tokens=int(self._sums.get("prompt", 0)),
            output_tokens=int(self._sums.get("output", 0)),
            ttft=self._distribution("ttft", source),
            tpot=self._distribution("tpot", source),
            e2e=self._distribution("e2e", source),
            delay=self._distribution("delay", source),
            queue=self._distribution("queue", source),
            ledger={name: means[name] for name in accounts} if count else None,
            ttft_p95_stages=source.p95_stages() if source else None,
            met=self._met,
            attainment=self._met / count if count else None,
            attainment_error=attainment_error,
            delay_error=delay_error,
            ttft_p95_ci_s=interval,
            held_byte_s=means.get("held_byte_s"),
            recomputed_prefix_s=means.get("recomputed_prefix_s"),
            slowest_ttft=tuple(self._slowest["ttft"]),
            slowest_e2e=tuple(self._slowest["e2e"]),
            quantiles=source.label if source else "exact",
        )

    def _distribution(self, name: str, source: Kept | Streamed | None) -> Distribution | None:
        moments = self._moments.get(name)
        if source is None or moments is None or not moments.count:
            return None
        p50, p90, p95, p99 = source.quantiles(name, (0.5, 0.9, 0.95, 0.99))
        return Distribution(moments.total / moments.count, p50, p90, p95, p99, moments.highest)


def _errors(source: Kept | Streamed | None) -> tuple[float | None, float | None, float | None]:
    """Return the errors of attainment and mean delay, and the half-width of the interval of P95 TTFT."""
    batches = source.batches() if source else []
    if not batches:
        return None, None, None
    from .batches import STUDENT, error

    spread = error([b.ttft_p95_s for b in batches])
    interval = STUDENT[len(batches)] * spread
    return error([b.attainment for b in batches]), error([b.delay_s for b in batches]), interval
