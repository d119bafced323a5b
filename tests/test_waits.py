"""Waits by numbers: exact queues, a simulation of Lindley and of several servers, and laws of recorded gaps."""

from __future__ import annotations

import heapq
import math
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from costmodel.evaluate.prompts import Moments
from costmodel.evaluate.waits import Gaps, Waits, gi_m_c, mean_wait, waits
from costmodel.formulas import waiting


def beyond(found: Waits, seconds: float) -> float:
    """Share of all arrivals that wait longer."""
    return found.waiting * float(found.beyond(np.array([seconds]))[0])


def even(low: float, high: float, parts: int = 200) -> list[float]:
    return [low + (high - low) * (i + 0.5) / parts for i in range(parts)]


EXPONENTIAL = [-math.log(1 - u) for u in even(0, 1, 4000)]  # of mean 1


def simulated(
    gaps: list[float], services: list[float], servers: int, seed: int = 3, count: int = 200_000
) -> list[float]:
    """Waits of a queue of several servers, in order of size."""
    draw, free, clock, found = Random(seed), [0.0] * servers, 0.0, []
    for _ in range(count):
        clock += gaps[draw.randrange(len(gaps))]
        start = max(clock, heapq.heappop(free))
        heapq.heappush(free, start + services[draw.randrange(len(services))])
        found.append(start - clock)
    return sorted(found)


def gamma(scv: float, mean: float, count: int = 200_000) -> list[float]:
    draw = Random(8)
    return [draw.gammavariate(1 / scv, scv * mean) for _ in range(count)]


def test_one_exponential_server_waits_as_the_textbook_says() -> None:
    found = waits(Gaps(1 / 0.7, 1.0), EXPONENTIAL, [1.0] * len(EXPONENTIAL), 1)
    assert found.waiting == pytest.approx(0.7, rel=0.01)
    assert found.mean == pytest.approx(waiting.mmc_wait(0.7, 1, 1), rel=0.01)
    for seconds in (1.0, 5.0, 12.0):  # 0.7 exp(-0.3 t)
        assert beyond(found, seconds) == pytest.approx(0.7 * math.exp(-0.3 * seconds), rel=0.01)


def test_constant_and_mixed_services_wait_as_pollaczek_and_khinchine_say() -> None:
    assert waits(Gaps(1.25, 1.0), [1.0], [1.0], 1).mean == pytest.approx(waiting.md1_wait(0.8, 1), rel=0.01)
    # services of 1 and 4 s, three to one: mean 1.75, second moment 4.75, squared variation 0.5510
    found = waits(Gaps(2.5, 1.0), [1.0, 4.0], [3.0, 1.0], 1)
    assert found.mean == pytest.approx(waiting.mg1_wait(0.4, 1.75, 4.75 / 1.75**2 - 1), rel=0.01)
    assert found.waiting == pytest.approx(0.7, rel=0.01)


@pytest.mark.parametrize(("scv", "noise"), [(0.25, 0.1), (4.0, 0.1), (16.0, 0.35)])
def test_one_server_with_gamma_gaps_is_a_simulation(scv: float, noise: float) -> None:
    services = even(0.2, 1.8)
    found = waits(Gaps(1.6, scv), services, [1.0] * len(services), 1)
    ordered = simulated(gamma(scv, 1.6), services, 1)
    assert found.waiting == pytest.approx(sum(w > 0 for w in ordered) / len(ordered), rel=0.03)
    for share in (0.9, 0.95, 0.99):
        at = ordered[round(share * len(ordered))]
        assert beyond(found, at) == pytest.approx(1 - share, rel=noise), share


def test_recorded_gaps_are_taken_as_they_are() -> None:
    """Two gaps, short and long, are no gamma law: the recorded ones give the waits of a simulation."""
    recorded = (0.2,) * 3 + (5.4,)
    services = even(0.2, 1.4)
    found = waits(Gaps(1.5, 2.25, recorded), services, [1.0] * len(services), 1)
    ordered = simulated(list(recorded), services, 1)
    assert found.mean == pytest.approx(sum(ordered) / len(ordered), rel=0.04)
    as_gamma = waits(Gaps(1.5, 2.25), services, [1.0] * len(services), 1)
    assert abs(as_gamma.mean / found.mean - 1) > 0.1


@pytest.mark.parametrize("servers", [2, 3, 8])
def test_several_exponential_servers_are_erlangs(servers: int) -> None:
    for utilisation in (0.2, 0.5, 0.9):
        some, root = gi_m_c(Gaps(1 / (servers * utilisation), 1.0), 1.0, servers)
        assert some == pytest.approx(waiting.erlang_c(servers, utilisation), rel=1e-4)
        assert root == pytest.approx(utilisation, rel=1e-6)


def test_gi_m_c_is_a_simulation_and_one_server_its_root() -> None:
    gaps = Gaps(0.5, 4.0)
    assert gi_m_c(gaps, 0.3, 1)[0] == pytest.approx(gi_m_c(gaps, 0.3, 1)[1], rel=1e-9)
    some, _ = gi_m_c(gaps, 1.0, 3)
    ordered = simulated(gamma(4.0, 0.5), EXPONENTIAL, 3)
    assert some == pytest.approx(sum(w > 0 for w in ordered) / len(ordered), rel=0.02)
    assert mean_wait(gaps, Moments(1.0, 1.0), 3) == pytest.approx(sum(ordered) / len(ordered), rel=0.06)


@pytest.mark.parametrize("scv", [0.25, 1.0, 9.0])
def test_several_servers_are_near_a_simulation(scv: float) -> None:
    services = even(0.2, 1.8)
    found = waits(Gaps(0.45, scv), services, [1.0] * len(services), 3)
    ordered = simulated(gamma(scv, 0.45), services, 3)
    at = ordered[round(0.95 * len(ordered))]
    assert beyond(found, at) == pytest.approx(0.05, rel=0.25)
    assert found.mean == pytest.approx(sum(ordered) / len(ordered), rel=0.25)


def test_mean_wait_is_exact_where_it_says_so() -> None:
    assert mean_wait(Gaps(2.0, 1.0), Moments(1.0, 3.0), 1) == pytest.approx(
        waiting.mg1_wait(0.5, 1, 3), rel=1e-6
    )
    assert mean_wait(Gaps(0.5, 1.0), Moments(1.0, 1.0), 4) == pytest.approx(
        waiting.mmc_wait(2, 1, 4), rel=1e-4
    )
    assert mean_wait(Gaps(2.0, 0.0), Moments(1.0, 0.0), 1) == 0  # everything comes and goes on time
    assert mean_wait(Gaps(2.0, 1.0), Moments(0.0, 0.0), 1) == 0


def test_nobody_waits_without_load() -> None:
    found = waits(Gaps(1e5, 1.0), [0.1], [1.0], 8)
    assert found.waiting < 1e-6 and found.mean < 1e-6
    assert gi_m_c(Gaps(1e5, 0.01), 0.1, 8)[0] < 1e-6


def test_a_lattice_that_cannot_tell_gaps_from_services_says_so() -> None:
    services = even(0.2, 1.8)
    assert waits(Gaps(1.6, 4.0), services, [1.0] * 200, 1).total == pytest.approx(1, abs=1e-6)
    # gaps of 0.05, 0.1 and 0.15 s and services of 0.05 s: nobody waits, and the transform has many zeros
    assert abs(waits(Gaps(0.1, 1 / 6, (0.05, 0.1, 0.15)), [0.05], [1.0], 1).total - 1) > 0.1


def test_many_idle_servers_and_gaps_of_nothing() -> None:
    assert gi_m_c(Gaps(1e3, 1.0), 0.1, 256)[0] == 0
    # half of the gaps are none: with two servers Takacs' terms are 0 / 0, and the share is that of a simulation
    some, _ = gi_m_c(Gaps(1.0, 1.0, (0.0, 2.0)), 0.5, 2)
    ordered = simulated([0.0, 2.0], [0.5 * s for s in EXPONENTIAL], 2)
    assert some == pytest.approx(sum(w > 0 for w in ordered) / len(ordered), rel=0.02)
    nobody = waits(Gaps(0.5, 1.0), [0.0, 0.0], [1.0, 1.0], 1)
    assert nobody.waiting == nobody.mean == 0


def test_clumps_far_apart_are_seen_by_those_in_them() -> None:
    """Gaps of squared variation 16, 20 s apart on average, services of 0.05 s: the clumps wait, and no more."""
    services = even(0.03, 0.07)
    found = waits(Gaps(20.0, 16.0), services, [1.0] * 200, 1)
    ordered = simulated(gamma(16.0, 20.0), services, 1)
    assert found.waiting == pytest.approx(
        sum(w > 0 for w in ordered) / len(ordered), rel=0.1
    )  # waits below a step of the lattice count as none
    assert found.mean == pytest.approx(sum(ordered) / len(ordered), rel=0.1)


def test_thinning_and_turns() -> None:
    gaps = Gaps(2.0, 3.0)
    # a share q of renewal arrivals: q scv + 1 - q; every n-th: scv / n
    assert gaps.thinned(0.25) == Gaps(8.0, 1.5) and gaps.thinned(1.0) is gaps
    assert gaps.every(4) == Gaps(8.0, 0.75) and gaps.every(1) is gaps
    draw, kept, clock = Random(5), [0.0], 0.0
    for _ in range(200_000):
        clock += draw.gammavariate(1 / 3, 6.0)
        if draw.random() < 0.25:
            kept.append(clock)
    found = [b - a for a, b in pairwise(kept)]
    mean = sum(found) / len(found)
    assert sum((g - mean) ** 2 for g in found) / len(found) / mean**2 == pytest.approx(1.5, rel=0.05)


def test_transforms_are_means_of_exponentials() -> None:
    values = gamma(2.0, 0.7)
    for x in (0.3, 2.0):
        expected = sum(math.exp(-x * v) for v in values) / len(values)
        assert Gaps(0.7, 2.0).transform(x) == pytest.approx(expected, rel=0.01)
        assert Gaps(0.7, 2.0, tuple(values[:1000])).transform(x) == pytest.approx(expected, rel=0.1)
    assert Gaps(0.5, 0.0).transform(2.0) == pytest.approx(math.exp(-1))


@pytest.mark.parametrize("busy", [0.2, 0.9503])
def test_two_thousand_servers_wait_as_erlang_says(busy: float) -> None:
    # Erlang's loss, one server after the other: 1 / B(c) = 1 + c / load / B(c - 1)
    inverse = 1.0
    for count in range(1, 2001):
        inverse = 1 + count / (2000 * busy) * inverse
    waits = 1 / (inverse * (1 - busy) + busy)
    found = mean_wait(Gaps(1.0, 1.0), Moments(2000 * busy, 1.0), 2000)
    assert found == pytest.approx(waits * busy / (1 - busy), rel=1e-9, abs=1e-30)
