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
    symbol=r"s_\ell",
    source="vLLM 0.33, v1/kv_cache_interface.py and mla_attention.py: fp8_ds_mla, 656 bytes a token and layer; "
    "sglang pull request 11309 logs the same",
    assumes=("the latent in fp8, a 4-byte scale for 128 of its values, the rotary key in 16 bits",),
)
def kv_bytes_latent_fp8(
    kv_rank: Any,
    rope_dim: Any,
    fp8_bytes: Any = 1,
    scale_bytes: Any = 4,
    scale_group: Any = 128,
    wide_bytes: Any = 2,
) -> Any:
    """KV bytes of a token in one layer of MLA in the layout ``fp8_ds_mla``: 57 % of bf16, not half.

    >>> kv_bytes_latent_fp8(kv_rank=512, rope_dim=64)
    656.0
    """
    return kv_rank * fp8_bytes + kv_rank / scale_group * scale_bytes + rope_dim * wide_bytes


@formula(
    unit="byte",
    symbol=r"s_\ell",
    source="vLLM 0.33, mla_attention.py: nvfp4_ds_mla, 352 bytes a token and layer",
    assumes=("the latent in 4 bits, a 1-byte scale for 16 of its values, the rotary key in fp8",),
)
def kv_bytes_latent_nvfp4(
    kv_rank: Any,
    rope_dim: Any,
    fp4_bytes: Any = 0.5,
    scale_bytes: Any = 1,
    scale_group: Any = 16,
    rope_bytes: Any = 1,
) -> Any:
    """KV bytes of a token in one layer of MLA in the layout ``nvfp4_ds_mla``.

    >>> kv_bytes_latent_nvfp4(kv_rank=512, rope_dim=64)
    352.0
    """
    return kv_rank * fp4_bytes + kv_rank / scale_group * scale_bytes + rope_dim * rope_bytes


@formula(
    unit="byte",
    symbol=r"s_{idx}",
    source="vLLM 0.33, deepseek_v2.py (indexer cache): 128 fp8 values and one fp32 scale a token",
    assumes=("the key of the indexer is cached in fp8 whatever the dtype of the latent",),
)
def kv_bytes_indexer(index_dim: Any, fp8_bytes: Any = 1, scale_bytes: Any = 4, scale_group: Any = 128) -> Any:
    """KV bytes of a token in one layer's indexer of sparse attention (DSA), beside its latent.

    >>> kv_bytes_indexer(index_dim=128)
    132.0
    """
    return index_dim * fp8_bytes + index_dim / scale_group * scale_bytes


@formula(
    unit="byte",
    symbol=r"S_{state}",
    source="Gu and Dao, Mamba (arXiv 2312.00752), section 3; Yang et al., gated delta net (arXiv 2412.06464)",
    assumes=("one state a sequence: no copies for speculative decoding or prefix caching",),
)
def state_bytes(state_elements: Any, state_dtype_bytes: Any, conv_elements: Any, dtype_bytes: Any) -> Any:
    """Bytes of a recurrent layer's state of a sequence: its matrices, and the inputs its convolution remembers.

    Qwen3-Next: 32 heads of 128 x 128 and 3 inputs of 8,192 channels, 36 layers, all in 16 bits.

    >>> 36 * state_bytes(state_elements=32 * 128 * 128, state_dtype_bytes=2, conv_elements=3 * 8192,
    ...                  dtype_bytes=2)
    39518208
    """
    return state_elements * state_dtype_bytes + conv_elements * dtype_bytes


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
