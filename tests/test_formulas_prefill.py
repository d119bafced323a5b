"""Attention of chunks, alone and with decodes: loops over rows and waves, hand sums, each side of each extreme."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.formulas import mixed, prefill

FAR = math.inf  # no window


def loop_tiles(chunk: int, heads: int, kv_heads: int, tile_rows: int, packed: int) -> int:
    """Tiles of the rows of each query head, or of each KV head's group; a lone token has no heads of its own."""
    if packed:
        return sum(len(range(0, chunk * heads // kv_heads, tile_rows)) for _ in range(kv_heads))
    groups = kv_heads if chunk == 1 else heads
    return sum(len(range(0, chunk, tile_rows)) for _ in range(groups))


def busiest(tiles: int, sm_count: int) -> int:
    """Most tiles of a processor, where they are dealt out in turn."""
    loads = [0] * sm_count
    for tile in range(tiles):
        loads[tile % sm_count] += 1
    return max(loads)


@pytest.mark.parametrize(
    ("chunk", "heads", "kv_heads", "tile_rows", "packed", "tiles"),
    [
        (1, 6, 2, 64, 0, 2),  # one query token: a tile for each group
        (2, 6, 2, 64, 0, 6),  # from two on: one for each head
        (64, 6, 2, 64, 0, 6),
        (65, 6, 2, 64, 0, 12),
        (1, 6, 2, 64, 1, 2),  # 3 rows of each of 2 KV heads
        (21, 6, 2, 64, 1, 2),  # 63 rows
        (22, 6, 2, 64, 1, 4),  # 66 rows
        (10.75, 6, 2, 32, 1, 4),  # a mean chunk: 32.25 rows
        (1000, 32, 8, 64, 0, 512),
    ],
)
def test_query_tiles(
    chunk: float, heads: int, kv_heads: int, tile_rows: int, packed: int, tiles: int
) -> None:
    assert prefill.query_tiles(chunk, heads, kv_heads, tile_rows, packed) == tiles


@given(
    chunk=st.integers(1, 1000),
    kv_heads=st.integers(1, 8),
    group=st.integers(1, 12),
    tile_rows=st.sampled_from((16, 32, 64, 128)),
    packed=st.integers(0, 1),
)
def test_query_tiles_is_the_loop(chunk: int, kv_heads: int, group: int, tile_rows: int, packed: int) -> None:
    shape = chunk, kv_heads * group, kv_heads, tile_rows, packed
    assert prefill.query_tiles(*shape) == loop_tiles(*shape)


def test_a_mean_chunk_between_one_token_and_two() -> None:
    # chunks of 1 and 2 tokens, taken as 1.5: 2 groups and half of the other 4 heads
    assert prefill.query_tiles(chunk=1.5, heads=6, kv_heads=2, tile_rows=64, packed=0) == 4


def test_tile_tokens_per_s() -> None:
    # half of 9,600 over 4 processors are 1,200; a token takes 2 * (3 + 2) * 8 = 80
    rate: dict[str, Any] = {"tile_rows": 8, "qk_dim": 3, "v_dim": 2, "sm_count": 4, "peak_flop_per_s": 9600}
    assert prefill.tile_tokens_per_s(**rate, compute_share=0.5) == 15
    assert prefill.tile_tokens_per_s(**rate, compute_share=0.5, flop_per_mac=3) == 10


@pytest.mark.parametrize(
    ("chunk", "tokens"),
    [(1, 64.0), (126, 64.0), (127, 64.0), (129, 65.0), (999, 500.0)],
)
def test_own_tokens(chunk: int, tokens: float) -> None:
    assert prefill.own_tokens(chunk) == tokens


@given(chunk=st.integers(128, 700))
def test_own_tokens_is_the_mean_over_the_chunk(chunk: int) -> None:
    assert prefill.own_tokens(chunk) == pytest.approx(sum(range(1, chunk + 1)) / chunk, rel=1e-12)


def test_prefill_traffic() -> None:
    # 3 chunks of 5 tokens over 7, width 4 + 3: Q and O 5 * 6 * 7 * 2 = 420; K and V 12 * 2 * 7 * 5 = 840
    shape: dict[str, Any] = {
        "sequences": 3,
        "chunk": 5,
        "prefix": 7,
        "heads": 6,
        "kv_heads": 2,
        "qk_dim": 4,
        "v_dim": 3,
        "dtype_bytes": 2,
        "kv_dtype_bytes": 5,
    }
    assert prefill.prefill_traffic(**shape, cache_writes=0) == 3 * 1260
    # the 5 new tokens are read and written once more: 700
    assert prefill.prefill_traffic(**shape, cache_writes=1) == 3 * 1960


@pytest.mark.parametrize(
    ("tiles", "reach", "packed", "tokens"),
    [
        # a chunk of 199 sees 100 of itself on average, over 50, and 7 for a tile: 157 a wave
        (10, FAR, 0, 571),  # three waves of 4 processors and 100 for the last
        (10, FAR, 1, 471),
        (12, FAR, 1, 471),
        (13, FAR, 1, 628),
        (8, FAR, 1, 314),  # two waves
        (8, FAR, 0, 414),
        (4, FAR, 1, 257),  # one wave ends with its longest
        (4, FAR, 0, 257),
        (10, 120, 0, 481),  # a window of 120 on average: 3 * 127 + 100
        (10, 80, 0, 341),  # of 80: 3 * 87 + 80
        (4, 80, 1, 167),
    ],
)
def test_walked_tokens(tiles: int, reach: float, packed: int, tokens: float) -> None:
    got = prefill.walked_tokens(
        tiles, sm_count=4, chunk=199, prefix=50, reach=reach, tile_overhead_tokens=7, packed=packed
    )
    assert got == tokens


@given(tiles=st.integers(1, 900), sm_count=st.integers(1, 150), packed=st.integers(0, 1))
def test_walked_tokens_are_those_of_the_busiest_processor(tiles: int, sm_count: int, packed: int) -> None:
    most = busiest(tiles, sm_count)
    ends = 0 if packed and most > 1 else 100
    got = prefill.walked_tokens(
        tiles, sm_count, chunk=199, prefix=50, reach=FAR, tile_overhead_tokens=7, packed=packed
    )
    assert got == 157 * most + ends


# Two chunks of 199 tokens over 50, heads of 3 + 2: 100 tokens of its own a tile, 157 with prefix and overhead.
CHUNKS: dict[str, Any] = {"sequences": 2, "chunk": 199, "prefix": 50, "reach": FAR}
WIDTHS: dict[str, Any] = {"qk_dim": 3, "v_dim": 2, "dtype_bytes": 2, "kv_dtype_bytes": 5}


@pytest.mark.parametrize(("flop_per_mac", "walk"), [({}, 1), ({"flop_per_mac": 6}, 3)])
def test_prefill_attention_time(flop_per_mac: dict[str, int], walk: float) -> None:
    # 2 * 3 heads * 4 tiles on 10 processors are three waves, 571 tokens; half of the peak over 10 processors over
    # 2 * 5 * 64 a token is 571 a second: 1 s. Q and O 199 * 3 * 5 * 2 = 5,970, K and V (50 + 3 * 199) * 5 * 5 =
    # 16,175, twice 22,145 bytes: 2.5 s. 0.01 s for each of 398 tokens, 0.125 s
    got = prefill.prefill_attention_time(
        **CHUNKS,
        **WIDTHS,
        heads=3,
        kv_heads=1,
        cache_writes=1,
        tile_rows=64,
        packed=0,
        sm_count=10,
        peak_flop_per_s=571 * 640 * 10 / 0.5,
        memory_bytes_per_s=2 * 22_145 / 2.5,
        compute_share=0.5,
        latency=0.125,
        tile_overhead_tokens=7,
        per_token=0.01,
        **flop_per_mac,
    )
    assert got == pytest.approx(walk + 2.5 + 3.98 + 0.125, rel=1e-12)


def test_prefill_attention_time_packed() -> None:
    # 597 rows are 5 tiles of 128, 10 on 10 processors, one wave: 257 tokens, 2 * 5 * 128 FLOPs each: 1 s
    got = prefill.prefill_attention_time(
        **CHUNKS,
        **WIDTHS,
        heads=3,
        kv_heads=1,
        cache_writes=0,
        tile_rows=128,
        packed=1,
        sm_count=10,
        peak_flop_per_s=257 * 1280 * 10 / 0.5,
        memory_bytes_per_s=2 * (5970 + 249 * 25) / 4,
        compute_share=0.5,
        latency=0.125,
        tile_overhead_tokens=7,
        per_token=0.0,
    )
    assert got == pytest.approx(5.125, rel=1e-12)


# --- with decodes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "kv_heads", "tile_rows", "packed", "tiles"),
    [(32, 8, 64, 0, 4), (32, 8, 128, 1, 1), (6, 1, 4, 1, 2), (8, 2, 4, 1, 1), (6, 1, 4, 0, 6)],
)
def test_tiles_of_a_decode(heads: int, kv_heads: int, tile_rows: int, packed: int, tiles: float) -> None:
    assert mixed.tiles_of_a_decode(heads, kv_heads, tile_rows, packed) == tiles


@pytest.mark.parametrize(
    ("batch", "tiles", "bytes_moved", "reads"),
    [
        (27, 5, 10, 1.25),  # a quarter of 108 processors, a quarter of twice L2: 1 + 4 / 16
        (270, 5, 10, 2.0),  # all processors
        (27, 5, 400, 2.0),  # far beyond L2
        (270, 5, 400, 5.0),
        (270, 1, 400, 1.0),  # one tile reads once
    ],
)
def test_group_reads(batch: int, tiles: int, bytes_moved: float, reads: float) -> None:
    got = mixed.group_reads(batch, tiles, sm_count=108, bytes_moved=bytes_moved, l2_bytes=20)
    assert got == pytest.approx(reads, rel=1e-12)


# Unpacked, 6 heads in tiles of 64: 2 * 6 * 4 = 48 tiles on 20 processors, 2.4 of them, three waves, 571 tokens alone.
# A decode has 6 tiles; each of its 3 for a KV head is followed by 3 empty ones of 11. Packed, 597 rows of 2 KV heads
# in tiles of 128: 2 * 2 * 5 = 20 tiles, one wave, 257 tokens alone; a decode has 2 tiles.
@pytest.mark.parametrize(
    ("packed", "batch", "length", "reach", "tokens"),
    [
        # 1.5 of 443 (400 + 1 + 9 + 33) and half of the longest, 410, beside 2.4 of 157: 376.8 + 664.5 + 205
        (0, 5, 400, FAR, 1246.3),
        # 0.6 more a decode: 376.8 + 665.4 + 205.3
        (0, 5, 400.6, FAR, 1247.5),
        # 0.3 of 3,043; half of 3,010 times 0.3: 376.8 + 912.9 + 451.5 is less than the longest
        (0, 1, 3000, FAR, 3010),
        # 0.3 of 53; half of 257 times 0.3: 376.8 + 15.9 + 38.55 is less than the chunks alone
        (0, 1, 10, FAR, 571),
        # 6 of 53, half of the chunks' longest: 376.8 + 318 + 128.5
        (0, 20, 10, FAR, 823.3),
        # a window of 80 on average: 2.4 of 87, 6 of 53, half of 87 + 80
        (0, 20, 10, 80, 610.3),
        # a window of 120: 2.4 of 127, 6 of 53, half of 127 + 100
        (0, 20, 10, 120, 736.3),
        # 1 of 157, 2 of 20 and no empty tiles, half of 257
        (1, 20, 10, FAR, 325.5),
        # 0.1 of 20, half of 257 times 0.1: 171.85 is less than the chunks alone
        (1, 1, 10, FAR, 257),
    ],
)
def test_mixed_walked_tokens(packed: int, batch: int, length: float, reach: float, tokens: float) -> None:
    got = mixed.mixed_walked_tokens(
        **{**CHUNKS, "reach": reach},
        batch=batch,
        context=batch * length,
        heads=6,
        kv_heads=2,
        tile_rows=128 if packed else 64,
        packed=packed,
        sm_count=20,
        tile_overhead_tokens=7,
        decode_overhead_tokens=9,
        empty_tile_tokens=11,
    )
    assert got == pytest.approx(tokens, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "walk", "decodes", "chunks"),
    [
        # The 1,246.3 tokens above, a third a second: 3 s. 5 decodes: 2,000 tokens of 5 * 5 bytes for each of 2 KV
        # heads, read 1 + 2 * 5/20 * 50,000/200,000 = 1.125 times, 112,500 bytes; 5 * 5 * (6 * 2 + 2 * 5 * 3) = 1,050
        # of Q, O and new K and V; 113,550 at half the bandwidth, 4 s. The chunks: 2 * (199 * 6 * 5 * 2 + 647 * 2 *
        # 5 * 5), 88,580 bytes
        ({}, 3, 113_550, 88_580),
        # nothing written: 5 * 5 * (6 * 2 + 2 * 5) = 550 bytes, and 2 * (11,940 + 249 * 50)
        ({"cache_writes": 0}, 3, 113_050, 48_780),
        ({"flop_per_mac": 4}, 6, 113_550, 88_580),
    ],
)
def test_mixed_attention_time(changes: dict[str, Any], walk: float, decodes: float, chunks: float) -> None:
    bandwidth = 113_550 / 4 / 0.5
    given = {
        **CHUNKS,
        **WIDTHS,
        "batch": 5,
        "context": 2000,
        "heads": 6,
        "kv_heads": 2,
        "cache_writes": 1,
        "tile_rows": 64,
        "packed": 0,
        "sm_count": 20,
        "l2_bytes": 100_000,
        "peak_flop_per_s": 1246.3 / 3 * 640 * 20 / 0.25,
        "memory_bytes_per_s": bandwidth,
        "compute_share": 0.25,
        "bandwidth_share": 0.5,
        "latency": 0.125,
        "tile_overhead_tokens": 7,
        "per_token": 0.01,
        "decode_overhead_tokens": 9,
        "empty_tile_tokens": 11,
    }
    both = math.hypot(walk, decodes / (0.5 * bandwidth))
    expected = both + chunks / bandwidth + 3.98 + 0.125
    assert mixed.mixed_attention_time(**{**given, **changes}) == pytest.approx(expected, rel=1e-12)


def test_mixed_attention_time_packed() -> None:
    # 325.5 tokens of 2 * 5 * 128 FLOPs, 3 s; 20 decodes over 200 tokens: one tile a group reads 200 * 25 * 2 bytes
    # once, 10,000, and 20 * 5 * (12 + 10) = 2,200: 4 s; chunks 48,780 bytes
    bandwidth = 12_200 / 4 / 0.5
    got = mixed.mixed_attention_time(
        **CHUNKS,
        **WIDTHS,
        batch=20,
        context=200,
        heads=6,
        kv_heads=2,
        cache_writes=0,
        tile_rows=128,
        packed=1,
        sm_count=20,
        l2_bytes=1.0,
        peak_flop_per_s=325.5 / 3 * 1280 * 20 / 0.25,
        memory_bytes_per_s=bandwidth,
        compute_share=0.25,
        bandwidth_share=0.5,
        latency=0.125,
        tile_overhead_tokens=7,
        per_token=0.0,
        decode_overhead_tokens=9,
        empty_tile_tokens=11,
    )
    assert got == pytest.approx(5 + 48_780 / bandwidth + 0.125, rel=1e-12)


@given(
    sequences=st.integers(1, 4),
    chunk=st.integers(1, 3000),
    prefix=st.integers(0, 5000),
    batch=st.integers(1, 300),
    length=st.integers(1, 9000),
    kv_heads=st.integers(1, 8),
    group=st.integers(1, 12),
    kernel=st.sampled_from(((64, 0), (128, 1))),
    cache_writes=st.integers(0, 1),
    overheads=st.tuples(*[st.floats(0, 500)] * 3),
)
@settings(max_examples=60)
def test_chunks_with_decodes_take_no_less_than_either(
    sequences: int,
    chunk: int,
    prefix: int,
    batch: int,
    length: int,
    kv_heads: int,
    group: int,
    kernel: tuple[int, int],
    cache_writes: int,
    overheads: tuple[float, float, float],
) -> None:
    tile, decode, empty = overheads
    chunks: dict[str, Any] = {
        "sequences": sequences,
        "chunk": chunk,
        "prefix": prefix,
        "reach": FAR,
        "heads": kv_heads * group,
        "kv_heads": kv_heads,
        "qk_dim": 128,
        "v_dim": 128,
        "dtype_bytes": 2,
        "kv_dtype_bytes": 2,
        "cache_writes": cache_writes,
        "tile_rows": kernel[0],
        "packed": kernel[1],
        "sm_count": 108,
        "peak_flop_per_s": 312e12,
        "memory_bytes_per_s": 2e12,
        "compute_share": 0.6,
        "latency": 8e-6,
        "tile_overhead_tokens": tile,
        "per_token": 1e-9,
    }
    together = mixed.mixed_attention_time(
        **chunks,
        batch=batch,
        context=batch * length,
        l2_bytes=40e6,
        bandwidth_share=0.8,
        decode_overhead_tokens=decode,
        empty_tile_tokens=empty,
    )
    assert together >= prefill.prefill_attention_time(**chunks) * (1 - 1e-12)
    cached = batch * length * kv_heads * 256 * 2
    assert together >= cached / (0.8 * 2e12) + 8e-6
