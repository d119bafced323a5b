"""Host time and closed loops by hand, the wait against the two laws it solves, and every formula by three roads."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formula import Formula
from costmodel.formulas import whole

FORMULAS = {
    made.name: made
    for made in vars(whole).values()
    if isinstance(made, Formula) and made.__module__ == whole.__name__
}
SECONDS = st.floats(1e-5, 10.0)
POINT: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("layers", "sampled", "concurrency", "osl"), st.integers(1, 300)),
    **dict.fromkeys(("layer_latency", "layer_floor", "sequence_latency"), st.floats(0, 1e-2)),
    **dict.fromkeys(("kernels_s", "ttft", "tpot", "decode_step", "prefill_time", "cycle"), SECONDS),
    **dict.fromkeys(("request_latency", "queue_wait"), st.floats(0, 1)),
    **dict.fromkeys(("message_bytes", "large_message"), st.floats(0, 1e9)),
    "large_message_rate": st.floats(1e8, 1e12),
}

# --- by hand ----------------------------------------------------------------------------------------------

BY_HAND: tuple[tuple[str, tuple[float, ...], float], ...] = (
    ("host_layers_time", (32, 3), 96),
    ("host_layers_time", (32, 0), 0),
    ("host_sequences_time", (5, 0.25), 1.25),
    # 10 layers of 2 s and 3 sequences of 1 s: the host takes 23 s, whatever is shorter
    ("host_bound_time", (22, 10, 2, 3, 1), 23),
    ("host_bound_time", (24, 10, 2, 3, 1), 24),
    ("host_bound_time", (24, 10, 2, 5, 1), 25),
    ("host_bound_time", (7, 10, 0, 0, 1), 7),
    # of 100 bytes, 60 are beyond 40: 3 s at 20 a second
    ("large_message_time", (100, 40, 20), 3),
    ("large_message_time", (40, 40, 20), 0),
    ("large_message_time", (39, 40, 20), 0),
    # 6 clients; a request takes 1 s and 4 gaps of 0.5 s, 3 s
    ("closed_loop_rate", (6, 1, 5, 0.5), 2),
    ("closed_loop_rate", (6, 1, 1, 0.5), 6),  # a single token has no gap
    # a step of 2 s, and 3 prompts of 5 s over 10 tokens
    ("closed_loop_tpot", (2, 4, 10, 5), 3.5),
    ("closed_loop_tpot", (2, 1, 10, 5), 2),
    # 0.5 s, 2 s of wait, half a step of 3 s, a prompt of 7 s, and the decodes beside it
    ("closed_loop_ttft", (0.5, 2, 3, 7), 14),
    ("closed_loop_wait", (100, 1, 7), 0),  # alone
    # two clients: 2 W^2 + 2 (3.5 - 1) W = 1; (-5 + sqrt(25 + 8)) / 4
    ("closed_loop_wait", (3.5, 2, 1), 0.1861406616345072),
    # a cycle as long as the prompts of the others: W^2 = (N - 1) D^2 / 2
    ("closed_loop_wait", (8, 5, 2), 2.8284271247461903),
)


@pytest.mark.parametrize(("name", "given_", "expected"), BY_HAND)
def test_by_hand(name: str, given_: tuple[float, ...], expected: float) -> None:
    assert FORMULAS[name](*given_) == pytest.approx(expected, rel=1e-12)


def test_every_formula_has_its_hand_numbers() -> None:
    assert {name for name, *_ in BY_HAND} == set(FORMULAS)


# --- the wait ---------------------------------------------------------------------------------------------


@given(
    clients=st.integers(2, 500),
    prefill=st.floats(1e-4, 10.0),
    free=st.floats(1e-3, 1e3),
    gaps=st.floats(0, 1e3),
)
def test_the_wait_satisfies_both_laws(clients: int, prefill: float, free: float, gaps: float) -> None:
    """Little: X = N / (cycle + W). M/D/1 for arrivals of the others: W = r D / (2 (1 - r)), r = X D (N - 1) / N."""
    cycle = prefill * (1 + free) + gaps
    wait = whole.closed_loop_wait(cycle, clients, prefill)
    rate = clients / (cycle + wait)
    others = rate * (clients - 1) / clients * prefill
    assert 0 < others < 1
    assert others * prefill / (2 * (1 - others)) == pytest.approx(wait, rel=1e-6)


def test_the_wait_grows_with_clients_and_prompts_and_vanishes_with_long_cycles() -> None:
    waits = [whole.closed_loop_wait(10.0, clients, 1.0) for clients in range(1, 40)]
    assert waits == sorted(waits) and waits[0] == 0 < waits[1]
    waits = [whole.closed_loop_wait(10.0, 4, prefill / 10) for prefill in range(1, 40)]
    assert waits == sorted(waits)
    # far from full: that of an open queue at the rate of the others, (N - 1) D / cycle
    assert whole.closed_loop_wait(1e6, 4, 1.0) == pytest.approx(3 / 1e6 / 2, rel=1e-4)


def test_many_clients_leave_the_prompts_as_the_bottleneck() -> None:
    """As N grows, the rate tends to one prompt in D seconds."""
    for clients in (1_000, 100_000):
        rate = clients / (5.0 + whole.closed_loop_wait(5.0, clients, 0.25))
        assert rate == pytest.approx(1 / 0.25, rel=3 / math.sqrt(clients))
        assert rate * 0.25 * (clients - 1) / clients < 1


# --- one value by three roads -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMULAS)
@given(data=st.data())
def test_numbers_arrays_and_symbols_agree(name: str, data: st.DataObject) -> None:
    formula = FORMULAS[name]
    points = [{p: float(data.draw(POINT[p])) for p in formula.parameters} for _ in range(3)]
    numbers = [formula(**point) for point in points]
    arrays = {p: numpy.array([point[p] for point in points]) for p in formula.parameters}
    numpy.testing.assert_allclose(formula(**arrays), numbers, rtol=1e-12)
    symbols = formula.symbols()
    traced = sympy.lambdify([symbols[p] for p in formula.parameters], formula.expression(), "numpy")
    found = [float(traced(*point.values())) for point in points]
    # differences of like numbers: what rounding leaves of them
    numpy.testing.assert_allclose(found, numbers, rtol=1e-9, atol=1e-9)
