"""Bands by replay: each kind moved, the same requests followed again, goodput searched again."""

from __future__ import annotations

import math
from typing import Any

import pytest

from costmodel.decision.bands import Bands, perturbed
from costmodel.decision.comparison import Comparison, Options
from costmodel.decision.moved import Moved
from costmodel.evaluate.replay import replay
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.serving.strategies import CHUNKED, COLOCATED
from costmodel.serving.table import StepTable

SLO = Slo(ttft_s=0.5, tpot_s=0.02, attainment=0.9)


def workload(**arrivals: Any) -> Workload:
    return Workload("own", Arrivals(8.0, **arrivals), Lengths(600, 0.6), 0, Lengths(20, 0.5), SLO, "here")


@pytest.fixture(scope="module")
def compared(bench: Any) -> Comparison:
    varying = workload(on_share=0.5, on_period_s=20.0)
    assert varying.bursty
    return Comparison(bench.deployment("2P2D"), varying, Options(requests=120, probe=100))


def moved_of(compared: Comparison) -> Moved:
    assert compared.bands.replayed is not None
    return compared.bands.replayed


def test_figures_are_those_of_replays_with_each_kind_slower(compared: Comparison) -> None:
    """P95 TTFT and mean delay of every move, from a replay made by hand with a table of that factor."""
    moved, deployment, requests = moved_of(compared), compared.deployment, compared.requests
    cases = list(zip(compared.bands.kinds, moved.cases, moved.figures(COLOCATED)))
    factors = dict(zip(compared.bands.kinds[1:], perturbed(deployment, compared.times)))
    for name, case, found in cases:
        if case is None or name in ("", "kv_copy"):
            continue
        kind = deployment.prefill
        table = StepTable(kind, factors[name][1][kind].factors)
        run = replay(COLOCATED, deployment, requests, SLO, {kind: table})
        slowest = sorted(record.ttft for record in run.records)
        assert found.ttft_s == pytest.approx(slowest[math.ceil(0.95 * len(slowest)) - 1])
        assert found.delay_s == pytest.approx(sum(r.delay for r in run.records) / len(run.records))


def test_kinds_that_move_next_to_nothing_are_not_replayed(compared: Comparison) -> None:
    moved = moved_of(compared)
    named = dict(zip(compared.bands.kinds, moved.cases))
    assert named["embedding"] is None and named["whole_step"] is not None
    figures = dict(zip(compared.bands.kinds, moved.figures(CHUNKED)))
    assert figures["embedding"] == figures[""] and figures["whole_step"].ttft_s > figures[""].ttft_s


def test_slower_steps_reach_a_lower_goodput(compared: Comparison) -> None:
    best = compared.goodput(COLOCATED).rate_per_s
    rates = dict(zip(compared.bands.kinds, moved_of(compared).rates(COLOCATED, best)))
    assert rates[""] == best and rates["embedding"] == best
    # the whole step is slower by 13 %: capacity falls by about as much, and no more than by half
    assert 0.5 * best < rates["whole_step"] < 0.97 * best


def test_only_what_has_no_closed_form_is_replayed(bench: Any, compared: Comparison) -> None:
    assert compared.bands.by_replay(COLOCATED)
    steady = Comparison(bench.deployment("2P2D"), workload(), Options(requests=120, probe=100))
    assert not steady.bands.by_replay(COLOCATED)
    closed = Comparison(bench.deployment("2P2D"), workload(), Options(method="closed"))
    assert closed.bands.replayed is None
    bare = Bands(compared.deployment, compared.workload, compared.times)
    assert bare.factor(COLOCATED, "ttft_s") is None and bare.delays(COLOCATED) is None
    assert bare.rates(COLOCATED, 1.0, "ttft") is None


def test_bands_of_a_varying_load_reach_the_answer(compared: Comparison) -> None:
    result = compared.result(COLOCATED)
    assert result.ttft_p95_low_s is not None and result.ttft_p95_s is not None
    assert result.ttft_p95_low_s < result.ttft_p95_s < (result.ttft_p95_high_s or 0.0)
    assert result.goodput_low_per_gpu_per_s is None and "best two" in (result.band_reason or "")
    banded = compared.goodput_banded(result, COLOCATED)
    assert banded.goodput_low_per_gpu_per_s is not None and banded.goodput_per_gpu_per_s is not None
    assert banded.goodput_low_per_gpu_per_s < banded.goodput_per_gpu_per_s
