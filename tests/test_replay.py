"""Replay against the token-by-token reference: every timestamp and account, on random small workloads."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.evaluate.reference import evaluate
from costmodel.evaluate.replay import replay
from costmodel.evaluate.timeline import Record, Run
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from test_ledger import KAIROS, NAMES, SLO, STRATEGIES, deployments, requests

BUSY = deflected(Rule(RuleKind.BUSY, threshold=20, queue=2))
every_strategy = pytest.mark.parametrize("strategy", (*STRATEGIES, BUSY), ids=[*NAMES, "busy"])
many = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
SECONDS = [f.name for f in fields(Record) if f.type == "float" and f.name != "held_byte_s"]
EQUAL = ["index", "route", "cached", "preempted", "ahead", "ahead_tokens", "prefill_on", "decode_on"]


def same(one: Run, other: Run) -> None:
    """Both runs have the same records within 1e-9 s, and the same use of their pools."""
    assert len(one.records) == len(other.records)
    for a, b in zip(one.records, other.records):
        for name in EQUAL:
            assert getattr(a, name) == getattr(b, name), name
        for name in SECONDS:
            assert abs(getattr(a, name) - getattr(b, name)) < 1e-9, (name, a, b)
        assert a.held_byte_s == pytest.approx(b.held_byte_s, rel=1e-9)
    for use, again in zip(one.pools, other.pools):
        assert use.role == again.role
        for field in fields(use)[1:]:
            assert getattr(use, field.name) == pytest.approx(getattr(again, field.name), rel=1e-9, abs=1e-12)


@every_strategy
@many
@given(rows=requests(), shape=deployments(), concurrency=st.sampled_from([None, None, 1, 3]))
def test_replay_is_the_reference(
    bench: Any, strategy: Strategy, rows: list[Request], shape: dict[str, Any], concurrency: int | None
) -> None:
    deployment = bench.deployment(shape.pop("topology"), **shape)
    times = bench.tables(deployment)
    one = evaluate(strategy, deployment, rows, SLO, times, concurrency=concurrency)
    same(one, replay(strategy, deployment, rows, SLO, times, concurrency=concurrency))
