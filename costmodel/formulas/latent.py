"""Time of multi-head latent attention (MLA): the attention itself, and the rest of its module."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, maximum
from .decode import BLOCK_ROWS
from .operators import FITTED
from .roofline import compute_time, memory_time


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic and bytes do not overlap", "what the kernel takes besides counts with its module"),
)
def latent_prefill_time(
    flop: Any,
    bytes_moved: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
) -> Any:
    """Time of MLA attention over the new tokens of prompts in one layer.

    124.8 GFLOP at half of 312 TFLOP/s (0.8 ms) and 0.4 GB at 0.4 of 2 TB/s (0.5 ms):

    >>> t = latent_prefill_time(flop=124.8e9, bytes_moved=0.4e9, peak_flop_per_s=312e12, memory_bytes_per_s=2e12,
    ...     compute_share=0.5, bandwidth_share=0.4)
    >>> f"{t * 1e3:.3f} ms"
    '1.300 ms'
    """
    arithmetic = compute_time(flop, compute_share * peak_flop_per_s)
    return arithmetic + memory_time(bytes_moved, bandwidth_share * memory_bytes_per_s)


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("arithmetic and the reading of latents overlap wholly", "blocks of 64 heads take their turn"),
)
def latent_decode_time(
    batch: Any,
    context: Any,
    heads: Any,
    kv_rank: Any,
    rope_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
    sm_count: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    block_time: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """Time of a decode step's absorbed MLA attention in one layer, over latents of rank + rope.

    16 sequences of 1,000 latents of 576, 128 heads: 4.456 GFLOP at half of 312 TFLOP/s, 28.57 us, hide 18.4 MB;
    Q and O are 4.46 MB at half of 2 TB/s, 4.46 us; 16 * 2 blocks of 1 us on 108 processors 0.30 us:

    >>> t = latent_decode_time(batch=16, context=16_000, heads=128, kv_rank=512, rope_dim=64, dtype_bytes=2,
    ...     kv_dtype_bytes=2, sm_count=108, peak_flop_per_s=312e12, memory_bytes_per_s=2e12, compute_share=0.5,
    ...     bandwidth_share=0.5, block_time=1e-6)
    >>> f"{t * 1e6:.2f} us"
    '33.32 us'
    """
    width = 2 * kv_rank + rope_dim
    bandwidth = bandwidth_share * memory_bytes_per_s
    arithmetic = flop_per_mac * heads * width * context / (compute_share * peak_flop_per_s)
    reading = context * (kv_rank + rope_dim) * kv_dtype_bytes / bandwidth
    ends = batch * heads * width * dtype_bytes / bandwidth
    blocks = batch * ceil(heads / BLOCK_ROWS) / sm_count
    return maximum(arithmetic, reading) + ends + block_time * blocks


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("inner norms, rotary positions, cache writes, copies and launches, whatever the heads",),
)
def module_time(tokens: Any, memory_bytes_per_s: Any, latency: Any, token_bytes: Any) -> Any:
    """Time of what an MLA module does besides its matrix products and its attention.

    70 us, and 100 kB for each of 1,000 tokens at 2 TB/s, 50 us:

    >>> t = module_time(tokens=1000, memory_bytes_per_s=2e12, latency=70e-6, token_bytes=100e3)
    >>> f"{t * 1e6:.0f} us"
    '120 us'
    """
    return latency + tokens * token_bytes / memory_bytes_per_s
