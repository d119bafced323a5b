"""How far ratios move from run to run: against runs that are made again and again."""

from __future__ import annotations

import random
from statistics import mean

import pytest

from costmodel.diagnosis.detail import Detail
from costmodel.diagnosis.noise import hanging_together, ratio_intervals
from costmodel.records import Figure

FIGURE = Figure("mean_ttft_ms", "ttft", 0.1, "second", "100 ms", "ms", "mean")


class Told(Detail):
    """Requests of which only TTFTs are known."""

    def __init__(self, ttfts: list[float]) -> None:
        super().__init__("made", (), True, False)
        self.__dict__["seconds"] = {"ttft": ttfts}


def exponential(seed: int, count: int = 200, scale: float = 0.1) -> list[float]:
    draw = random.Random(seed)
    return [draw.expovariate(1 / scale) for _ in range(count)]


def waves(seed: int, count: int = 400) -> list[float]:
    """Times that hang together: each is nine tenths of the one before."""
    draw, level, found = random.Random(seed), 0.0, []
    for _ in range(count):
        level = 0.9 * level + draw.gauss(0, 0.1)
        found.append(1 + 0.2 * level)
    return found


@pytest.mark.parametrize(("made", "least"), [(exponential, 0.92), (waves, 0.86)])
def test_intervals_hold_the_true_ratio_of_as_many_pairs_as_they_say(made: object, least: float) -> None:
    inside = 0
    for seed in range(200):
        a, b = made(2 * seed), made(2 * seed + 1)  # type: ignore[operator]
        factors = ratio_intervals(Told(a), Told(b))(FIGURE)
        assert not isinstance(factors, str)
        ratio = mean(b) / mean(a)
        inside += ratio * factors[0] <= 1 <= ratio * factors[1]
    assert least <= inside / 200 <= 0.995


def test_a_true_difference_shows() -> None:
    a, b = exponential(1), exponential(2, scale=0.2)
    factors = ratio_intervals(Told(a), Told(b))(FIGURE)
    assert not isinstance(factors, str) and factors[0] * mean(b) / mean(a) > 1


def test_requests_in_no_order_are_independent() -> None:
    assert hanging_together(exponential(3, 2000), "mean") < 1.8
    assert hanging_together(waves(3, 2000), "mean") > 5 < hanging_together(sorted(exponential(3)), "p90")
    assert hanging_together([1.0] * 100, "mean") == hanging_together([1.0, 2.0], "p50") == 1


@pytest.mark.parametrize(
    ("figure", "why"),
    [
        (Figure("r", "request_throughput", 1.0, "1/second", "1", "req/s"), "single requests"),
        (Figure("s", "ttft", 0.1, "second", "1", "s", "std"), "std"),
        (
            Figure("p", "ttft", 0.1, "second", "1", "s", "p50", None, {"ttft_from": "the server's receipt"}),
            "client",
        ),
    ],
)
def test_what_requests_do_not_tell_has_a_reason(figure: Figure, why: str) -> None:
    found = ratio_intervals(Told(exponential(1)), Told(exponential(2)))(figure)
    assert isinstance(found, str) and why in found
