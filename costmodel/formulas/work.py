"""Work of an operator: its floating-point operations and the bytes it moves through HBM.

One layer, one GPU: heads, widths and experts are those of the GPU. An element-wise operator and a copy do
no arithmetic worth counting; their bytes are their work.
"""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import floor, maximum, minimum

DEEPSEEK_V2 = "DeepSeek-V2, arXiv 2405.04434, section 2.1"


@formula(
    unit="flop",
    symbol="F",
    source="definition: m n outputs, k multiply-adds each",
)
def gemm_flop(m: Any, n: Any, k: Any, flop_per_mac: Any = 2) -> Any:
    """FLOPs of an (m, k) by (k, n) matrix product.

    A 4096 x 4096 projection of 512 tokens, 2 * 512 * 4096**2:

    >>> gemm_flop(m=512, n=4096, k=4096)
    17179869184
    """
    return flop_per_mac * m * n * k


@formula(
    unit="byte",
    symbol="Q",
    source="derived: the fewest bytes, every operand and result once",
    assumes=("the weights are the (k, n) operand", "tiles are reused on chip: nothing is read twice"),
)
def gemm_bytes(m: Any, n: Any, k: Any, weight_dtype_bytes: Any, dtype_bytes: Any) -> Any:
    """HBM bytes of an (m, k) by (k, n) matrix product: weights, inputs and outputs once.

    The same projection in bf16: 2 * 4096**2 of weights and 2 * 2 * 512 * 4096 of activations:

    >>> gemm_bytes(m=512, n=4096, k=4096, weight_dtype_bytes=2, dtype_bytes=2)
    41943040
    """
    return k * n * weight_dtype_bytes + (m * k + m * n) * dtype_bytes


@formula(
    unit="1",
    symbol=r"n_{qk}",
    source="derived: token i of the chunk sees the prefix and i tokens of the chunk; sum closed",
    assumes=("causal mask, skipped blocks cost nothing",),
)
def causal_pairs(chunk: Any, prefix: Any) -> Any:
    """Query-key pairs of a chunk over a cached prefix.

    Three tokens after ten: 11 + 12 + 13.

    >>> causal_pairs(chunk=3, prefix=10)
    36.0
    """
    return chunk * prefix + chunk * (chunk + 1) / 2


@formula(
    unit="1",
    symbol=r"n_{qk}",
    source="derived: token i of the chunk sees min(prefix + i, window) tokens; sum closed",
    assumes=("a token counts itself among the tokens of its window",),
)
def windowed_pairs(chunk: Any, prefix: Any, window: Any) -> Any:
    """Query-key pairs of a chunk over a cached prefix in a layer with a sliding window.

    Four tokens after three under a window of five: 4 + 5 + 5 + 5.

    >>> windowed_pairs(chunk=4, prefix=3, window=5)
    19.0
    """
    below = maximum(0, minimum(chunk, window - prefix))  # tokens that the window does not cut
    return below * prefix + below * (below + 1) / 2 + (chunk - below) * window


@formula(
    unit="flop",
    symbol="F",
    source="derived: scores take qk_dim multiply-adds a pair, the weighted sum of values v_dim",
    assumes=("the softmax is not counted", "query heads count: sharing K and V saves bytes, not FLOPs"),
)
def attention_flop(heads: Any, qk_dim: Any, v_dim: Any, pairs: Any, flop_per_mac: Any = 2) -> Any:
    """FLOPs of attention over ``pairs`` query-key pairs, in every head.

    Llama-3.1-8B, one layer, 8,192 tokens: 4 * 32 * 128 * 8192 * 8193 / 2:

    >>> attention_flop(heads=32, qk_dim=128, v_dim=128, pairs=8192 * 8193 // 2)
    549822922752
    """
    return flop_per_mac * heads * (qk_dim + v_dim) * pairs


@formula(
    unit="byte",
    symbol="Q",
    source="derived: the fewest bytes, as a tiled kernel (FlashAttention, arXiv 2205.14135) aims at",
    assumes=("K and V of prefix and chunk are read once, whatever the number of query tiles",),
)
def prefill_attention_bytes(
    chunk: Any,
    prefix: Any,
    heads: Any,
    kv_heads: Any,
    qk_dim: Any,
    v_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
) -> Any:
    """HBM bytes of a chunk's attention: Q and O of the chunk, K and V of prefix and chunk.

    Llama-3.1-8B, one layer, bf16, 2,048 tokens over 6,144: 2 * 2048 * 32 * 256 + 2 * 8192 * 8 * 256:

    >>> prefill_attention_bytes(chunk=2048, prefix=6144, heads=32, kv_heads=8, qk_dim=128, v_dim=128,
    ...                         dtype_bytes=2, kv_dtype_bytes=2)
    67108864
    """
    width = qk_dim + v_dim
    return chunk * heads * width * dtype_bytes + (chunk + prefix) * kv_heads * width * kv_dtype_bytes


@formula(
    unit="byte",
    symbol="Q",
    source="derived: the fewest bytes, every cached K and V once, Q and O of one token a sequence",
    assumes=("a group of query heads reads its K and V once",),
)
def decode_attention_bytes(
    context: Any,
    batch: Any,
    heads: Any,
    kv_heads: Any,
    head_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
    kv_tensors: Any = 2,
) -> Any:
    """HBM bytes of a decode step's attention; ``context`` is summed over the batch.

    Llama-3.1-8B, one layer, bf16, 16 sequences of 1,000 tokens: 16000 * 4096 + 2 * 16 * 32 * 128 * 2:

    >>> decode_attention_bytes(context=16_000, batch=16, heads=32, kv_heads=8, head_dim=128,
    ...                        dtype_bytes=2, kv_dtype_bytes=2)
    65798144
    """
    cached = context * kv_tensors * kv_heads * head_dim * kv_dtype_bytes
    return cached + 2 * batch * heads * head_dim * dtype_bytes


@formula(
    unit="flop",
    symbol="F",
    source=f"derived from {DEEPSEEK_V2}: up-projections absorbed into the query and the output",
    assumes=("the absorbed projections themselves are matrix products, counted as such",),
)
def latent_absorbed_flop(heads: Any, kv_rank: Any, rope_dim: Any, context: Any, flop_per_mac: Any = 2) -> Any:
    """FLOPs of MLA decode over the latents: scores of rank + rope, a weighted sum of rank.

    DeepSeek-V2-Lite, one layer, 1,000 cached tokens: 2 * 16 * (2 * 512 + 64) * 1000:

    >>> latent_absorbed_flop(heads=16, kv_rank=512, rope_dim=64, context=1000)
    34816000
    """
    return flop_per_mac * heads * (2 * kv_rank + rope_dim) * context


@formula(
    unit="byte",
    symbol="Q",
    source=f"derived from {DEEPSEEK_V2}: one latent and one rotary key a token serve every head",
    assumes=("the latent is read once for scores and values together",),
)
def latent_absorbed_bytes(
    context: Any,
    batch: Any,
    heads: Any,
    kv_rank: Any,
    rope_dim: Any,
    dtype_bytes: Any,
    kv_dtype_bytes: Any,
) -> Any:
    """HBM bytes of MLA decode: the latents of ``context``, Q (rank + rope) and O (rank) of the batch.

    DeepSeek-V2-Lite, one layer, bf16, 4 sequences of 1,000 tokens: 4000 * 576 * 2 + 4 * 16 * 1088 * 2:

    >>> latent_absorbed_bytes(context=4000, batch=4, heads=16, kv_rank=512, rope_dim=64,
    ...                       dtype_bytes=2, kv_dtype_bytes=2)
    4747264
    """
    latents = context * (kv_rank + rope_dim) * kv_dtype_bytes
    return latents + batch * heads * (2 * kv_rank + rope_dim) * dtype_bytes


@formula(
    unit="flop",
    symbol="F",
    source=f"derived from {DEEPSEEK_V2}: K and V are up-projected from the cached latent before use",
    assumes=("a chunk up-projects every token of its prefix again",),
)
def latent_expand_flop(
    tokens: Any, heads: Any, kv_rank: Any, nope_dim: Any, v_dim: Any, flop_per_mac: Any = 2
) -> Any:
    """FLOPs of turning cached MLA latents into keys and values, as expanded attention needs.

    DeepSeek-V2-Lite, one layer, 1,000 tokens: 2 * 1000 * 512 * 16 * 256:

    >>> latent_expand_flop(tokens=1000, heads=16, kv_rank=512, nope_dim=128, v_dim=128)
    4194304000
    """
    return flop_per_mac * tokens * kv_rank * heads * (nope_dim + v_dim)


@formula(
    unit="byte",
    symbol="Q",
    source="definition: each tensor passes through HBM once",
)
def streaming_bytes(tokens: Any, width: Any, tensors: Any, dtype_bytes: Any) -> Any:
    """HBM bytes of an element-wise operator over ``tensors`` tensors of shape (tokens, width).

    A bf16 residual addition, two tensors in and one out, 512 tokens of 4,096: 512 * 4096 * 3 * 2:

    >>> streaming_bytes(tokens=512, width=4096, tensors=3, dtype_bytes=2)
    12582912
    """
    return tokens * width * tensors * dtype_bytes


@formula(
    unit="1",
    symbol=r"n_{qk}",
    source="derived: position p sees p mod window + 1 tokens; sum closed",
    assumes=("attention chunks start at multiples of the window (Llama 4)",),
)
def own_chunk_pairs(chunk: Any, prefix: Any, window: Any) -> Any:
    """Query-key pairs of a prefill chunk in a layer where a token sees its own attention chunk only.

    Four tokens after three, attention chunks of five: 4 + 5 + 1 + 2.

    >>> own_chunk_pairs(chunk=4, prefix=3, window=5)
    12.0
    """
    per_chunk = window * (window + 1) / 2
    end = prefix + chunk
    whole_end, whole_start = floor(end / window), floor(prefix / window)
    rest_end, rest_start = end - whole_end * window, prefix - whole_start * window
    partial = rest_end * (rest_end + 1) / 2 - rest_start * (rest_start + 1) / 2
    return (whole_end - whole_start) * per_chunk + partial


@formula(
    unit="flop",
    symbol="F",
    source="derived from Dao and Gu, Mamba-2 (arXiv 2405.21060), section 6, and Yang et al., gated delta net "
    "(arXiv 2412.06464), section 3: chunks of tokens attend to each other and to the state before them",
    assumes=("decays, gates and the convolution are not counted",),
)
def scan_flop(
    tokens: Any,
    heads: Any,
    key_dim: Any,
    value_dim: Any,
    state_macs: Any,
    scan_chunk: Any,
    flop_per_mac: Any = 2,
) -> Any:
    """FLOPs of a recurrent layer's state update over ``tokens`` tokens, in chunks of ``scan_chunk``.

    Qwen3-Next, one layer, 1,000 tokens: 2 * 1000 * 32 * (3 * 128 * 128 + 64 * 256):

    >>> scan_flop(tokens=1000, heads=32, key_dim=128, value_dim=128, state_macs=3, scan_chunk=64)
    4194304000
    """
    within = scan_chunk * (key_dim + value_dim)
    return flop_per_mac * tokens * heads * (state_macs * key_dim * value_dim + within)


@formula(
    unit="byte",
    symbol="Q",
    source="derived: each sequence's state is read and written once a step",
)
def state_traffic_bytes(batch: Any, layer_state_bytes: Any) -> Any:
    """HBM bytes of a recurrent layer's step: the state of every sequence, read and written.

    Qwen3-Next, one layer, 8 sequences of 1,097,728 bytes:

    >>> state_traffic_bytes(batch=8, layer_state_bytes=1_097_728)
    17563648
    """
    return 2 * batch * layer_state_bytes
