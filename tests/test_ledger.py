"""The ledger as a set of identities, on random small workloads and deployments, and a second simulator."""

from __future__ import annotations

import itertools
import math
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.evaluate import summary
from costmodel.evaluate.ideal import Ideal, smooth
from costmodel.evaluate.instances import Instance
from costmodel.evaluate.reference import Reference, evaluate
from costmodel.evaluate.timeline import ACCOUNTS, Record
from costmodel.formulas import waiting
from costmodel.inputs.workload import Arrivals, Request, Slo
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Schedule,
    Strategy,
    deflected,
)

KAIROS = {"alpha": 1.3, "candidates": (64, 32, 16, 8)}
STRATEGIES = (
    COLOCATED,
    CHUNKED,
    DISAGGREGATED,
    deflected(Rule(RuleKind.KAIROS, **KAIROS)),  # type: ignore[arg-type]
    deflected(Rule(RuleKind.KAIROS_PRINTED, **KAIROS)),  # type: ignore[arg-type]
    deflected(Rule(RuleKind.THRESHOLD, threshold=40)),
)
NAMES = [s.name + (f" {s.rule.label}" if s.rule else "") for s in STRATEGIES]
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)

SLO = Slo(0.05, 0.012)
few = settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def requests(draw: st.DrawFn, shortest_output: int = 1) -> list[Request]:
    """Up to 14 requests: some at the same time, some with a cached prefix."""
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0.0, 0.0, 0.001, 0.004, 0.02]),
                st.integers(1, 150),
                st.sampled_from([0, 0, 1, 90]),
                st.integers(shortest_output, 12),
            ),
            min_size=1,
            max_size=14,
        )
    )
    times = itertools.accumulate(gap for gap, *_ in rows)
    return [Request(time, *lengths) for time, (_, *lengths) in zip(times, rows)]


@st.composite
def deployments(draw: st.DrawFn, **fixed: Any) -> dict[str, Any]:
    """Arguments of a deployment: kinds, topology, memory from tight to roomy, and the engine's settings."""
    kinds = st.sampled_from([("a100-sxm-80gb", 1), ("a100-sxm-80gb", 2), ("h100-sxm", 1)])
    shape = {
        "topology": st.sampled_from(["1P1D", "2P1D", "1P2D", "2P3D"]),
        "prefill": kinds,
        "decode": kinds,
        "pool_tokens": st.sampled_from([252.0, 400.0, 1e6]),  # 150 + 90 + 12 is the largest request
        "overlap": st.sampled_from(["serial", "layerwise"]),
        "control_s": st.sampled_from([0.0, 0.003]),
        "token_budget": st.sampled_from([16, 64, 300]),
        "max_seqs": st.sampled_from([1, 2, 256]),
        "first_token": st.sampled_from(["decode", "prefill", "recompute"]),
        "kv_policy": st.sampled_from(["grow", "reserve"]),
        "lag": st.booleans(),
        "routing": st.sampled_from(["shortest", "round-robin"]),
    }
    return {key: fixed.get(key) or draw(values) for key, values in shape.items()}


class Watched(Reference):
    """A reference that notes where requests went, and checks memory and seats whenever they are taken."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.arrived: dict[Instance, list[Record]] = {}
        self.copied_to: dict[Instance, list[Record]] = {}
        for inst in itertools.chain(*self.pools.values()):
            inst.hold = self._checked(inst)  # type: ignore[method-assign]

    def _checked(self, inst: Instance) -> Any:
        inner = inst.hold

        def hold(size: int) -> int:
            entered: int = inner(size)
            assert inst.used_bytes <= inst.pool.pool_bytes * (1 + 1e-12)
            assert inst.seats <= inst.settings.max_seqs
            assert len(inst.running) <= inst.seats
            return entered

        return hold

    def _arrive(self, record: Record, now: float) -> Instance:
        inst = super()._arrive(record, now)
        self.arrived.setdefault(inst, []).append(record)
        return inst

    def _copy(self, sequence: Any, held: int, source: Instance, target: Instance, now: float) -> None:
        self.copied_to.setdefault(target, []).append(sequence.record)
        super()._copy(sequence, held, source, target, now)


def watched(bench: Any, strategy: Strategy, deployment: Any, rows: list[Request]) -> tuple[Watched, Any]:
    reference = Watched(strategy, deployment, SLO, bench.tables(deployment))
    return reference, reference.run(rows)


@every_strategy
@few
@given(rows=requests(), shape=deployments())
def test_identities(bench: Any, strategy: Strategy, rows: list[Request], shape: dict[str, Any]) -> None:
    deployment = bench.deployment(shape.pop("topology"), **shape)
    first_token = deployment.settings.first_token
    reference, run = watched(bench, strategy, deployment, rows)

    assert run.finished == run.records and [r.request for r in run.records] == rows
    for record in run.records:
        assert abs(sum(record.account(name) for name in ACCOUNTS) - record.delay) < 1e-9
        assert abs(sum(summary.ttft_stages(record, first_token).values()) - record.ttft) < 1e-9
        _check_order(record, first_token)
    suffered, inflicted = (sum(getattr(r, n) for r in run.records) for n in ("stalls", "inflicted"))
    assert abs(suffered - inflicted) < 1e-9

    for inst, arrived in reference.arrived.items():
        starts = [record.p0 for record in arrived]
        assert starts == sorted(starts)  # first come, first served
        assert not inst.waiting and not inst.partial and not inst.pending_tokens
    for copied in reference.copied_to.values():
        finished = [record.p1 for record in copied]
        assert finished == sorted(finished)
    for inst in itertools.chain(*reference.pools.values()):
        assert (inst.used_bytes, inst.seats, inst.context, inst.running) == (0, 0, 0, [])

    stages = summary.p95_stages(run.finished, first_token)
    assert math.isclose(sum(stages.stages.values()), stages.ttft_s, rel_tol=1e-12)
    _check_gpu_time(run)


def _check_order(record: Record, first_token: str) -> None:
    request = record.request
    assert request.arrival_s <= record.p0 < record.p1 <= record.first <= record.end
    assert record.admission >= 0 and record.queue >= -1e-12
    if record.route == "remote" and record.copied:
        assert record.p1 <= record.reserved <= record.copied <= record.d0 <= record.end
        assert record.seating >= 0 and record.link >= -1e-12 and record.handover >= 0
        expected = {"prefill": record.p1, "decode": record.d0}.get(first_token)
        assert record.first == expected if expected is not None else record.first > record.d0
    else:
        assert record.first == record.p1 and record.seating == record.link == record.handover == 0
        assert record.route == "local" or (first_token, request.output_tokens) == ("prefill", 1)


def _check_gpu_time(run: Any) -> None:
    parts, spent = summary.gpu_seconds(run), sum(use.span_s * use.gpus for use in run.pools)
    assert math.isclose(sum(parts.values()) * len(run.finished), spent, rel_tol=1e-9)
    for use in run.pools:
        assert use.busy_s <= use.span_s * use.instances * (1 + 1e-12)
        assert math.isclose(
            use.prefill_s + use.decode_s + use.mixed_s, use.busy_s, rel_tol=1e-9, abs_tol=1e-12
        )
        assert 0 <= use.mfu <= use.busy_share and 0 <= use.mbu <= use.busy_share


@few
@given(rows=requests(shortest_output=2), shape=deployments())
def test_who_emits_the_first_token_moves_no_last_token(
    bench: Any, rows: list[Request], shape: dict[str, Any]
) -> None:
    topology = shape.pop("topology")
    ends = []
    for first_token in ("prefill", "decode"):
        deployment = bench.deployment(topology, **{**shape, "first_token": first_token})
        run = bench.evaluate(DISAGGREGATED, deployment, rows, SLO)
        ends.append([(r.p1, r.d0, r.end) for r in run.records])
    assert ends[0] == ends[1]


@every_strategy
@few
@given(rows=requests(), shape=deployments())
def test_the_same_again_and_at_another_clock(
    bench: Any, strategy: Strategy, rows: list[Request], shape: dict[str, Any]
) -> None:
    deployment = bench.deployment(shape.pop("topology"), **shape)
    first, again = (bench.evaluate(strategy, deployment, rows, SLO) for _ in range(2))
    assert first.records == again.records

    # Everything twice as slow, by a power of two: each time doubles to the last bit.
    slow = {
        kind: times.with_factors(dict.fromkeys(kind.efficiency.operators, 2.0))
        for kind, times in bench.tables(deployment).items()
    }
    path = type(deployment.path)(
        **{
            **{f: getattr(deployment.path, f) for f in deployment.path.__dataclass_fields__},
            "time_factor": 2.0,
            "control_s": 2 * deployment.path.control_s,
        }
    )
    slower = type(deployment)(
        deployment.topology,
        deployment.prefill,
        deployment.decode,
        deployment.prefill_pool,
        deployment.decode_pool,
        path,
        deployment.settings,
    )
    late = [r._replace(arrival_s=2 * r.arrival_s) for r in rows]
    twice = evaluate(strategy, slower, late, Slo(2 * SLO.ttft_s, 2 * SLO.tpot_s), slow)  # type: ignore[operator]
    for one, two in zip(first.records, twice.records):
        assert two.route == one.route
        for name in ("p0", "p1", "first", "end", "ideal_prefill", "ideal_decode", *ACCOUNTS):
            assert getattr(two, name) == 2 * getattr(one, name)


@few
@given(rows=requests(), shape=deployments(overlap="serial"))
def test_no_copy_leaves_before_its_link_is_free(
    bench: Any, rows: list[Request], shape: dict[str, Any]
) -> None:
    deployment = bench.deployment(shape.pop("topology"), **shape)
    reference, _ = watched(bench, DISAGGREGATED, deployment, rows)
    for copied in reference.copied_to.values():
        wires = []
        for record in copied:
            end = record.copied - deployment.path.control_s
            wires.append((end - deployment.path.wire_s(record.request.uncached_tokens), end))
        assert all(a[1] <= b[0] + 1e-12 for a, b in itertools.pairwise(sorted(wires)))


@every_strategy
def test_alone_a_request_has_no_delay_but_its_hand_over(bench: Any, strategy: Strategy) -> None:
    deployment = bench.deployment("1P1D", control_s=0.001)
    (record,) = bench.evaluate(strategy, deployment, [Request(1.0, 50, 30, 9)], SLO).records
    handover = record.handover if record.route == "remote" else 0.0
    assert abs(record.delay - handover) < 1e-12
    assert record.handover == 0 or record.handover == pytest.approx(0.001 + deployment.path.wire_s(50))


def test_ideal_is_that_of_the_fastest_kind_step_by_step(bench: Any) -> None:
    kinds = [bench.kind_of("a100-sxm-80gb", 1), bench.kind_of("h100-sxm", 1)]
    both = [bench.table_of(kind) for kind in kinds]
    prefill, decode = Ideal(both).of(Request(0.0, 70, 20, 5))
    fast = both[1]
    assert prefill == fast.prefill(70, 20)
    # j = 1..4 over 90 + j cached tokens
    assert decode == pytest.approx(sum(fast.decode(1, 90 + j) for j in (1, 2, 3, 4)), rel=1e-12)
    assert smooth(both, Request(0.0, 70, 20, 5))[1] == pytest.approx(decode, rel=1e-9)


# --- a second simulator ---------------------------------------------------------------------------------


def _lindley(arrivals: list[float], service: float) -> list[float]:
    """Wait of each request in a first-come-first-served queue of one server."""
    waits, free = [], 0.0
    for at in arrivals:
        start = max(at, free)
        waits.append(start - at)
        free = start + service
    return waits


@pytest.mark.parametrize("utilisation", [0.5, 0.8])
def test_md1(bench: Any, utilisation: float) -> None:
    """One prefill instance, prompts of one length, one output token: a queue with a known mean."""
    deployment = bench.round_deployment("1P1D", token_budget=64, first_token="prefill")
    times = {deployment.prefill: bench.RoundTimes()}
    service = 64 * bench.tick
    rate = utilisation / service
    means = []
    for seed in range(12):
        clock = Arrivals(rate).times(Random(seed))
        arrivals = [next(clock) for _ in range(1200)]
        run = evaluate(DISAGGREGATED, deployment, [Request(t, 64, 0, 1) for t in arrivals], Slo(), times)
        waits = [record.queue for record in run.records]
        assert waits == pytest.approx(_lindley(arrivals, service), abs=1e-9)
        assert [r.ttft for r in run.records] == pytest.approx([w + service for w in waits], abs=1e-9)
        means.append(fmean(waits[200:]))
    half_width = 2.201 * stdev(means) / math.sqrt(len(means))  # Student's t, 11 degrees of freedom
    assert abs(fmean(means) - waiting.md1_wait(rate, service)) < half_width
    assert half_width < 0.25 * fmean(means)
    ttft = waiting.distserve_ttft(rate, service)
    assert abs(fmean(means) + service - ttft) < half_width


def _colocated(rows: list[tuple[int, int, int]], budget: int) -> list[tuple[int, int]]:
    """(First, last token) of each request on one instance, prompts first, in whole ticks; decode steps of 10."""
    now, waiting_, running = 0, sorted(range(len(rows)), key=lambda i: (rows[i][0], i)), dict[int, int]()
    first, last = [0] * len(rows), [0] * len(rows)
    while waiting_ or running:
        batch: list[int] = []
        for i in waiting_:
            tokens = sum(rows[j][1] for j in batch)
            if rows[i][0] > now or (batch and tokens + rows[i][1] > budget):
                break
            batch.append(i)
            if tokens + rows[i][1] >= budget:
                break
        if batch:
            now += sum(rows[i][1] for i in batch)
            waiting_ = [i for i in waiting_ if i not in batch]
            for i in batch:
                first[i] = last[i] = now
                if rows[i][2] > 1:
                    running[i] = rows[i][2] - 1
        elif running:
            now += 10
            for i in list(running):
                running[i] -= 1
                if not running[i]:
                    last[i] = now
                    del running[i]
        else:
            now = rows[waiting_[0]][0]
    return list(zip(first, last))


def _chunked(rows: list[tuple[int, int, int]], budget: int) -> list[tuple[int, int]]:
    """The same with prompts in chunks beside decodes."""
    now, left, running = 0, [tokens for _, tokens, _ in rows], dict[int, int]()
    first, last = [0] * len(rows), [0] * len(rows)
    while any(left) or running:
        room, taken = budget - len(running), dict[int, int]()
        for i, tokens in enumerate(left):
            if tokens and rows[i][0] <= now and room > 0:
                taken[i] = min(tokens, room)
                room -= taken[i]
        if not taken and not running:
            now = min(rows[i][0] for i, tokens in enumerate(left) if tokens)
            continue
        now += sum(taken.values()) + (10 if running else 0)
        for i in list(running):
            running[i] -= 1
            if not running[i]:
                last[i] = now
                del running[i]
        for i, tokens in taken.items():
            left[i] -= tokens
            if not left[i]:
                first[i] = last[i] = now
                if rows[i][2] > 1:
                    running[i] = rows[i][2] - 1
    return list(zip(first, last))


@pytest.mark.parametrize(("strategy", "simulate"), [(COLOCATED, _colocated), (CHUNKED, _chunked)])
@settings(max_examples=80)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 150), st.integers(1, 40), st.integers(1, 6)), min_size=1, max_size=20
    ),
    budget=st.integers(2, 60),
)
def test_pooled_strategies_against_a_loop(
    bench: Any, strategy: Strategy, simulate: Any, rows: list[tuple[int, int, int]], budget: int
) -> None:
    assert strategy.pools[0].schedule in (Schedule.WHOLE, Schedule.CHUNKED)
    rows = sorted(rows, key=lambda row: row[0])
    one = type(bench.round_deployment().topology)(1, 0)
    records = bench.run(strategy, bench.round_deployment(one, token_budget=budget), rows)
    assert [bench.ticks(r.first, r.end) for r in records] == simulate(rows, budget)


# --- figures of a run -----------------------------------------------------------------------------------


def test_sample_quantiles() -> None:
    for count in range(1, 3000):
        values = list(range(1, count + 1))
        # the smallest value with at least 95 % (p / 100) of the sample at or below it
        for percent in (50, 94, 95, 96, 99):
            assert summary.quantile(values, percent / 100) == -(-percent * count // 100)


def test_p95_stages_by_hand() -> None:
    # 100 requests of 1..100 s: P95 is 95; P94..P96 are 94, 95, 96 and one more on either side: mean 95.
    def record(wait: float) -> Record:
        return Record(
            Request(0.0, 1, 0, 1),
            route="local",
            first=wait,
            end=wait,
            queue=wait / 4,
            ideal_prefill=wait * 3 / 4,
        )

    stages = summary.p95_stages([record(float(i)) for i in range(100, 0, -1)], "decode")
    assert (stages.ttft_s, stages.scale) == (95, 1)
    assert stages.stages["queue_s"] == 95 / 4 and stages.stages["prefill_s"] == 95 * 3 / 4
    # With one outlier at P96 and above, the mean of 93, 94, 95, 200, 200 is 136.4: scaled by 95 / 136.4.
    times = [*map(float, range(1, 96)), *[200.0] * 5]
    stages = summary.p95_stages([record(t) for t in times], "decode")
    assert stages.scale == pytest.approx(95 / 136.4) and sum(stages.stages.values()) == pytest.approx(95)
    assert summary.p95_stages([record(3.0)], "decode").ttft_s == 3


def test_attainment_counts_the_unfinished_as_missed() -> None:
    def record(first: float, end: float) -> Record:
        return Record(Request(0.0, 1, 0, 3), route="local", first=first, end=end)

    records = [record(1, 3), record(2, 3), record(1, 9), record(0, -1)]
    assert summary.attainment(records, Slo(1.5, 1.0)) == 0.25
    assert summary.attainment(records, Slo(1.5)) == 0.5
    assert summary.attainment(records, Slo(None, 1.0)) == 0.5


def test_confidence_interval_needs_twenty_a_batch_and_is_student_s() -> None:
    def record(ttft: float) -> Record:
        return Record(Request(0.0, 1, 0, 1), first=ttft, end=ttft)

    assert summary.p95_interval([record(1.0)] * 159) is None
    # Batches of 20 requests all alike, 1 to 8 s: mean 4.5, variance 6; 2.365 sqrt(6 / 8).
    rows = [record(float(i)) for i in range(1, 9) for _ in range(20)]
    assert summary.p95_interval(rows) == pytest.approx(2.365 * math.sqrt(6 / 8))
