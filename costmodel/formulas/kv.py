"""KV cache: bytes of a token in one layer, what a window keeps, replication under TP, blocks."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, floor, maximum, minimum

VLLM_KV_HEADS = "vLLM 0.33: config/model.py, get_num_kv_heads (each rank keeps at least one KV head)"


@formula(
    unit="byte",
    symbol=r"s_\ell",
    source="Ainslie et al., GQA (arXiv 2305.13245), section 2: queries share n_kv key and value heads",
    assumes=("K and V have the same head width",),
)
def kv_bytes_attention(kv_heads: Any, head_dim: Any, kv_dtype_bytes: Any, kv_tensors: Any = 2) -> Any:
    """KV bytes of a token in one layer of multi-head, grouped-query or multi-query attention.

    Llama-3.1-8B: 8 KV heads of 128 in bf16; 32 such layers hold 131,072 bytes a token.

    >>> kv_bytes_attention(kv_heads=8, head_dim=128, kv_dtype_bytes=2)
    4096
    """
    return kv_tensors * kv_heads * head_dim * kv_dtype_bytes


@formula(
    unit="byte",
    symbol=r"s_\ell",
    source="DeepSeek-V2 (arXiv 2405.04434), section 2.1: it keeps the latent and one rotary key",
    assumes=("the engine caches the compressed latent", "no scales beside a quantised latent"),
)
def kv_bytes_latent(kv_rank: Any, rope_dim: Any, kv_dtype_bytes: Any) -> Any:
    """KV bytes of a token in one layer of latent attention (MLA); K and V share the latent.

    >>> kv_bytes_latent(kv_rank=512, rope_dim=64, kv_dtype_bytes=2)
    1152
    """
    return (kv_rank + rope_dim) * kv_dtype_bytes


@formula(
    unit="byte",
    symbol=r"s_\ell",
    source="DeepSeek-V2 (arXiv 2405.04434), equations 9 to 19: keys and values of every head, expanded",
    assumes=("the rotary key is copied into every head", "values are not padded to the width of keys"),
)
def kv_bytes_latent_expanded(
    heads: Any, nope_dim: Any, rope_dim: Any, v_dim: Any, kv_dtype_bytes: Any
) -> Any:
    """KV bytes of a token in one layer of MLA if every head's key and value were cached instead.

    DeepSeek-V2-Lite, 27 layers: 276,480 bytes a token, against 31,104 compressed.

    >>> 27 * kv_bytes_latent_expanded(heads=16, nope_dim=128, rope_dim=64, v_dim=128, kv_dtype_bytes=2)
    276480
    """
    return heads * (nope_dim + rope_dim + v_dim) * kv_dtype_bytes


@formula(
    unit="byte",
    symbol=r"S_\ell",
    source="Jiang et al., Mistral 7B (arXiv 2310.06825), section 2: rolling buffer of the window's size",
    assumes=("a windowed layer frees what left its window; a full layer has an infinite window",),
)
def kv_bytes_held(tokens: Any, window: Any, layer_kv_bytes_per_token: Any) -> Any:
    """KV bytes that one layer holds of a sequence of ``tokens``.

    >>> 32 * kv_bytes_held(tokens=8192, window=4096, layer_kv_bytes_per_token=4096)
    536870912
    """
    return layer_kv_bytes_per_token * minimum(tokens, window)


@formula(
    unit="1",
    symbol=r"n_{kv}^{GPU}",
    source=VLLM_KV_HEADS,
    assumes=("tp divides the KV heads, or the KV heads divide tp",),
)
def kv_heads_per_gpu(kv_heads: Any, tp: Any) -> Any:
    """KV heads that each of ``tp`` GPUs keeps.

    >>> kv_heads_per_gpu(kv_heads=8, tp=2), kv_heads_per_gpu(kv_heads=4, tp=8)
    (4.0, 1)
    """
    return maximum(1, kv_heads / tp)


@formula(
    unit="1",
    symbol=r"r_{kv}",
    source=VLLM_KV_HEADS,
    assumes=("tp divides the KV heads, or the KV heads divide tp",),
)
def kv_replication(kv_heads: Any, tp: Any) -> Any:
    """Copies of each KV head among ``tp`` GPUs: above 1 once there are fewer heads than GPUs.

    >>> kv_replication(kv_heads=4, tp=8), kv_replication(kv_heads=8, tp=2)
    (2.0, 1)
    """
    return maximum(1, tp / kv_heads)


@formula(
    unit="1",
    symbol=r"n_b",
    source="Kwon et al., PagedAttention (arXiv 2309.06180), section 4.2: fixed blocks, the last partly full",
)
def blocks_ceil(tokens: Any, block_tokens: Any) -> Any:
    """Blocks that hold ``tokens`` tokens.

    >>> blocks_ceil(tokens=100, block_tokens=16), blocks_ceil(tokens=128, block_tokens=16)
    (7.0, 8.0)
    """
    return ceil(tokens / block_tokens)


@formula(
    unit="1",
    symbol=r"n_b",
    source="derived from Mooncake's vllm-v1-pd-performance.md (Qwen3-8B, TP8): all nine printed sizes are "
    "this many blocks of 2.25 MiB",
    assumes=("the connector also sends the block of the next token, full prompt blocks or not",),
)
def blocks_plus_one(tokens: Any, block_tokens: Any) -> Any:
    """Blocks that a connector copies when it includes the block in which token 1 will be written.

    >>> blocks_plus_one(tokens=128, block_tokens=16), blocks_plus_one(tokens=100, block_tokens=16)
    (9.0, 7.0)
    """
    return floor(tokens / block_tokens) + 1
