"""Closed form: stability and mean delays of a strategy, at once.

Waits are those of queues with gaps and services of any law (:mod:`.waits`); decode batches are a fixed point
(:mod:`.stations`). Its means refuse load that varies over time, which the variation of gaps does not
describe. What they rest on, the lines that prompts wait in, gives percentiles of TTFT too (:mod:`.line`), where
:mod:`.trust` allows it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from ..formulas import waiting
from ..inputs.workload import Workload, unknown
from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.memory import KvPool
from ..serving.step import StepTimes
from ..serving.strategies import Role, RuleKind, Schedule, Strategy
from .ideal import smooth, smooth_again
from .line import Line
from .means import TIER, Remote, pool_label
from .means import Means as Means
from .means import PoolLoad as PoolLoad
from .pace import Decodes, inflow
from .prompts import PromptTimes, moments
from .stated import Port, Reads, copied_sizes, loads_of, port_of, read_waits, reads_of
from .stations import Found, Offered, Station, mixed_station, queue, whole_line, whole_station
from .waits import Gaps


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
        known, self.weights = workload.weighed(points)
        self.requests = [unknown(request) for request in known]
        self.ones = [1.0] * len(self.requests)
        self.turns = deployment.settings.routing == "round-robin"
        self.known = known
        pairs = [smooth(times.values(), r) for r in known]
        self.ideals = [prefill for prefill, _ in pairs]
        self.ideal_prefill = self.mean(self.ideals)
        self.ideal_decode = self.mean([decode for _, decode in pairs])
        gaps = [r.output_tokens - 1 for r in self.requests]
        self.gaps = self.mean(gaps)
        weighted = self.mean([g * (r.isl + r.output_tokens / 2) for g, r in zip(gaps, self.requests)])
        self.context = weighted / self.gaps if self.gaps else self.mean([r.isl for r in self.requests])
        self.held = self.mean([r.isl + r.output_tokens for r in self.requests])
        self._prompts: dict[tuple[Role, InstanceKind], PromptTimes] = {}
        self._reads: dict[tuple[Role, InstanceKind], Reads] = {}
        path, alone = deployment.path, self.prompts(Role.PREFILL, deployment.prefill).alone
        sizes = copied_sizes(deployment, self.requests)
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

    def prompts(self, role: Role, kind: InstanceKind) -> PromptTimes:
        """Times of the typical prompts on instances of a role, as those find their prefixes."""
        if (role, kind) not in self._prompts:
            seen = self.reads(role, kind).requests
            same = (p for (_, k), p in self._prompts.items() if k is kind and p.requests == seen)
            self._prompts[role, kind] = next(same, None) or PromptTimes(self.times[kind], seen, self.weights)
        return self._prompts[role, kind]

    def reads(self, role: Role, kind: InstanceKind) -> Reads:
        """What the typical prompts read on instances of a role, by the number of them now."""
        if (role, kind) not in self._reads:
            self._reads[role, kind] = reads_of(self.deployment, role, self.times[kind], self.requests)
        return self._reads[role, kind]._replace(instances=len(self.deployment.pool(role)))

    def _port(self, role: Role, kind: InstanceKind, shares: list[float], sent: bool = False) -> Port:
        """Reads of these shares of the typical prompts at a port of an instance; ``sent``: beside their copies."""
        weights = self.weighed(shares)
        reads, tiers, split = self.reads(role, kind), self.deployment.tiers, self.deployment.topology
        if not (sent and tiers and tiers[0].on_link):
            return port_of(reads, weights, self.gaps_in)
        copied = [w * sends / min(split.prefill, split.decode) for w, sends in zip(weights, self.sends)]
        return port_of(reads, weights, self.gaps_in, copied, self.wires)

    def mean(self, values: Sequence[float]) -> float:
        """Mean over the typical requests, or of a share of each."""
        return sum(v * w for v, w in zip(values, self.weights)) / len(values)

    def weighed(self, shares: Sequence[float]) -> list[float]:
        """Weights of the typical requests where these shares of them count."""
        return [share * weight for share, weight in zip(shares, self.weights)]

    def _offered(self, pool: KvPool, count: int, shares: list[float]) -> Offered:
        """What reaches a pool that computes these shares of the typical prompts, and decodes everything."""
        most = max(1.0, min(pool.sequences(self.held), float(self.deployment.settings.max_seqs)))
        tokens, share = self.rate * self.gaps / count, self.mean(shares)
        gaps = self.gaps_in.thinned(share) if share > 0 else None
        weights = tuple(self.weighed(shares))
        return Offered(count, gaps, share, weights, tokens, self.context, most, self.turns)

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
            times, prompts = self.times[kind], self.prompts(Role.SHARED, kind)
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
        port = self._port(Role.SHARED, self.deployment.prefill, self.ones)
        lines = tuple(
            one.line._replace(share=share, after=self._after(port, ())) for share, one in found if one.line
        )
        decodes = self._begun(found[0][1].decodes, found[0][1].line) if len(found) == 1 else None
        return self._answer(
            strategy, self._with(port, (load,)), mean, Remote(), self.ones, lines, decodes, (port, port)
        )

    def _split(self, strategy: Strategy) -> Means:
        deployment = self.deployment
        kind, nodes = deployment.decode, deployment.topology.decode
        times, prompts = self.times[kind], self.prompts(Role.DECODE, kind)
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
        ports = self._ports(local)
        hand = self._after(ports[0], self._hand_over(decode.station, remote))
        handed = remote.line and remote.line._replace(
            after=hand,
            seat=0.0 if deployment.settings.first_token == "prefill" else decode.station.step,
            busy=min(1.0, decode.station.batch),
        )
        kept = decode.line and decode.line._replace(after=self._after(ports[1], ()))
        lines = tuple(line for line in (handed, kept) if line)
        decodes = self._begun(decode.decodes, handed or decode.line)
        return self._answer(
            strategy,
            self._with(ports[0], self._with(ports[1], loads)),
            decode.station,
            remote,
            local,
            lines,
            decodes,
            ports,
        )

    def _ports(self, local: list[float]) -> tuple[Port, Port]:
        """The ports by which prefill and decode instances read, where shares ``local`` stay on the decode side."""
        away = [1 - share for share in local]
        return (
            self._port(Role.PREFILL, self.deployment.prefill, away, sent=True),
            self._port(Role.DECODE, self.deployment.decode, local),
        )

    def _with(self, port: Port, loads: tuple[PoolLoad, ...]) -> tuple[PoolLoad, ...]:
        """Add the first tier's port to the loads of a strategy, where anything is read."""
        if not port.utilisation:
            return loads
        name = TIER + self.deployment.tiers[0].name
        return (*loads, PoolLoad(name, port.utilisation, 1))

    def _after(self, port: Port, hand: tuple[float, ...]) -> tuple[float, ...]:
        """Seconds of each typical prompt's TTFT outside of its line: reading its prefix, and its hand-over."""
        if not port.utilisation:
            return hand
        return tuple(load + after for load, after in zip(port.loads, hand or (0.0,) * len(port.loads)))

    def _begun(self, decodes: Decodes | None, line: Line | None) -> Decodes | None:
        """Decodes that begin as prompts leave a line."""
        if decodes is None or line is None:
            return decodes
        service = moments(line.takes, line.weights)
        busy = line.gaps.rate * service.mean / line.servers
        return decodes._replace(inflow=inflow(self.gaps_in.scv, busy, service, line.servers))

    def _remote(self, local: list[float]) -> Remote:
        """Return the prefill pool and the link when shares ``local`` of the typical prompts stay away."""
        deployment = self.deployment
        away = [1 - share for share in local]
        share = self.mean(away)
        if share <= 0:
            return Remote()
        weights = self.weighed(away)
        prompts = self.prompts(Role.PREFILL, deployment.prefill)
        service = moments(prompts.alone, weights)
        servers = deployment.topology.prefill
        lanes = min(servers, deployment.topology.decode)
        copied = [weight * sends for weight, sends in zip(weights, self.sends)]
        copies = self.rate * sum(copied) / len(copied)
        wire = moments(self.wires, copied)
        gaps = self.gaps_in.thinned(share)
        waiting_at = queue(gaps, servers, turns=self.turns)
        line, _, use = whole_line(prompts, share, waiting_at, weights, deployment.settings.token_budget)
        link_use = copies * wire.mean / lanes
        wait, behind = (line.mean_wait(), line.mean_behind()) if use < 1 else (math.inf, 0.0)
        # A copy needs two given ports at once. One queue for all ports is right for equal prompts, which take
        # turns, and too low by a factor for unlike ones; a queue for each port errs on the safe side.
        port = copies / lanes
        link = float(waiting.mg1_wait(port, wire.mean, wire.scv)) if port and link_use < 1 else 0.0
        if deployment.tiers and deployment.tiers[0].on_link:  # copies wait for reads, too
            beside = self._port(Role.PREFILL, deployment.prefill, away, sent=True)
            link_use = max(link_use, beside.utilisation)
            link = max(link, beside.wait)
        sent = copies / self.rate
        return Remote(
            use, wait, service.mean + behind, link_use, link, moments(self.copies, copied).mean, sent, line
        )

    def _hand_over(self, station: Station, remote: Remote) -> tuple[float, ...]:
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
        kind = self.deployment.decode
        prompt = round(self.mean(self.prompts(Role.DECODE, kind).uncached))
        batch = round(decode.batch)
        budget = self.deployment.settings.token_budget
        return largest_chunk(
            self.times[kind], cap, prompt, prompt // 2, batch, round(batch * self.context), budget
        )

    def _routed(
        self, strategy: Strategy, decode: Station, wait: float, chunk: int | None, before: list[float]
    ) -> list[float]:
        """Return the share of each typical prompt that the rule keeps local at the mean state."""
        rule, deployment = strategy.rule, self.deployment
        assert rule is not None
        if not rule.kairos:  # of a busy threshold, the lengths alone
            left = self.prompts(Role.DECODE, deployment.decode).uncached
            return [float(tokens < rule.threshold) for tokens in left]
        if chunk is None:
            return [0.0] * len(before)
        own = self.prompts(Role.DECODE, deployment.decode).in_chunks(chunk, decode.batch, self.context).alone
        slo = self.workload.slo.ttft_s
        wanted = []
        for here, alone, copied in zip(
            own, self.prompts(Role.PREFILL, deployment.prefill).alone, self.copies
        ):
            there = wait + alone + (copied if rule.kind is RuleKind.KAIROS else 0.0)
            wanted.append(float(here <= rule.alpha * there and (slo is None or here <= slo)))
        # One slot a node: while it is taken, a prompt goes to the prefill pool (Erlang loss of one server).
        load = self.rate * self.mean([w * t for w, t in zip(wanted, own)]) / deployment.topology.decode
        return [(b + w / (1 + load)) / 2 for b, w in zip(before, wanted)]

    # --- answers -------------------------------------------------------------------------------------

    def _answer(
        self,
        strategy: Strategy,
        loads: tuple[PoolLoad, ...],
        station: Station,
        remote: Remote,
        local: list[float],
        lines: tuple[Line, ...],
        decodes: Decodes | None,
        ports: tuple[Port, Port],
    ) -> Means:
        here = self.mean(local)
        constant = self.deployment.request_latency
        ideal = constant + self.ideal_prefill + self.ideal_decode
        worst = max(loads, key=lambda load: load.utilisation)
        if worst.utilisation >= 1:
            reason = f"the {pool_label(worst.role)} is offered {worst.utilisation:.2f} times its capacity"
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
            "load": self.mean(loads_of(ports, local)),
            "stretch": away * remote.service + here * station.service - self.ideal_prefill,
            "link": remote.sent * remote.link,
            "handover": remote.sent * (remote.copy + self._again(station)),
            "stalls": self.gaps * (station.gap - station.step),
            "gathering": self.gaps * station.step - self.ideal_decode,
            "recompute": 0.0,
        }
        hand = accounts["admission"] + accounts["link"] + accounts["handover"]
        ttft = constant + self.ideal_prefill + accounts["load"] + accounts["queue"] + accounts["stretch"]
        late = hand if first == "prefill" else 0.0
        tpot = station.gap + late / self.gaps if self.gaps else None
        return Means(
            strategy.name, loads, ideal, here, accounts, ttft + hand - late, tpot, station.batch, remote.wait,
            lines=lines, crowding=station.crowding, decodes=decodes, late=self._late(station, remote, local),
            read_wait_s=self.mean(read_waits(ports, local)), recomputed_prefix_s=self._recomputed(strategy, local),
        )  # fmt: skip

    def _recomputed(self, strategy: Strategy, local: list[float]) -> float:
        """Mean seconds of prefixes that the ideal has cached and an instance computes."""
        roles = (Role.SHARED, Role.SHARED) if strategy.pooled else (Role.PREFILL, Role.DECODE)
        there, here = (self._again_on(role) for role in roles)
        return self.mean([away * (1 - share) + own * share for away, own, share in zip(there, here, local)])

    def _again_on(self, role: Role) -> list[float]:
        """Seconds of each typical prompt's prefix that is computed again on instances of a role."""
        kind = self.deployment.decode if role is Role.DECODE else self.deployment.prefill
        seen = self.reads(role, kind).requests
        return [smooth_again(self.times.values(), r, s.cached_tokens) for r, s in zip(self.known, seen)]

    def _late(self, station: Station, remote: Remote, local: list[float]) -> tuple[float, ...]:
        """Seconds of each typical request from token 1 to its decoding: the hand-over, where token 1 is before it."""
        if self.deployment.settings.first_token != "prefill":
            return ()
        waits = remote.link + self._boundary(station)
        return tuple(
            (1 - here) * sends * (copied + waits)
            for here, sends, copied in zip(local, self.sends, self.copies)
        )
