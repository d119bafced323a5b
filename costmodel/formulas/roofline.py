"""The roofline: a kernel takes at least as long as its arithmetic and at least as long as its bytes."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import maximum

ROOFLINE = "Williams, Waterman, Patterson: Roofline, Communications of the ACM 52(4), 2009"


@formula(
    unit="second",
    symbol="t_F",
    source=ROOFLINE,
)
def compute_time(flop: Any, peak_flop_per_s: Any) -> Any:
    """Least time of the arithmetic.

    156 TFLOP on an A100 (312 TFLOP/s in bf16):

    >>> compute_time(flop=156e12, peak_flop_per_s=312e12)
    0.5
    """
    return flop / peak_flop_per_s


@formula(
    unit="second",
    symbol="t_Q",
    source=ROOFLINE,
)
def memory_time(bytes_moved: Any, memory_bytes_per_s: Any) -> Any:
    """Least time of the bytes.

    The 16.06 GB of Llama-3.1-8B in bf16 on an A100 (2,039 GB/s), 16.06 / 2.039:

    >>> f"{memory_time(bytes_moved=16.06e9, memory_bytes_per_s=2039e9) * 1e3:.2f} ms"
    '7.88 ms'
    """
    return bytes_moved / memory_bytes_per_s


@formula(
    unit="second",
    symbol="t",
    source=ROOFLINE,
    assumes=("arithmetic and bytes overlap wholly",),
)
def roofline_time(flop: Any, bytes_moved: Any, peak_flop_per_s: Any, memory_bytes_per_s: Any) -> Any:
    """Least time of a kernel: the larger of its arithmetic and its bytes.

    A kernel of 624 GFLOP and 2.039 GB on an A100: 2 ms of arithmetic hide 1 ms of bytes.

    >>> roofline_time(flop=624e9, bytes_moved=2.039e9, peak_flop_per_s=312e12, memory_bytes_per_s=2039e9)
    0.002
    """
    return maximum(compute_time(flop, peak_flop_per_s), memory_time(bytes_moved, memory_bytes_per_s))


@formula(
    unit="flop/byte",
    symbol="I^*",
    source=ROOFLINE,
)
def ridge_point(peak_flop_per_s: Any, memory_bytes_per_s: Any) -> Any:
    """Intensity at which arithmetic and bytes take the same time; below it, memory is the limit.

    A100 SXM 80 GB in bf16, 312 / 2.039:

    >>> f"{ridge_point(peak_flop_per_s=312e12, memory_bytes_per_s=2039e9):.1f}"
    '153.0'
    """
    return peak_flop_per_s / memory_bytes_per_s


@formula(
    unit="flop/byte",
    symbol="I",
    source=ROOFLINE,
)
def operational_intensity(flop: Any, bytes_moved: Any) -> Any:
    """FLOPs per byte moved.

    A square bf16 matrix product of side n has 2 n**3 / (3 * 2 n**2) = n / 3; n = 4096:

    >>> f"{operational_intensity(flop=2 * 4096**3, bytes_moved=6 * 4096**2):.1f}"
    '1365.3'
    """
    return flop / bytes_moved
