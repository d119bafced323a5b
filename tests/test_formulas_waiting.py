"""Queues: published and textbook values, a birth-death chain and a simulation as oracles."""

from __future__ import annotations

import random
from math import factorial

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import waiting


def test_single_server_waits() -> None:
    # rate 0.3, service 2: busy 0.6. Deterministic 0.3 * 4 / (2 * 0.4); times 1 + 2.5 for variable service
    assert waiting.md1_wait(rate=0.3, service=2) == pytest.approx(1.5, rel=1e-12)
    assert waiting.mg1_wait(rate=0.3, service=2, service_scv=2.5) == pytest.approx(5.25, rel=1e-12)
    # exponential service is M/M/1: 0.6 * 2 / 0.4
    assert waiting.mg1_wait(rate=0.3, service=2, service_scv=1) == pytest.approx(3.0, rel=1e-12)


def test_md1_wait_against_a_simulation() -> None:
    draw = random.Random(20_240_601)
    wait, total, count = 0.0, 0.0, 200_000
    for _ in range(count):
        total += wait
        wait = max(0.0, wait + 2.0 - draw.expovariate(0.3))  # Lindley: the next arrival's wait
    assert waiting.md1_wait(rate=0.3, service=2.0) == pytest.approx(total / count, rel=0.03)


@pytest.mark.parametrize(
    ("servers", "utilisation", "probability"),
    [
        (1, 0.7, 0.7),  # one server is busy for its share of time
        (2, 0.5, 1 / 3),
        (2, 0.75, 9 / 14),  # 1.125 / (1.125 + 0.25 * 2.5)
        (3, 0.5, 9 / 38),  # 0.5625 / (0.5625 + 0.5 * (1 + 1.5 + 1.125))
        (10, 0.8, 0.4092),  # eight erlangs on ten servers, tables of Erlang's delay formula
    ],
)
def test_erlang_c_published(servers: int, utilisation: float, probability: float) -> None:
    assert waiting.erlang_c(servers, utilisation) == pytest.approx(probability, abs=5e-5)


def birth_death(servers: int, utilisation: float, states: int = 4000) -> float:
    """Probability of at least ``servers`` in the system, summed state by state."""
    weight, weights = 1.0, []
    for n in range(states):
        weights.append(weight)
        weight *= servers * utilisation / min(n + 1, servers)
    return sum(weights[servers:]) / sum(weights)


@given(servers=st.integers(1, 30), utilisation=st.floats(0.05, 0.95))
def test_erlang_c_is_the_chain(servers: int, utilisation: float) -> None:
    expected = birth_death(servers, utilisation)
    assert waiting.erlang_c(servers, utilisation) == pytest.approx(expected, rel=1e-9)


def test_erlang_c_of_many_servers_stays_finite() -> None:
    assert 0 < waiting.erlang_c(200, 0.97) < 1


def test_erlang_c_trace_of_three_servers() -> None:
    rho = sympy.Symbol("utilisation", positive=True)
    load = 3 * rho
    top = load**3 / factorial(3)
    textbook = top / (top + (1 - rho) * (1 + load + load**2 / factorial(2)))
    assert sympy.simplify(waiting.erlang_c.expression() - textbook) == 0


def test_mmc_wait() -> None:
    # M/M/1: 0.6 * 2 / 0.4
    assert waiting.mmc_wait(rate=0.3, service=2, servers=1) == pytest.approx(3.0, rel=1e-12)
    # M/M/2 at 0.75: (9/14) * 3 / (2 * 0.25)
    assert waiting.mmc_wait(rate=0.5, service=3, servers=2) == pytest.approx(27 / 7, rel=1e-12)
    # and in closed form rho**2 D / (1 - rho**2)
    assert waiting.mmc_wait(rate=0.5, service=3, servers=2) == pytest.approx(0.5625 * 3 / 0.4375)


def test_klb_wait_by_hand() -> None:
    # M/G/1 under Poisson arrivals, whatever the service
    assert waiting.klb_wait(0.3, 2, 1, 2.5) == pytest.approx(waiting.mg1_wait(0.3, 2, 2.5), rel=1e-12)
    # more even gaps, squared variation 1/4, half busy with services of squared variation 1/2:
    # 1 * (0.75 / 2) * exp(-2 * 0.5 / 1.5 * 0.5625 / 0.75) = 0.375 exp(-1/2)
    assert waiting.klb_wait(0.5, 1, 0.25, 0.5) == pytest.approx(0.22744899, rel=1e-7)
    # less even gaps, 2: 1 * (2.5 / 2) * exp(-0.5 * 1 / (2 + 2))
    assert waiting.klb_wait(0.5, 1, 2, 0.5) == pytest.approx(1.10312112, rel=1e-7)
    # twice as slow in all: twice the wait
    assert waiting.klb_wait(0.25, 2, 2, 0.5) == pytest.approx(2.20624225, rel=1e-7)


def test_klb_waiting_probability_by_hand() -> None:
    # under Poisson arrivals the utilisation, whatever the service
    assert waiting.klb_waiting_probability(0.7, 1, 2.5) == pytest.approx(0.7, rel=1e-12)
    # 1/4, 1/2 at 0.5: 0.5 - 0.75 * 0.25 * (1.25 + 0.25) / (1 - 0.25 + 0.25 * 1.5) = 0.5 - 0.25
    assert waiting.klb_waiting_probability(0.5, 0.25, 0.5) == pytest.approx(0.25, rel=1e-12)
    # 2, 1/2 at 0.5: 0.5 + 0.25 * 2 / (2 + 0.25 * 8.5) = 0.5 + 4 / 33
    assert waiting.klb_waiting_probability(0.5, 2, 0.5) == pytest.approx(0.5 + 4 / 33, rel=1e-12)


@pytest.mark.parametrize(
    ("arrival_scv", "service_scv", "bound"), [(0.25, 0.0, 0.15), (0.25, 1.0, 0.05), (2.0, 1.0, 0.1)]
)
def test_klb_against_a_simulation(arrival_scv: float, service_scv: float, bound: float) -> None:
    """Lindley's recursion with gamma gaps and services, 0.7 busy."""
    draw = random.Random(11)
    wait, total, waits, count = 0.0, 0.0, 0, 300_000
    for _ in range(count):
        total, waits = total + wait, waits + (wait > 0)
        service = draw.gammavariate(1 / service_scv, service_scv) if service_scv else 1.0
        wait = max(0.0, wait + service - draw.gammavariate(1 / arrival_scv, arrival_scv / 0.7))
    assert waiting.klb_wait(0.7, 1, arrival_scv, service_scv) == pytest.approx(total / count, rel=2 * bound)
    assert waiting.klb_waiting_probability(0.7, arrival_scv, service_scv) == pytest.approx(
        waits / count, rel=bound
    )


def test_gigc_wait_by_hand() -> None:
    # M/M/2 at 0.75 waits 27/7
    assert waiting.gigc_wait(rate=0.5, service=3, servers=2, arrival_scv=1, service_scv=1) == pytest.approx(
        27 / 7
    )
    # one server: the wait of one server
    assert waiting.gigc_wait(0.5, 1, 1, 2, 0.5) == pytest.approx(waiting.klb_wait(0.5, 1, 2, 0.5), rel=1e-12)
    # two servers at 0.5, gaps of 2, services of 1/2: erlang_c 1/3 over 0.5, times one server of half the service
    assert waiting.gigc_wait(1, 1, 2, 2, 0.5) == pytest.approx(2 / 3 * 1.10312112 / 2, rel=1e-7)


def test_exponential_tail_is_that_of_two_servers() -> None:
    # M/M/2 at 0.75, services of 3 s: 9/14 wait, and of them exp(-2 (1 - 0.75) t / 3) longer than t
    for waited in (0.0, 4.0, 20.0):
        found = waiting.exponential_tail(waited, mean_wait=27 / 7, waiting_probability=9 / 14)
        assert found == pytest.approx(9 / 14 * 2.718281828459045 ** (-waited / 6), rel=1e-12)


def test_distserve_equations_by_hand() -> None:
    # rate 0.4, service 2, speed-up 1.6
    # 1: 2 + 0.4 * 4 / (2 * 0.2)
    assert waiting.distserve_ttft(rate=0.4, service=2) == pytest.approx(6.0, rel=1e-12)
    # 2: 2 + 0.4 * 4 / (4 * 1.2)
    assert waiting.distserve_ttft_inter_op(rate=0.4, service=2) == pytest.approx(2 + 1 / 3, rel=1e-12)
    # 3: 1.25 + 0.4 * 4 / (2 * 1.6 * 0.8)
    assert waiting.distserve_ttft_intra_op(rate=0.4, service=2, speedup=1.6) == pytest.approx(
        1.875, rel=1e-12
    )


def test_distserve_equations_as_printed() -> None:
    rate, service, speedup = (sympy.Symbol(n, positive=True) for n in ("rate", "service", "speedup"))
    one = service + rate * service**2 / (2 * (1 - rate * service))
    two = service + rate * service**2 / (4 * (2 - rate * service))
    three = service / speedup + rate * service**2 / (2 * speedup * (speedup - rate * service))
    assert sympy.simplify(waiting.distserve_ttft.expression() - one) == 0
    assert sympy.simplify(waiting.distserve_ttft_inter_op.expression() - two) == 0
    assert sympy.simplify(waiting.distserve_ttft_intra_op.expression() - three) == 0


def test_distserve_which_parallelism_wins() -> None:
    # at low rates tensor parallelism, at high rates the pipeline
    def tensor(rate: float) -> float:
        return float(waiting.distserve_ttft_intra_op(rate, service=1, speedup=1.4))

    assert tensor(0.1) < waiting.distserve_ttft_inter_op(0.1, service=1)
    assert tensor(1.3) > waiting.distserve_ttft_inter_op(1.3, service=1)


def test_share_is_not_leverage() -> None:
    assert waiting.md1_execution_share(utilisation=0.9) == pytest.approx(0.182, abs=5e-4)
    assert waiting.md1_ttft_elasticity(utilisation=0.9) == pytest.approx(9.18, abs=5e-3)
    # idle: all of TTFT is execution, and moves with it one to one
    assert waiting.md1_execution_share(utilisation=0) == waiting.md1_ttft_elasticity(utilisation=0) == 1
    # at 0.6: 0.8 / 1.4, and 1 + 0.6 / (0.4 * 1.4)
    assert waiting.md1_execution_share(utilisation=0.6) == pytest.approx(4 / 7, rel=1e-12)
    assert waiting.md1_ttft_elasticity(utilisation=0.6) == pytest.approx(1 + 15 / 14, rel=1e-12)


def test_share_and_elasticity_follow_from_the_mean_ttft() -> None:
    ttft = waiting.distserve_ttft.expression()
    rate, service, rho = (sympy.Symbol(n, positive=True) for n in ("rate", "service", "utilisation"))
    at_utilisation = {rate: rho / service}
    share = (service / ttft).subs(at_utilisation)
    elasticity = (sympy.diff(ttft, service) * service / ttft).subs(at_utilisation)
    assert sympy.simplify(share - waiting.md1_execution_share.expression()) == 0
    assert sympy.simplify(elasticity - waiting.md1_ttft_elasticity.expression()) == 0


def test_decode_occupancy() -> None:
    # 3 a second, 10 steps of 0.05 s
    assert waiting.decode_occupancy(rate=3, osl=11, decode_step=0.05) == pytest.approx(1.5, rel=1e-12)
