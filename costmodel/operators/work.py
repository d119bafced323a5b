"""What one run of an operator does on one GPU, from its shape: FLOPs, fewest bytes, and what forms ask for.

The same functions serve a step (numbers) and a table of measurements (arrays). Shapes are those of the GPU:
its heads, its widths, its experts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..formulas import moe, work

Count = Any | Callable[[], Any]


class Work:
    """What one run does on one GPU. ``shape``: the quantities of its shape by their name in the book.

    FLOPs and bytes may be given as functions: a time seldom needs them.
    """

    __slots__ = ("_bytes_moved", "_flop", "shape")

    def __init__(self, flop: Count, bytes_moved: Count, shape: Mapping[str, Any]) -> None:
        self._flop, self._bytes_moved = flop, bytes_moved
        self.shape = shape

    @property
    def flop(self) -> Any:
        """FLOPs of the run."""
        return self._flop() if callable(self._flop) else self._flop

    @property
    def bytes_moved(self) -> Any:
        """Fewest bytes of the run."""
        return self._bytes_moved() if callable(self._bytes_moved) else self._bytes_moved


def gemm(m: Any, n: Any, k: Any, weight_dtype_bytes: Any, dtype_bytes: Any) -> Work:
    """A product of m tokens with an (n, k) weight matrix; activations are ``dtype_bytes`` wide."""
    shape = {"m": m, "n": n, "k": k, "weight_dtype_bytes": weight_dtype_bytes, "dtype_bytes": dtype_bytes}
    return Work(lambda: work.gemm_flop(m, n, k), lambda: work.gemm_bytes(**shape), shape)


def streaming(tokens: Any, width: Any, tensors: Any, dtype_bytes: Any) -> Work:
    """An element-wise operator over ``tensors`` tensors of (tokens, width)."""
    return Work(0.0, work.streaming_bytes(tokens, width, tensors, dtype_bytes), {})


class Heads(NamedTuple):
    """Attention heads of a GPU, the widths of queries/keys and of values, and bytes of an element of each kind."""

    heads: Any
    kv_heads: Any
    qk_dim: Any
    v_dim: Any
    dtype_bytes: Any
    kv_dtype_bytes: Any


def attention_prefill(
    h: Heads, sequences: Any, chunk: Any, prefix: Any, *, cache_writes: Any, pairs: Any = None
) -> Work:
    """Attention of ``sequences`` equal chunks over their prefixes, causal.

    ``pairs``: query-key pairs of one of them where a window cuts them. ``cache_writes``: 1 where the measured or
    modelled call writes the chunk's keys and values to the cache, too.
    """
    seen = work.causal_pairs(chunk, prefix) if pairs is None else pairs
    reach = math.inf if pairs is None else pairs / chunk
    shape = {"sequences": sequences, "chunk": chunk, "prefix": prefix, "reach": reach, **h._asdict(),
             "cache_writes": cache_writes}  # fmt: skip
    return Work(
        lambda: sequences * work.attention_flop(h.heads, h.qk_dim, h.v_dim, seen),
        lambda: sequences * work.prefill_attention_bytes(chunk, prefix, *h),
        shape,
    )


def attention_decode(h: Heads, batch: Any, context: Any) -> Work:
    """Attention of ``batch`` decodes over ``context`` cached tokens in all."""
    head_dim = (h.qk_dim + h.v_dim) / 2
    each = h.dtype_bytes, h.kv_dtype_bytes
    shape = {"batch": batch, "context": context, "head_dim": head_dim, **h._asdict()}
    return Work(
        lambda: work.attention_flop(h.heads, h.qk_dim, h.v_dim, context),
        lambda: work.decode_attention_bytes(context, batch, h.heads, h.kv_heads, head_dim, *each),
        shape,
    )


def attention_mixed(chunks: Work, decodes: Work) -> Work:
    """Attention of chunks and decodes in one kernel call; each new token of a decode is read and written, too."""
    return Work(
        lambda: chunks.flop + decodes.flop,
        lambda: chunks.bytes_moved + decodes.bytes_moved,
        {**decodes.shape, **chunks.shape},
    )


def latent_prefill(h: Heads, chunk: Any, prefix: Any, *, sequences: Any = 1) -> Work:
    """MLA attention of chunks with expanded keys and values: a KV head a query head."""
    return attention_prefill(h, sequences, chunk, prefix, cache_writes=0)


def latent_absorbed(
    heads: Any, kv_rank: Any, rope_dim: Any, dtype_bytes: Any, kv_dtype_bytes: Any,
    queries: Any, context: Any, pairs: Any,
) -> Work:  # fmt: skip
    """MLA attention of ``queries`` new tokens in the latent space, over ``context`` latents and so many pairs."""
    shape = {
        "batch": queries, "context": context, "heads": heads, "kv_rank": kv_rank, "rope_dim": rope_dim,
        "dtype_bytes": dtype_bytes, "kv_dtype_bytes": kv_dtype_bytes,
    }  # fmt: skip
    each = kv_rank, rope_dim, dtype_bytes, kv_dtype_bytes
    return Work(
        lambda: work.latent_absorbed_flop(heads, kv_rank, rope_dim, pairs),
        lambda: work.latent_absorbed_bytes(context, queries, heads, *each),
        shape,
    )


def module(tokens: Any) -> Work:
    """What an MLA module does besides products and attention: no FLOP and no byte that must be."""
    return Work(0.0, 0.0, {"tokens": tokens})


def experts(
    tokens: Any, top_k: Any, experts: Any, hidden: Any, width: Any, matrices: Any, weight_dtype_bytes: Any,
    dtype_bytes: Any, *, ranks: Any = 1.0, skew: Any = 0.0,
) -> Work:  # fmt: skip
    """The routed experts of one layer; ``experts`` and ``width`` are those of the GPU, tokens those of all ranks."""
    shape = {
        "tokens": tokens, "top_k": top_k, "experts": experts, "hidden": hidden, "width": width,
        "matrices": matrices, "weight_dtype_bytes": weight_dtype_bytes, "dtype_bytes": dtype_bytes,
        "ranks": ranks, "skew": skew,
    }  # fmt: skip

    def moved() -> Any:
        rows = moe.busiest_rows(tokens, top_k, experts, ranks, skew)
        distinct = moe.skewed_distinct_experts(tokens, rows, top_k, experts, ranks, skew)
        weights = moe.expert_weight_bytes(distinct, hidden, width, matrices, weight_dtype_bytes)
        return weights + moe.expert_activation_bytes(tokens, top_k, hidden, width, dtype_bytes)

    def flop() -> Any:
        rows = moe.busiest_rows(tokens, top_k, experts, ranks, skew)
        return moe.experts_flop(rows, 1, hidden, width, matrices)

    return Work(flop, moved, shape)


def collective(bytes_moved: Any, sent: Any) -> Work:
    """A collective over a message of ``bytes_moved`` bytes, of which each GPU sends ``sent`` times as many."""
    return Work(0.0, bytes_moved, {"sent": sent})
