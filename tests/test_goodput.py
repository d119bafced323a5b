"""Goodput: the bisection against a plain scan of rates, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costmodel.decision.goodput import RESOLUTION, Goodput, Search
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.reference import evaluate
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, STRATEGIES, Strategy, deflected

PROBE = 60


@pytest.fixture(scope="module")
def deployment(bench: Any) -> Any:
    return bench.deployment("1P1D")


def workload(slo: Slo, rate: float = 20.0) -> Workload:
    return Workload("own", Arrivals(rate), Lengths(1500, 0.6), 0, Lengths(12, 0.5), slo, "here")


def search(
    bench: Any, strategy: Strategy, deployment: Any, load: Workload, messages: list[str] | None = None
) -> Search:
    tables = bench.tables(deployment)
    report = messages.append if messages is not None else lambda message: None
    ideal = Ideal(list(tables.values()))
    return Search(strategy, deployment, load, bench.times(deployment), tables, ideal, 3, report, PROBE)


def share_met(bench: Any, strategy: Strategy, deployment: Any, load: Workload) -> float:
    """Attainment, counted here, of the probe's requests."""
    slo = load.slo
    run = evaluate(strategy, deployment, load.sample(PROBE, 3), slo, bench.tables(deployment))
    met = 0
    for record in run.records:
        in_time = slo.ttft_s is None or record.first - record.request.arrival_s <= slo.ttft_s
        gaps = record.request.output_tokens - 1
        fast = slo.tpot_s is None or not gaps or (record.end - record.first) / gaps <= slo.tpot_s
        met += in_time and fast
    return met / PROBE


def stable(bench: Any, strategy: Strategy, deployment: Any, load: Workload) -> bool:
    return ClosedForm(deployment, load, bench.times(deployment), points=12).means(strategy).stable


@pytest.mark.parametrize(
    ("strategy", "slo"),
    [(COLOCATED, Slo(0.15)), (CHUNKED, Slo(0.15)), (DISAGGREGATED, Slo(0.2, 0.02))],
)
def test_bisection_finds_what_a_scan_finds(bench: Any, deployment: Any, strategy: Strategy, slo: Slo) -> None:
    def good(rate: float) -> bool:
        load = workload(slo, rate)
        return (
            stable(bench, strategy, deployment, load) and share_met(bench, strategy, deployment, load) >= 0.9
        )

    edge = 2.0  # by quarters first, then finely around it: attainment need not fall at every step
    while good(edge * 1.25):
        edge *= 1.25
    rates = [edge * RESOLUTION**i for i in range(-2, 15)]
    met = [good(rate) for rate in rates]
    assert met[0] and not met[-1]
    first_bad, last_good = rates[met.index(False)], rates[len(met) - 1 - met[::-1].index(True)]
    for start in (1.0, 900.0):
        found = search(bench, strategy, deployment, workload(slo, start)).run()
        assert first_bad / RESOLUTION**2 <= found.rate_per_s <= last_good * RESOLUTION**2
        assert good(found.rate_per_s) and found.reason is None


def test_nothing_meets_a_ttft_below_the_prefill_alone(bench: Any, deployment: Any) -> None:
    shortest = bench.times(deployment)[deployment.prefill].prefill(1)
    for strategy in STRATEGIES:
        found = search(bench, strategy, deployment, workload(Slo(shortest / 2), 20.0)).run()
        assert found.rate_per_s == 0 and found.binding == "ttft"
        assert found.reason is not None and "misses the SLOs even at" in found.reason


def test_the_slo_that_binds_is_named(bench: Any, deployment: Any) -> None:
    tight_ttft = search(bench, COLOCATED, deployment, workload(Slo(0.05, 10.0))).run()
    tight_tpot = search(bench, COLOCATED, deployment, workload(Slo(10.0, 0.008))).run()
    assert (tight_ttft.binding, tight_tpot.binding) == ("ttft", "tpot")
    assert tight_ttft.rate_per_s > 0 and tight_tpot.rate_per_s > 0


def test_stability_is_the_limit_where_no_slo_binds(bench: Any, deployment: Any) -> None:
    for strategy in (COLOCATED, CHUNKED, DISAGGREGATED, deflected()):
        found = search(bench, strategy, deployment, workload(Slo(1e6, 1e6))).run()
        assert found.binding is None
        assert stable(bench, strategy, deployment, workload(Slo(1.0), found.rate_per_s))
        assert not stable(bench, strategy, deployment, workload(Slo(1.0), found.rate_per_s * RESOLUTION))


def test_probes_are_counted_said_and_capped(bench: Any, deployment: Any) -> None:
    messages: list[str] = []
    own = search(bench, COLOCATED, deployment, workload(Slo(0.1, 0.02)), messages)
    found = own.run()
    assert found.probes == len(messages) > 3 and all("colocated" in text for text in messages)
    times, tables = bench.times(deployment), bench.tables(deployment)
    ideal = Ideal(list(tables.values()))
    large = Search(COLOCATED, deployment, workload(Slo(1.0)), times, tables, ideal, 1, print, 5000)
    assert large.probe == 1000


def test_first_token_of_the_prefill_side_counts_as_it_is(bench: Any) -> None:
    """A hand-over of half a second breaks a TTFT SLO of 0.2 s unless token 1 leaves the prefill side."""
    answers: dict[str, Goodput] = {}
    for first_token in ("prefill", "decode"):
        deployment = bench.deployment("1P1D", control_s=0.5, first_token=first_token)
        one = replace(workload(Slo(0.2)), output=Lengths(1, 0, high=1))
        answers[first_token] = search(bench, DISAGGREGATED, deployment, one).run()
    assert answers["decode"].rate_per_s == 0 < answers["prefill"].rate_per_s
