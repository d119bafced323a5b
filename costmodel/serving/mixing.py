"""Work of the blocks that mix tokens: attention and recurrent states of a chunk, and of a batch of decodes."""

from __future__ import annotations

from collections.abc import Sequence

from ..formulas import kv, work
from ..inputs.formats import WeightFormat
from ..inputs.model import Attention, LatentAttention, Layer, Mixer, Recurrent
from ..memory.kv import cached_bytes_each, state_bytes_per_gpu, state_dtype_bytes
from ..operators.catalogue import FP8_CACHE, UNMEASURED
from ..operators.work import (
    Heads,
    Work,
    attention_decode,
    attention_mixed,
    attention_prefill,
    latent_absorbed,
    latent_prefill,
    module,
    streaming,
)
from ..ops import ceil
from .instance import InstanceKind, fit_of
from .work import SCAN_CHUNK, Builder, Chunk, Load, local_kv_heads

#: The kind of attention kernels over chunks and decodes together.
MIXED = "attention_mixed"
#: The projection that expands latents to keys and values.
KV_B = "self_attn.kv_b_proj"


def chunk_loads(kind: InstanceKind, chunk: Chunk) -> list[Load]:
    """Attention and states of one chunk over its prefix and itself."""
    loads: list[Load] = []
    for mixer, count in kind.model.mixers:
        loads += _chunk_of(kind, mixer, count, chunk)
    return loads


def decode_loads(kind: InstanceKind, batch: float, context: float) -> list[Load]:
    """Attention and states of ``batch`` decodes that read ``context`` cached tokens in all.

    A windowed layer reads at most ``batch`` windows, a sparse one at most ``batch`` times its ``top_k``
    tokens: the contexts of a batch are taken as equal.
    """
    loads: list[Load] = []
    for mixer, count in kind.model.mixers:
        loads += _decode_of(kind, mixer, count, batch, context)
    return loads


def mixes(kind: InstanceKind) -> bool:
    """Say whether attention of chunks and decodes shares kernel calls: such kernels are known, and not of latents."""
    return MIXED in kind.efficiency.operators and any(
        isinstance(mixer, Attention) for mixer, _ in kind.model.mixers
    )


def mixing_loads(kind: InstanceKind, chunks: Sequence[Chunk], batch: float, context: float) -> list[Load]:
    """Attention and states of a step of chunks and decodes.

    Where both are there, attention runs once for them together if such kernels were measured; latents and states
    run apart.
    """
    if not chunks:
        return decode_loads(kind, batch, context) if batch else []
    if not batch:
        return [load for chunk in chunks for load in chunk_loads(kind, chunk)]
    together = mixes(kind)
    loads: list[Load] = []
    for mixer, count in kind.model.mixers:
        if together and isinstance(mixer, Attention):
            loads += _mixed(kind, mixer, count, chunks, batch, context)
        else:
            loads += [load for chunk in chunks for load in _chunk_of(kind, mixer, count, chunk)]
            loads += _decode_of(kind, mixer, count, batch, context)
    return loads


def _chunk_of(kind: InstanceKind, mixer: Mixer, count: int, chunk: Chunk) -> list[Load]:
    if isinstance(mixer, LatentAttention):
        return _latent_chunk(kind, mixer, count, chunk)
    if isinstance(mixer, Recurrent):
        return [_scan(kind, mixer, count, chunk)]
    if chunk.tokens == 1 and chunk.prefix:  # kernels treat a lone token over a cache as a decode
        return _decode_of(kind, mixer, count, 1, chunk.prefix + 1.0)
    done = _chunk_work(kind, mixer, chunk.tokens, chunk.prefix)
    return [Load("prefill attention", "attention_prefill", count, done)]


def _decode_of(kind: InstanceKind, mixer: Mixer, count: int, batch: float, context: float) -> list[Load]:
    if isinstance(mixer, LatentAttention):
        return _latent_decode(kind, mixer, count, batch, context)
    if isinstance(mixer, Recurrent):
        return [_recurrence(kind, mixer, count, batch)]
    return [Load("decode attention", "attention_decode", count, _decode_work(kind, mixer, batch, context))]


def _mixed(
    kind: InstanceKind, mixer: Attention, count: int, chunks: Sequence[Chunk], batch: float, context: float
) -> list[Load]:
    """One kernel call of the decodes and the chunk with most pairs; further chunks add their own attention.

    The form knows equal chunks only, and tables have calls with one: adding is on the safe side.
    """
    lone = [chunk for chunk in chunks if chunk.tokens == 1 and chunk.prefix]  # decodes, for a kernel
    batch, context = batch + len(lone), context + sum(chunk.prefix + 1.0 for chunk in lone)
    others = [chunk for chunk in chunks if chunk not in lone]
    if not others:
        return _decode_of(kind, mixer, count, batch, context)
    longest = max(others, key=lambda chunk: work.causal_pairs(*chunk))
    others.remove(longest)
    prompt = _chunk_work(kind, mixer, longest.tokens, longest.prefix)
    done = attention_mixed(prompt, _decode_work(kind, mixer, batch, context))
    rest = [load for chunk in others for load in _chunk_of(kind, mixer, count, chunk)]
    return [Load("mixed attention", MIXED, count, done), *rest]


def _heads(kind: InstanceKind, mixer: Attention) -> Heads:
    each = kind.activation_bytes_each, kind.kv_bytes_each
    kv_heads = local_kv_heads(mixer, kind.tp)
    return Heads(mixer.heads // kind.tp, kv_heads, mixer.head_dim, mixer.value_dim, *each)


def _chunk_work(kind: InstanceKind, mixer: Attention, tokens: float, prefix: float) -> Work:
    heads = _heads(kind, mixer)
    if mixer.window is None:
        return attention_prefill(heads, 1, tokens, prefix, cache_writes=1)
    pairs, seen = _windowed(mixer, tokens, prefix)
    return attention_prefill(heads, 1, tokens, seen, cache_writes=1, pairs=pairs)


def _decode_work(kind: InstanceKind, mixer: Attention, batch: float, context: float) -> Work:
    return attention_decode(_heads(kind, mixer), batch, _decode_reads(mixer, batch, context))


def _windowed(mixer: Attention, tokens: float, prefix: float) -> tuple[float, float]:
    """Query-key pairs of a chunk and the cached tokens it reads, under the layer's window."""
    assert mixer.window is not None
    if mixer.chunked:
        return work.own_chunk_pairs(tokens, prefix, mixer.window), prefix % mixer.window
    return work.windowed_pairs(tokens, prefix, mixer.window), min(prefix, mixer.window - 1)


def _latent_chunk(kind: InstanceKind, mixer: LatentAttention, count: int, chunk: Chunk) -> list[Load]:
    """Attention of a chunk, and what its module does besides products.

    Keys and values are expanded: the prefix's latents are gathered from the cache and expanded again. Kernels that
    attend in the latent space do so for chunks up to a length; sparse attention (DSA) always does.
    """
    rest = Load("latent module", "mla_module", count, module(chunk.tokens))
    if mixer.top_k is not None:
        return [rest, *_sparse_chunk(kind, mixer, mixer.top_k, count, chunk)]
    act, heads = kind.activation_bytes_each, mixer.heads // kind.tp
    fit = fit_of(kind, "mla_prefill")
    pairs = work.causal_pairs(chunk.tokens, chunk.prefix)
    if chunk.tokens <= fit.parameters.get("absorbed_tokens", 0):
        read = cached_bytes_each(mixer, kind.kv_dtype)
        context = chunk.prefix + chunk.tokens
        done = latent_absorbed(heads, mixer.kv_rank, mixer.rope_dim, act, read, chunk.tokens, context, pairs)
        return [rest, Load("prefill attention", "mla_prefill", count, done)]
    loads = [rest]
    if chunk.prefix:
        latent = mixer.kv_rank + mixer.rope_dim
        read = cached_bytes_each(mixer, kind.kv_dtype)
        loads.append(
            Load("latent gather", "embedding", count, streaming(chunk.prefix, latent, 1, read + act))
        )
        outputs = heads * (mixer.nope_dim + mixer.v_dim)
        for layer, runs in _layers_with(kind, mixer):
            build = Builder(kind, layer)
            build.gemm("kv_b prefix", runs, chunk.prefix, outputs, mixer.kv_rank, KV_B)
            loads += build.loads
    wide = Heads(heads, heads, mixer.nope_dim + mixer.rope_dim, mixer.v_dim, act, act)
    done = latent_prefill(wide, chunk.tokens, chunk.prefix)
    return [*loads, Load("prefill attention", "mla_prefill", count, done)]


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
    pairs = work.windowed_pairs(chunk.tokens, chunk.prefix, top_k)
    read = cached_bytes_each(mixer, kind.kv_dtype)
    cached = chunk.prefix + chunk.tokens
    done = latent_absorbed(heads, mixer.kv_rank, mixer.rope_dim, act, read, chunk.tokens, cached, pairs)
    loads = [Load("sparse attention", UNMEASURED, count, done)]
    if mixer.indexer:
        every = work.causal_pairs(chunk.tokens, chunk.prefix)
        loads.append(_indexer(mixer, count, every, cached))
    return loads


def _indexer(mixer: LatentAttention, count: int, pairs: float, cached: float) -> Load:
    """Scores of every cached key by every indexer head; whole on each GPU."""
    assert mixer.indexer is not None
    flop = work.attention_flop(mixer.indexer.heads, mixer.indexer.dim, 0, pairs)
    moved = cached * kv.kv_bytes_indexer(mixer.indexer.dim)
    return Load("indexer scores", UNMEASURED, count, Work(flop, moved, {}))


def _scan(kind: InstanceKind, mixer: Recurrent, count: int, chunk: Chunk) -> Load:
    """State update of a chunk."""
    heads = mixer.heads / kind.tp
    tokens = min(SCAN_CHUNK, chunk.tokens) if mixer.chunked_scan else 0
    shape = (chunk.tokens, heads, mixer.key_dim, mixer.value_dim, mixer.state_macs, tokens)
    states = ceil(chunk.tokens / SCAN_CHUNK)
    moved = work.state_traffic_bytes(states, _state_bytes(kind, mixer))
    moved += work.streaming_bytes(chunk.tokens, heads * mixer.value_dim, 2, kind.activation_bytes_each)
    return Load("state scan", UNMEASURED, count, Work(work.scan_flop(*shape), moved, {}))


def _recurrence(kind: InstanceKind, mixer: Recurrent, count: int, batch: float) -> Load:
    """State update of a token a sequence."""
    shape = (batch, mixer.heads / kind.tp, mixer.key_dim, mixer.value_dim, mixer.state_macs, 0)
    moved = work.state_traffic_bytes(batch, _state_bytes(kind, mixer))
    return Load("state update", UNMEASURED, count, Work(work.scan_flop(*shape), moved, {}))


def _state_bytes(kind: InstanceKind, mixer: Mixer) -> float:
    return state_bytes_per_gpu(mixer, state_dtype_bytes(kind.model), kind.tp)


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
    each = cached_bytes_each(mixer, kind.kv_dtype)
    done = latent_absorbed(heads, mixer.kv_rank, mixer.rope_dim, act, each, batch, read, read)
    cache = FP8_CACHE if each < act else ""
    loads = [
        Load("latent module", f"mla_module_decode{cache}", count, module(batch)),
        Load("decode attention", f"mla_decode{cache}", count, done),
    ]
    if mixer.indexer:
        loads.append(_indexer(mixer, count, context, context))
    return loads
