"""Time of operators that stream: element-wise kernels, and collectives on a link.

Shares, latencies and sizes are measured per GPU and software stack; a share of 1 and a latency of 0 give the
bound back.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import floor, maximum, minimum, sqrt
from .roofline import compute_time, memory_time

FITTED = "fitted form; parameters and errors stand in the efficiency file of the GPU and stack"
RING = "Patarasuk, Yuan: Bandwidth optimal all-reduce, J. Parallel Distrib. Comput. 69(2), 2009"


@formula(
    unit="1",
    symbol=r"\mu",
    source="fitted form: tensors stay in L2 up to a part of it, and half as much more pushes them out",
)
def cache_misses(bytes_moved: Any, l2_bytes: Any, cached_part: Any) -> Any:
    """Share of an operator's bytes that pass through HBM; the rest is found in L2.

    25 MB where 20 of 40 MB stay: 5 MB of the next 10 are too many:

    >>> cache_misses(bytes_moved=25e6, l2_bytes=40e6, cached_part=0.5)
    0.5
    """
    kept = cached_part * l2_bytes
    return minimum(1, maximum(0, (bytes_moved - kept) / (kept / 2)))


@formula(
    unit="byte",
    symbol="Q_{HBM}",
    source="derived: what does not fit into L2",
)
def uncached_bytes(bytes_moved: Any, l2_bytes: Any) -> Any:
    """Fewest bytes that an element-wise operator moves through HBM, where the one before it left its input in L2.

    >>> uncached_bytes(bytes_moved=100e6, l2_bytes=40e6)
    60000000.0
    """
    return maximum(0, bytes_moved - l2_bytes)


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic is negligible", "the tensors were written by the operator before"),
)
def streaming_time(
    bytes_moved: Any,
    l2_bytes: Any,
    memory_bytes_per_s: Any,
    latency: Any,
    bandwidth_share: Any,
    cached_share: Any,
    cached_part: Any,
) -> Any:
    """Time of an operator that only streams bytes: norms, activations, residuals, rotary positions.

    25 MB, half of them from L2 at twice the bandwidth of 2 TB/s and half at 0.5 of it, 3.125 + 12.5 us; beside
    that a launch of 5 us counts little:

    >>> t = streaming_time(bytes_moved=25e6, l2_bytes=40e6, memory_bytes_per_s=2e12, latency=5e-6,
    ...     bandwidth_share=0.5, cached_share=2.0, cached_part=0.5)
    >>> f"{t * 1e6:.2f} us"
    '16.41 us'
    """
    missed = cache_misses(bytes_moved, l2_bytes, cached_part)
    moving = bytes_moved * ((1 - missed) / cached_share + missed / bandwidth_share) / memory_bytes_per_s
    return sqrt(latency**2 + moving**2)


@formula(
    unit="second",
    symbol="t",
    source="no measurement: shares and latency of attention stand in",
    assumes=("arithmetic and bytes do not overlap",),
)
def plain_kernel_time(
    flop: Any,
    bytes_moved: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
) -> Any:
    """Time of a kernel that was not measured: recurrent states, the indexer of sparse attention.

    124.8 GFLOP at half of 312 TFLOP/s (0.8 ms), 0.4 GB at 0.4 of 2 TB/s (0.5 ms), 0.01 ms:

    >>> t = plain_kernel_time(flop=124.8e9, bytes_moved=0.4e9, peak_flop_per_s=312e12, memory_bytes_per_s=2e12,
    ...     compute_share=0.5, bandwidth_share=0.4, latency=1e-5)
    >>> f"{t * 1e3:.3f} ms"
    '1.310 ms'
    """
    arithmetic = compute_time(flop, compute_share * peak_flop_per_s)
    return arithmetic + memory_time(bytes_moved, bandwidth_share * memory_bytes_per_s) + latency


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
    symbol="t",
    source=FITTED,
    assumes=(
        "one step more for each GPU more",
        "a message reaches the whole rate by a square root of its size",
    ),
)
def collective_time(
    bytes_moved: Any,
    sent: Any,
    tp: Any,
    link_bytes_per_s: Any,
    bandwidth_share: Any,
    latency: Any,
    step_latency: Any,
    ramp_bytes: Any,
) -> Any:
    """Time of a collective of NCCL over ``tp`` GPUs that each send ``sent`` times its bytes.

    100 MB over 4 GPUs of which each sends 1.5, and sqrt(1 MB * 100 MB) = 10 MB more, at 0.8 of 200 GB/s, 1 ms;
    10 us and 3 steps of 2 us:

    >>> t = collective_time(bytes_moved=100e6, sent=1.5, tp=4, link_bytes_per_s=200e9, bandwidth_share=0.8,
    ...     latency=10e-6, step_latency=2e-6, ramp_bytes=1e6)
    >>> f"{t * 1e3:.3f} ms"
    '1.016 ms'
    """
    sending = sent * bytes_moved + sqrt(ramp_bytes * bytes_moved)
    return latency + (tp - 1) * step_latency + sending / (bandwidth_share * link_bytes_per_s)


@formula(
    unit="second",
    symbol="t_{ar}",
    source=f"{FITTED}; vLLM's own kernels: one shot (to everyone) for two GPUs or small messages, else two",
)
def custom_all_reduce_time(
    bytes_moved: Any,
    tp: Any,
    link_bytes_per_s: Any,
    bandwidth_share: Any,
    latency: Any,
    step_latency: Any,
    ramp_bytes: Any,
    one_shot_bytes: Any = 2_097_152,
) -> Any:
    """Time of vLLM's own all-reduce, for messages up to the 8 MiB that it takes.

    100 kB over 4 GPUs are sent to 3 in one step, 300 kB at 0.5 of 300 GB/s, 2 us, and 5 us; 1 MB takes two steps
    of 0.75 each, 1.5 MB and 10 us:

    >>> own = dict(tp=4, link_bytes_per_s=300e9, bandwidth_share=0.5, latency=1e-6, step_latency=5e-6, ramp_bytes=0)
    >>> f"{custom_all_reduce_time(bytes_moved=100e3, **own) * 1e6:.2f} us"
    '8.00 us'
    >>> f"{custom_all_reduce_time(bytes_moved=1e6, **own) * 1e6:.2f} us"
    '21.00 us'
    """
    one = 1 - minimum(1, floor(bytes_moved * tp / one_shot_bytes)) * minimum(1, tp - 2)
    sent = one * (tp - 1) + (1 - one) * 2 * (tp - 1) / tp
    sending = sent * bytes_moved + sqrt(ramp_bytes * bytes_moved)
    return latency + (2 - one) * step_latency + sending / (bandwidth_share * link_bytes_per_s)
