"""The physical lower bound of a step, counted by a path of its own.

Whole-step FLOPs over the peak rate, and the fewest bytes (each weight once, the fewest distinct experts,
each cached key and value once) over peak bandwidth, spread evenly over the GPUs of the instance. It shares
no operator with the estimate, so that a test of "no estimate below its bound" proves something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..inputs.model import Attention, Experts, LatentAttention, Layer
from .instance import InstanceKind
from .work import Chunk


class Bound(NamedTuple):
    """FLOPs and fewest bytes per GPU, the time each needs at peak, and the larger of the two, in seconds."""

    flop: float
    bytes_moved: float
    compute_s: float
    memory_s: float
    time_s: float


def _mixer_weights(layer: Layer, hidden: int) -> float:
    mixer = layer.mixer
    if isinstance(mixer, Attention):
        return hidden * mixer.head_dim * (2 * mixer.heads + 2 * mixer.kv_heads)
    query_width = mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    query = hidden * query_width if mixer.q_rank is None else mixer.q_rank * (hidden + query_width)
    latent = hidden * (mixer.kv_rank + mixer.rope_dim)
    expand = mixer.kv_rank * mixer.heads * (mixer.nope_dim + mixer.v_dim)
    return query + latent + expand + mixer.heads * mixer.v_dim * hidden


def _token_weights(layer: Layer, hidden: int) -> tuple[float, float]:
    """Weights that one token multiplies, which are also the fewest that a step reads: matrices and router."""
    ffn = layer.ffn
    if isinstance(ffn, Experts):
        blocks = 3 * (ffn.width * min(ffn.top_k, ffn.experts) + ffn.shared_width)
        return _mixer_weights(layer, hidden) + hidden * blocks, hidden * ffn.experts
    return _mixer_weights(layer, hidden) + hidden * ffn.width * ffn.matrices, 0.0


def _chunk_pairs(chunk: Chunk, window: int | None) -> float:
    full = chunk.tokens * chunk.prefix + chunk.tokens * (chunk.tokens + 1) / 2
    if window is None:
        return full
    first = min(max(window - chunk.prefix, 0), chunk.tokens)  # tokens that still see fewer than a window
    return first * chunk.prefix + first * (first + 1) / 2 + (chunk.tokens - first) * window


def _latent_chunk_flop(mixer: LatentAttention, chunk: Chunk) -> float:
    """Fewer of: expand the prefix again and attend per head, or attend in the latent space."""
    pairs = _chunk_pairs(chunk, None)
    expanded = 2 * mixer.heads * (mixer.nope_dim + mixer.rope_dim + mixer.v_dim) * pairs
    expanded += 2 * chunk.prefix * mixer.kv_rank * mixer.heads * (mixer.nope_dim + mixer.v_dim)
    absorbed = 2 * mixer.heads * (2 * mixer.kv_rank + mixer.rope_dim) * pairs
    return min(expanded, absorbed)


def _attention_flop(layer: Layer, chunks: Sequence[Chunk], batch: float, context: float) -> float:
    mixer = layer.mixer
    if isinstance(mixer, LatentAttention):
        decode = 2 * mixer.heads * (2 * mixer.kv_rank + mixer.rope_dim) * context
        return decode + sum(_latent_chunk_flop(mixer, chunk) for chunk in chunks)
    reads = context if mixer.window is None else min(context, batch * mixer.window)
    pairs = reads + sum(_chunk_pairs(chunk, mixer.window) for chunk in chunks)
    return 4 * mixer.heads * mixer.head_dim * pairs


def _cache_elements(layer: Layer, chunks: Sequence[Chunk], batch: float, context: float) -> float:
    """Cached elements that decodes and chunks must read at least once."""
    mixer = layer.mixer
    prefixes = [float(chunk.prefix) for chunk in chunks]
    if isinstance(mixer, LatentAttention):
        return (mixer.kv_rank + mixer.rope_dim) * (context + sum(prefixes))
    if mixer.window is not None:
        context = min(context, batch * mixer.window)
        prefixes = [min(prefix, mixer.window - 1.0) for prefix in prefixes]
    return 2 * mixer.kv_heads * mixer.head_dim * (context + sum(prefixes))


def step_bound(kind: InstanceKind, chunks: Sequence[Chunk], last: int, batch: float, context: float) -> Bound:
    """Return the bound of a step of chunks (``last`` of which end their prompt) and decodes."""
    model, tp = kind.model, kind.tp
    tokens = batch + sum(chunk.tokens for chunk in chunks)
    rows = batch + last
    matrices, wide, attention, cache = 0.0, 0.0, 0.0, 0.0
    for layer in model.layers:
        of_layer, router = _token_weights(layer, model.hidden)
        matrices += layer.count * of_layer
        wide += layer.count * router
        attention += layer.count * _attention_flop(layer, chunks, batch, context)
        cache += layer.count * _cache_elements(layer, chunks, batch, context)
    head = model.hidden * model.vocab
    # Router and head stay two bytes wide in 8-bit checkpoints; they and attention run in 16 bits.
    narrow_flop = 2 * tokens * matrices
    wide_flop = 2 * (tokens * wide + rows * head) + attention
    moved = matrices * kind.weight_bytes_each + cache * kind.kv_bytes_each
    moved += (wide + (head if rows else 0)) * kind.activation_bytes_each
    compute = (narrow_flop / kind.product_peak + wide_flop / kind.activation_peak) / tp
    memory = moved / tp / kind.memory_peak
    return Bound((narrow_flop + wide_flop) / tp, moved / tp, compute, memory, max(compute, memory))
