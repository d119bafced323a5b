"""Matrix products: loops over tiles and waves as oracles, hand sums, and each tile where it is the least."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.formulas import gemm


def loop_waves(tiles: int, sm_count: int) -> int:
    waves = 0
    while waves * sm_count < tiles:
        waves += 1
    return waves


def loop_tiles(m: int, n: int, rows: int, columns: int) -> int:
    return sum(1 for _ in range(0, m, rows) for _ in range(0, n, columns))


@pytest.mark.parametrize(
    ("tiles", "sm_count", "waves"),
    [
        (1, 4, 0.55),  # a quarter, and 0.4 of the other three
        (8, 4, 2.0),  # whole waves lose nothing
        (9, 4, 2.55),
        (10, 4, 2.7),  # 2.5 + 0.4 * 0.5
        (135, 108, 1.55),
    ],
)
def test_partial_waves(tiles: int, sm_count: int, waves: float) -> None:
    assert gemm.partial_waves(tiles, sm_count) == pytest.approx(waves, rel=1e-12)


@given(tiles=st.integers(1, 2000), sm_count=st.integers(1, 160))
def test_partial_waves_is_the_loop(tiles: int, sm_count: int) -> None:
    share = Fraction(tiles, sm_count)
    expected = share + Fraction(2, 5) * (loop_waves(tiles, sm_count) - share)
    assert gemm.partial_waves(tiles, sm_count) == pytest.approx(float(expected), rel=1e-12)


# With an edge of 256 the tiles cost 1 + 256 (1/128 + 1/256) = 4, 1 + 256 / 64 = 5 and 1 + 256 / 32 = 9 a FLOP,
# over 4; k = 4 and 96 of the pipeline are 100.
@pytest.mark.parametrize(
    ("m", "n", "flop"),
    [
        (128, 256, 6_553_600),  # one tile of 128 x 256: 2 * 32768 * 100; two of 128 x 128 are 5/4 of that
        (127, 255, 6_553_600),
        (128, 128, 4_096_000),  # one tile of 128 x 128: 2 * 16384 * 100 * 5/4; four of 64 x 64 are 7,372,800
        (64, 64, 1_843_200),  # one tile of 64 x 64: 2 * 4096 * 100 * 9/4
        (65, 64, 3_686_400),  # two of them
        (64, 65, 3_686_400),
    ],
)
def test_the_tile_that_costs_least(m: int, n: int, flop: int) -> None:
    assert gemm.tiled_gemm_flop(m, n, k=4, sm_count=1, tile_edge=256) == pytest.approx(flop, rel=1e-12)
    # 5 FLOPs a multiply-add instead of 2
    got = gemm.tiled_gemm_flop(m, n, k=4, sm_count=1, tile_edge=256, flop_per_mac=5)
    assert got == pytest.approx(2.5 * flop, rel=1e-12)


def test_tiles_on_several_processors() -> None:
    # 300 x 600 without edges, 4 processors: 9 tiles of 128 x 256 are 2.25 + 0.3 waves of 131,072 outputs, 334,234;
    # 15 of 128 x 128 3.75 + 0.1 of 65,536, 252,314; 50 of 64 x 64 12.5 + 0.2 of 16,384, 208,077: the least
    got = gemm.tiled_gemm_flop(m=300, n=600, k=104, sm_count=4, tile_edge=0)
    assert got == pytest.approx(2 * 16_384 * 12.7 * 200, rel=1e-12)


@given(
    m=st.integers(1, 600),
    n=st.integers(1, 1500),
    k=st.integers(1, 5000),
    sm_count=st.sampled_from((1, 7, 108, 132)),
    tile_edge=st.integers(0, 128),
)
@settings(max_examples=50)
def test_tiled_flop_is_the_loop_and_no_less_than_the_product(
    m: int, n: int, k: int, sm_count: int, tile_edge: int
) -> None:
    def cost(rows: int, columns: int) -> Fraction:
        tiles = loop_tiles(m, n, rows, columns)
        waves = (3 * Fraction(tiles, sm_count) + 2 * loop_waves(tiles, sm_count)) / 5
        dearer = 1 + tile_edge * (Fraction(1, rows) + Fraction(1, columns))
        return 2 * rows * columns * sm_count * waves * (k + 96) * dearer

    least = min(cost(128, 256), cost(128, 128), cost(64, 64))
    expected = least / (1 + Fraction(3 * tile_edge, 256))
    got = gemm.tiled_gemm_flop(m, n, k, sm_count, tile_edge)
    assert got == pytest.approx(float(expected), rel=1e-12)
    assert got >= 2 * m * n * k


@pytest.mark.parametrize(
    ("arithmetic", "streaming", "time"),
    [(4.0, 2.0, 4.25), (2.0, 4.0, 4.25), (4.0, 4.0, 5.0), (4.0, 0.0, 4.0), (0.0, 3.0, 3.0)],
)
def test_overlapped_time(arithmetic: float, streaming: float, time: float) -> None:
    assert gemm.overlapped_time(arithmetic, streaming) == pytest.approx(time, rel=1e-12)


# one tile of 64 x 64 on one processor; n and k as above
PRODUCT: dict[str, Any] = {"m": 60, "n": 64, "k": 4, "sm_count": 1}


def test_tiled_gemm_time() -> None:
    # 1,843,200 FLOPs at half of 3,686,400 a second: 1 s. 4 * 64 weights of 3 bytes and 60 * (4 + 64) activations
    # of 5 are 21,168 bytes, at a quarter of 42,336: 2 s. 2 + 0.25 * 1 / 2 and 0.5
    hardware: dict[str, Any] = {
        "peak_flop_per_s": 3_686_400,
        "memory_bytes_per_s": 42_336,
        "compute_share": 0.5,
        "bandwidth_share": 0.25,
        "latency": 0.5,
    }
    given = {**PRODUCT, **hardware, "weight_dtype_bytes": 3, "dtype_bytes": 5, "tile_edge": 256}
    assert gemm.tiled_gemm_time(**given) == pytest.approx(2.625, rel=1e-12)
    # 8 FLOPs a multiply-add: 4 s of arithmetic lead, 4 + 0.25 * 4 / 4 + 0.5
    assert gemm.tiled_gemm_time(**given, flop_per_mac=8) == pytest.approx(4.75, rel=1e-12)


# one tile of 128 x 256, 6,553,600 FLOPs in 4.2 s; in tiles of either kind, 256 x 128 would be two
WIDE: dict[str, Any] = {
    "m": 128,
    "n": 256,
    "k": 4,
    "sm_count": 1,
    "weight_dtype_bytes": 3,
    "dtype_bytes": 5,
    "peak_flop_per_s": 6_553_600 / 4.2 / 0.5,
    "compute_share": 0.5,
    "bandwidth_share": 0.25,
    "latency": 0.5,
}


def test_rows_are_not_columns() -> None:
    # 4 * 256 * 3 + 128 * (4 + 256) * 5 = 169,472 bytes in 8.4 s: 8.4 + 0.25 * 4.2 / 2 and 0.5
    got = gemm.tiled_gemm_time(**WIDE, memory_bytes_per_s=169_472 / 8.4 / 0.25, tile_edge=256)
    assert got == pytest.approx(9.425, rel=1e-12)
    # 4 * 256 * 3 + 128 * 4 + 128 * 256 * 5 = 167,424; and 128 * 4 * 6 = 3,072 at a share of 0.5
    bandwidth = 167_424 / 8.4 / 0.25
    got = gemm.quantised_gemm_time(**WIDE, memory_bytes_per_s=bandwidth, quantise_share=0.5)
    assert got == pytest.approx(9.425 + 6144 / bandwidth, rel=1e-12)


def test_quantised_gemm_time() -> None:
    # edges of 128 cost 5 at 64 x 64 and 2.5 at 128 x 256: 2 * 4096 * 100 * 5 / 2.5 = 1,638,400 FLOPs, 1 s at half of
    # 3,276,800. 4 * 64 weights of 3 bytes, 60 * 4 inputs of 1, 60 * 64 results of 5: 20,208 bytes, at a quarter of
    # 40,416: 2 s. 2 + 0.25 / 2 and 0.5; quantising reads 240 of 5 and writes 240 of 1, 1,440 bytes at 0.4 of 40,416
    given: dict[str, Any] = {
        **PRODUCT,
        "weight_dtype_bytes": 3,
        "dtype_bytes": 5,
        "peak_flop_per_s": 3_276_800,
        "memory_bytes_per_s": 40_416,
        "compute_share": 0.5,
        "bandwidth_share": 0.25,
        "latency": 0.5,
        "quantise_share": 0.4,
    }
    assert gemm.quantised_gemm_time(**given) == pytest.approx(2.625 + 3600 / 40_416, rel=1e-12)
    # inputs of 3 bytes: 480 bytes more, of which both read and product have their own
    wider = 20_688 / 10_104
    expected = wider + 0.25 / wider + 0.5 + 240 * 8 / 0.4 / 40_416
    assert gemm.quantised_gemm_time(**given, fp8_bytes=3) == pytest.approx(expected, rel=1e-12)
    # 8 FLOPs a multiply-add: 4 s lead
    got = gemm.quantised_gemm_time(**given, flop_per_mac=8)
    assert got == pytest.approx(4.75 + 3600 / 40_416, rel=1e-12)
