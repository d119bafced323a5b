"""Chunks: loops over chunks, tiles and waves as oracles of the closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import chunking

lengths = st.integers(1, 500)


def chunk_starts(isl: int, chunk: int) -> list[int]:
    return list(range(0, isl, chunk))


@given(isl=lengths, chunk=lengths)
def test_sums_over_chunks_are_the_loops(isl: int, chunk: int) -> None:
    starts = chunk_starts(isl, chunk)
    assert chunking.chunk_count(isl, chunk) == len(starts)
    assert chunking.chunk_kv_reread(isl, chunk, kv_bytes_per_token=7) == 7 * sum(starts)
    ends = [min(start + chunk, isl) for start in starts]
    assert chunking.chunk_kv_read(isl, chunk, kv_bytes_per_token=7) == 7 * sum(ends)


def test_published_counts() -> None:
    # N = 32,768 and C = 2,048: N (N + C) / (2 C) tokens read, C n (n - 1) / 2 of them again
    assert chunking.chunk_kv_read(32_768, 2048, 3) == 3 * 278_528
    assert chunking.chunk_kv_reread(32_768, 2048, 3) == 3 * 245_760


def test_halving_the_chunk_doubles_the_rereads() -> None:
    wide = chunking.chunk_kv_reread(isl=2**20, chunk=2**10, kv_bytes_per_token=5)
    narrow = chunking.chunk_kv_reread(isl=2**20, chunk=2**9, kv_bytes_per_token=5)
    assert narrow / wide == pytest.approx(2, rel=2e-3)


@pytest.mark.parametrize(
    ("isl", "chunk", "n"), [(4096, 2048, 2), (4097, 2048, 3), (4095, 2048, 2), (5, 7, 1)]
)
def test_chunk_count_at_the_edges(isl: int, chunk: int, n: int) -> None:
    assert chunking.chunk_count(isl, chunk) == n


@given(rows=lengths, tile=st.integers(1, 300))
def test_tile_fill_is_the_loop(rows: int, tile: int) -> None:
    computed = 0
    while computed < rows:
        computed += tile
    assert chunking.tile_fill(rows, tile) == pytest.approx(computed / rows, rel=1e-12)


@given(tiles=lengths, sm_count=st.integers(1, 150))
def test_sm_fill_is_the_loop(tiles: int, sm_count: int) -> None:
    left, waves = tiles, 0
    while left > 0:
        left, waves = left - sm_count, waves + 1
    assert chunking.sm_fill(tiles, sm_count) == pytest.approx(waves * sm_count / tiles, rel=1e-12)


def test_fills_by_hand() -> None:
    assert chunking.tile_fill(rows=300, tile_rows=128) == 1.28  # 384 / 300
    assert chunking.tile_fill(rows=256, tile_rows=128) == 1
    assert chunking.sm_fill(tiles=240, sm_count=132) == 1.1  # 264 / 240
    assert chunking.sm_fill(tiles=264, sm_count=132) == 1


def test_deflectable_tokens_per_s() -> None:
    # 3 instances * 512 tokens / 0.048 s
    assert chunking.deflectable_tokens_per_s(instances=3, chunk=512, mixed_step=0.048) == pytest.approx(
        32_000
    )
