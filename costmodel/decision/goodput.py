"""Goodput: the highest arrival rate at which SLO attainment still reaches its target, by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ..evaluate.closed import ClosedForm
from ..evaluate.ideal import Ideal, smooth
from ..evaluate.replay import replay
from ..evaluate.summary import attainment, attainment_error, mean
from ..evaluate.timeline import Record
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import Strategy
from ..serving.table import StepTable

#: Requests of one probe; the contract of the exact evaluator allows at most 1,000.
PROBE = 600
#: The bisection stops when the bracket is this narrow.
RESOLUTION = 1.02
#: Attainment that falls less than this over a factor e in the rate is flat: the rate is hardly determined.
_FLAT = 0.01
#: Requests in flight, alone, below which a lower rate changes nothing.
_TRICKLE = 0.01
#: Probes within this ratio of each other run to their end, so that the slope of attainment is known there.
_NEAR = 1.3


@dataclass(frozen=True)
class Goodput:
    """Requests per second of the whole deployment; 0 with a reason where even a trickle misses the SLOs.

    ``binding``: the SLO ("ttft" or "tpot") that more requests miss just above that rate; None where stability
    ends it. ``sampling``: relative standard error of the rate from the finite probes, None where unknown.
    """

    rate_per_s: float
    probes: int
    binding: str | None = None
    reason: str | None = None
    sampling: float | None = None


class Probe(NamedTuple):
    """A complete probe: its rate, the attainment there and the standard error of that."""

    rate: float
    share: float
    error: float | None


class Search:
    """Bisects the rate of one strategy. ``seed`` fixes lengths and gaps: a probe only rescales time."""

    def __init__(
        self,
        strategy: Strategy,
        deployment: Deployment,
        workload: Workload,
        times: dict[InstanceKind, StepTimes],
        tables: dict[InstanceKind, StepTable],
        ideal: Ideal,
        seed: int,
        progress: Callable[[str], None],
        probe: int = PROBE,
    ) -> None:
        self.strategy, self.deployment, self.workload = strategy, deployment, workload
        self.times, self.tables, self.ideal = times, tables, ideal
        self.seed, self.progress = seed, progress
        self.probe, self.probes = min(probe, 1000), 0
        self.binding: str | None = None
        self.near = False
        self.seen: list[Probe] = []

    def reaches(self, rate: float) -> bool:
        """Say whether the strategy is stable and attains its target at this rate.

        A probe that is sure to fail is cut short, unless the search is ``near`` its end.
        """
        workload = self.workload.at_rate(rate)
        if not ClosedForm(self.deployment, workload, self.times, points=12).means(self.strategy).stable:
            self.binding = None
            return False
        self.probes += 1
        self.progress(f"goodput of {self.strategy.name}: probe {self.probes} at {rate:.3g} requests/s")
        requests = workload.sample(self.probe, self.seed)
        slo = workload.slo
        allowed = math.floor((1 - slo.attainment) * len(requests) + 1e-9)
        missed = 0

        def too_many(record: Record) -> bool:
            nonlocal missed
            missed += not slo.met(record.ttft, record.tpot)
            return missed > allowed and not self.near

        run = replay(self.strategy, self.deployment, requests, slo, self.tables, self.ideal, too_many)
        share = attainment(run.records, slo)
        if len(run.finished) == len(requests):
            self.seen.append(Probe(rate, share, attainment_error(run.records, slo)))
        reached = missed <= allowed and share >= slo.attainment
        if not reached:
            late = sum(slo.ttft_s is not None and r.ttft > slo.ttft_s for r in run.finished)
            slow = sum(not slo.met(0.0, r.tpot) for r in run.finished)
            self.binding = "ttft" if late > slow else "tpot"
        return reached

    def run(self) -> Goodput:
        """Bracket by doubling from the workload's rate, then bisect to 2 %."""
        low = high = self.workload.rate
        alone = mean([sum(smooth(self.tables.values(), r)) for r in self.workload.typical(8)])
        if self.reaches(low):
            while self.reaches(high := low * 2):
                low = high
        else:
            while not self.reaches(low := high / 2):
                if low * alone < _TRICKLE:
                    reason = f"misses the SLOs even at {low:.3g} requests/s"
                    return Goodput(0.0, self.probes, self.binding, reason)
                high = low
        while high / low > RESOLUTION:
            middle = math.sqrt(low * high)
            self.near = high / low < _NEAR
            low, high = (middle, high) if self.reaches(middle) else (low, middle)
        return Goodput(low, self.probes, self.binding, sampling=self._sampling(low))

    def _sampling(self, rate: float) -> float | None:
        """Standard error of attainment over its slope in the logarithm of the rate, around the rate found."""
        close = [p for p in self.seen if 1 / _NEAR <= p.rate / rate <= _NEAR]
        if len(close) < 2:
            return None
        error = min(close, key=lambda p: abs(math.log(p.rate / rate))).error
        if error is None or error == 0:
            return error
        logs, shares = [math.log(p.rate) for p in close], [p.share for p in close]
        middle = sum(logs) / len(logs)
        slope = sum((x - middle) * y for x, y in zip(logs, shares)) / sum((x - middle) ** 2 for x in logs)
        return min(1.0, error / max(-slope, _FLAT))
