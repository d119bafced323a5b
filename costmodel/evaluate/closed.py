"""Closed form: stability and mean delays of a strategy, at once.

Waits are those of queues with gaps and services of any law (:mod:`.waits`); decode batches are a fixed point
(:mod:`.stations`). Its means refuse load that varies over time, which the variation of gaps does not
describe. What they rest on, the lines that prompts wait in, gives percentiles of TTFT too (:mod:`.line`), where
:mod:`.trust` allows it.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

from ..formulas import waiting
from ..inputs.workload import Workload
from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.memory import KvPool
from ..serving.step import StepTimes
from ..serving.strategies import Role, RuleKind, Schedule, Strategy
from .ideal import smooth
from .line import Line
from .pace import Decodes, inflow
from .prompts import PromptTimes, moments
from .stations import Found, Offered, Station, mixed_station, queue, whole_line, whole_station
from .waits import Gaps


@dataclass(frozen=True)
class PoolLoad:
    """Work offered to a pool over its capacity; at 1 or more it is unstable."""

    role: str
    utilisation: float
    instances: int

    @property
    def missing_instances(self) -> float:
        """Instances that the pool lacks to be just stable."""
        return max(0.0, (self.utilisation - 1) * self.instances)


@dataclass(frozen=True)
class Means:
    """Mean seconds a request by account of the ledger, TTFT, TPOT and the state they hold at.

    None stands where the load has no closed form or no steady state; ``reason`` says which. ``batch`` is
    that of a decoding instance, ``prefill_wait_s`` the wait before remote prefill, ``local_share`` the
    share of prompts that run where they decode, ``lines`` what prompts wait in, ``crowding`` the tokens that a
    decoding instance makes over the most that its memory and seats allow, ``decodes`` what a request decodes among
    (None: unlike instances), ``late`` the seconds of each typical request from token 1 to its decoding.
    """

    strategy: str
    loads: tuple[PoolLoad, ...]
    ideal_s: float
    local_share: float
    accounts: dict[str, float] | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    batch: float | None = None
    prefill_wait_s: float | None = None
    reason: str | None = None
    lines: tuple[Line, ...] = ()
    crowding: float = 0.0
    decodes: Decodes | None = None
    late: tuple[float, ...] = ()

    @property
    def utilisation(self) -> float:
        """Of the busiest pool."""
        return max(load.utilisation for load in self.loads)

    @property
    def stable(self) -> bool:
        """True where every pool has capacity to spare."""
        return self.utilisation < 1

    @property
    def delay_s(self) -> float | None:
        """Mean of E2E - ideal."""
        return None if self.accounts is None else sum(self.accounts.values())


@dataclass(frozen=True)
class _Remote:
    """The prefill pool and the copies: offered work over capacity, and means over the remote requests.

    ``sent`` is the share of all requests whose KV is copied.
    """

    utilisation: float = 0.0
    wait: float = 0.0
    service: float = 0.0
    link_utilisation: float = 0.0
    link: float = 0.0
    copy: float = 0.0
    sent: float = 0.0
    line: Line | None = None


class ClosedForm:
    """Means of strategies over one deployment and workload. Step times may carry perturbed factors."""

    def __init__(
        self,
        deployment: Deployment,
        workload: Workload,
        times: dict[InstanceKind, StepTimes],
        points: int = 24,
    ) -> None:
        self.deployment, self.times = deployment, times
        self._offer(workload)
        self.requests = workload.typical(points)
        self.ones = [1.0] * len(self.requests)
        self.turns = deployment.settings.routing == "round-robin"
        pairs = [smooth(times.values(), r) for r in self.requests]
        self.ideals = [prefill for prefill, _ in pairs]
        self.ideal_prefill = self._mean(self.ideals)
        self.ideal_decode = self._mean([decode for _, decode in pairs])
        gaps = [r.output_tokens - 1 for r in self.requests]
        self.gaps = sum(gaps) / len(gaps)
        weighted = sum(g * (r.isl + r.output_tokens / 2) for g, r in zip(gaps, self.requests))
        self.context = weighted / sum(gaps) if self.gaps else self._mean([r.isl for r in self.requests])
        self.held = self._mean([r.isl + r.output_tokens for r in self.requests])
        self.prompts = {kind: PromptTimes(times[kind], self.requests) for kind in times}
        path, alone = deployment.path, self.prompts[deployment.prefill].alone
        sizes = [r.uncached_tokens for r in self.requests]
        # Token 1 from the prefill side ends a request of one output token: nothing is copied.
        stays = deployment.settings.first_token == "prefill"
        self.sends = [float(r.output_tokens > 1 or not stays) for r in self.requests]
        self.wires = [path.wire_s(n) for n in sizes]
        self.copies = [path.control_s + path.exposed_s(n, t) for n, t in zip(sizes, alone)]

    def on(self, deployment: Deployment, workload: Workload | None = None) -> ClosedForm:
        """Return the same for another number of instances or token budget, and another rate or other SLOs."""
        other = copy.copy(self)
        other.deployment = deployment
        if workload is not None:
            other._offer(workload)
        return other

    def _offer(self, workload: Workload) -> None:
        """Take up what a workload says of arrivals."""
        mean = 1 / workload.rate
        self.workload, self.rate = workload, workload.rate
        self.gaps_in = Gaps(mean, workload.arrivals.cv**2, tuple(gap * mean for gap in workload.gaps))

    def means(self, strategy: Strategy) -> Means:
        """Return the means of a strategy; without accounts where it is unstable or the load is bursty."""
        return self._pooled(strategy) if strategy.pooled else self._split(strategy)

    def _mean(self, values: list[float] | list[int]) -> float:
        return sum(values) / len(values)

    def _offered(self, pool: KvPool, count: int, weights: list[float]) -> Offered:
        """What reaches a pool that computes these shares of the typical prompts, and decodes everything."""
        most = max(1.0, min(pool.sequences(self.held), float(self.deployment.settings.max_seqs)))
        tokens, share = self.rate * self.gaps / count, self._mean(weights)
        gaps = self.gaps_in.thinned(share) if share > 0 else None
        return Offered(count, gaps, share, tuple(weights), tokens, self.context, most, self.turns)

    def _chunk(self, batch: float) -> int:
        """Prefill tokens of a step under the token budget; coarse, so that few chunk sizes occur."""
        budget = self.deployment.settings.token_budget
        grain = max(1, min(32, budget // 64))
        return max(1, budget - grain * round(batch / grain))

    # --- strategies ----------------------------------------------------------------------------------

    def _pooled(self, strategy: Strategy) -> Means:
        members = self.deployment.pool(Role.SHARED)
        found = []
        for kind, pool in dict(members).items():
            offered = self._offered(pool, len(members), self.ones)
            times, prompts = self.times[kind], self.prompts[kind]
            share = sum(k is kind for k, _ in members) / len(members)
            if strategy.pools[0].schedule is Schedule.WHOLE:
                found.append(
                    (share, whole_station(times, prompts, offered, self.deployment.settings.token_budget))
                )
            else:
                found.append((share, mixed_station(times, prompts, offered, self._chunk)))
        worst = max(one.station.utilisation for _, one in found)
        load = PoolLoad(Role.SHARED.value, worst, len(members))
        columns = zip(*(one.station for _, one in found))
        shares = [share for share, _ in found]
        mean = Station(*(sum(s * v for s, v in zip(shares, values)) for values in columns))
        lines = tuple(one.line._replace(share=share) for share, one in found if one.line)
        decodes = self._begun(found[0][1].decodes, found[0][1].line) if len(found) == 1 else None
        return self._answer(strategy, (load,), mean, _Remote(), self.ones, lines, decodes)

    def _split(self, strategy: Strategy) -> Means:
        deployment = self.deployment
        kind, nodes = deployment.decode, deployment.topology.decode
        times, prompts = self.times[kind], self.prompts[kind]
        local = [0.0] * len(self.requests)
        remote = self._remote(local)
        kairos = strategy.rule is not None and strategy.rule.kairos

        def station(shares: list[float], chunk: int | None) -> Found:
            offered = self._offered(deployment.decode_pool, nodes, shares)
            size = self._chunk if chunk is None else lambda _: chunk
            return mixed_station(times, prompts, offered, size, queues=not kairos)

        decode = station(local, None)
        if strategy.rule is not None:
            for _ in range(8):  # routing, queue and batch depend on each other
                chunk = self._safe_chunk(strategy, decode.station) if kairos else None
                before, local = local, self._routed(strategy, decode.station, remote.wait, chunk, local)
                if before == local:
                    break
                remote, decode = self._remote(local), station(local, chunk)
        loads = (
            PoolLoad(Role.PREFILL.value, remote.utilisation, deployment.topology.prefill),
            PoolLoad(Role.DECODE.value, decode.station.utilisation, nodes),
            PoolLoad("link", remote.link_utilisation, min(nodes, deployment.topology.prefill)),
        )
        hand = self._hand_over(decode.station, remote)
        handed = remote.line and remote.line._replace(
            after=hand, seat=decode.station.step if hand else 0.0, busy=min(1.0, decode.station.batch)
        )
        lines = tuple(line for line in (handed, decode.line) if line)
        decodes = self._begun(decode.decodes, handed or decode.line)
        return self._answer(strategy, loads, decode.station, remote, local, lines, decodes)

    def _begun(self, decodes: Decodes | None, line: Line | None) -> Decodes | None:
        """Decodes that begin as prompts leave a line."""
        if decodes is None or line is None:
            return decodes
        service = moments(line.takes, line.weights)
        busy = line.gaps.rate * service.mean / line.servers
        return decodes._replace(inflow=inflow(self.gaps_in.scv, busy, service, line.servers))

    def _remote(self, local: list[float]) -> _Remote:
        """Return the prefill pool and the link when shares ``local`` of the typical prompts stay away."""
        deployment = self.deployment
        away = [1 - share for share in local]
        share = self._mean(away)
        if share <= 0:
            return _Remote()
        prompts = self.prompts[deployment.prefill]
        service = moments(prompts.alone, away)
        servers = deployment.topology.prefill
        lanes = min(servers, deployment.topology.decode)
        copied = [share * sends for share, sends in zip(away, self.sends)]
        copies = self.rate * self._mean(copied)
        wire = moments(self.wires, copied)
        gaps = self.gaps_in.thinned(share)
        waiting_at = queue(gaps, servers, turns=self.turns)
        line, _, use = whole_line(prompts, share, waiting_at, away, deployment.settings.token_budget)
        link_use = copies * wire.mean / lanes
        wait, behind = (line.mean_wait(), line.mean_behind()) if use < 1 else (math.inf, 0.0)
        # A copy needs two given ports at once. One queue for all ports is right for equal prompts, which take
        # turns, and too low by a factor for unlike ones; a queue for each port errs on the safe side.
        port = copies / lanes
        link = float(waiting.mg1_wait(port, wire.mean, wire.scv)) if port and link_use < 1 else 0.0
        sent = copies / self.rate
        return _Remote(
            use, wait, service.mean + behind, link_use, link, moments(self.copies, copied).mean, sent, line
        )

    def _hand_over(self, station: Station, remote: _Remote) -> tuple[float, ...]:
        """Seconds from each typical prompt's end to its token 1: mean waits, and its own copy."""
        first = self.deployment.settings.first_token
        if first == "prefill":
            return ()
        waits = remote.link + self._again(station)
        return tuple(sends * (copied + waits) for sends, copied in zip(self.sends, self.copies))

    def _boundary(self, station: Station) -> float:
        """Mean seconds until the step under way ends, where one is."""
        return min(1.0, station.batch) * station.step / 2

    def _again(self, station: Station) -> float:
        """Seconds of the step that computes the last prompt token again."""
        return station.step if self.deployment.settings.first_token == "recompute" else 0.0

    # --- routing at the mean state -------------------------------------------------------------------

    def _safe_chunk(self, strategy: Strategy, decode: Station) -> int | None:
        """Largest chunk that keeps a mixed step within the rule's cap at the mean batch; None: no chunk."""
        rule = strategy.rule
        assert rule is not None
        limit = self.workload.slo.tpot_s
        cap = Cap(rule.beta * limit if limit is not None else None, rule.candidates)
        prompt = round(self._mean([r.uncached_tokens for r in self.requests]))
        batch = round(decode.batch)
        budget = self.deployment.settings.token_budget
        times = self.times[self.deployment.decode]
        return largest_chunk(times, cap, prompt, prompt // 2, batch, round(batch * self.context), budget)

    def _routed(
        self, strategy: Strategy, decode: Station, wait: float, chunk: int | None, before: list[float]
    ) -> list[float]:
        """Return the share of each typical prompt that the rule keeps local at the mean state."""
        rule, deployment = strategy.rule, self.deployment
        assert rule is not None
        if not rule.kairos:  # of a busy threshold, the lengths alone
            return [float(r.uncached_tokens < rule.threshold) for r in self.requests]
        if chunk is None:
            return [0.0] * len(before)
        own = self.prompts[deployment.decode].in_chunks(chunk, decode.batch, self.context).alone
        slo = self.workload.slo.ttft_s
        wanted = []
        for here, alone, copied in zip(own, self.prompts[deployment.prefill].alone, self.copies):
            there = wait + alone + (copied if rule.kind is RuleKind.KAIROS else 0.0)
            wanted.append(float(here <= rule.alpha * there and (slo is None or here <= slo)))
        # One slot a node: while it is taken, a prompt goes to the prefill pool (Erlang loss of one server).
        load = self.rate * self._mean([w * t for w, t in zip(wanted, own)]) / deployment.topology.decode
        return [(b + w / (1 + load)) / 2 for b, w in zip(before, wanted)]

    # --- answers -------------------------------------------------------------------------------------

    def _answer(
        self,
        strategy: Strategy,
        loads: tuple[PoolLoad, ...],
        station: Station,
        remote: _Remote,
        local: list[float],
        lines: tuple[Line, ...],
        decodes: Decodes | None,
    ) -> Means:
        here = self._mean(local)
        constant = self.deployment.request_latency
        ideal = constant + self.ideal_prefill + self.ideal_decode
        worst = max(loads, key=lambda load: load.utilisation)
        if worst.utilisation >= 1:
            reason = f"the {worst.role} pool is offered {worst.utilisation:.2f} times its capacity"
            return Means(strategy.name, loads, ideal, here, reason=reason)
        if self.workload.too_bursty(worst.utilisation):
            reason = "the load varies over time: means and the variation of gaps do not describe it"
            if math.isinf(self.workload.peak):
                reason = "a trace this short does not show whether its load varies over time"
            return Means(strategy.name, loads, ideal, here, reason=reason)
        away = 1 - here
        first = self.deployment.settings.first_token
        accounts = {
            "queue": away * remote.wait + here * station.wait,
            "admission": remote.sent * self._boundary(station),
            "load": 0.0,
            "stretch": away * remote.service + here * station.service - self.ideal_prefill,
            "link": remote.sent * remote.link,
            "handover": remote.sent * (remote.copy + self._again(station)),
            "stalls": self.gaps * (station.gap - station.step),
            "gathering": self.gaps * station.step - self.ideal_decode,
            "recompute": 0.0,
        }
        hand = accounts["admission"] + accounts["link"] + accounts["handover"]
        ttft = constant + self.ideal_prefill + accounts["queue"] + accounts["stretch"]
        late = hand if first == "prefill" else 0.0
        tpot = station.gap + late / self.gaps if self.gaps else None
        return Means(
            strategy.name, loads, ideal, here, accounts, ttft + hand - late, tpot, station.batch, remote.wait,
            lines=lines, crowding=station.crowding, decodes=decodes, late=self._late(station, remote, local),
        )  # fmt: skip

    def _late(self, station: Station, remote: _Remote, local: list[float]) -> tuple[float, ...]:
        """Seconds of each typical request from token 1 to its decoding: the hand-over, where token 1 is before it."""
        if self.deployment.settings.first_token != "prefill":
            return ()
        waits = remote.link + self._boundary(station)
        return tuple(
            (1 - here) * sends * (copied + waits)
            for here, sends, copied in zip(local, self.sends, self.copies)
        )
