"""Time of attention in a decode step: bytes of the cache, blocks over the processors, passes over the result.

How a kernel spreads a batch over the processors decides what it costs while there are few bytes to read.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, floor, maximum, minimum
from .operators import FITTED

#: Query rows of a thread block, cached tokens that it takes at a time, and how full the processors must be
#: for a kernel not to split the cache of a sequence.
BLOCK_ROWS = 64
BLOCK_TOKENS = 128
FULL = 0.8
FLASH = "the heuristic of num_splits in github.com/Dao-AILab/flash-attention"


@formula(
    unit="1",
    symbol="n_t",
    source=f"derived: a block takes the query heads of one KV head of one sequence, {BLOCK_ROWS} at a time",
)
def decode_blocks(batch: Any, heads: Any, kv_heads: Any) -> Any:
    """Thread blocks of a decode step's attention in one layer, before any split of the cache.

    16 sequences of 8 KV heads, 4 query heads each:

    >>> decode_blocks(batch=16, heads=32, kv_heads=8)
    128.0
    """
    return batch * kv_heads * ceil(heads / kv_heads / BLOCK_ROWS)


@formula(
    unit="1",
    symbol="n_p",
    source=FLASH,
    assumes=("a result of several splits is combined by a pass of its own",),
)
def combining_passes(tiles: Any, sm_count: Any, length: Any) -> Any:
    """Passes that combine the splits of a sequence's cache: 1, or 0 where blocks fill the processors.

    128 blocks on 132 processors are enough (0.97 of them, 0.8 are asked for); 64 are not, unless a sequence
    fits in one step of 128 tokens:

    >>> combining_passes(tiles=128, sm_count=132, length=4096)
    0.0
    >>> combining_passes(tiles=64, sm_count=132, length=4096)
    1.0
    >>> combining_passes(tiles=64, sm_count=132, length=100)
    0.0
    """
    filled = floor(minimum(1, tiles / (FULL * sm_count)))
    return (1 - filled) * minimum(1, ceil(length / BLOCK_TOKENS) - 1)


@formula(
    unit="second",
    symbol="t",
    source=f"{FITTED}; {FLASH}, versions 2 and 3",
    assumes=(
        "the sequences of the batch are equally long",
        "the cache is cold: nothing of it lies in L2",
        "repacking kernels (FlashAttention 2): where query heads share a KV head, Q and O are copied to put them into "
        "rows; where they do not, the cache of a sequence is not split",
    ),
)
def decode_attention_time(
    batch: Any,
    context: Any,
    heads: Any,
    kv_heads: Any,
    head_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
    repacking: Any,
    sm_count: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    bandwidth_share: Any,
    latency: Any,
    pass_latency: Any,
    block_time: Any,
    flop_per_mac: Any = 2,
    kv_tensors: Any = 2,
) -> Any:
    """Time of a decode step's attention in one layer. ``repacking``: 1 for FlashAttention 2, 0 for 3.

    128 blocks (1 us each, 0.97 us on 132 processors) read 16 * 4096 * 4096 bytes at 0.8 of 2 TB/s, 167.77 us,
    hiding all arithmetic; Q and O are 262,144 bytes, 0.16 us; 10 us, and no pass:

    >>> shape = dict(batch=16, context=16 * 4096, heads=32, kv_heads=8, head_dim=128, dtype_bytes=2, kv_dtype_bytes=2)
    >>> fit = dict(peak_flop_per_s=312e12, memory_bytes_per_s=2e12, bandwidth_share=0.8, latency=10e-6,
    ...     pass_latency=5e-6, block_time=1e-6)
    >>> f"{decode_attention_time(**shape, **fit, repacking=0, sm_count=132) * 1e6:.2f} us"
    '177.94 us'

    Repacked, Q and O move three times (0.49 us) in one more pass (5 us), and 128 blocks do not fill twice 108
    processors, so that splits are combined by another:

    >>> f"{decode_attention_time(**shape, **fit, repacking=1, sm_count=108) * 1e6:.2f} us"
    '188.26 us'
    """
    blocks = decode_blocks(batch, heads, kv_heads)
    bandwidth = bandwidth_share * memory_bytes_per_s
    arithmetic = 2 * flop_per_mac * heads * head_dim * context / peak_flop_per_s
    reading = context * kv_tensors * kv_heads * head_dim * kv_dtype_bytes / bandwidth
    shared = minimum(1, heads / kv_heads - 1)  # 0 where each query head has its own KV head
    splits = 1 - repacking * (1 - shared)
    repacks = repacking * shared * minimum(1, batch - 1) * minimum(1, kv_heads - 1)
    passes = splits * combining_passes(blocks, sm_count * (1 + repacking), context / batch) + repacks
    ends = 2 * batch * heads * head_dim * dtype_bytes * (1 + 2 * repacks) / bandwidth
    unsplit = (1 - splits) * (ceil(context / batch / BLOCK_TOKENS) - 1)
    longest = maximum(maximum(arithmetic, reading), block_time * maximum(blocks / sm_count, unsplit))
    return latency + pass_latency * passes + ends + longest
