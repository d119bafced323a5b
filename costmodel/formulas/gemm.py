"""Time of a dense matrix product: tiles in waves over the processors, bytes, and how the two overlap.

The constants were chosen on the fitted parts of eight stacks together; docs/validation/operators.md has what lost.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, maximum, minimum
from .operators import FITTED

TILES = ((128, 256), (128, 128), (64, 64))
#: Share of an unfilled last wave that is lost: kernels that split k fill the rest.
WAVE_LOSS = 0.4
#: Elements of k whose time it takes to fill and drain a tile's pipeline.
PIPELINE = 96
#: Share of the smaller of arithmetic and bytes that shows where the two are equal.
EXPOSED = 0.25
#: Widest tile edge that is fitted, and that of 8-bit products.
WIDEST_EDGE = 128


@formula(
    unit="1",
    symbol="w",
    source="derived: tiles run in waves, one a processor; part of the last wave's gap is filled by splitting k",
)
def partial_waves(tiles: Any, sm_count: Any) -> Any:
    """Waves of a product's tiles over the processors: between the tiles' share of them and whole waves.

    135 tiles on 108 processors are 1.25 waves; of the 0.75 to the next whole one 0.4 are lost:

    >>> f"{partial_waves(tiles=135, sm_count=108):.2f}"
    '1.55'
    """
    share = tiles / sm_count
    return share + WAVE_LOSS * (ceil(share) - share)


@formula(
    unit="flop",
    symbol="F_t",
    source="fitted form: tiles of 128 x 256, 128 x 128 or 64 x 64, whichever is least; small ones load more a FLOP",
    assumes=("the library picks the tile that costs least",),
)
def tiled_gemm_flop(m: Any, n: Any, k: Any, sm_count: Any, tile_edge: Any, flop_per_mac: Any = 2) -> Any:
    """FLOPs that the processors could have done while a product occupies them, at the rate of the largest tile.

    One row of 64 outputs, k = 904, on 4 processors: a tile of 64 x 64 is a quarter of a wave, counted as
    0.25 + 0.4 * 0.75 = 0.55; 2 * 64 * 64 * 4 * 0.55 * (904 + 96); edges cost nothing here:

    >>> f"{tiled_gemm_flop(m=1, n=64, k=904, sm_count=4, tile_edge=0):.0f}"
    '18022400'
    """

    def occupied(rows: int, columns: int) -> Any:
        waves = partial_waves(ceil(m / rows) * ceil(n / columns), sm_count)
        dearer = 1 + tile_edge * (1 / rows + 1 / columns)
        return flop_per_mac * rows * columns * sm_count * waves * (k + PIPELINE) * dearer

    rows, columns = TILES[0]
    least = minimum(minimum(occupied(*TILES[0]), occupied(*TILES[1])), occupied(*TILES[2]))
    return least / (1 + tile_edge * (1 / rows + 1 / columns))


@formula(
    unit="second",
    symbol="t",
    source="fitted form: two limits that hide each other wholly only where they are far apart",
)
def overlapped_time(arithmetic: Any, streaming: Any) -> Any:
    """Time of arithmetic and bytes that overlap: the larger, and part of the smaller where both are alike.

    Arithmetic of 4 s and bytes of 2 s: 4 + 0.25 * 2 * 2 / 4:

    >>> overlapped_time(arithmetic=4.0, streaming=2.0)
    4.25
    """
    longer = maximum(arithmetic, streaming)
    return longer + EXPOSED * minimum(arithmetic, streaming) ** 2 / longer


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("weights and activations pass through HBM once",),
)
def tiled_gemm_time(
    m: Any,
    n: Any,
    k: Any,
    weight_dtype_bytes: Any,
    dtype_bytes: Any,
    sm_count: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
    tile_edge: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """Time of an (m, k) by (k, n) matrix product.

    The 18,022,400 FLOPs of tiled_gemm_flop at half of 1 TFLOP/s are 36.04 us; 58,816 weights and 968 activations of
    2 bytes at half of 10 GB/s 23.53 us; 36.04 + 0.25 * 23.53**2 / 36.04, and 5 us:

    >>> t = tiled_gemm_time(m=1, n=64, k=904, weight_dtype_bytes=2, dtype_bytes=2, sm_count=4,
    ...     peak_flop_per_s=1e12, memory_bytes_per_s=10e9, compute_share=0.5, bandwidth_share=0.5, latency=5e-6,
    ...     tile_edge=0)
    >>> f"{t * 1e6:.2f} us"
    '44.88 us'
    """
    flop = tiled_gemm_flop(m, n, k, sm_count, tile_edge, flop_per_mac)
    compute = flop / (compute_share * peak_flop_per_s)
    moved = k * n * weight_dtype_bytes + m * (k + n) * dtype_bytes
    return overlapped_time(compute, moved / (bandwidth_share * memory_bytes_per_s)) + latency


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("the input is quantised by a kernel of its own: read wide, written narrow, read again",),
)
def quantised_gemm_time(
    m: Any,
    n: Any,
    k: Any,
    weight_dtype_bytes: Any,
    dtype_bytes: Any,
    sm_count: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
    quantise_share: Any,
    fp8_bytes: Any = 1,
    flop_per_mac: Any = 2,
) -> Any:
    """Time of a matrix product in 8 bits with quantising its input.

    1,000 rows, n = k = 1,000, at whole shares of 1 PFLOP/s and 1 TB/s: arithmetic far below the bytes, which are
    1 MB of weights, 1 MB of input and 2 MB of results, 4 us; quantising moves 3 MB at half, 6 us; 1 us:

    >>> t = quantised_gemm_time(m=1000, n=1000, k=1000, weight_dtype_bytes=1, dtype_bytes=2, sm_count=100,
    ...     peak_flop_per_s=1e18, memory_bytes_per_s=1e12, compute_share=1.0, bandwidth_share=1.0, latency=1e-6,
    ...     quantise_share=0.5)
    >>> f"{t * 1e6:.2f} us"
    '11.00 us'
    """
    flop = tiled_gemm_flop(m, n, k, sm_count, WIDEST_EDGE, flop_per_mac)
    compute = flop / (compute_share * peak_flop_per_s)
    moved = k * n * weight_dtype_bytes + m * k * fp8_bytes + m * n * dtype_bytes
    product = overlapped_time(compute, moved / (bandwidth_share * memory_bytes_per_s)) + latency
    quantised = m * k * (dtype_bytes + fp8_bytes)
    return product + quantised / (quantise_share * memory_bytes_per_s)
