"""The physical lower bound of a step, counted by a path of its own.

Whole-step FLOPs over the peak rate, and the fewest bytes (each weight once, the fewest distinct experts,
each cached key and value once) over peak bandwidth, spread evenly over the GPUs of the instance. It shares
no operator with the estimate, so that a test of "no estimate below its bound" proves something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..inputs.model import Attention, LatentAttention, Layer, Mixer, Recurrent
from ..inputs.weights import layer_tensors
from ..memory.kv import bytes_per_gpu, state_bytes_per_gpu, state_dtype_bytes
from ..ops import maximum, minimum
from .instance import InstanceKind
from .work import Chunk


class Bound(NamedTuple):
    """FLOPs and fewest bytes per GPU, the time each needs at peak, and the larger of the two, in seconds."""

    flop: float
    bytes_moved: float
    compute_s: float
    memory_s: float
    time_s: float


class _Work(NamedTuple):
    """FLOPs of narrow products and of all others."""

    narrow: float
    wide: float


class _Weights(NamedTuple):
    """Weights that one token multiplies, also the fewest that a step reads, by where they are multiplied."""

    narrow: float
    wide: float
    bytes_moved: float


def _token_weights(kind: InstanceKind, layer: Layer) -> _Weights:
    narrow, wide, moved = 0.0, 0.0, 0.0
    for tensor in layer_tensors(layer, kind.model.hidden):
        if tensor.kind == "vector":
            continue
        stored = kind.format_of(layer, tensor.module) if tensor.kind == "matrix" else None
        if stored and stored.product_dtype:
            narrow += tensor.active_size
        else:
            wide += tensor.active_size
        each = stored.bits / 8 if stored else kind.activation_bytes_each
        moved += tensor.active_size * each
    return _Weights(narrow, wide, moved)


def _chunk_pairs(chunk: Chunk, window: int | None) -> Any:
    full = chunk.tokens * chunk.prefix + chunk.tokens * (chunk.tokens + 1) / 2
    if window is None:
        return full
    # Tokens that still see fewer than a window:
    first = minimum(maximum(window - chunk.prefix, 0), chunk.tokens)
    return first * chunk.prefix + first * (first + 1) / 2 + (chunk.tokens - first) * window


def _own_chunk_pairs(chunk: Chunk, window: int) -> float:
    """Pairs where position p sees p mod window + 1 tokens: whole attention chunks and what is left of two."""

    def before(position: int) -> float:
        whole, rest = divmod(position, window)
        return whole * window * (window + 1) / 2 + rest * (rest + 1) / 2

    return before(chunk.prefix + chunk.tokens) - before(chunk.prefix)


def _latent_chunk_work(kind: InstanceKind, layer: Layer, mixer: LatentAttention, chunk: Chunk) -> _Work:
    """The faster of: expand the prefix again and attend per head, or attend in the latent space."""
    pairs = _chunk_pairs(chunk, mixer.top_k)
    expanded = 2 * mixer.heads * (mixer.nope_dim + mixer.rope_dim + mixer.v_dim) * pairs
    again = 0.0
    if mixer.top_k is None:
        again = 2 * chunk.prefix * mixer.kv_rank * mixer.heads * (mixer.nope_dim + mixer.v_dim)
    stored = kind.format_of(layer, "self_attn.kv_b_proj")
    narrow = again if stored and stored.product_dtype else 0.0
    ways = (
        _Work(narrow, expanded + again - narrow),
        _Work(0.0, 2 * mixer.heads * (2 * mixer.kv_rank + mixer.rope_dim) * pairs),
    )
    chosen = min(ways, key=lambda way: way.narrow / kind.product_peak + way.wide / kind.activation_peak)
    return _Work(chosen.narrow, chosen.wide + _indexer_flop(mixer, _chunk_pairs(chunk, None)))


def _indexer_flop(mixer: LatentAttention, pairs: float) -> float:
    return 2 * mixer.indexer.heads * mixer.indexer.dim * pairs if mixer.indexer else 0.0


def _latent_work(
    kind: InstanceKind,
    layer: Layer,
    mixer: LatentAttention,
    chunks: Sequence[Chunk],
    batch: float,
    context: float,
) -> _Work:
    read = context if mixer.top_k is None else minimum(context, batch * mixer.top_k)
    decode = 2 * mixer.heads * (2 * mixer.kv_rank + mixer.rope_dim) * read + _indexer_flop(mixer, context)
    parts = [_latent_chunk_work(kind, layer, mixer, chunk) for chunk in chunks]
    return _Work(sum(part.narrow for part in parts), decode + sum(part.wide for part in parts))


def _mixing_flop(mixer: Attention | Recurrent, chunks: Sequence[Chunk], batch: float, context: float) -> Any:
    if isinstance(mixer, Recurrent):
        tokens = batch + sum(chunk.tokens for chunk in chunks)
        return 2 * mixer.state_macs * mixer.state_elements * tokens
    reads = context if mixer.window is None else minimum(context, batch * mixer.window)
    if mixer.chunked and mixer.window is not None:
        reads = minimum(context, batch * (mixer.window + 1) / 2)
        pairs = reads + sum(_own_chunk_pairs(chunk, mixer.window) for chunk in chunks)
    else:
        pairs = reads + sum(_chunk_pairs(chunk, mixer.window) for chunk in chunks)
    return 2 * mixer.heads * (mixer.head_dim + mixer.value_dim) * pairs


def _cache_bytes(
    kind: InstanceKind, mixer: Mixer, chunks: Sequence[Chunk], batch: float, context: float
) -> Any:
    """Cached bytes, stored once, that decodes and chunks must read (states: and write) at least once."""
    if isinstance(mixer, Recurrent):
        state = state_bytes_per_gpu(mixer, state_dtype_bytes(kind.model), 1)
        return state * (2 * batch + sum(1 + (chunk.prefix > 0) for chunk in chunks))
    prefixes: list[float] = [chunk.prefix for chunk in chunks]
    if isinstance(mixer, Attention) and mixer.window is not None:
        most = (mixer.window + 1) / 2 if mixer.chunked else mixer.window
        context = minimum(context, batch * most)
        prefixes = [
            chunk.prefix % mixer.window if mixer.chunked else minimum(prefix, mixer.window - 1.0)
            for chunk, prefix in zip(chunks, prefixes)
        ]
    elif isinstance(mixer, LatentAttention) and mixer.top_k is not None:
        chosen = minimum(context, batch * mixer.top_k) + sum(
            minimum(prefix, mixer.top_k) for prefix in prefixes
        )
        latent = bytes_per_gpu(replace(mixer, indexer=None), kind.kv_dtype, 1)
        index = bytes_per_gpu(mixer, kind.kv_dtype, 1) - latent
        return latent * chosen + index * (context + sum(prefixes))
    return _read_bytes(kind, mixer) * (context + sum(prefixes))


def _read_bytes(kind: InstanceKind, mixer: Mixer) -> float:
    """Bytes of a cached token; a layer without a cache of its own reads as much from another's."""
    owner = replace(mixer, own_kv=True) if isinstance(mixer, Attention) else mixer
    return bytes_per_gpu(owner, kind.kv_dtype, 1)


def step_bound(kind: InstanceKind, chunks: Sequence[Chunk], last: int, batch: float, context: float) -> Bound:
    """Return the bound of a step of chunks (``last`` of which end their prompt) and decodes."""
    model, tp = kind.model, kind.tp
    tokens = batch + sum(chunk.tokens for chunk in chunks)
    rows = batch + last
    narrow, wide, moved, cache = 0.0, 0.0, 0.0, 0.0
    expanding, mixing = 0.0, 0.0
    for layer in model.layers:
        weights = _token_weights(kind, layer)
        narrow += layer.count * weights.narrow
        wide += layer.count * weights.wide
        moved += layer.count * weights.bytes_moved
        for mixer in layer.mixers:
            if isinstance(mixer, LatentAttention):
                own = _latent_work(kind, layer, mixer, chunks, batch, context)
            else:
                own = _Work(0.0, _mixing_flop(mixer, chunks, batch, context))
            expanding += layer.count * own.narrow
            mixing += layer.count * own.wide
            cache += layer.count * _cache_bytes(kind, mixer, chunks, batch, context)
    head = model.hidden * model.vocab
    stored = kind.storage.head
    head_bytes = head * (stored.bytes_each if stored else kind.activation_bytes_each)
    head_narrow = head if stored and stored.product_dtype else 0
    # Routers, and heads that a checkpoint leaves wide, stay at two bytes; they and attention run in 16 bits,
    # while latents are expanded by a product of weights.
    narrow_flop = 2 * (tokens * narrow + rows * head_narrow) + expanding
    wide_flop = 2 * (tokens * wide + rows * (head - head_narrow)) + mixing
    moved += cache + (head_bytes if rows else 0)
    compute = (narrow_flop / kind.product_peak + wide_flop / kind.activation_peak) / tp
    memory = moved / tp / kind.memory_peak
    return Bound((narrow_flop + wide_flop) / tp, moved / tp, compute, memory, maximum(compute, memory))
