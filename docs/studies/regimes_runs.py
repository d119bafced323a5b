"""The runs behind the regime maps: requests replayed under each way, searched for goodput, each run made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from common import last, place
from regimes_ways import POOLED, SMALL, Cell, Size, Way, splits

from costmodel import Scenario
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.ideal import Ideal, smooth
from costmodel.evaluate.replay import replay
from costmodel.evaluate.summary import mean, settled
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.deployment import Deployment, Settings, Topology
from costmodel.serving.instance import InstanceKind
from costmodel.serving.step import StepTimes, step_times
from costmodel.serving.table import StepTable, step_tables

#: The prompt of the maps that do not vary it, and the TTFT SLO of those that do not vary that.
LENGTH, TTFT = 4096, 2.0
TPOTS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.2)
#: Rates are whole powers of this, so that searches for different SLOs meet at the same runs.
STEP = 1.03
SEEDS = (1, 2)
#: `vllm serve` on a GPU of 70 GiB and more that is no A100 (vllm/engine/arg_utils.py, get_batch_defaults).
MAX_SEQS = 1024


class Played(NamedTuple):
    """A run between warm-up and drain: TTFT and TPOT of each request, mean delay over ideal, share kept local."""

    pairs: tuple[tuple[float, float], ...]
    delay: float
    local: float

    def attains(self, slo: Slo) -> bool:
        """True where enough requests meet the SLOs."""
        return sum(slo.met(*pair) for pair in self.pairs) >= slo.attainment * len(self.pairs)


class Priced(NamedTuple):
    """A deployment with its step times: made once for all lengths, splits and budgets."""

    deployment: Deployment
    times: dict[InstanceKind, StepTimes]
    tables: dict[InstanceKind, StepTable]
    ideal: Ideal


@cache
def priced(size: Size, stack: str | None) -> Priced:
    """The instances of a model."""
    made = Scenario(size.model, "h100-sxm", link="ib-ndr", tp=size.tp, nics=size.tp, stack=stack).deployment()
    tables = step_tables(made.kinds)
    return Priced(made, step_times(made.kinds), tables, Ideal(list(tables.values())))


@dataclass
class Bench:
    """One model under requests of one length; runs are kept, and all SLOs are read off them."""

    size: Size
    isl: int
    osl: int = 256
    instances: int = 4
    stack: str | None = None
    sigma: float = 0.0
    requests: int = 0
    seeds: Sequence[int] = SEEDS
    first: str = "decode"
    kept: dict[tuple[Way, int, int, Slo], Played] = field(default_factory=dict)
    capacities: dict[Way, int] = field(default_factory=dict)

    #: Number of the rate of a trickle: one request at a time.
    lowest = place(0.01, STEP)

    @property
    def count(self) -> int:
        """Requests of a run: more of short prompts, of which more are in flight at once."""
        return self.requests or min(3000, max(600, 1_500_000 // self.isl))

    def deployment(self, way: Way) -> Deployment:
        """Where a way serves."""
        return replace(
            priced(self.size, self.stack).deployment,
            topology=Topology(way.prefill, self.instances - way.prefill),
            settings=Settings(token_budget=way.budget, max_seqs=MAX_SEQS, first_token=self.first),
        )

    def workload(self, index: int) -> Workload:
        """Poisson arrivals at rate number ``index``."""
        prompt, output = (Lengths(n, self.sigma, high=max(32768, n)) for n in (self.isl, self.osl))
        return Workload("regimes", Arrivals(STEP**index), prompt, 0, output, Slo(), "by the study")

    def capacity(self, way: Way) -> int:
        """Number of the highest rate with which every pool keeps up."""
        if way not in self.capacities:
            deployment, times = self.deployment(way), priced(self.size, self.stack).times

            def stable(index: int) -> bool:
                form = ClosedForm(deployment, self.workload(index), times, points=8)
                return form.means(way.strategy).stable

            self.capacities[way] = last(stable, self.lowest, place(10_000, STEP))
        return self.capacities[way]

    def play(self, way: Way, index: int, seed: int, slo: Slo) -> Played:
        """Replay at rate number ``index``. Only a rule looks at the SLOs."""
        key = way, index, seed, slo if way.strategy.rule else Slo()
        if key not in self.kept:
            at, requests = priced(self.size, self.stack), self.workload(index).sample(self.count, seed)
            run = replay(way.strategy, self.deployment(way), requests, key[3], at.tables, at.ideal)
            done = settled(run.records)
            pairs = tuple((r.ttft, r.tpot or 0.0) for r in done)
            local = mean([float(r.route != "remote") for r in done])
            self.kept[key] = Played(pairs, mean([r.delay for r in done]), local)
        return self.kept[key]

    def goodput(self, way: Way, slo: Slo, seed: int) -> float:
        """Highest rate at which the SLOs are attained, by bisection; 0 where not even a trickle does."""

        def attains(index: int) -> bool:
            return self.play(way, index, seed, slo).attains(slo)

        if not attains(self.lowest):
            return 0.0
        return float(STEP ** last(attains, self.lowest, self.capacity(way) + 1))

    def best(self, ways: Sequence[Way], slo: Slo) -> tuple[Way, list[float]]:
        """The way of most goodput over the seeds, and its goodput at each."""
        found = {way: [self.goodput(way, slo, seed) for seed in self.seeds] for way in ways}
        way = max(ways, key=lambda way: sum(found[way]))
        return way, found[way]

    def kept_local(self, way: Way, slo: Slo) -> float:
        """Share of prompts that never leave their decode instance, at the goodput of a way."""
        rates = {seed: place(self.goodput(way, slo, seed), STEP) for seed in self.seeds}
        return mean([self.play(way, index, seed, slo).local for seed, index in rates.items()])

    def gain(self, slo: Slo, ways: Sequence[Way] | None = None, over: Sequence[Way] = POOLED) -> Cell:
        """Goodput of the best of ``ways`` (default: the splits) against that of the best pooled way."""
        ours, theirs = self.best(ways or splits(self.instances), slo), self.best(over, slo)
        return Cell(ours[0], theirs[0], tuple(zip(ours[1], theirs[1])))

    def relief(self, share: float) -> Cell:
        """The same of mean delay, less being better, at a share of the capacity of the best pooled way."""
        index = max(map(self.capacity, POOLED)) + place(share, STEP)
        sides = []
        for ways in (splits(self.instances), POOLED):
            stable = [way for way in ways if index <= self.capacity(way)]
            slow = {way: [self.play(way, index, seed, Slo()).delay for seed in self.seeds] for way in stable}
            way = min(stable, key=lambda way: sum(slow[way]), default=ways[0])
            sides.append((way, [1 / delay for delay in slow[way]] if stable else [0.0] * len(self.seeds)))
        (ours, left), (theirs, right) = sides
        return Cell(ours, theirs, tuple(zip(left, right)))

    def capacity_gain(self) -> float:
        """Highest stable rate of the best split over that of the best pooled way."""
        best, pooled = (max(map(self.capacity, ways)) for ways in (splits(self.instances), POOLED))
        return float(STEP ** (best - pooled))

    def left(self, slo: Slo, loose: Slo) -> float:
        """What an SLO leaves of the goodput that the pooled ways have at a loose one."""
        return sum(self.best(POOLED, slo)[1]) / sum(self.best(POOLED, loose)[1])

    def near(self) -> tuple[Way, ...]:
        """The splits whose capacity is at least 0.7 of the best one's: of many, those worth a search."""
        found = {way: STEP ** self.capacity(way) for way in splits(self.instances)}
        return tuple(way for way in found if found[way] >= 0.7 * max(found.values()))

    def alone(self) -> tuple[float, float]:
        """TTFT and TPOT of a request that has an instance to itself."""
        request = Request(0.0, self.isl, 0, self.osl)
        prefill, decode = smooth(priced(self.size, self.stack).tables.values(), request)
        return prefill, decode / (self.osl - 1)

    def prefill_share(self) -> float:
        """Part of the GPUs' time that prompts alone take at the capacity of the best pooled way."""
        return float(STEP ** max(map(self.capacity, POOLED)) * self.alone()[0] / self.instances)


@dataclass
class Study:
    """All runs of the page, each made once."""

    benches: dict[tuple[Any, ...], Bench] = field(default_factory=dict)

    def bench(self, size: Size, isl: int = LENGTH, osl: int = 256, **options: Any) -> Bench:
        """The runs of a model at one length of prompts and outputs."""
        key = size.name, isl, osl, *sorted(options.items())
        return self.benches.setdefault(key, Bench(size, isl, osl, **options))

    def cell(
        self, size: Size, ttft: float, tpot: float, isl: int = LENGTH, osl: int = 256, **options: Any
    ) -> Cell:
        """Goodput of the best split against that of the best pooled way."""
        return self.bench(size, isl, osl, **options).gain(Slo(ttft, tpot))

    def row(
        self, size: Size, isl: int = LENGTH, osl: int = 256, ttft: float = TTFT, **options: Any
    ) -> list[Cell]:
        """A row of goodput by TPOT SLO."""
        return [self.cell(size, ttft, tpot, isl, osl, **options) for tpot in TPOTS]

    def sixteen(self, isl: int, osl: int = 256) -> Bench:
        """The runs of the small model on 16 instances, as many GPUs as the large one has."""
        return self.bench(SMALL, isl, osl, instances=16, requests=2400, seeds=(1,))

    def finer(self, osl: int, tpot: float) -> Cell:
        """Its goodput, best split against best pooled way."""
        bench = self.sixteen(LENGTH, osl)
        return bench.gain(Slo(TTFT, tpot), bench.near())
