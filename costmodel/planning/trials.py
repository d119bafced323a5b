"""What a replay says of a layout with so many instances: attainment, what it misses by, and for want of what."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from ..evaluate import summary
from ..evaluate.ideal import Ideal
from ..evaluate.replay import replay
from ..evaluate.timeline import Record, Run
from ..inputs.workload import Request, Workload
from ..serving.band import WHOLE, factors
from ..serving.deployment import Topology
from ..serving.instance import InstanceKind
from ..serving.table import StepTable
from .closed import Closed
from .options import PlanOptions
from .space import Layout

#: Requests of a replay: at least, and at most where requests stay long.
_LEAST, _MOST = 2000, 20_000
#: Stays that warm-up, a fifth of the requests, is to last.
_STAYS = 1.5


@dataclass(frozen=True)
class Trial:
    """One replay. ``attained`` None: it was cut short, sure to miss; ``missing`` times as many requests missed by
    then as may. ``short``: what most requests that missed had too little of. ``ttft_share`` and ``tpot_share``: those
    that meet one SLO, whatever they do of the other.
    """

    met: bool
    attained: float | None = None
    sampling: float | None = None
    missing: float = 0.0
    slo: str | None = None
    short: str | None = None
    reason: str | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_at_target_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_at_target_s: float | None = None
    preempted_share: float | None = None
    ttft_share: float | None = None
    tpot_share: float | None = None


class Trials:
    """Replays at one workload, each once: the same requests for every layout, at the step times of ``closed``."""

    def __init__(self, workload: Workload, closed: Closed, options: PlanOptions) -> None:
        self.workload, self.closed, self.options = workload, closed, options
        self.count = 0
        self.capped = False
        self._tables: dict[InstanceKind, Any] = {}
        self._known: dict[tuple[Layout, Topology], Trial] = {}
        self._drawn: dict[int, list[Request]] = {}

    @property
    def spent(self) -> bool:
        """True where no replay is left."""
        return self.count >= self.options.replays

    def known(self, layout: Layout, topology: Topology) -> Trial | None:
        """Return what is known without another replay."""
        return self._known.get((layout, topology))

    def of(self, layout: Layout, topology: Topology, *, whole: bool = False) -> Trial:
        """Replay a layout, once; cut short where it is sure to miss, unless ``whole``."""
        key = layout, topology
        found = self._known.get(key)
        if found is None or (whole and found.attained is None and found.reason is None):
            found = self._known[key] = self._replayed(layout, topology, whole)
        return found

    def requests(self, layout: Layout, topology: Topology) -> list[Request]:
        """Requests of a replay: as many as it takes for the first fifth to fill the instances."""
        count = self.options.requests or len(self.workload.requests) or self._enough(layout, topology)
        if count not in self._drawn:
            self._drawn[count] = self.workload.sample(count, self.options.seed)
        return self._drawn[count]

    def _enough(self, layout: Layout, topology: Topology) -> int:
        means = self.closed.means(layout, topology)
        stay = means.ideal_s + (means.delay_s or 0.0)
        wanted = math.ceil(5 * _STAYS * stay * self.workload.rate / 1000) * 1000
        self.capped |= wanted > _MOST
        return min(_MOST, max(_LEAST, wanted))

    def _replayed(self, layout: Layout, topology: Topology, whole: bool) -> Trial:
        if topology.prefill < 1 or (not layout.pooled and topology.decode < 1):
            return Trial(False, slo="stability", reason="a role has no instance left", missing=math.inf)
        loads = self.closed.loads(layout, topology)
        role = max(loads, key=lambda name: loads[name])
        if loads[role] >= 1:
            said = f"the {role} pool is offered {loads[role]:.2f} times its capacity"
            return Trial(False, slo="stability", short=role, reason=said, missing=math.inf)
        deployment, requests = layout.at(topology), self.requests(layout, topology)
        for kind in deployment.kinds:
            if kind not in self._tables:
                self._tables[kind] = _table(kind, self.closed.factor)
        tables = {kind: self._tables[kind] for kind in deployment.kinds}
        self.options.progress(
            f"replay {self.count + 1}: {layout.strategy.name} {topology} of {layout.decode.label()}, "
            f"{len(requests):,} requests"
        )
        self.count += 1
        watch = _Watch(self.workload, len(requests), whole)
        run = replay(
            layout.strategy, deployment, requests, self.workload.slo, tables, Ideal(list(tables.values())),
            watch.sure_to_miss,
        )  # fmt: skip
        return self._read(run, watch, layout)

    def _read(self, run: Run, watch: _Watch, layout: Layout) -> Trial:
        slo = self.workload.slo
        if watch.cut:
            late = [record for record in run.finished if not slo.met(record.ttft, record.tpot)]
            which, short = _blame(late, self.workload, layout)
            return Trial(False, missing=watch.missing, slo=which, short=short)
        done = run.finished if self.workload.requests else summary.settled(run.records)
        share = summary.attainment(done, slo)
        late = [record for record in done if not slo.met(record.ttft, record.tpot)]
        which, short = _blame(late, self.workload, layout)
        ttft = sorted(record.ttft for record in done)
        tpot = sorted(record.tpot for record in done if record.tpot is not None)
        return Trial(
            share >= slo.attainment,
            share,
            summary.attainment_error(done, slo),
            (1 - share) / (1 - slo.attainment),
            which,
            short,
            ttft_p50_s=summary.quantile(ttft, 0.5),
            ttft_p95_s=summary.quantile(ttft, 0.95),
            ttft_at_target_s=summary.quantile(ttft, slo.attainment),
            tpot_p50_s=summary.quantile(tpot, 0.5) if tpot else None,
            tpot_at_target_s=summary.quantile(tpot, slo.attainment) if tpot else None,
            preempted_share=sum(record.preempted > 0 for record in done) / len(done),
            ttft_share=summary.attainment(done, replace(slo, tpot_s=None)),
            tpot_share=summary.attainment(done, replace(slo, ttft_s=None)),
        )


def _table(kind: InstanceKind, factor: float) -> StepTable:
    """Return step times of a kind of instance, all of them ``factor`` times as long."""
    return StepTable(kind) if factor == 1 else StepTable(kind, factors(kind, WHOLE, factor - 1))


class _Watch:
    """Counts requests that miss among those that count, and stops a replay once too many have."""

    def __init__(self, workload: Workload, count: int, whole: bool) -> None:
        self.slo, self.whole = workload.slo, whole
        drawn = not workload.requests
        self.first, self.last = (count // 5, count - count // 20) if drawn else (0, count)
        self.allowed = (1 - self.slo.attainment) * (self.last - self.first)
        self.missed, self.seen, self.cut = 0, 0, False

    def sure_to_miss(self, record: Record) -> bool:
        """Take note of a request that ends; True once the rest cannot mend it."""
        if not self.first <= record.index < self.last:
            return False
        self.seen += 1
        self.missed += not self.slo.met(record.ttft, record.tpot)
        self.cut = not self.whole and self.missed > self.allowed + 1e-9
        return self.cut

    @property
    def missing(self) -> float:
        """How many times more requests missed than may, by the pace so far."""
        share = self.missed / max(1, self.seen)
        return share / (1 - self.slo.attainment)


def _blame(late: list[Record], workload: Workload, layout: Layout) -> tuple[str | None, str | None]:
    """Say which SLO most late requests missed, and which pool they waited for."""
    slo = workload.slo
    if not late:
        return None, None
    slow = sum(record.tpot is not None and not slo.met(0.0, record.tpot) for record in late)
    tardy = sum(slo.ttft_s is not None and record.ttft > slo.ttft_s for record in late)
    which = "ttft" if tardy >= slow else "tpot"
    if layout.pooled:
        return which, "shared"
    if which == "tpot":
        return which, "decode"
    before = sum(record.queue + record.stretch for record in late if record.route == "remote")
    after = sum(
        record.admission + record.seating if record.route == "remote" else record.queue + record.stretch
        for record in late
    )
    return which, "prefill" if before >= after else "decode"
