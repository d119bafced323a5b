"""Time of one attention kernel over chunks of prompts and decodes together."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, maximum, minimum, sqrt
from .operators import FITTED
from .prefill import own_tokens, prefill_traffic, query_tiles, tile_tokens_per_s, walked_tokens

#: Share of the longest tile's time that is not filled by others.
TAIL = 0.5


@formula(
    unit="1",
    symbol="n_t",
    source="derived: beside a chunk each query head of a decode walks its cache in a tile of its own, unless packed",
)
def tiles_of_a_decode(heads: Any, kv_heads: Any, tile_rows: Any, packed: Any) -> Any:
    """Tiles that walk over the cache of one decode and KV head in a kernel call with chunks.

    >>> tiles_of_a_decode(heads=32, kv_heads=8, tile_rows=64, packed=0)
    4.0
    >>> tiles_of_a_decode(heads=32, kv_heads=8, tile_rows=128, packed=1)
    1.0
    """
    return packed * ceil(heads / kv_heads / tile_rows) + (1 - packed) * heads / kv_heads


@formula(
    unit="1",
    symbol=r"\kappa_r",
    source="derived: tiles of a group read the same keys and values, from L2 where those of a KV head fit into it",
    assumes=("tiles of a group run apart in proportion to how full the decodes make the processors",),
)
def group_reads(
    batch: Any,
    tiles: Any,
    sm_count: Any,
    bytes_moved: Any,
    l2_bytes: Any,
) -> Any:
    """How often the cache of decodes is read from HBM; ``bytes_moved``: the keys and values of one KV head.

    54 decodes, half of 108 processors, 4 tiles a group, keys and values as large as L2 (half of them misses):

    >>> group_reads(batch=54, tiles=4, sm_count=108, bytes_moved=40e6, l2_bytes=40e6)
    1.75
    """
    misses = minimum(1, bytes_moved / (2 * l2_bytes))
    return 1 + (tiles - 1) * minimum(1, batch / sm_count) * misses


@formula(
    unit="1",
    symbol="n_w",
    source="fitted form: the busiest processor, of the chunks' tiles and the decodes' tiles together",
    assumes=("the cache of a decode is not split beside a chunk", "there is at least one decode"),
)
def mixed_walked_tokens(
    sequences: Any,
    chunk: Any,
    prefix: Any,
    reach: Any,
    batch: Any,
    context: Any,
    heads: Any,
    kv_heads: Any,
    tile_rows: Any,
    packed: Any,
    sm_count: Any,
    tile_overhead_tokens: Any,
    decode_overhead_tokens: Any,
    empty_tile_tokens: Any,
) -> Any:
    """Cached tokens that the busiest processor walks over in a call with chunks and decodes.

    16 tiles of a chunk (1,000 tokens, nothing cached) and 20 of decodes over 99 tokens, on 40 processors: the
    tiles fill 0.4 of them with 600.5 tokens and half with 99 + 1 + 50 and 10 for each of 15 empty tiles, 390.2;
    half of the longest tile (500.5 + 500.5 + 100), and half of that for the share of decodes, 275.25. One wave of
    the chunk alone is 600.5 and 500.5 more, 1,101, and leads:

    >>> mixed_walked_tokens(sequences=1, chunk=1000, prefix=0, reach=1000, batch=20, context=1980, heads=1, kv_heads=1,
    ...     tile_rows=64, packed=0, sm_count=40, tile_overhead_tokens=100, decode_overhead_tokens=50,
    ...     empty_tile_tokens=10)
    1101.0
    """
    tiles = sequences * query_tiles(chunk, heads, kv_heads, tile_rows, packed)
    alone = walked_tokens(tiles, sm_count, chunk, prefix, reach, tile_overhead_tokens, packed)
    own = own_tokens(chunk)
    mean = minimum(prefix + own, reach) + tile_overhead_tokens
    decode = context / batch + 1 + decode_overhead_tokens
    empty = (1 - packed) * empty_tile_tokens * (ceil(chunk / tile_rows) - 1)
    share = batch * kv_heads * tiles_of_a_decode(heads, kv_heads, tile_rows, packed) / sm_count
    longest = maximum(mean + minimum(own, reach), decode)
    spread = tiles / sm_count * mean + share * (decode + empty) + TAIL * longest * minimum(1, share)
    return maximum(maximum(alone, longest), spread)


@formula(
    unit="second",
    symbol="t",
    source=FITTED,
    assumes=("the chunks of a call are equal, and so are its decodes",),
)
def mixed_attention_time(
    sequences: Any,
    chunk: Any,
    prefix: Any,
    reach: Any,
    batch: Any,
    context: Any,
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
    l2_bytes: Any,
    peak_flop_per_s: Any,
    memory_bytes_per_s: Any,
    compute_share: Any,
    bandwidth_share: Any,
    latency: Any,
    tile_overhead_tokens: Any,
    per_token: Any,
    decode_overhead_tokens: Any,
    empty_tile_tokens: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """Time of attention in one layer where chunks and decodes share a kernel call.

    The 1,101 tokens of mixed_walked_tokens, 64 rows of heads of 8 + 8, on 40 processors of 1 TFLOP/s at half:
    12.5 GFLOP/s over 2,048 FLOPs a token is 6.10 a us, 180.39 us. 20 decodes read 1,980 tokens, and 20 new ones once,
    of 32 bytes and 640 bytes of Q and O, 64,640 bytes at half of 1 GB/s, 129.28 us; together by squares 221.93 us; the
    chunk moves 64,000 bytes, 64 us; 1 us for 1,000 tokens, and 8 us:

    >>> t = mixed_attention_time(sequences=1, chunk=1000, prefix=0, reach=1000, batch=20, context=1980, heads=1,
    ...     kv_heads=1, qk_dim=8, v_dim=8, dtype_bytes=2, kv_dtype_bytes=2, cache_writes=0, tile_rows=64, packed=0,
    ...     sm_count=40, l2_bytes=1e6, peak_flop_per_s=1e12, memory_bytes_per_s=1e9, compute_share=0.5,
    ...     bandwidth_share=0.5, latency=8e-6, tile_overhead_tokens=100, per_token=1e-9, decode_overhead_tokens=50,
    ...     empty_tile_tokens=10)
    >>> f"{t * 1e6:.2f} us"
    '294.93 us'
    """
    width = qk_dim + v_dim
    rate = tile_tokens_per_s(tile_rows, qk_dim, v_dim, sm_count, peak_flop_per_s, compute_share, flop_per_mac)
    walked = mixed_walked_tokens(
        sequences, chunk, prefix, reach, batch, context, heads, kv_heads, tile_rows, packed, sm_count,
        tile_overhead_tokens, decode_overhead_tokens, empty_tile_tokens,
    )  # fmt: skip
    of_a_head = context * width * kv_dtype_bytes
    tiles = tiles_of_a_decode(heads, kv_heads, tile_rows, packed)
    reads = group_reads(batch, tiles, sm_count, of_a_head, l2_bytes)
    new = batch * width * (heads * dtype_bytes + kv_heads * kv_dtype_bytes * (1 + 2 * cache_writes))
    decodes = (new + of_a_head * kv_heads * reads) / (bandwidth_share * memory_bytes_per_s)
    each = dtype_bytes, kv_dtype_bytes, cache_writes
    moved = prefill_traffic(sequences, chunk, prefix, heads, kv_heads, qk_dim, v_dim, *each)
    rest = moved / memory_bytes_per_s + per_token * sequences * chunk + latency
    return sqrt((walked / rate) ** 2 + decodes**2) + rest
