"""Time of attention over the new tokens of prompts: tiles of query rows in waves over the processors.

A tile of queries walks over all earlier keys and values. Kernels differ in the rows of a tile and in whether
the query heads of one KV head share it; the two families are two forms of the same parameters.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, maximum, minimum
from .operators import FITTED

#: Cached tokens that a kernel loads at once, for heads of 128.
BLOCK_TOKENS = 128


@formula(
    unit="1",
    symbol="n_t",
    source="derived: a tile holds rows of one query head, or of all that share a KV head where they are packed",
)
def query_tiles(chunk: Any, heads: Any, kv_heads: Any, tile_rows: Any, packed: Any) -> Any:
    """Tiles of a prompt's attention. ``packed`` 1: the query heads of a KV head lie together in rows (FlashAttention
    3); 0: each has tiles of its own, but for a lone query token, which shares one with its group (FlashAttention 2).

    100 tokens of 32 heads are two tiles of 64 rows each; packed, 400 rows of 8 KV heads are four tiles of 128:

    >>> query_tiles(chunk=100, heads=32, kv_heads=8, tile_rows=64, packed=0)
    64.0
    >>> query_tiles(chunk=100, heads=32, kv_heads=8, tile_rows=128, packed=1)
    32.0
    """
    together = kv_heads * ceil(chunk * heads / kv_heads / tile_rows)
    rows_of = kv_heads + (heads - kv_heads) * minimum(1, chunk - 1)
    return packed * together + (1 - packed) * rows_of * ceil(chunk / tile_rows)


@formula(
    unit="1/second",
    symbol=r"\dot n_t",
    source="derived: a tile's row takes 2 (d_qk + d_v) FLOPs a cached token; a processor has its share",
)
def tile_tokens_per_s(
    tile_rows: Any,
    qk_dim: Any,
    v_dim: Any,
    sm_count: Any,
    peak_flop_per_s: Any,
    compute_share: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """Cached tokens that one tile of queries walks over in a second, on one processor.

    Half of 312 TFLOP/s on 108 processors, 64 rows of heads of 128:

    >>> rate = tile_tokens_per_s(tile_rows=64, qk_dim=128, v_dim=128, sm_count=108, peak_flop_per_s=312e12,
    ...     compute_share=0.5)
    >>> f"{rate / 1e6:.2f} tokens a us"
    '44.08 tokens a us'
    """
    return compute_share * peak_flop_per_s / sm_count / (flop_per_mac * (qk_dim + v_dim) * tile_rows)


@formula(
    unit="1",
    symbol=r"\bar n",
    source="derived: token i of a chunk sees i tokens of it, and a kernel loads whole blocks",
)
def own_tokens(chunk: Any) -> Any:
    """Tokens of its own chunk that a tile walks over on average, at least half a block.

    >>> own_tokens(chunk=999), own_tokens(chunk=16)
    (500.0, 64.0)
    """
    return maximum((chunk + 1) / 2, BLOCK_TOKENS / 2)


@formula(
    unit="byte",
    symbol="Q",
    source="derived: Q and O, K and V once, and new K and V once more for each of read and write of a cache update",
)
def prefill_traffic(
    sequences: Any,
    chunk: Any,
    prefix: Any,
    heads: Any,
    kv_heads: Any,
    qk_dim: Any,
    v_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
    cache_writes: Any,
) -> Any:
    """HBM bytes of a kernel call over ``sequences`` equal chunks; ``cache_writes`` 1: it writes K and V, 0: not.

    Two chunks of 100 tokens over 50, 4 heads and 1 KV head of 8 + 8, 2 bytes: 2 * (100*4*16*2 + 350*16*2):

    >>> prefill_traffic(sequences=2, chunk=100, prefix=50, heads=4, kv_heads=1, qk_dim=8, v_dim=8, dtype_bytes=2,
    ...     kv_dtype_bytes=2, cache_writes=1)
    48000
    """
    width = qk_dim + v_dim
    cached = (prefix + chunk * (1 + 2 * cache_writes)) * kv_heads * width * kv_dtype_bytes
    return sequences * (chunk * heads * width * dtype_bytes + cached)


@formula(
    unit="1",
    symbol="n_w",
    source="derived: whole waves of tiles, each walking over what its rows see on average, and the end of a long one",
    assumes=(
        "long tiles start first where heads are packed",
        "the last tile to start may be the longest elsewhere",
    ),
)
def walked_tokens(
    tiles: Any, sm_count: Any, chunk: Any, prefix: Any, reach: Any, tile_overhead_tokens: Any, packed: Any
) -> Any:
    """Cached tokens that the busiest processor's tiles walk over, one after the other.

    512 tiles on 108 processors are 5 waves over 0 + 500.5 tokens and 100 more each, and 500.5 for the last;
    packed, the last costs nothing once there are two waves:

    >>> walked_tokens(tiles=512, sm_count=108, chunk=1000, prefix=0, reach=1000, tile_overhead_tokens=100, packed=0)
    3503.0
    >>> walked_tokens(tiles=256, sm_count=108, chunk=1000, prefix=0, reach=1000, tile_overhead_tokens=100, packed=1)
    1801.5
    """
    waves = ceil(tiles / sm_count)
    half = minimum(own_tokens(chunk), reach)
    each = minimum(prefix + own_tokens(chunk), reach) + tile_overhead_tokens
    ends = packed * maximum(2 - waves, 0) + (1 - packed)
    return waves * each + ends * half


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("the prompts of a call are equal",),
)
def prefill_attention_time(
    sequences: Any,
    chunk: Any,
    prefix: Any,
    reach: Any,
    heads: Any,
    kv_heads: Any,
    qk_dim: Any,
    v_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
    cache_writes: Any,
    tile_rows: Any,
    packed: Any,
    sm_count: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    latency: Any,
    tile_overhead_tokens: Any,
    per_token: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """Time of prefill attention in one layer: chunks over a prefix, or whole prompts.

    The 3,503 tokens of walked_tokens at 44.08 a us are 79.47 us; 20.48 MB at 2 TB/s 10.24 us; 1 ns a token 1 us;
    and 8 us:

    >>> t = prefill_attention_time(sequences=1, chunk=1000, prefix=0, reach=1000, heads=32, kv_heads=8, qk_dim=128,
    ...     v_dim=128, dtype_bytes=2, kv_dtype_bytes=2, cache_writes=0, tile_rows=64, packed=0, sm_count=108,
    ...     peak_flop_per_s=312e12, memory_bytes_per_s=2e12, compute_share=0.5, latency=8e-6,
    ...     tile_overhead_tokens=100, per_token=1e-9)
    >>> f"{t * 1e6:.2f} us"
    '98.71 us'
    """
    rate = tile_tokens_per_s(tile_rows, qk_dim, v_dim, sm_count, peak_flop_per_s, compute_share, flop_per_mac)
    tiles = sequences * query_tiles(chunk, heads, kv_heads, tile_rows, packed)
    walked = walked_tokens(tiles, sm_count, chunk, prefix, reach, tile_overhead_tokens, packed)
    each = dtype_bytes, kv_dtype_bytes, cache_writes
    moved = prefill_traffic(sequences, chunk, prefix, heads, kv_heads, qk_dim, v_dim, *each)
    return walked / rate + moved / memory_bytes_per_s + per_token * sequences * chunk + latency
