"""What a step has to do, operator by operator: FLOPs and bytes per GPU, before any time is assigned.

A step is a batch of decodes and some chunks of prompts. Its operators fall into three groups that add up:
those that see all tokens (:func:`token_loads`), attention of a chunk over its prefix (:func:`chunk_loads`)
and attention of the decodes (:func:`decode_loads`).
"""

from __future__ import annotations

from typing import NamedTuple

from ..formulas import chunking, moe, work
from ..inputs.model import Attention, Dense, Experts, LatentAttention
from ..ops import ceil
from .instance import InstanceKind


class Chunk(NamedTuple):
    """``tokens`` of a prompt, computed over ``prefix`` tokens that are cached already."""

    tokens: int
    prefix: int = 0


class Load(NamedTuple):
    """One operator of a step: how often it runs, and what one run does on one GPU."""

    name: str
    kind: str
    runs: float
    flop: float
    bytes_moved: float
    fill: float = 1.0
    batch: float = 0.0
    kv_heads: float = 0.0


def local_kv_heads(mixer: Attention, tp: int) -> int:
    """KV heads on one GPU: replicated once TP exceeds their number."""
    return max(1, mixer.kv_heads // tp)


def _tile_rows(kind: InstanceKind, operator: str) -> float | None:
    """Rows of a tile, where the operator's fit was made with whole tiles."""
    fit = kind.efficiency.operators.get(operator)
    return fit.parameters.get("tile_rows") if fit else None


class _Builder:
    """Collects the loads of one group for an instance kind; spares every call the dtype arguments.

    An 8-bit checkpoint has 8-bit mixers, feed-forward blocks and experts; router and head keep two bytes a
    weight and are multiplied in 16 bits. The fits of 8-bit products were measured in fp8 and serve int8, too.
    """

    def __init__(self, kind: InstanceKind) -> None:
        self.kind = kind
        self.loads: list[Load] = []
        narrow = kind.weight_bytes_each < kind.activation_bytes_each
        self.product, self.experts = ("gemm_fp8", "moe_fp8") if narrow else ("gemm", "moe")

    def gemm(self, name: str, runs: float, m: float, n: float, k: float) -> None:
        """Add a matrix product of m tokens with weights in the dtype of the checkpoint."""
        self._product(name, self.product, runs, (m, n, k), self.kind.weight_bytes_each)

    def wide_gemm(self, name: str, runs: float, m: float, n: float, k: float) -> None:
        """Add a matrix product of m tokens with weights that no checkpoint quantises."""
        self._product(name, "gemm", runs, (m, n, k), self.kind.activation_bytes_each)

    def _product(
        self, name: str, operator: str, runs: float, shape: tuple[float, float, float], each: float
    ) -> None:
        moved = work.gemm_bytes(*shape, each, self.kind.activation_bytes_each)
        tile = _tile_rows(self.kind, operator)
        fill = chunking.tile_fill(shape[0], tile) if tile else 1.0
        self.loads.append(Load(name, operator, runs, work.gemm_flop(*shape), moved, fill))

    def stream(self, name: str, runs: float, tokens: float, width: float, tensors: float) -> None:
        """Add an element-wise operator that reads or writes ``tensors`` tensors of ``width``."""
        moved = work.streaming_bytes(tokens, width, tensors, self.kind.activation_bytes_each)
        self.loads.append(Load(name, "elementwise", runs, 0.0, moved))

    def all_reduce(self, runs: float, tokens: float) -> None:
        """Add the all-reduce that follows a row-parallel product."""
        if self.kind.tp > 1:
            moved = work.streaming_bytes(tokens, self.kind.model.hidden, 1, self.kind.activation_bytes_each)
            self.loads.append(Load("all-reduce", "all_reduce", runs, 0.0, moved))


def token_loads(kind: InstanceKind, tokens: float, logits: float) -> list[Load]:
    """Operators that see every token of the step once, and the head for the ``logits`` rows that need it."""
    build = _Builder(kind)
    model = kind.model
    build.stream("embedding", 1, tokens, model.hidden, 2)
    for layer in model.layers:
        build.stream("norm", 2 * layer.count, tokens, model.hidden, 4)
        if isinstance(layer.mixer, LatentAttention):
            _latent_projections(build, layer.mixer, layer.count, tokens)
        else:
            _projections(build, layer.mixer, layer.count, tokens)
        build.all_reduce(layer.count, tokens)
        if isinstance(layer.ffn, Experts):
            _experts(build, layer.ffn, layer.count, tokens)
        else:
            _dense(build, layer.ffn, layer.count, tokens, "mlp")
        build.all_reduce(layer.count, tokens)
    return build.loads + (head_loads(kind, logits) if logits else [])


def head_loads(kind: InstanceKind, logits: float) -> list[Load]:
    """The head, for the ``logits`` rows that need it."""
    build = _Builder(kind)
    build.wide_gemm("lm_head", 1, logits, kind.model.vocab / kind.tp, kind.model.hidden)
    return build.loads


def _projections(build: _Builder, mixer: Attention, count: int, tokens: float) -> None:
    hidden, tp = build.kind.model.hidden, build.kind.tp
    heads, kv_heads = mixer.heads // tp, local_kv_heads(mixer, tp)
    build.gemm("qkv", count, tokens, (heads + 2 * kv_heads) * mixer.head_dim, hidden)
    build.stream("rope", count, tokens, (heads + kv_heads) * mixer.head_dim, 2)
    build.gemm("attn_out", count, tokens, hidden, heads * mixer.head_dim)


def _latent_projections(build: _Builder, mixer: LatentAttention, count: int, tokens: float) -> None:
    hidden, heads = build.kind.model.hidden, mixer.heads // build.kind.tp
    query = heads * (mixer.nope_dim + mixer.rope_dim)
    if mixer.q_rank is None:
        build.gemm("q", count, tokens, query, hidden)
    else:
        build.gemm("q_a", count, tokens, mixer.q_rank, hidden)
        build.gemm("q_b", count, tokens, query, mixer.q_rank)
    build.gemm("kv_a", count, tokens, mixer.kv_rank + mixer.rope_dim, hidden)
    # Expanding the latent in prefill and absorbing it in decode are the same product per token.
    build.gemm("kv_b", count, tokens, heads * (mixer.nope_dim + mixer.v_dim), mixer.kv_rank)
    build.gemm("attn_out", count, tokens, hidden, heads * mixer.v_dim)


def _dense(build: _Builder, ffn: Dense, count: int, tokens: float, name: str) -> None:
    hidden, width = build.kind.model.hidden, ffn.width / build.kind.tp
    build.gemm(f"{name}_up", count, tokens, (ffn.matrices - 1) * width, hidden)
    build.stream(f"{name}_act", count, tokens, width, ffn.matrices)
    build.gemm(f"{name}_down", count, tokens, hidden, width)


def _experts(build: _Builder, ffn: Experts, count: int, tokens: float) -> None:
    kind, hidden = build.kind, build.kind.model.hidden
    width = ffn.width / kind.tp
    build.wide_gemm("router", count, tokens, ffn.experts, hidden)
    distinct = moe.distinct_experts(ffn.experts, ffn.top_k, tokens)
    weights = moe.expert_weight_bytes(distinct, hidden, width, 3, kind.weight_bytes_each)
    traffic = moe.expert_activation_bytes(tokens, ffn.top_k, hidden, width, kind.activation_bytes_each)
    flop = moe.experts_flop(tokens, ffn.top_k, hidden, width, 3)
    fill, tile = 1.0, _tile_rows(kind, build.experts)
    if tile:
        # Rounded, so that an expectation a rounding error below a whole number starts no further tile.
        rows = moe.padded_rows(tokens, ffn.top_k, round(distinct, 9), tile)
        fill = rows / (tokens * ffn.top_k)
    build.loads.append(Load("experts", build.experts, count, flop, weights + traffic, fill))
    if ffn.shared_width:
        _dense(build, Dense(ffn.shared_width), count, tokens, "shared")


def chunk_loads(kind: InstanceKind, chunk: Chunk) -> list[Load]:
    """Attention of one chunk over its prefix and itself; for MLA, the prefix is expanded again.

    The prefix's latents are first gathered from the cache into activations.
    """
    build = _Builder(kind)
    act, cached = kind.activation_bytes_each, kind.kv_bytes_each
    for mixer, count in kind.model.mixers:
        heads = mixer.heads // kind.tp
        prefix: float = chunk.prefix
        if isinstance(mixer, LatentAttention):
            if chunk.prefix:
                latent = mixer.kv_rank + mixer.rope_dim
                moved = work.streaming_bytes(chunk.prefix, latent, 1, cached + act)
                build.loads.append(Load("latent gather", "elementwise", count, 0.0, moved))
                width = heads * (mixer.nope_dim + mixer.v_dim)
                build.gemm("kv_b prefix", count, chunk.prefix, width, mixer.kv_rank)
            pairs = work.causal_pairs(chunk.tokens, chunk.prefix)
            build.stream("rope", count, chunk.tokens, (heads + 1) * mixer.rope_dim, 2)
            qk_dim, v_dim, kv_heads = mixer.nope_dim + mixer.rope_dim, mixer.v_dim, heads
            operator, cached_each = "mla_prefill", act
        else:
            pairs, prefix = _windowed(mixer, chunk)
            qk_dim, v_dim, kv_heads = mixer.head_dim, mixer.head_dim, local_kv_heads(mixer, kind.tp)
            operator, cached_each = "attention_prefill", cached
        flop = work.attention_flop(heads, qk_dim, v_dim, pairs)
        moved = work.prefill_attention_bytes(
            chunk.tokens, prefix, heads, kv_heads, qk_dim, v_dim, act, cached_each
        )
        fill = _wave_fill(kind, operator, heads, chunk.tokens)
        build.loads.append(Load("prefill attention", operator, count, flop, moved, fill))
    return build.loads


def _wave_fill(kind: InstanceKind, operator: str, heads: int, tokens: float) -> float:
    """Whole waves of attention tiles over the SMs, where the operator's fit was made with them."""
    rows = _tile_rows(kind, operator)
    if rows is None:
        return 1.0
    return float(chunking.sm_fill(heads * ceil(tokens / rows), kind.gpu.sm_count))


def _windowed(mixer: Attention, chunk: Chunk) -> tuple[float, float]:
    """Query-key pairs of a chunk and the cached tokens it reads, under the layer's window if it has one."""
    if mixer.window is None:
        return work.causal_pairs(chunk.tokens, chunk.prefix), chunk.prefix
    pairs = work.windowed_pairs(chunk.tokens, chunk.prefix, mixer.window)
    return pairs, min(chunk.prefix, mixer.window - 1)


def decode_loads(kind: InstanceKind, batch: float, context: float) -> list[Load]:
    """Attention of ``batch`` decodes that read ``context`` cached tokens in all.

    A windowed layer reads at most ``batch`` windows: the contexts of a batch are taken as equal.
    """
    loads = []
    act, cached = kind.activation_bytes_each, kind.kv_bytes_each
    for mixer, count in kind.model.mixers:
        heads = mixer.heads // kind.tp
        if isinstance(mixer, LatentAttention):
            flop = work.latent_absorbed_flop(heads, mixer.kv_rank, mixer.rope_dim, context)
            moved = work.latent_absorbed_bytes(
                context, batch, heads, mixer.kv_rank, mixer.rope_dim, act, cached
            )
            loads.append(Load("decode attention", "mla_decode", count, flop, moved, 1.0, batch))
            continue
        kv_heads = local_kv_heads(mixer, kind.tp)
        read = context if mixer.window is None else min(context, batch * mixer.window)
        flop = work.attention_flop(heads, mixer.head_dim, mixer.head_dim, read)
        moved = work.decode_attention_bytes(read, batch, heads, kv_heads, mixer.head_dim, act, cached)
        loads.append(Load("decode attention", "attention_decode", count, flop, moved, 1.0, batch, kv_heads))
    return loads
