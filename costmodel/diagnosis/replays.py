"""Replays of a run: as predicted, and with each kind of operator off by as much as it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import pstdev

from ..audit.subject import Unknown
from ..decision.bands import COPY
from ..evaluate.ideal import Ideal
from ..evaluate.logged import Notices
from ..evaluate.replay import Replay
from ..evaluate.timeline import Record
from ..inputs.efficiency import COVER
from ..inputs.workload import Slo
from ..serving.band import WHOLE, edges, factors, moves, spread, used_kinds
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import seconds_by_kind
from ..serving.strategies import Strategy
from ..serving.table import StepTable, step_tables
from ..serving.work import Chunk
from ..whole.stacks import known_stacks
from .bounded import bound_of
from .detail import statistic
from .offered import Offered
from .ran import Ran

#: Requests that are replayed under each moved kind; they are the same ones, so that their noise cancels.
PROBE = 600
#: A kind that moves steps by less than this is not replayed: it shows in no root of a sum of squares.
_NEGLIGIBLE = 0.02
#: Draws of a process by which the noise of one is told.
_SEEDS = (2, 3, 4, 5)
#: Seconds below which a time is what rounding left of none.
_NOTHING = 1e-9
_TABLES = (
    "these step times were fitted to a log as a whole: how far single kinds of operators are off is not known"
)
_NO_WAIT = "nothing of it is predicted: a band of factors has no width"
#: Measures whose stack error is that of TTFT; all others are made of decode steps.
_FIRST = ("ttft", "prefill_queue_time", "prefill_time")

Tables = Mapping[InstanceKind, StepTable]


@dataclass(frozen=True)
class Banded:
    """What is predicted of a figure, SI: best, the band about it (None with the ``reason``) and its physical bound.

    ``front_end``: the most that an engine may take outside of steps besides, where that is not known.
    """

    best: float
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    reason: str | None = None
    front_end: float = 0.0


@dataclass(frozen=True)
class Played:
    """Requests of one replay that count, by index; ``offsets``: seconds from arrival to what its log counts from.

    ``everyone``: those of its start and end, too.
    """

    records: tuple[Record, ...]
    span_s: float
    offsets: tuple[float, ...] = ()
    everyone: tuple[Record, ...] = ()

    def seconds(self, measure: str) -> list[float]:
        """Seconds of a measure, of the requests that have it."""
        find = SECONDS[measure]
        shift = self.offsets if measure in _FROM_ARRIVAL and self.offsets else (0.0,) * len(self.records)
        found = ((find(record), offset) for record, offset in zip(self.records, shift))
        return [value - offset for value, offset in found if value is not None]

    def value(self, measure: str, word: str) -> float | None:
        """A statistic of a measure, seconds, or a rate, per second; None where no request has it."""
        if measure in RATES:
            return RATES[measure](self.records) / self.span_s if self.span_s > 0 else None
        if measure == "duration":
            return self.span_s
        if measure == "itl":
            gaps = sum(record.request.output_tokens - 1 for record in self.records)
            return sum(self.seconds("decode_time")) / gaps if gaps else None
        values = self.seconds(measure)
        return statistic(values, word) if values else None


def _tokens(records: Sequence[Record]) -> float:
    return float(sum(record.request.output_tokens for record in records))


def _prompts(records: Sequence[Record]) -> float:
    return float(sum(record.request.isl for record in records))


#: Times of a request that a result may state, as a replay has them.
SECONDS: dict[str, Callable[[Record], float | None]] = {
    "ttft": lambda r: r.ttft,
    "tpot": lambda r: r.tpot,
    "e2e": lambda r: r.e2e,
    "prefill_queue_time": lambda r: r.p0 - r.request.arrival_s,
    "prefill_time": lambda r: r.p1 - r.p0,
    "decode_time": lambda r: r.end - r.first if r.request.output_tokens > 1 else None,
    "kv_transfer_time": lambda r: r.link + r.handover if r.route == "remote" else None,
    "decode_queue_time": lambda r: r.seating if r.route == "remote" else None,
}
#: Those that count from the arrival, or from when the engine took notice where a log counts so.
_FROM_ARRIVAL = ("ttft", "e2e", "prefill_queue_time")
RATES: dict[str, Callable[[Sequence[Record]], float]] = {
    "request_throughput": lambda records: float(len(records)),
    "output_throughput": _tokens,
    "input_throughput": _prompts,
    "total_throughput": lambda records: _tokens(records) + _prompts(records),
}


def front_end(ran: Ran) -> float:
    """Seconds of TTFT that an engine may add outside of steps, where no stack says so: the most that any stack has.

    It is no part of the band.
    """
    if all(kind.stack is not None for kind in ran.deployment.kinds):
        return 0.0
    fits = [
        fit for stack in known_stacks() if stack.engine in (ran.engine, None) for fit in stack.fits.values()
    ]
    fits = fits or [fit for stack in known_stacks() for fit in stack.fits.values()]
    return max(fit.parameters.request_latency for fit in fits)


def play(
    strategy: Strategy, deployment: Deployment, load: Offered, tables: Tables, *, queued: bool = False
) -> Played:
    """Replay a load. ``queued``: times count from when the engine takes notice of a request.

    Raises NoAnswerError for a request whose KV never fits.
    """
    made = Replay(strategy, deployment, Slo(), tables, Ideal(list(tables.values())))
    notices = Notices(made.router)
    if queued:
        made.router = notices
    found: list[Record] = []
    span = made.run(load.requests, found.append, load.concurrency)
    found.sort(key=lambda record: record.index)
    offsets: tuple[float, ...] = ()
    if queued:
        offsets = tuple(notices.times[r.index] - r.request.arrival_s + r.constant for r in found)
    everyone = tuple(found)
    if load.settled:
        kept = slice(len(found) // 5, len(found) - len(found) // 20)
        found, offsets = found[kept], offsets[kept]
        span = max(r.end for r in found) - min(r.request.arrival_s for r in found)
    return Played(tuple(found), span, offsets, everyone)


class Replays:
    """Replays of what ran under its load, each made once. ``tables``: step times in place of those of operators."""

    def __init__(
        self,
        ran: Ran,
        load: Offered,
        tables: Callable[[InstanceKind], StepTable] | None = None,
        *,
        queued: bool = False,
    ) -> None:
        self.ran, self.load, self.queued = ran, load, queued
        kinds = ran.deployment.kinds
        self.fitted = tables is not None
        self.tables: Tables = {kind: tables(kind) for kind in kinds} if tables else step_tables(kinds)
        self.probe = load.first(PROBE)
        self._moved: dict[tuple[str, float], Played] = {}

    def played(
        self, load: Offered, deployment: Deployment | None = None, strategy: Strategy | None = None
    ) -> Played:
        """Replay another load, deployment or strategy. Raises Unknown for other kinds of instances at fitted times."""
        ran, made = self.ran, deployment or self.ran.deployment
        tables = self.tables
        if not made.kinds <= tables.keys():
            if self.fitted:
                raise Unknown("step times that were fitted to a log are of its own kinds of instances")
            tables = step_tables(made.kinds)
        return play(strategy or ran.strategy, made, load, tables, queued=self.queued)

    @cached_property
    def nominal(self) -> Played:
        """The run as predicted."""
        return self.played(self.load)

    @cached_property
    def base(self) -> Played:
        """The requests that are replayed again and again, as predicted."""
        return self.nominal if self.probe.requests == self.load.requests else self.played(self.probe)

    @cached_property
    def redrawn(self) -> list[Played]:
        """The same with other draws of the arrivals; none where they are not drawn."""
        return [self.played(self.probe.again(seed)) for seed in _SEEDS] if self.load.drawn else []

    # --- bands ---------------------------------------------------------------------------------------

    def off(self, measure: str) -> dict[str, float]:
        """How far each kind of operator that moves steps may be off, the whole step, and the copy."""
        found: dict[str, float] = {}
        like = "ttft" if measure in _FIRST else "tpot"
        for kind in self.ran.deployment.kinds:
            own = edges(kind, used_kinds(kind), like)
            for parts in self._steps(kind):
                total = sum(parts.values())
                for (name, edge), width in zip(own.items(), moves(parts, own)):
                    if width >= _NEGLIGIBLE * total:
                        found[name] = max(found.get(name, 0.0), edge)
        error = self.ran.deployment.path.connector.held_out_mape
        if error and not self.ran.strategy.pooled:
            found[COPY] = COVER * error
        return found

    def _steps(self, kind: InstanceKind) -> list[dict[str, float]]:
        """Seconds by kind of operator of a typical prompt alone, of decodes, and of both in one step."""
        requests = self.probe.requests
        prompt = max(1, round(sum(r.uncached_tokens for r in requests) / len(requests)))
        mean = sum(r.isl + r.output_tokens / 2 for r in requests) / len(requests)
        most = self.load.concurrency or 16
        batch = max(1, min(self.ran.deployment.settings.max_seqs, most))
        chunk = Chunk(min(prompt, self.ran.deployment.settings.token_budget))
        return [
            seconds_by_kind(kind, (chunk,), 1, 0, 0.0),
            seconds_by_kind(kind, (), 0, batch, batch * mean),
            seconds_by_kind(kind, (chunk,), 1, batch, batch * mean),
        ]

    def step_spread(self, measure: str) -> float:
        """Factor of the band of a typical step of a measure: a prompt's, or decodes'."""
        widest = 1.0
        for kind in self.ran.deployment.kinds:
            parts = self._steps(kind)[0 if measure in _FIRST else 1]
            total = sum(parts.values())
            off = edges(kind, used_kinds(kind), "ttft" if measure in _FIRST else "tpot")
            widest = max(widest, spread(total, [total + width for width in moves(parts, off)]))
        return widest

    def moved(self, name: str, error: float) -> Played:
        """The probe with a kind of operator, the whole step or the copy slower by an error (a fraction, signed)."""
        key = name, error
        if key not in self._moved:
            deployment, tables = self.ran.deployment, self.tables
            if name == COPY:
                path = replace(deployment.path, time_factor=1 + error)
                deployment = replace(deployment, path=path)
            else:
                tables = {
                    kind: table.with_factors(factors(kind, name, error)) for kind, table in tables.items()
                }
            self._moved[key] = play(self.ran.strategy, deployment, self.probe, tables, queued=self.queued)
        return self._moved[key]

    def all_steps(self, factor: float) -> Played:
        """The probe with all steps longer by a factor."""
        return self.moved(WHOLE, factor - 1)

    def predicted(self, measure: str, word: str) -> Banded | None:
        """Return what is predicted of a statistic of a measure, with its band; None where no request has it."""
        best = self.nominal.value(measure, word)
        if best is None:
            return None
        best = 0.0 if abs(best) < _NOTHING else best
        bound = bound_of(self.ran, self.load, measure, word)
        if self.fitted:
            return Banded(best, bound=bound, reason=_TABLES)
        base = self.base.value(measure, word)
        others = [self.moved(*each).value(measure, word) for each in self.off(measure).items()]
        if not base or base <= 0 or any(value is None or value <= 0 for value in others):
            return Banded(best, bound=bound, reason=_NO_WAIT)
        logs = [math.log(value) for played in self.redrawn if (value := played.value(measure, word))]
        noise = [base * math.exp(pstdev([math.log(base), *logs]))] if logs else []
        factor = spread(base, [value for value in others if value is not None] + noise)
        front = front_end(self.ran) if measure in ("ttft", "e2e") and not self.queued else 0.0
        return Banded(best, max(best / factor, bound or 0.0), best * factor, bound, front_end=front)
