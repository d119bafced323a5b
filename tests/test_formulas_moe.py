"""Mixture of experts: enumeration of every routing as the oracle of the expectation, hand counts of work."""

from __future__ import annotations

from itertools import combinations, product

import pytest

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


@pytest.mark.parametrize(
    ("tokens", "top_k", "distinct", "tile_rows", "rows"),
    [
        (100, 6, 64, 16, 1024),  # 9.4 rows an expert: one tile each
        (100, 6, 60, 5, 600),  # 10 rows an expert fill two tiles exactly
        (101, 6, 60, 5, 900),  # 10.1 rows start a third
        (7, 3, 5, 2, 30),  # 4.2 rows an expert: three tiles of two
    ],
)
def test_padded_rows(tokens: int, top_k: int, distinct: int, tile_rows: int, rows: int) -> None:
    assert moe.padded_rows(tokens, top_k, distinct, tile_rows) == rows
