"""A bench for the evaluators: step times and copies of round numbers, and small real deployments.

Round times are whole ticks of 2**-10 s, so that sums in floating point are exact and timelines worked out by
hand hold to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import settings

from costmodel.evaluate.reference import evaluate
from costmodel.evaluate.replay import replay
from costmodel.evaluate.timeline import ACCOUNTS, Record, Run
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.deployment import Deployment, Settings, Topology, parse_topology
from costmodel.serving.handover import Handover
from costmodel.serving.instance import InstanceKind
from costmodel.serving.memory import KvPool
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import StepTimes
from costmodel.serving.strategies import Strategy
from costmodel.serving.table import StepTable
from costmodel.serving.work import Chunk

settings.register_profile("same every time", deadline=None, derandomize=True)
settings.load_profile("same every time")

TICK = 2.0**-10


@dataclass
class RoundTimes:
    """Step times of round numbers in ticks: ``token`` a prompt token, ``decode`` a batch, ``each`` a decode.

    A step of chunks takes ``fixed`` besides, and a mixed step the sum of its two parts.
    """

    token: float = 1
    decode_step: float = 10
    each: float = 0
    fixed: float = 0
    hidden: float = 0  # of the decode step, where a chunk rides along

    def decode(self, batch: float, context: float) -> float:
        del context
        return (self.decode_step + self.each * batch) * TICK

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        del prefix
        return (self.fixed + self.token * tokens) * TICK

    def step(self, chunks: Sequence[Chunk], last: int, batch: int, context: float) -> float:
        time = self.prefill(sum(c.tokens for c in chunks)) if chunks else 0.0
        if not batch:
            return time
        return time + self.decode(batch, context) - (self.hidden * TICK if chunks else 0.0)

    decode_smooth = decode

    def run(self, batch: int, context: int, count: int) -> float:
        return sum(self.decode(batch, context + i * batch) for i in range(count))

    def until(self, batch: int, context: int, count: int, seconds: float) -> tuple[int, float]:
        steps, passed = 0, 0.0
        while steps < count and (not steps or passed < seconds):
            passed += self.decode(batch, context + steps * batch)
            steps += 1
        return steps, passed

    def alone(self, tokens: int, prefix: int) -> tuple[float, float, float]:
        return self.prefill(tokens, prefix), 0.0, 0.0

    def token_bytes(self, tokens: int, logits: int) -> float:
        return 0.0

    cached_bytes = token_bytes


@dataclass
class RoundPath:
    """A copy of ``token`` ticks a token, half of which layers hide when ``layerwise``; ``control`` ticks."""

    token: float = 0.5
    control: float = 2
    layerwise: bool = False
    calls: list[int] = field(default_factory=list)

    @property
    def control_s(self) -> float:
        return self.control * TICK

    @property
    def overlap(self) -> str:
        return "layerwise" if self.layerwise else "serial"

    def wire_s(self, tokens: int) -> float:
        return self.token * tokens * TICK

    def exposed_s(self, tokens: int, prefill_s: float = 0.0) -> float:
        return self.wire_s(tokens) / (2 if self.layerwise else 1)


@cache
def kind_of(gpu: str, tp: int, model: str = "Qwen3-0.6B") -> InstanceKind:
    """An instance kind, one object for each combination."""
    return Scenario(model, gpu, tp=tp).deployment().prefill


@cache
def times_of(kind: InstanceKind) -> StepTimes:
    """Step times of a kind for closed forms, shared by all tests."""
    return StepTimes(kind)


@cache
def table_of(kind: InstanceKind) -> StepTable:
    """Step times of a kind for evaluators, shared by all tests."""
    return StepTable(kind)


def pool_of(kind: InstanceKind, tokens: float) -> KvPool:
    """A KV pool with room for so many tokens."""
    roomy = KvPool(kind, 0.0, 1.0, 0.0, 1.0)
    return replace(roomy, pool_bytes=tokens * roomy.held_bytes(1))


class Bench:
    """Builds deployments and runs requests given in ticks."""

    tick = TICK
    RoundTimes, RoundPath = RoundTimes, RoundPath
    kind_of, pool_of = staticmethod(kind_of), staticmethod(pool_of)
    times_of, table_of = staticmethod(times_of), staticmethod(table_of)

    def round_deployment(
        self,
        topology: str | Topology = "1P1D",
        *,
        path: RoundPath | None = None,
        pool_tokens: float = 1e6,
        decode_tokens: float | None = None,
        **engine: Any,
    ) -> Deployment:
        """A deployment for round times; ``engine`` are its settings."""
        kind = kind_of("a100-sxm-80gb", 1)
        split = parse_topology(topology) if isinstance(topology, str) else topology
        decode = pool_tokens if decode_tokens is None else decode_tokens
        wires: Any = path or RoundPath()
        return Deployment(
            split, kind, kind, pool_of(kind, pool_tokens), pool_of(kind, decode), wires, Settings(**engine)
        )

    def run(
        self,
        strategy: Strategy,
        deployment: Deployment,
        rows: Sequence[tuple[float, int, int]],
        *,
        times: RoundTimes | None = None,
        ttft: float | None = None,
        tpot: float | None = None,
    ) -> list[Record]:
        """Evaluate rows of (arrival in ticks, uncached tokens, output tokens); SLOs in ticks."""
        stub: Any = times or RoundTimes()
        requests = [Request(at * TICK, tokens, 0, out) for at, tokens, out in rows]
        slo = Slo(None if ttft is None else ttft * TICK, None if tpot is None else tpot * TICK)
        run = evaluate(strategy, deployment, requests, slo, dict.fromkeys((deployment.prefill,), stub))
        for record in run.records:
            assert sum(record.account(name) for name in ACCOUNTS) == record.delay
        again = replay(strategy, deployment, requests, slo, dict.fromkeys((deployment.prefill,), stub))
        assert [self.seen(r) for r in again.records] == [self.seen(r) for r in run.records]
        return run.records

    def seen(self, record: Record) -> tuple[Any, ...]:
        """What either evaluator says of a request."""
        return tuple(getattr(record, field.name) for field in fields(Record))

    def ledger(self, record: Record) -> dict[str, float]:
        """The accounts that are not 0, in ticks."""
        found = {name: record.account(name) / TICK for name in ACCOUNTS}
        return {name: value for name, value in found.items() if value}

    def ticks(self, *values: float) -> tuple[float, ...]:
        """Seconds as ticks."""
        return tuple(value / TICK for value in values)

    def deployment(
        self,
        topology: str = "1P1D",
        *,
        prefill: tuple[str, int] = ("a100-sxm-80gb", 1),
        decode: tuple[str, int] = ("a100-sxm-80gb", 1),
        pool_tokens: float | None = None,
        overlap: str = "serial",
        control_s: float = 0.0,
        **engine: Any,
    ) -> Deployment:
        """A real deployment of a small model; ``pool_tokens``: KV that each instance holds."""
        base = Scenario("Qwen3-0.6B", "a100-sxm-80gb").deployment()
        source, target = kind_of(*prefill), kind_of(*decode)
        path: Handover = replace(
            base.path, source=source, target=target, overlap=overlap, control_s=control_s
        )
        tokens = 1e6 if pool_tokens is None else pool_tokens
        return Deployment(
            parse_topology(topology),
            source,
            target,
            pool_of(source, tokens),
            pool_of(target, tokens),
            path,
            Settings(**engine),
        )

    def times(self, deployment: Deployment) -> dict[InstanceKind, StepTimes]:
        """Shared step times of a deployment's kinds, for closed forms."""
        return {kind: times_of(kind) for kind in (deployment.prefill, deployment.decode)}

    def tables(self, deployment: Deployment) -> dict[InstanceKind, StepTable]:
        """Shared step times of a deployment's kinds, for evaluators."""
        return {kind: table_of(kind) for kind in (deployment.prefill, deployment.decode)}

    def evaluate(
        self, strategy: Strategy, deployment: Deployment, requests: Sequence[Request], slo: Slo
    ) -> Run:
        """Evaluate requests with shared step times."""
        return evaluate(strategy, deployment, requests, slo, self.tables(deployment))


@pytest.fixture(scope="session")
def bench() -> Bench:
    """Round step times, small deployments, and runs in ticks."""
    return Bench()
