"""Mixture of experts: enumeration of every routing as the oracle of the expectation, hand counts and sums."""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.formulas import moe


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens"), [(5, 2, 3), (4, 3, 3), (7, 1, 4), (6, 2, 1), (3, 3, 5)]
)
def test_distinct_experts_is_the_mean_over_all_routings(experts: int, top_k: int, tokens: int) -> None:
    choices = list(combinations(range(experts), top_k))
    sizes = [len(set().union(*routing)) for routing in product(choices, repeat=tokens)]
    assert moe.distinct_experts(experts, top_k, tokens) == pytest.approx(sum(sizes) / len(sizes), rel=1e-12)


def test_distinct_experts_published_shape() -> None:
    # DeepSeek-V2-Lite, 64 experts of which 6: (58/64)**3 = 195112/262144; 64 * (1 - that) = 16.365...
    assert moe.distinct_experts(experts=64, top_k=6, tokens=3) == pytest.approx(64 * 67_032 / 262_144)


def test_fewest_distinct_experts_whatever_the_tokens() -> None:
    assert moe.fewest_distinct_experts(experts=60, top_k=4, tokens=1) == 4
    assert moe.fewest_distinct_experts(experts=60, top_k=4, tokens=4096) == 4
    # expert parallelism can leave a GPU with fewer experts than a token uses
    assert moe.fewest_distinct_experts(experts=3, top_k=8, tokens=5) == 3


def test_fewest_is_the_minimum_over_all_routings() -> None:
    choices = list(combinations(range(5), 3))
    fewest = min(len(set().union(*routing)) for routing in product(choices, repeat=3))
    assert moe.fewest_distinct_experts(experts=5, top_k=3, tokens=3) == fewest


def test_experts_flop() -> None:
    # 3 tokens * 5 experts * 7 * 11 * 13 multiply-adds = 15015
    assert moe.experts_flop(tokens=3, top_k=5, hidden=7, width=11, matrices=13) == 30_030
    assert moe.experts_flop(3, 5, 7, 11, 13, flop_per_mac=17) == 255_255


def test_expert_weight_bytes() -> None:
    assert (
        moe.expert_weight_bytes(distinct=3, hidden=5, width=7, matrices=11, weight_dtype_bytes=13) == 15_015
    )


def test_expert_activation_bytes() -> None:
    # a routed row: read 7, write 22, read 11, write 7 = 47, read again by the reduction 7 = 54
    # 15 rows * 54 = 810 elements, 3 reduced rows of 7 = 21: 831 of 13
    assert moe.expert_activation_bytes(tokens=3, top_k=5, hidden=7, width=11, dtype_bytes=13) == 831 * 13


E2 = math.exp(2)  # ranks whose logarithm is 2


@pytest.mark.parametrize(
    ("tokens", "top_k", "experts", "ranks", "skew", "rows"),
    [
        (512, 6, 64, 1, 3.0, 3072),  # one GPU has every row, however the loads vary
        # sqrt(2 * 2 / 16) is half a deviation: 400 / e**2 rows, 1.3 times that
        (100, 4, 16, E2, 0.6, 520 / E2),
        (100, 4, 16, E2, 0.0, 400 / E2),
        (100, 4, 16, E2, 1e6, 400),  # never more than there are
        (10, 8, 3, E2, 1e6, 30),  # of its 3 experts a token uses each once
        (1, 2, 4, 8, 0.0, 1),  # a quarter of a row: the busiest has one
        (4, 2, 4, 8, 0.0, 1),
        (5, 2, 4, 8, 0.0, 1.25),
    ],
)
def test_busiest_rows(tokens: int, top_k: int, experts: int, ranks: float, skew: float, rows: float) -> None:
    assert moe.busiest_rows(tokens, top_k, experts, ranks, skew) == pytest.approx(rows, rel=1e-12)


@pytest.mark.parametrize(
    ("tokens", "rows", "experts", "skew", "distinct"),
    [
        # each expert is hit once a token: rows = 6 * tokens * (1 - 1/e). Variation 16/2, 1 + 8 * 255/8 = 256, whose
        # eighth root is 2: half of 6
        (255 / 8, 6 * 255 / 8 * (1 - 1 / math.e), 6, 4.0, 3),
        # variation 9/2, 1 + 4.5 * 7 = 32.5, to the power of -2/9
        (7, 42 * (1 - 1 / math.e), 6, 3.0, 6 * (1 - 32.5 ** (-2 / 9))),
        # every token uses every expert: 2 * 6 ln 10 hits, no more, and a variation of 1/2
        (2, 8, 4, 1.0, 4 * (1 - (1 + 6 * math.log(10)) ** -2)),
    ],
)
def test_skewed_distinct_experts(
    tokens: float, rows: float, experts: int, skew: float, distinct: float
) -> None:
    got = moe.skewed_distinct_experts(tokens, rows, top_k=1, experts=experts, ranks=1, skew=skew)
    assert got == pytest.approx(distinct, rel=1e-9)


def test_without_skew_a_hair_of_variation_stays() -> None:
    # 2 hits of each of 1,000 experts, variation 1e-6: (1 + 2e-6)**-1e6 = exp(-2 + 2e-6) to the first order
    got = moe.skewed_distinct_experts(
        tokens=2, rows=2000 * (1 - 1 / math.e), top_k=1, experts=1000, ranks=1, skew=0.0
    )
    assert got == pytest.approx(1000 * (1 - math.exp(-2 + 2e-6)), rel=1e-9)


@pytest.mark.parametrize("skew", [0.0, 1.0, 4.0])
def test_a_token_uses_its_top_k(skew: float) -> None:
    # the law of a varied load falls short of it
    assert moe.skewed_distinct_experts(1, 6, top_k=6, experts=64, ranks=1, skew=skew) == 6
    assert moe.skewed_distinct_experts(1, 3, top_k=6, experts=64, ranks=2, skew=skew) == 3
    assert moe.skewed_distinct_experts(1, 2.5, top_k=5, experts=64, ranks=2, skew=skew) == 2.5


def test_no_more_experts_than_rows() -> None:
    # one row of two: in floating point, the power of a million is off by more than the law falls short
    for experts in range(2, 500):
        assert moe.skewed_distinct_experts(1, 1, top_k=1, experts=experts, ranks=2, skew=0.0) <= 1


@given(
    tokens=st.integers(1, 3000),
    top_k=st.integers(1, 8),
    experts=st.integers(8, 256),
    skew=st.floats(0, 5),
    more=st.floats(0, 5),
)
@settings(max_examples=50)
def test_the_more_loads_vary_the_fewer_experts(
    tokens: int, top_k: int, experts: int, skew: float, more: float
) -> None:
    def distinct(skew: float) -> float:
        return float(moe.skewed_distinct_experts(tokens, tokens * top_k, top_k, experts, 1, skew))

    uniform = moe.distinct_experts(experts, top_k, tokens)
    assert distinct(0.0) == pytest.approx(uniform, rel=2e-6)
    assert distinct(skew + more) <= distinct(skew) * (1 + 1e-9)
    assert top_k <= distinct(skew + more) <= experts


@pytest.mark.parametrize(
    ("tokens", "rows", "padded"),
    [
        # up to 8 tokens for 8 experts, tiles of 16: 3 experts leave 7.5 empty each, or need 48 rows
        (8, 100, 122.5),
        (8, 4, 48),
        (8.95, 100, 122.5),
        # from 9 on, tiles of 64: 31.5 each, or 192
        (9, 100, 194.5),
        (9, 10, 192),
        (500, 100, 194.5),
    ],
)
def test_padded_rows(tokens: float, rows: int, padded: float) -> None:
    assert moe.padded_rows(tokens, rows, distinct=3, experts=8, tile_rows=64) == padded


@given(rows=st.lists(st.integers(1, 400), min_size=1, max_size=40), tile_rows=st.sampled_from((16, 32, 64)))
def test_padded_rows_against_each_expert_filled_up(rows: list[int], tile_rows: int) -> None:
    filled = sum(len(range(0, each, tile_rows)) * tile_rows for each in rows)
    got = moe.padded_rows(tokens=10_000, rows=sum(rows), distinct=len(rows), experts=40, tile_rows=tile_rows)
    assert got >= max(sum(rows), len(rows) * tile_rows)
    assert abs(got - filled) <= len(rows) * tile_rows / 2  # half a tile an expert is the mean of what can be


@pytest.mark.parametrize(
    ("width", "factor"), [(16, 1.0), (1408, 1.0), (17, 1.5), (31, 1.5), (32, 1.0), (232, 1.5)]
)
def test_misaligned(width: int, factor: float) -> None:
    assert moe.misaligned(width) == factor


# 10 tokens, 2 of 4 experts each: 20 rows; 4 * (1 - 2**-10) = 3.99609375 experts, in tiles of 32 127.875 rows.
# Width 65 is computed as 128 and takes half as long again: 2 * 127.875 * 3 * 128 * 2 * 1.5 = 294,624 FLOPs, 3 s.
# Weights 3.99609375 * 3 * 65 * 2 * 5 bytes, half as long again, are 11,688.6: 4 s, together 5 s.
# A row moves 3 + 2 * 65 + 65 + 3 = 201, and a token 3 * 3 to sum up: 4,110 activations of 7 bytes
WEIGHTS = 3.99609375 * 2925
EXPERTS: dict[str, Any] = {
    "tokens": 10,
    "top_k": 2,
    "experts": 4,
    "ranks": 1,
    "hidden": 3,
    "width": 65,
    "matrices": 2,
    "skew": 0.0,
    "weight_dtype_bytes": 5,
    "dtype_bytes": 7,
    "peak_flop_per_s": 294_624 / 3 / 0.5,
    "memory_bytes_per_s": WEIGHTS / 4 / 0.25,
    "compute_share": 0.5,
    "bandwidth_share": 0.25,
    "latency": 0.125,
    "tile_rows": 32,
}


def test_experts_time() -> None:
    moving = 28_770 * 4 / WEIGHTS
    assert moe.experts_time(**EXPERTS) == pytest.approx(5 + moving + 0.125, rel=1e-7)
    # 3 FLOPs a multiply-add
    expected = math.hypot(4.5, 4) + moving + 0.125
    assert moe.experts_time(**EXPERTS, flop_per_mac=3) == pytest.approx(expected, rel=1e-7)


def test_experts_time_of_few_tokens() -> None:
    # 4 tokens use 4 * (1 - 1/16) = 3.75 experts and 8 rows, in tiles of 16: 60. 8 * 201 + 4 * 9 activations
    expected = math.hypot(3 * 60 / 127.875, 4 * 3.75 / 3.99609375) + 1644 * 7 * 4 / WEIGHTS + 0.125
    assert moe.experts_time(**{**EXPERTS, "tokens": 4}) == pytest.approx(expected, rel=1e-6)


def test_experts_time_of_an_aligned_width() -> None:
    # width 64 is computed as it is: 2 * 127.875 * 3 * 64 * 2 FLOPs, 1 s; 3.99609375 * 3 * 64 * 2 * 5 bytes;
    # 20 * (6 + 3 * 64) + 10 * 9 activations of 7 bytes
    weights = 3.99609375 * 1920 * 4 / WEIGHTS
    expected = math.hypot(1, weights) + 4050 * 7 * 4 / WEIGHTS + 0.125
    assert moe.experts_time(**{**EXPERTS, "width": 64}) == pytest.approx(expected, rel=1e-7)


def test_experts_time_spread_over_gpus_and_skewed() -> None:
    # of 2 GPUs with 4 experts each and loads that vary by 0.5, the busier has 10 * (1 + 0.5 * sqrt(2 ln 2 / 4)) rows
    rows = 10 * (1 + 0.5 * math.sqrt(math.log(4) / 4))
    hits = -10 * math.log(1 - rows / 40)
    distinct = 4 * (1 - (1 + hits / 8) ** -8)
    arithmetic = 3 * 32 * distinct / 127.875
    weights = distinct / 3.99609375 * 4
    expected = math.hypot(arithmetic, weights) + 28_770 * 4 / WEIGHTS + 0.125
    got = moe.experts_time(**{**EXPERTS, "ranks": 2, "skew": 0.5})
    assert got == pytest.approx(expected, rel=1e-9)
