"""Busy shares by window, against overlaps counted span by span."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.evaluate.busy import BusyBins

TICK = 2.0**-10  # the width of the first windows


def filled(instances: int, spans: list[tuple[float, float]], most: int = 240) -> BusyBins:
    bins = BusyBins(instances, most)
    for start, end in spans:
        bins.add(start, end)
    return bins


def test_by_hand() -> None:
    # Two instances, windows of 1 tick, four of them; the second span ends at 6 ticks, so windows are 2 ticks
    # wide: 2 of 4 instance ticks, 1 + 1.5 of 4, and 2 of 4.
    spans = [(0.0, 3 * TICK), (2.5 * TICK, 6 * TICK)]
    windows = [(0.0, 2 * TICK, 0.5), (2 * TICK, 4 * TICK, 0.625), (4 * TICK, 6 * TICK, 0.5)]
    assert filled(2, spans, most=4).shares() == windows


def test_the_last_window_ends_with_the_last_step() -> None:
    assert filled(1, [(0.0, 0.5 * TICK)]).shares() == [(0.0, 0.5 * TICK, 1.0)]
    assert filled(1, [(TICK, 1.5 * TICK)]).shares() == [(0.0, TICK, 0.0), (TICK, 1.5 * TICK, 1.0)]


def test_nothing_ran() -> None:
    assert BusyBins(3).shares() == []
    assert filled(3, [(0.0, 0.0)]).shares() == []


@pytest.mark.parametrize("start", [0.0, TICK, 4 * TICK])
def test_an_empty_span_adds_nothing(start: float) -> None:
    assert (
        filled(1, [(0.0, 4 * TICK), (start, start)], most=4).shares()
        == filled(1, [(0.0, 4 * TICK)], most=4).shares()
    )


def test_a_span_as_long_as_all_windows_fits() -> None:
    assert [share for *_, share in filled(1, [(0.0, 4 * TICK)], most=4).shares()] == [1.0] * 4


@given(
    spans=st.lists(st.tuples(st.floats(0, 40), st.sampled_from([1e-6, 0.001, 0.03, 2.0, 17.0])), min_size=1),
    instances=st.integers(1, 8),
    most=st.sampled_from([2, 6, 240]),
)
def test_shares_are_overlaps(spans: list[tuple[float, float]], instances: int, most: int) -> None:
    ended = [(start, start + length) for start, length in spans]
    shares = filled(instances, ended, most).shares()
    last = max(end for _, end in ended)
    assert len(shares) <= most and shares[0][0] == 0 and shares[-1][1] == last
    assert all(one[1] == other[0] for one, other in pairwise(shares))
    widths = {end - start for start, end, _ in shares[:-1]}
    assert len(widths) <= 1 and all(math.log2(width / TICK) % 1 == 0 for width in widths)
    for start, end, share in shares:
        busy = math.fsum(max(0.0, min(end, b) - max(start, a)) for a, b in ended)
        assert share == pytest.approx(busy / (instances * (end - start)), rel=1e-9, abs=1e-9)


def test_memory_is_constant_and_halves_stay_in_use() -> None:
    bins = filled(1, [(0.01 * at, 0.01 * at + 0.005) for at in range(20_000)])
    shares = bins.shares()
    assert 120 <= len(shares) <= 240
    assert all(share == pytest.approx(0.5, rel=0.02) for *_, share in shares)
