"""Time of an operator from its work: roofline forms with fitted shares of peak and a fixed latency.

The shares, latencies and sizes are measured per GPU and software stack; a share of 1 and a latency of 0
give the bound back.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import sqrt
from .roofline import compute_time, memory_time, roofline_time

FITTED = "fitted form; parameters and errors stand in the efficiency file of the GPU and stack"
RING = "Patarasuk, Yuan: Bandwidth optimal all-reduce, J. Parallel Distrib. Comput. 69(2), 2009"


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic and bytes overlap wholly", "arithmetic is done on whole tiles"),
)
def tile_roofline_time(
    flop: Any,
    bytes_moved: Any,
    fill: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
) -> Any:
    """Time of a matrix product: the larger of arithmetic on whole tiles and bytes, plus a latency.

    300 GFLOP filled up by 1.2 at 0.75 of 312 TFLOP/s is 360 / 234 = 1.538 ms, and 0.1 ms more:

    >>> t = tile_roofline_time(flop=300e9, bytes_moved=1e9, fill=1.2, peak_flop_per_s=312e12,
    ...     memory_bytes_per_s=2e12, compute_share=0.75, bandwidth_share=0.8, latency=1e-4)
    >>> f"{t * 1e3:.3f} ms"
    '1.638 ms'
    """
    peak, bandwidth = compute_share * peak_flop_per_s, bandwidth_share * memory_bytes_per_s
    return roofline_time(flop * fill, bytes_moved, peak, bandwidth) + latency


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic and bytes do not overlap: prefill attention is measured to fit better so",),
)
def additive_time(
    flop: Any,
    bytes_moved: Any,
    fill: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
) -> Any:
    """Time of an operator whose arithmetic and bytes add up, as in prefill attention.

    124.8 GFLOP filled up by 1.25 at half of 312 TFLOP/s (1 ms), 0.4 GB at 0.4 of 2 TB/s (0.5 ms), 0.01 ms:

    >>> t = additive_time(flop=124.8e9, bytes_moved=0.4e9, fill=1.25, peak_flop_per_s=312e12,
    ...     memory_bytes_per_s=2e12, compute_share=0.5, bandwidth_share=0.4, latency=1e-5)
    >>> f"{t * 1e3:.3f} ms"
    '1.510 ms'
    """
    arithmetic = compute_time(flop * fill, compute_share * peak_flop_per_s)
    return arithmetic + memory_time(bytes_moved, bandwidth_share * memory_bytes_per_s) + latency


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic is negligible",),
)
def streaming_time(bytes_moved: Any, memory_bytes_per_s: Any, bandwidth_share: Any, latency: Any) -> Any:
    """Time of an operator that only streams bytes: norms, activations, residuals, cache writes.

    1.6 GB at 0.8 of 2 TB/s, and 5 us:

    >>> t = streaming_time(bytes_moved=1.6e9, memory_bytes_per_s=2e12, bandwidth_share=0.8, latency=5e-6)
    >>> f"{t * 1e3:.3f} ms"
    '1.005 ms'
    """
    return memory_time(bytes_moved, bandwidth_share * memory_bytes_per_s) + latency


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=(
        "arithmetic and bytes overlap wholly",
        "arithmetic runs at peak: it is the limit only with many query heads a KV head, which no fit covers",
        "each sequence and KV head adds a fixed time",
    ),
)
def decode_attention_time(
    flop: Any,
    bytes_moved: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    bandwidth_share: Any,
    latency: Any,
    per_sequence_head: Any,
    batch: Any,
    kv_heads: Any,
) -> Any:
    """Time of a decode step's attention in one layer.

    0.08 GB at 0.8 of 2 TB/s (50 us) hide 0.32 GFLOP; 18 us, and 25 ns for each of 16 * 8 sequence-heads:

    >>> t = decode_attention_time(flop=0.32e9, bytes_moved=0.08e9, peak_flop_per_s=312e12,
    ...     memory_bytes_per_s=2e12, bandwidth_share=0.8, latency=18e-6, per_sequence_head=25e-9, batch=16,
    ...     kv_heads=8)
    >>> f"{t * 1e6:.1f} us"
    '71.2 us'
    """
    limit = roofline_time(flop, bytes_moved, peak_flop_per_s, bandwidth_share * memory_bytes_per_s)
    return limit + latency + per_sequence_head * batch * kv_heads


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic and bytes overlap wholly", "each sequence adds a fixed time"),
)
def latent_decode_time(
    flop: Any,
    bytes_moved: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
    per_sequence: Any,
    batch: Any,
) -> Any:
    """Time of a decode step's absorbed MLA attention in one layer.

    7.8 GFLOP at half of 312 TFLOP/s (50 us) hide 0.04 GB; 10 us, and 0.2 us for each of 16 sequences:

    >>> t = latent_decode_time(flop=7.8e9, bytes_moved=0.04e9, peak_flop_per_s=312e12,
    ...     memory_bytes_per_s=2e12, compute_share=0.5, bandwidth_share=0.8, latency=10e-6,
    ...     per_sequence=0.2e-6, batch=16)
    >>> f"{t * 1e6:.1f} us"
    '63.2 us'
    """
    peak, bandwidth = compute_share * peak_flop_per_s, bandwidth_share * memory_bytes_per_s
    return roofline_time(flop, bytes_moved, peak, bandwidth) + latency + per_sequence * batch


@formula(
    unit="second",
    symbol="t_{ar}",
    source=RING,
    assumes=("every GPU sends over its own link", "the switch does no reduction"),
)
def all_reduce_bound(bytes_moved: Any, tp: Any, link_bytes_per_s: Any) -> Any:
    """Least time of an all-reduce of ``bytes_moved`` over ``tp`` GPUs: each sends 2 (T - 1) / T of it.

    300 MB over 4 GPUs at 300 GB/s in one direction, 1.5 * 1 ms:

    >>> all_reduce_bound(bytes_moved=300e6, tp=4, link_bytes_per_s=300e9)
    0.0015
    """
    return 2 * (tp - 1) / tp * bytes_moved / link_bytes_per_s


@formula(
    unit="second",
    symbol="t_{ar}",
    source=f"{RING}; latency and the square-root term: {FITTED}",
    assumes=("the message is not empty", "every GPU sends over its own link"),
)
def all_reduce_time(
    bytes_moved: Any, tp: Any, link_bytes_per_s: Any, bandwidth_share: Any, latency: Any, half_size: Any
) -> Any:
    """Time of an all-reduce: small messages reach less of the link, by a square root of their size.

    100 MB over 4 GPUs at 0.75 of 200 GB/s is 1.5 * 0.667 = 1 ms; half_size = 1 MB adds a tenth; 20 us:

    >>> t = all_reduce_time(bytes_moved=100e6, tp=4, link_bytes_per_s=200e9, bandwidth_share=0.75,
    ...     latency=20e-6, half_size=1e6)
    >>> f"{t * 1e3:.3f} ms"
    '1.120 ms'
    """
    at_size = all_reduce_bound(bytes_moved, tp, bandwidth_share * link_bytes_per_s)
    return latency + at_size * (1 + sqrt(half_size / bytes_moved))
