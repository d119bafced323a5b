"""One strategy replayed over a load of any length, and whether it keeps up with it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ..evaluate import summary
from ..evaluate.closed import ClosedForm, Means, PoolLoad
from ..evaluate.ideal import Ideal
from ..evaluate.means import TIER, pool_label
from ..evaluate.replay import Replay
from ..evaluate.story import Story, e2e_story, ttft_story
from ..evaluate.tally import Tally, Totals
from ..evaluate.timeline import PoolUse, PrefixUse, Record
from ..inputs.workload import Arrivals, Request, Slo, Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import step_times
from ..serving.strategies import Strategy
from ..serving.table import StepTable
from .comparison import Progress, silent
from .figures import figures, pools
from .results import StrategyResult
from .reuse import Seen, cold, gain, places, tier_results
from .tier_results import ReuseGain

#: Requests between two looks at the backlog, and the fewest at which a run is given up.
_LOOK, _FEWEST = 1000, 3000
#: Share of all arrivals that wait where a run counts as falling behind.
_BEHIND = 0.1
#: Requests from which on a load has a rate that says something.
_RATED = 100
#: Requests of a load that stand for all of them in closed forms.
_SAMPLE = 256
#: Utilisation above which percentiles of a run of usual length are mostly noise.
NOISY = 0.9


@dataclass(frozen=True)
class Window:
    """Busy share of a pool's instances between two moments, seconds."""

    pool: str
    start_s: float
    end_s: float
    busy_share: float


@dataclass(frozen=True)
class Replayed(StrategyResult):
    """A strategy's figures over a whole load, and what only a replay has.

    ``rate_per_s``: arrivals (open loop) or completions (closed loop) a second. ``quantiles``: how exact
    percentiles are. ``requests_per_cpu_s``: requests replayed a second of CPU. ``backlog_per_s``: by how many
    requests a second those grow that wait, where the strategy cannot keep up. ``slowest``: by TTFT and by
    E2E, with why. ``reuse``: what KV tiers gain on these requests.
    """

    rate_per_s: float | None = None
    span_s: float | None = None
    preemptions: int = 0
    unfinished: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    ttft_p90_s: float | None = None
    ttft_max_s: float | None = None
    tpot_p90_s: float | None = None
    tpot_p95_s: float | None = None
    e2e_mean_s: float | None = None
    e2e_p50_s: float | None = None
    e2e_p95_s: float | None = None
    e2e_p99_s: float | None = None
    queue_p95_s: float | None = None
    attainment_error: float | None = None
    delay_error_s: float | None = None
    quantiles: str = ""
    requests_per_cpu_s: float | None = None
    backlog_per_s: float | None = None
    utilisation_over_time: tuple[Window, ...] = ()
    slowest: tuple[Story, ...] = ()
    reuse: ReuseGain | None = None


@dataclass(frozen=True)
class Source:
    """What is replayed: ``requests`` in order of arrival, afresh at each call unless ``once``, or ``concurrency``
    clients' worth.

    ``transient`` asks for percentiles also where the strategy cannot keep up: those of this very load.
    """

    name: str
    requests: Callable[[], Iterable[Request]]
    slo: Slo
    concurrency: int | None = None
    transient: bool = False
    exact: bool = False
    once: bool = False


Sink = Callable[[Record], object]


@dataclass
class Sinks:
    """Where finished requests go besides the figures; ``busy`` gets the windows at the end."""

    records: list[Sink] = field(default_factory=list)
    busy: list[Callable[[str, Sequence[tuple[float, float, float]]], object]] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)


class _Watch:
    """Passes requests on, keeps an even sample of them, and looks at the backlog now and then."""

    def __init__(self, source: Source, backlog: Callable[[], int], behind: Callable[[_Watch], bool]) -> None:
        self.source, self._backlog, self._behind = source, backlog, behind
        self.arrived = 0
        self.first = self.last = 0.0
        self.sample: list[Request] = []
        self.backlog = 0
        self._squares = 0.0

    def __iter__(self) -> Iterator[Request]:
        arrived, last, squares, stride = 0, 0.0, 0.0, 1
        for request in self.source.requests():
            if not arrived:
                self.first = last = request[0]
            if arrived % stride == 0:
                self.sample.append(request)
                if len(self.sample) > 2 * _SAMPLE:
                    del self.sample[1::2]
                    stride *= 2
            gap = request[0] - last
            squares += gap * gap
            last = request[0]
            arrived += 1
            if arrived % _LOOK == 0:
                self._note(arrived, last, squares)
                if arrived >= _FEWEST and self._behind(self):
                    return
            yield request
        self._note(arrived, last, squares)

    def _note(self, arrived: int, last: float, squares: float) -> None:
        self.arrived, self.last, self._squares = arrived, last, squares
        self.backlog = self._backlog()

    @property
    def span(self) -> float:
        """First to last arrival, seconds."""
        return self.last - self.first

    @property
    def falls_behind(self) -> bool:
        """True while many of all that arrived wait."""
        return self.backlog > max(20, _BEHIND * self.arrived)

    def workload(self) -> Workload | None:
        """The sample as a workload at the load's own rate; None where there is none, or too little to tell it."""
        if self.arrived < _RATED or self.span <= 0:
            return None
        gaps = self.arrived - 1
        mean = self.span / gaps
        cv = max(0.0, self._squares / gaps / mean**2 - 1) ** 0.5
        arrivals = Arrivals(1 / mean, cv)
        return Workload(
            self.source.name,
            arrivals,
            None,
            0,
            None,
            self.source.slo,
            "replayed",
            tuple(self.sample),
            math.inf,
        )


class Player:
    """Replays strategies over one deployment and load; step times and the ideal are shared.

    ``forecast``: whether step times by operator exist, from which closed forms tell what a pool is offered; else,
    and where instances keep prefixes, a strategy keeps up where its backlog stays small.
    """

    def __init__(
        self,
        deployment: Deployment,
        source: Source,
        tables: dict[InstanceKind, StepTable],
        progress: Progress = silent,
        *,
        forecast: bool = True,
    ) -> None:
        self.deployment, self.source, self.tables, self.progress = deployment, source, tables, progress
        self.ideal = Ideal(list(tables.values()))
        self._times = step_times(deployment.kinds) if forecast else None
        self._whole: _Watch | None = None

    def play(self, strategy: Strategy, sinks: Sinks | None = None) -> Replayed:
        """Replay one strategy.

        Raises InputError for a bad request of the load, NoAnswerError for one that fits no instance.
        """
        source, sinks = self.source, sinks or Sinks()
        first_token = self.deployment.settings.first_token
        tally = Tally(source.slo, first_token, source.exact)
        tally.prepare()
        engine = Replay(strategy, self.deployment, source.slo, self.tables, self.ideal)
        bins = engine.watch()

        def finished(record: Record) -> None:
            tally.add(record)
            for sink in sinks.records:
                sink(record)

        def behind(watch: _Watch) -> bool:
            self.progress(f"{strategy.name}: {watch.arrived:,} requests")
            if source.concurrency or source.transient or not watch.falls_behind:
                return False
            engine.stopped = self._hopeless(strategy, watch)
            return engine.stopped

        watch = _Watch(source, engine.backlog, behind)
        started = time.process_time()
        end = engine.run(watch, finished if sinks.records else tally.add, source.concurrency)
        cpu = time.process_time() - started
        shares = {role: kept.shares() for role, kept in bins.items()}
        for told in sinks.busy:
            for role, pool in shares.items():
                told(role, pool)
        windows = tuple(Window(role, *share) for role, pool in shares.items() for share in pool)
        # Of a run that was stopped, the whole load: what has been seen may be a busy stretch of it.
        seen = self._whole if engine.stopped and self._whole is not None else watch
        means = None if source.concurrency else self._means(strategy, seen.workload())
        totals = tally.totals()
        span = end - watch.first
        rate = totals.finished / span if source.concurrency and span > 0 else None
        if rate is None and watch.span > 0:
            rate = (watch.arrived - 1) / watch.span
        uses = engine.uses()
        result = self._blank(strategy, means, uses, watch, totals, rate, stopped=engine.stopped)
        result = replace(
            result,
            span_s=span,
            requests_per_cpu_s=totals.finished / cpu if cpu > 0 else None,
            utilisation_over_time=windows,
            hit_rate_tokens=places(engine.prefix_use()),
            tiers=tier_results(self.deployment, engine.prefix_use()),
        )
        if result.stable or source.transient:
            result = self._filled(result, uses, totals, rate or 0.0)
        if not self.deployment.tiers:
            return result
        return replace(result, reuse=self._gain(strategy, result, engine.prefix_use()))

    def _gain(self, strategy: Strategy, result: Replayed, found: PrefixUse) -> ReuseGain:
        """Replay the same requests without tiers, and compare."""
        deployment, source = self.deployment, self.source
        if source.once:
            bare = Seen(None, None, reason="requests that come once cannot be played without the tiers, too")
        else:
            requests = source.requests

            def without() -> Iterable[Request]:
                return (cold(deployment, request) for request in requests())

            self.progress(f"{strategy.name}: without tiers")
            player = Player(
                deployment.without_tiers(),
                replace(source, requests=without),
                self.tables,
                self.progress,
                forecast=self._times is not None,
            )
            bare = _seen(player.play(strategy), "without")
        return gain(strategy.name, found, result.requests, bare, _seen(result, "with"))

    def _hopeless(self, strategy: Strategy, watch: _Watch) -> bool:
        """Say whether the whole load is more than a strategy can serve, not only the stretch so far.

        Of requests that come only once, what has been seen has to do, and most of it has to wait.
        """
        if self.source.once:
            whole = watch.workload() if 2 * watch.backlog > watch.arrived else None
        else:
            if self._whole is None:
                self._whole = _Watch(self.source, lambda: 0, lambda _: False)
                for _ in self._whole:
                    pass
            whole = self._whole.workload()
        means = self._means(strategy, whole)
        return means is not None and not means.stable

    def _means(self, strategy: Strategy, workload: Workload | None) -> Means | None:
        if workload is None or self._times is None or any(r.blocks for r in workload.requests):
            return None  # what a prefix cache will hold is not known beforehand
        return ClosedForm(self.deployment, workload, self._times).means(strategy)

    def _blank(
        self,
        strategy: Strategy,
        means: Means | None,
        uses: Sequence[PoolUse],
        watch: _Watch,
        totals: Totals,
        rate: float | None,
        *,
        stopped: bool,
    ) -> Replayed:
        """Return a result with all that holds whether or not the strategy keeps up."""
        busiest = max((use.busy_share for use in uses), default=0.0)
        at_once = self.source.concurrency is not None or watch.span <= 0  # no rate to keep up with
        stable = means.stable if means else at_once or not watch.falls_behind
        growth, reason = None, None
        if not stable:
            growth = watch.backlog / watch.span if watch.span > 0 else None
            reason = _overloaded(means, watch, growth, stopped=stopped)
        return Replayed(
            name=strategy.name,
            stable=stable,
            utilisation=busiest if means is None else means.utilisation,
            pools=pools(_busy(uses) if means is None else means.loads, uses),
            method="replay",
            rule=strategy.rule.label if strategy.rule else None,
            requests=watch.arrived,
            finished=totals.finished,
            unfinished=watch.arrived - totals.finished,
            rate_per_s=rate,
            backlog_per_s=growth,
            reason=reason,
            goodput_reason="a replay has one rate; recommend searches the highest good one",
            band_reason="a replay has one set of step times; recommend moves them by their errors",
        )

    def _filled(self, result: Replayed, uses: Sequence[PoolUse], totals: Totals, rate: float) -> Replayed:
        first_token, slo = self.deployment.settings.first_token, self.source.slo
        found = figures(totals, rate, self.deployment, slo=slo.given)
        if not found:
            return replace(result, reason=result.reason or "no request finished")
        ttft, tpot, e2e, queue = totals.ttft, totals.tpot, totals.e2e, totals.queue
        assert ttft is not None and e2e is not None and queue is not None
        stories = [ttft_story(record, first_token) for record in totals.slowest_ttft]
        stories += [e2e_story(record) for record in totals.slowest_e2e]
        return replace(
            result,
            **found,
            preemptions=totals.preemptions,
            prompt_tokens=totals.prompt_tokens,
            output_tokens=totals.output_tokens,
            ttft_p90_s=ttft.p90_s,
            ttft_max_s=ttft.max_s,
            tpot_p90_s=tpot.p90_s if tpot else None,
            tpot_p95_s=tpot.p95_s if tpot else None,
            e2e_mean_s=e2e.mean_s,
            e2e_p50_s=e2e.p50_s,
            e2e_p95_s=e2e.p95_s,
            e2e_p99_s=e2e.p99_s,
            queue_p95_s=queue.p95_s,
            attainment_error=totals.attainment_error if slo.given else None,
            delay_error_s=totals.delay_error,
            gpu_s=summary.gpu_seconds_of(uses, totals.finished, totals.ideal_prefill_s),
            quantiles=totals.quantiles,
            slowest=tuple(stories),
        )


def _busy(uses: Sequence[PoolUse]) -> list[PoolLoad]:
    """A closed loop offers as much as is served: the load of a pool is its busy share."""
    return [PoolLoad(use.role, use.busy_share, use.instances) for use in uses]


def _overloaded(means: Means | None, watch: _Watch, growth: float | None, *, stopped: bool) -> str:
    """Say that a strategy cannot keep up, and by how much it falls behind."""
    if means is None:
        told = f"{watch.backlog:,} of {watch.arrived:,} requests wait at the last arrival"
    else:
        worst = max(means.loads, key=lambda load: load.utilisation)
        told = (
            f"the {pool_label(worst.role)} is offered {worst.utilisation:.2f} times its capacity"
            f"{'' if worst.role.startswith(TIER) else f': {worst.missing_instances:.1f} instances are missing'}"
        )
    if growth is not None and growth > 0:
        told += f"; the backlog grows by {growth:.3g} requests/s"
    if stopped:
        told += f"; stopped after {watch.arrived:,} arrivals, {watch.backlog:,} of them waiting"
    return told


def _seen(result: Replayed, side: str) -> Seen:
    """What a gain is told from."""
    reason = None if result.ttft_mean_s is not None else f"{side} the tiers {result.reason}"
    return Seen(result.ttft_mean_s, result.gpu_s, result.rate_per_s, reason)
