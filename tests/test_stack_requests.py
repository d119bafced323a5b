"""An engine's constant in TTFT: in both evaluators, open and closed loops, the ideal, and closed forms."""

from __future__ import annotations

import random
from typing import Any

import pytest
from made_stacks import A100, H100, stack_of
from test_replay import assert_same

from costmodel.evaluate import summary
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.reference import evaluate
from costmodel.evaluate.replay import replay
from costmodel.evaluate.timeline import ACCOUNTS, Run
from costmodel.inputs.stack import load_stack
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import StepTimes
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Strategy

SMALL = "Qwen3-0.6B"
CONSTANT = 0.05
every_strategy = pytest.mark.parametrize(
    "strategy", [COLOCATED, CHUNKED, DISAGGREGATED], ids=lambda s: s.name
)


def drawn(count: int = 60, seed: int = 3) -> list[Request]:
    draw, now, rows = random.Random(seed), 0.0, []
    for _ in range(count):
        now += draw.expovariate(20)
        rows.append(Request(now, draw.randint(10, 3000), 0, draw.randint(1, 60)))
    return rows


def assert_adds_up(run: Run, constant: float) -> None:
    for record in run.records:
        assert record.constant == constant
        assert abs(sum(record.account(name) for name in ACCOUNTS) - record.delay) < 1e-9
        assert record.delay == record.e2e - record.ideal
        assert record.ideal == constant + record.ideal_prefill + record.ideal_decode
        assert abs(sum(summary.ttft_stages(record, "decode").values()) - record.ttft) < 1e-9


@pytest.mark.parametrize("concurrency", [None, 1, 5])
@pytest.mark.parametrize(
    ("model", "gpu", "tp", "name"),
    [(SMALL, H100, 1, "vllm-2026"), ("Llama-2-70b-hf", A100, 4, "splitwise-2023")],
)
@every_strategy
def test_replay_is_the_reference_under_a_stack(
    strategy: Strategy, model: str, gpu: str, tp: int, name: str, concurrency: int | None
) -> None:
    deployment = Scenario(model, gpu, topology="1P1D", tp=tp, stack=name).deployment()
    constant = load_stack(name).fits[gpu].parameters.request_latency
    assert constant > 0
    run, again = (
        each(strategy, deployment, drawn(), Slo(), concurrency=concurrency) for each in (evaluate, replay)
    )
    assert_same(run, again)
    for found in (run, again):
        assert_adds_up(found, constant)


@every_strategy
def test_a_constant_moves_ttft_e2e_and_ideal_alike(strategy: Strategy) -> None:
    """In an open loop nothing else moves: arrivals are when the engine's queue has a request."""
    with_it, without = (
        Scenario(SMALL, H100, topology="1P1D", stack=stack_of(request_latency=latency)).deployment()
        for latency in (CONSTANT, 0.0)
    )
    for each in (evaluate, replay):
        one, other = (each(strategy, found, drawn(), Slo()) for found in (with_it, without))
        for a, b in zip(one.records, other.records):
            for name in ("ttft", "e2e", "ideal"):
                assert getattr(a, name) - getattr(b, name) == pytest.approx(CONSTANT, abs=1e-12), name
            assert (a.first, a.end, a.tpot, a.p0) == (b.first, b.end, b.tpot, b.p0)
            assert a.delay == pytest.approx(b.delay, abs=1e-9)


@pytest.mark.parametrize("clients", [1, 4])
def test_clients_of_a_closed_loop_wait_for_the_constant(clients: int) -> None:
    """The next request of a client reaches the queue a constant after its last one ended."""
    deployment = Scenario(SMALL, H100, topology="1P1D", stack=stack_of(request_latency=CONSTANT)).deployment()
    rows = [at_once(row) for row in drawn(30)]
    for each in (evaluate, replay):
        records = each(COLOCATED, deployment, rows, Slo(), concurrency=clients).records
        ends = sorted(record.end for record in records)
        for record, end in zip(records[clients:], ends):
            assert record.request.arrival_s == pytest.approx(end + CONSTANT, abs=1e-12)
        assert all(record.ttft > CONSTANT for record in records)
        if clients == 1:  # each request takes its own time, one after the other
            total = sum(record.e2e for record in records)
            assert records[-1].end + CONSTANT == pytest.approx(total, rel=1e-12)


def at_once(request: Request) -> Request:
    return request._replace(arrival_s=0.0)


def test_closed_forms_have_the_constant_as_well() -> None:
    workload = Workload("own", Arrivals(2.0), Lengths(600, 0.6), 0, Lengths(20, 0.5), Slo(), "here")
    found: list[Any] = []
    for latency in (0.0, CONSTANT):
        deployment = Scenario(
            SMALL, H100, topology="1P1D", stack=stack_of(request_latency=latency)
        ).deployment()
        times = {kind: StepTimes(kind) for kind in (deployment.prefill, deployment.decode)}
        found.append(ClosedForm(deployment, workload, times, 16).means(COLOCATED))
    without, with_it = found
    assert with_it.ttft_s - without.ttft_s == pytest.approx(CONSTANT, abs=1e-12)
    assert with_it.ideal_s - without.ideal_s == pytest.approx(CONSTANT, abs=1e-12)
    assert with_it.delay_s == pytest.approx(without.delay_s, rel=1e-12)
    assert with_it.tpot_s == pytest.approx(without.tpot_s, rel=1e-12)


@every_strategy
def test_one_constant_a_request_however_many_instances_it_sees(strategy: Strategy) -> None:
    deployment = Scenario(SMALL, H100, topology="1P1D", stack=stack_of(request_latency=CONSTANT)).deployment()
    (record,) = replay(strategy, deployment, [Request(0.0, 900, 0, 5)], Slo()).records
    assert CONSTANT + record.ideal_prefill <= record.ttft < 2 * CONSTANT
