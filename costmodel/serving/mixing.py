"""Work of the blocks that mix tokens: attention and recurrent states of a chunk, and of a batch of decodes."""

from __future__ import annotations

from ..formulas import chunking, kv, work
from ..inputs.formats import WeightFormat
from ..inputs.model import Attention, LatentAttention, Layer, Mixer, Recurrent
from ..memory.kv import cached_bytes_each, state_bytes_per_gpu, state_dtype_bytes
from ..ops import ceil
from .instance import InstanceKind
from .work import SCAN_CHUNK, Builder, Chunk, Load, local_kv_heads, tile_rows

#: The projection that expands latents to keys and values.
KV_B = "self_attn.kv_b_proj"


def chunk_loads(kind: InstanceKind, chunk: Chunk) -> list[Load]:
    """Attention and states of one chunk over its prefix and itself."""
    loads: list[Load] = []
    for mixer, count in kind.model.mixers:
        if isinstance(mixer, LatentAttention):
            loads += _latent_chunk(kind, mixer, count, chunk)
        elif isinstance(mixer, Recurrent):
            loads.append(_scan(kind, mixer, count, chunk))
        else:
            loads.append(_attention_chunk(kind, mixer, count, chunk))
    return loads


def decode_loads(kind: InstanceKind, batch: float, context: float) -> list[Load]:
    """Attention and states of ``batch`` decodes that read ``context`` cached tokens in all.

    A windowed layer reads at most ``batch`` windows, a sparse one at most ``batch`` times its ``top_k``
    tokens: the contexts of a batch are taken as equal.
    """
    loads: list[Load] = []
    for mixer, count in kind.model.mixers:
        if isinstance(mixer, LatentAttention):
            loads += _latent_decode(kind, mixer, count, batch, context)
        elif isinstance(mixer, Recurrent):
            loads.append(_recurrence(kind, mixer, count, batch))
        else:
            loads.append(_attention_decode(kind, mixer, count, batch, context))
    return loads


def _attention_chunk(kind: InstanceKind, mixer: Attention, count: int, chunk: Chunk) -> Load:
    heads, kv_heads = mixer.heads // kind.tp, local_kv_heads(mixer, kind.tp)
    pairs, prefix = _windowed(mixer, chunk)
    width = (mixer.head_dim, mixer.value_dim)
    flop = work.attention_flop(heads, *width, pairs)
    each = kind.activation_bytes_each, kind.kv_bytes_each
    moved = work.prefill_attention_bytes(chunk.tokens, prefix, heads, kv_heads, *width, *each)
    fill = _wave_fill(kind, "attention_prefill", heads, chunk.tokens)
    return Load("prefill attention", "attention_prefill", count, flop, moved, fill)


def _windowed(mixer: Attention, chunk: Chunk) -> tuple[float, float]:
    """Query-key pairs of a chunk and the cached tokens it reads, under the layer's window if it has one."""
    if mixer.window is None:
        return work.causal_pairs(chunk.tokens, chunk.prefix), chunk.prefix
    if mixer.chunked:
        pairs = work.own_chunk_pairs(chunk.tokens, chunk.prefix, mixer.window)
        return pairs, chunk.prefix % mixer.window
    pairs = work.windowed_pairs(chunk.tokens, chunk.prefix, mixer.window)
    return pairs, min(chunk.prefix, mixer.window - 1)


def _latent_chunk(kind: InstanceKind, mixer: LatentAttention, count: int, chunk: Chunk) -> list[Load]:
    """Expanded attention of a chunk; the prefix's latents are gathered from the cache and expanded again.

    Sparse attention (DSA) reads the chosen latents in the latent space instead, as its kernels do.
    """
    if mixer.top_k is not None:
        return _sparse_chunk(kind, mixer, mixer.top_k, count, chunk)
    loads: list[Load] = []
    act, heads = kind.activation_bytes_each, mixer.heads // kind.tp
    if chunk.prefix:
        latent = mixer.kv_rank + mixer.rope_dim
        read = cached_bytes_each(mixer, kind.kv_dtype)
        moved = work.streaming_bytes(chunk.prefix, latent, 1, read + act)
        loads.append(Load("latent gather", "elementwise", count, 0.0, moved))
        outputs = heads * (mixer.nope_dim + mixer.v_dim)
        for layer, runs in _layers_with(kind, mixer):
            build = Builder(kind, layer)
            build.gemm("kv_b prefix", runs, chunk.prefix, outputs, mixer.kv_rank, KV_B)
            loads += build.loads
    pairs = work.causal_pairs(chunk.tokens, chunk.prefix)
    moved = work.streaming_bytes(chunk.tokens, (heads + 1) * mixer.rope_dim, 2, act)
    loads.append(Load("rope", "elementwise", count, 0.0, moved))
    width = (mixer.nope_dim + mixer.rope_dim, mixer.v_dim)
    flop = work.attention_flop(heads, *width, pairs)
    moved = work.prefill_attention_bytes(chunk.tokens, chunk.prefix, heads, heads, *width, act, act)
    fill = _wave_fill(kind, "mla_prefill", heads, chunk.tokens)
    loads.append(Load("prefill attention", "mla_prefill", count, flop, moved, fill))
    return loads


def _layers_with(kind: InstanceKind, mixer: LatentAttention) -> list[tuple[Layer, int]]:
    """Layers that have the mixer, one for each format of its expansion, and how many there are of it."""
    found: dict[WeightFormat | None, tuple[Layer, int]] = {}
    for layer in kind.model.layers:
        if mixer in layer.mixers:
            stored = kind.format_of(layer, KV_B)
            first, runs = found.get(stored, (layer, 0))
            found[stored] = first, runs + layer.count * layer.mixers.count(mixer)
    return list(found.values())


def _sparse_chunk(
    kind: InstanceKind, mixer: LatentAttention, top_k: int, count: int, chunk: Chunk
) -> list[Load]:
    heads, act = mixer.heads // kind.tp, kind.activation_bytes_each
    loads: list[Load] = []
    pairs = work.windowed_pairs(chunk.tokens, chunk.prefix, top_k)
    flop = work.latent_absorbed_flop(heads, mixer.kv_rank, mixer.rope_dim, pairs)
    read = cached_bytes_each(mixer, kind.kv_dtype)
    cached = chunk.prefix + chunk.tokens
    moved = work.latent_absorbed_bytes(cached, chunk.tokens, heads, mixer.kv_rank, mixer.rope_dim, act, read)
    loads.append(Load("sparse attention", "mla_prefill", count, flop, moved))
    if mixer.indexer:
        every = work.causal_pairs(chunk.tokens, chunk.prefix)
        loads.append(_indexer(mixer, count, every, cached))
    return loads


def _indexer(mixer: LatentAttention, count: int, pairs: float, cached: float) -> Load:
    """Scores of every cached key by every indexer head; whole on each GPU. No fit exists: that of attention."""
    assert mixer.indexer is not None
    flop = work.attention_flop(mixer.indexer.heads, mixer.indexer.dim, 0, pairs)
    moved = float(cached * kv.kv_bytes_indexer(mixer.indexer.dim))
    return Load("indexer scores", "attention_prefill", count, flop, moved)


def _scan(kind: InstanceKind, mixer: Recurrent, count: int, chunk: Chunk) -> Load:
    """State update of a chunk; no fit of such kernels exists, so that of prefill attention stands for it."""
    heads = mixer.heads / kind.tp
    tokens = min(SCAN_CHUNK, chunk.tokens) if mixer.chunked_scan else 0
    shape = (chunk.tokens, heads, mixer.key_dim, mixer.value_dim, mixer.state_macs, tokens)
    states = ceil(chunk.tokens / SCAN_CHUNK)
    moved = work.state_traffic_bytes(states, _state_bytes(kind, mixer))
    moved += work.streaming_bytes(chunk.tokens, heads * mixer.value_dim, 2, kind.activation_bytes_each)
    return Load("state scan", "attention_prefill", count, work.scan_flop(*shape), moved)


def _recurrence(kind: InstanceKind, mixer: Recurrent, count: int, batch: float) -> Load:
    """State update of a token a sequence; no fit of such kernels exists, so that of decode attention stands."""
    shape = (batch, mixer.heads / kind.tp, mixer.key_dim, mixer.value_dim, mixer.state_macs, 0)
    moved = work.state_traffic_bytes(batch, _state_bytes(kind, mixer))
    return Load("state update", "attention_decode", count, work.scan_flop(*shape), moved, 1.0, batch, 1.0)


def _state_bytes(kind: InstanceKind, mixer: Mixer) -> float:
    return state_bytes_per_gpu(mixer, state_dtype_bytes(kind.model), kind.tp)


def _attention_decode(kind: InstanceKind, mixer: Attention, count: int, batch: float, context: float) -> Load:
    heads, kv_heads = mixer.heads // kind.tp, local_kv_heads(mixer, kind.tp)
    read = _decode_reads(mixer, batch, context)
    flop = work.attention_flop(heads, mixer.head_dim, mixer.value_dim, read)
    width = (mixer.head_dim + mixer.value_dim) / 2
    each = kind.activation_bytes_each, kind.kv_bytes_each
    moved = work.decode_attention_bytes(read, batch, heads, kv_heads, width, *each)
    return Load("decode attention", "attention_decode", count, flop, moved, 1.0, batch, kv_heads)


def _decode_reads(mixer: Attention, batch: float, context: float) -> float:
    """Cached tokens that the decodes of a layer read; in an attention chunk, half of it on average."""
    if mixer.window is None:
        return context
    if mixer.chunked and context > batch * mixer.window:
        return batch * (mixer.window + 1) / 2
    return min(context, batch * mixer.window)


def _latent_decode(
    kind: InstanceKind, mixer: LatentAttention, count: int, batch: float, context: float
) -> list[Load]:
    heads, act = mixer.heads // kind.tp, kind.activation_bytes_each
    read = context if mixer.top_k is None else min(context, batch * mixer.top_k)
    flop = work.latent_absorbed_flop(heads, mixer.kv_rank, mixer.rope_dim, read)
    each = cached_bytes_each(mixer, kind.kv_dtype)
    moved = work.latent_absorbed_bytes(read, batch, heads, mixer.kv_rank, mixer.rope_dim, act, each)
    loads = [Load("decode attention", "mla_decode", count, flop, moved, 1.0, batch)]
    if mixer.indexer:
        loads.append(_indexer(mixer, count, context, context))
    return loads


def _wave_fill(kind: InstanceKind, operator: str, heads: int, tokens: float) -> float:
    """Whole waves of attention tiles over the SMs, where the operator's fit was made with them."""
    rows = tile_rows(kind, operator)
    if rows is None:
        return 1.0
    return float(chunking.sm_fill(heads * ceil(tokens / rows), kind.gpu.sm_count))
