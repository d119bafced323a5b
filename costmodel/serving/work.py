"""What a step has to do, operator by operator: FLOPs and bytes per GPU, before any time is assigned.

A step is a batch of decodes and some chunks of prompts. Its operators fall into three groups that add up:
those that see all tokens (:func:`token_loads`), attention of a chunk over its prefix and attention of the
decodes (:mod:`costmodel.serving.mixing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..formulas import work
from ..inputs.formats import WeightFormat
from ..inputs.hardware import TP_LINKS
from ..inputs.model import Attention, Block, Dense, Experts, LatentAttention, Layer, Recurrent
from ..inputs.tensor import Tensor
from ..inputs.weights import recurrent_products
from ..operators import work as operators
from ..operators.catalogue import HOST_LAYERS, HOST_SEQUENCES, LARGE_MESSAGES
from ..operators.work import Work
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
    work: Work

    @property
    def flop(self) -> float:
        """FLOPs of one run."""
        return float(self.work.flop)

    @property
    def bytes_moved(self) -> float:
        """Fewest bytes of one run."""
        return float(self.work.bytes_moved)


#: Below this size engines take vLLM's own all-reduce, from it on NCCL's; over PCIe only between two GPUs.
CUSTOM_BYTES = 8 * 2**20
#: Tokens that the prefill kernels of recurrent layers take together (flash-linear-attention, Mamba-2).
SCAN_CHUNK = 64


def local_kv_heads(mixer: Attention, tp: int) -> int:
    """KV heads on one GPU: replicated once TP exceeds their number."""
    return max(1, mixer.kv_heads // tp)


class Builder:
    """Collects the loads of one group for an instance kind; spares every call the dtype arguments.

    Each product runs in the dtype that the format of its weights says; routers, and heads that no checkpoint
    quantises, keep two bytes a weight and are multiplied in 16 bits. The fits of 8-bit products were measured
    in fp8 and serve int8, too.
    """

    def __init__(self, kind: InstanceKind, layer: Layer | None = None) -> None:
        self.kind = kind
        self.layer = layer
        self.loads: list[Load] = []

    def stored(self, module: str) -> tuple[float, bool]:
        """Bytes of a weight of a module of the layer, and whether its product runs in 8 bits."""
        return self.width_of(self.kind.format_of(self.layer, module) if self.layer else None)

    def width_of(self, found: WeightFormat | None) -> tuple[float, bool]:
        """Bytes of a weight in a format (None: wide), and whether its product runs in 8 bits."""
        if found is None:
            return self.kind.activation_bytes_each, False
        return found.bytes_each, found.product_dtype is not None

    def gemm(self, name: str, runs: float, m: float, n: float, k: float, module: str) -> None:
        """Add a matrix product of m tokens with the weights of a module of the layer."""
        self.product(name, runs, (m, n, k), self.stored(module))

    def product(
        self, name: str, runs: float, shape: tuple[float, float, float], stored: tuple[float, bool]
    ) -> None:
        """Add a matrix product of (m, n, k) with weights of so many bytes each, run in 8 bits or not."""
        each, narrow = stored
        done = operators.gemm(*shape, each, self.kind.activation_bytes_each)
        self.loads.append(Load(name, "gemm_fp8" if narrow else "gemm", runs, done))

    def wide_gemm(self, name: str, runs: float, m: float, n: float, k: float) -> None:
        """Add a matrix product of m tokens with weights that no checkpoint quantises."""
        self.product(name, runs, (m, n, k), self.width_of(None))

    def stream(
        self, name: str, operator: str, runs: float, tokens: float, width: float, tensors: float
    ) -> None:
        """Add an element-wise operator that reads or writes ``tensors`` tensors of ``width``."""
        done = operators.streaming(tokens, width, tensors, self.kind.activation_bytes_each)
        self.loads.append(Load(name, operator, runs, done))

    def all_reduce(self, runs: float, tokens: float) -> None:
        """Add the all-reduce that follows a row-parallel product: vLLM's own below 8 MiB, else NCCL's."""
        tp = self.kind.tp
        if tp > 1:
            size = work.streaming_bytes(tokens, self.kind.model.hidden, 1, self.kind.activation_bytes_each)
            own = size < CUSTOM_BYTES and (tp == 2 or self.kind.gpu.tp_link == TP_LINKS[0])
            operator = "custom_all_reduce" if own else "all_reduce"
            done = operators.collective(size, 2 * (tp - 1) / tp)
            self.loads.append(Load("all-reduce", operator, runs, done))
            if LARGE_MESSAGES in self.kind.efficiency.operators:
                self.loads.append(Load("large messages", LARGE_MESSAGES, runs, host({"message_bytes": size})))


def host(shape: Mapping[str, float]) -> Work:
    """Time in which a GPU waits: neither FLOPs nor bytes."""
    return Work(0.0, 0.0, shape)


def token_loads(kind: InstanceKind, tokens: float, logits: float) -> list[Load]:
    """Operators that see every token of the step once, and the head for the ``logits`` rows that need it."""
    ends = Builder(kind)
    ends.stream("embedding", "embedding", 1, tokens, kind.model.hidden, 2)
    loads = ends.loads
    for layer in kind.model.layers:
        build = Builder(kind, layer)
        build.stream("norm", "norm", layer.count * len(layer.blocks), tokens, kind.model.hidden, 4)
        for block in layer.blocks:
            _block(build, block, layer.count, tokens)
            build.all_reduce(layer.count, tokens)
        loads += build.loads
    if HOST_LAYERS in kind.efficiency.operators:
        loads.append(Load("host, layers", HOST_LAYERS, 1, host({"layers": kind.model.layer_count})))
    return loads + (head_loads(kind, logits) if logits else [])


def _block(build: Builder, block: Block, count: int, tokens: float) -> None:
    if isinstance(block, LatentAttention):
        _latent_projections(build, block, count, tokens)
    elif isinstance(block, Attention):
        _projections(build, block, count, tokens)
    elif isinstance(block, Recurrent):
        _recurrent(build, block, count, tokens)
    elif isinstance(block, Experts):
        _experts(build, block, count, tokens)
    else:
        _dense(build, block, count, tokens, "mlp")


def head_loads(kind: InstanceKind, logits: float) -> list[Load]:
    """The head, for the ``logits`` rows that need it."""
    build = Builder(kind)
    shape = (logits, kind.model.vocab / kind.tp, kind.model.hidden)
    build.product("lm_head", 1, shape, build.width_of(kind.storage.head))
    if HOST_SEQUENCES in kind.efficiency.operators:
        build.loads.append(Load("host, sequences", HOST_SEQUENCES, 1, host({"sampled": logits})))
    return build.loads


def _projections(build: Builder, mixer: Attention, count: int, tokens: float) -> None:
    hidden, tp = build.kind.model.hidden, build.kind.tp
    heads, kv_heads = mixer.heads // tp, local_kv_heads(mixer, tp)
    query = heads * mixer.head_dim
    key_value = kv_heads * (mixer.head_dim + (0 if mixer.value_from_key else mixer.value_dim))
    outputs = query * (2 if mixer.output_gate else 1) + (key_value if mixer.own_kv else 0)
    build.gemm("qkv", count, tokens, outputs, hidden, "self_attn.q_proj")
    build.stream("rope", "rope", count, tokens, query + (kv_heads * mixer.head_dim if mixer.own_kv else 0), 2)
    if mixer.output_gate:
        build.stream("output gate", "activation", count, tokens, query, 3)
    build.gemm("attn_out", count, tokens, hidden, heads * mixer.value_dim, "self_attn.o_proj")


def _latent_projections(build: Builder, mixer: LatentAttention, count: int, tokens: float) -> None:
    hidden, heads = build.kind.model.hidden, mixer.heads // build.kind.tp
    query = heads * (mixer.nope_dim + mixer.rope_dim)
    if mixer.q_rank is None:
        build.gemm("q", count, tokens, query, hidden, "self_attn.q_proj")
    else:
        build.gemm("q_a", count, tokens, mixer.q_rank, hidden, "self_attn.q_a_proj")
        build.gemm("q_b", count, tokens, query, mixer.q_rank, "self_attn.q_b_proj")
    latent = mixer.kv_rank + mixer.rope_dim
    build.gemm("kv_a", count, tokens, latent, hidden, "self_attn.kv_a_proj_with_mqa")
    # Expanding the latent in prefill and absorbing it in decode are the same product per token.
    width = heads * (mixer.nope_dim + mixer.v_dim)
    build.gemm("kv_b", count, tokens, width, mixer.kv_rank, "self_attn.kv_b_proj")
    build.gemm("attn_out", count, tokens, hidden, heads * mixer.v_dim, "self_attn.o_proj")
    if mixer.indexer:
        index = mixer.indexer
        wide = index.heads * index.dim
        build.gemm("indexer q", count, tokens, wide, mixer.q_rank or hidden, "self_attn.indexer.wq_b")
        build.gemm("indexer k", count, tokens, index.dim, hidden, "self_attn.indexer.wk")
        build.wide_gemm("indexer weights", count, tokens, index.heads, hidden)


def _recurrent(build: Builder, mixer: Recurrent, count: int, tokens: float) -> None:
    """The products of a recurrent mixer and its convolution; its state is a load of chunks and decodes."""
    fused: dict[str, list[Tensor]] = {}
    for tensor in recurrent_products(mixer):
        fused.setdefault(tensor.packed or tensor.module, []).append(tensor.on_gpu(build.kind.tp))
    for name, parts in fused.items():
        rows = sum(tensor.rows for tensor in parts)
        build.gemm(name.rsplit(".", 1)[-1], count, tokens, rows, parts[0].cols, parts[0].module)
    if mixer.conv_channels:
        build.stream("convolution", "activation", count, tokens, mixer.conv_channels / build.kind.tp, 2)
    build.stream("gated norm", "norm", count, tokens, mixer.heads * mixer.value_dim / build.kind.tp, 3)


def _dense(build: Builder, ffn: Dense, count: int, tokens: float, name: str) -> None:
    hidden, width = build.kind.model.hidden, ffn.width / build.kind.tp
    build.gemm(f"{name}_up", count, tokens, (ffn.matrices - 1) * width, hidden, f"{ffn.module}.up_proj")
    build.stream(f"{name}_act", "activation", count, tokens, width, ffn.matrices)
    build.gemm(f"{name}_down", count, tokens, hidden, width, f"{ffn.module}.down_proj")


def _experts(build: Builder, ffn: Experts, count: int, tokens: float) -> None:
    kind, hidden = build.kind, build.kind.model.hidden
    layout = kind.parallelism
    width = ffn.width / (layout.tp // layout.ep)
    # Where the GPUs cannot have equally many experts, the time is that of the fullest ones.
    local = -(-ffn.experts // layout.ep)
    build.wide_gemm("router", count, tokens, ffn.experts, hidden)
    if ffn.shared_gate:
        build.wide_gemm("shared gate", count, tokens, 1, hidden)
    inner = hidden
    if ffn.latent:
        inner = ffn.latent
        build.gemm("experts_in", count, tokens, inner, hidden, f"{ffn.module}.fc1_latent_proj")
        build.gemm("experts_out", count, tokens, hidden, inner, f"{ffn.module}.fc2_latent_proj")
    each, narrow = build.stored(f"{ffn.module}.experts.up_proj")
    done = operators.experts(
        tokens, ffn.top_k, local, inner, width, ffn.matrices, each, kind.activation_bytes_each,
        ranks=ffn.experts / local, skew=kind.expert_skew,
    )  # fmt: skip
    build.loads.append(Load("experts", "moe_fp8" if narrow else "moe", count, done))
    if ffn.shared_width:
        shared = Dense(ffn.shared_width, ffn.matrices, module=f"{ffn.module}.shared_experts")
        _dense(build, shared, count, tokens, "shared")
