"""What is replayed beside Kairos: a 2P2D of A100s, one mechanism at a time, and the stages of each TTFT."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from costmodel import Scenario, load_workload
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.replay import Replay
from costmodel.evaluate.summary import mean, quantile
from costmodel.evaluate.timeline import Record, Run
from costmodel.inputs.workload import Workload
from costmodel.operators.catalogue import KINDS
from costmodel.serving.deployment import Deployment, parse_topology
from costmodel.serving.handover import Handover
from costmodel.serving.strategies import DISAGGREGATED, Role, Strategy
from costmodel.serving.table import StepTable, step_tables

MODEL, GPU = "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"
REQUESTS = 3000


class Knobs(NamedTuple):
    """One mechanism at a time: bytes/s of each copy, side by side; seconds that a copy holds its ports; seats."""

    bandwidth: float | None = None
    serial_s: float | None = None
    seats: float | None = None


NONE = Knobs()


class Bench(NamedTuple):
    """A deployment, its step times and what requests take alone. The pools have instance kinds of their own."""

    deployment: Deployment
    tables: dict[Any, StepTable]
    ideal: Ideal


@cache
def bench() -> Bench:
    """2P2D of A100s, one HDR port each."""
    found = Scenario(MODEL, GPU, topology="2P2D", link="ib-hdr", prefill_hardware=GPU).deployment()
    tables = step_tables(found.kinds)
    return Bench(found, tables, Ideal(list(tables.values())))


def prefill_s(tokens: int) -> float:
    """Time of a prompt alone."""
    return bench().tables[bench().deployment.prefill].prefill(tokens)


@cache
def capacity(name: str) -> float:
    """Requests/s that two prefill instances take, prompt by prompt."""
    prompts = load_workload(name).sample(REQUESTS, 1)
    return 2 / mean([prefill_s(request.uncached_tokens) for request in prompts])


def loaded(name: str, load: float) -> Workload:
    """A packaged workload at a share of the prefill pool's capacity."""
    return load_workload(name).at_rate(load * capacity(name))


@dataclass(frozen=True)
class SideBySide(Handover):
    """Copies that wait for no port: none on the wire, and ``exposed_s`` for who estimates or adds them."""

    def wire_s(self, tokens: int) -> float:
        """No port is held."""
        return 0.0

    def exposed_s(self, tokens: int, prefill_s: float = 0.0) -> float:
        """Bytes over the bandwidth of one copy."""
        assert self.bandwidth_override is not None
        return self.wire_bytes(tokens) / self.bandwidth_override


def copies(knobs: Knobs, control_s: float = 0.0) -> Handover:
    """The path under a mechanism."""
    path = replace(bench().deployment.path, control_s=control_s)
    if knobs.bandwidth is not None:
        ends = path.source, path.target, path.link, path.connector
        return SideBySide(*ends, control_s=control_s, bandwidth_override=knobs.bandwidth)
    return path if knobs.serial_s is None else serial_path(path, knobs.serial_s)


def serial_path(path: Handover, time_s: float) -> Handover:
    """The path whose copies each hold the ports of both ends so long. Control time, by contrast, holds none."""
    values = path.connector.values
    latency = replace(values["latency"], value=time_s)
    return replace(path, connector=replace(path.connector, values={**values, "latency": latency}))


def play(
    workload: Workload,
    knobs: Knobs = NONE,
    strategy: Strategy = DISAGGREGATED,
    *,
    count: int = REQUESTS,
    seed: int = 1,
    control_s: float = 0.0,
    prefill_factor: float = 1.0,
    topology: str = "2P2D",
) -> Run:
    """Replay under one mechanism. ``prefill_factor`` scales all steps of the prefill instances."""
    deployment, tables, ideal = bench()
    deployment = replace(deployment, path=copies(knobs, control_s), topology=parse_topology(topology))
    if prefill_factor != 1:
        faster = tables[deployment.prefill].with_factors(dict.fromkeys(KINDS, prefill_factor))
        tables = {**tables, deployment.prefill: faster}
    made = Replay(strategy, deployment, workload.slo, tables, ideal)
    if knobs.seats is not None:  # of decode instances alone: settings have one limit for both pools
        for server in made.pools[Role.DECODE]:
            server.max_seqs = int(knobs.seats)
    records: list[Record] = []
    span = made.run(workload.sample(count, seed), records.append)
    records.sort(key=lambda record: record.index)
    return Run(strategy.name, records, made.uses(), span)


class Stages(NamedTuple):
    """Stages of one TTFT, in seconds; ``memory``, ``link`` and ``wire`` lie between prefill and the copy's end."""

    queue: float
    execution: float
    memory: float
    link: float
    wire: float
    boundary: float

    @property
    def transfer(self) -> float:
        """What a timer around the hand-over sees."""
        return self.memory + self.link + self.wire


def stages(record: Record, knobs: Knobs = NONE) -> Stages:
    """The stages of a request; a copy side by side with others is added as its bytes over its bandwidth."""
    before, execution = record.p0 - record.request.arrival_s, record.p1 - record.p0
    if record.route == "local":
        return Stages(before, execution, 0.0, 0.0, 0.0, 0.0)
    wire = record.handover
    if knobs.bandwidth is not None:
        wire = bench().deployment.path.wire_bytes(record.request.isl) / knobs.bandwidth
    return Stages(
        before, execution, record.reserved - record.p1, record.link, wire, record.d0 - record.copied
    )


def p95(values: Iterable[float]) -> float:
    """Sample P95."""
    return quantile(sorted(values), 0.95)
