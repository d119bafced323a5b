"""Memory of a GPU: an engine's budget for the KV cache, the peak of activations, blocks of the cache."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil, floor, maximum, minimum

VLLM = "vLLM 0.11 to 0.33, v1/worker/gpu_worker.py"
LOGS = "form found on vLLM 0.19.0 start-up logs (hardware/engines/vllm.toml says which)"


@formula(
    unit="byte",
    symbol=r"M_{KV}",
    source=VLLM,
    assumes=("no other process uses the GPU", "CUDA graphs are subtracted from 0.20 on, before that 0"),
)
def pool_share_of_total(
    memory_bytes: Any,
    memory_share: Any,
    loaded_bytes: Any,
    activation_bytes: Any,
    non_torch_bytes: Any,
    graph_bytes: Any,
) -> Any:
    """KV pool of vLLM: a share of all memory less weights, peak activation, non-torch and CUDA graphs.

    Llama-3.1-8B on an H100, 0.95 of 79.19 GiB; the log says 58.11:

    >>> round(pool_share_of_total(memory_bytes=79.19, memory_share=0.95, loaded_bytes=14.99,
    ...                           activation_bytes=1.89, non_torch_bytes=0.25, graph_bytes=0), 2)
    58.1
    """
    asked = memory_bytes * memory_share
    return asked - loaded_bytes - activation_bytes - non_torch_bytes - graph_bytes


@formula(
    unit="byte",
    symbol=r"M_{KV}",
    source="SGLang 0.4.9 to 0.5.23, model_executor/model_runner.py",
    assumes=("activations and CUDA graphs live in the rest of the memory",),
)
def pool_static(free_bytes: Any, memory_share: Any, loaded_bytes: Any) -> Any:
    """KV pool of SGLang: weights and KV together take a share of what was free before loading.

    78 GiB free, a static fraction of 0.85, 15 GiB of weights:

    >>> round(pool_static(free_bytes=78, memory_share=0.85, loaded_bytes=15), 2)
    51.3
    """
    return free_bytes * memory_share - loaded_bytes


@formula(
    unit="byte",
    symbol=r"M_{KV}",
    source="TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/_util.py@00043967",
    assumes=("the temporary KV of the profiling run is added back",),
)
def pool_share_of_free(
    memory_bytes: Any, memory_share: Any, loaded_bytes: Any, activation_bytes: Any, non_torch_bytes: Any
) -> Any:
    """KV pool of TensorRT-LLM: a share of what weights, activations and the rest leave free.

    Its documentation logs 70.48 GiB available and allocates 63.44 GiB:

    >>> round(pool_share_of_free(memory_bytes=79.10, memory_share=0.9, loaded_bytes=8.0, activation_bytes=0.62,
    ...                          non_torch_bytes=0), 2)
    63.43
    """
    return (memory_bytes - loaded_bytes - activation_bytes - non_torch_bytes) * memory_share


@formula(
    unit="byte",
    symbol=r"A_s",
    source=LOGS,
    assumes=("the profiling run samples max_num_seqs tokens at once", "logits are gathered on every GPU"),
)
def sampler_peak(
    max_num_seqs: Any,
    vocab: Any,
    sampler_bytes: Any,
    max_num_batched_tokens: Any,
    hidden: Any,
    token_hidden_bytes: Any,
    fixed_bytes: Any,
) -> Any:
    """Peak of activations while tokens are sampled: logits of every sequence, hidden states of every token.

    Llama-3.1-8B, 1,024 sequences and 8,192 tokens; the log says 1.89 GiB:

    >>> peak = sampler_peak(max_num_seqs=1024, vocab=128_256, sampler_bytes=14.47, max_num_batched_tokens=8192,
    ...                     hidden=4096, token_hidden_bytes=2.321, fixed_bytes=0.049 * 2**30)
    >>> f"{peak / 2**30:.2f} GiB"
    '1.89 GiB'
    """
    logits = max_num_seqs * vocab * sampler_bytes
    return logits + max_num_batched_tokens * hidden * token_hidden_bytes + fixed_bytes


@formula(
    unit="byte",
    symbol=r"A_f",
    source=LOGS,
    assumes=("the widest feed-forward block of the stage decides",),
)
def forward_peak(
    max_num_batched_tokens: Any, hidden: Any, layer_hidden_bytes: Any, width: Any, layer_width_bytes: Any
) -> Any:
    """Peak of activations inside a layer: some tensors of hidden width, and of the feed-forward width.

    granite-3.1-8b, 8,192 tokens; the log says 0.85 GiB:

    >>> f"{forward_peak(8192, 4096, 8.4, 12_800, 6.0) / 2**30:.2f} GiB"
    '0.85 GiB'
    """
    return max_num_batched_tokens * (hidden * layer_hidden_bytes + width * layer_width_bytes)


@formula(
    unit="byte",
    symbol=r"A_e",
    source="vLLM 0.19, fused_moe: caches of the two products (the first and third share memory); " + LOGS,
    assumes=("the workspace stays allocated while tokens are sampled",),
)
def experts_workspace(
    max_num_batched_tokens: Any, top_k: Any, width: Any, hidden: Any, dtype_bytes: Any
) -> Any:
    """Workspace of the fused experts: gate and up (or the output), and what the second product reads.

    Qwen1.5-MoE-A2.7B, 8,192 tokens to 4 experts of 1,408:

    >>> f"{experts_workspace(8192, 4, 1408, 2048, 2) / 2**30:.3f} GiB"
    '0.258 GiB'
    """
    return max_num_batched_tokens * top_k * (maximum(2 * width, hidden) + width) * dtype_bytes


@formula(
    unit="1",
    symbol=r"n_b",
    source=f"{VLLM}; v1/core/kv_cache_utils.py",
    assumes=("every group of layers takes blocks of the same bytes from one pool",),
)
def pool_blocks(pool_bytes: Any, block_bytes: Any) -> Any:
    """Blocks of a KV pool.

    DeepSeek-V2-Lite, blocks of 16 tokens of 31,104 bytes in 43.6128 GiB; the log says 94,097:

    >>> pool_blocks(pool_bytes=43.6128 * 2**30, block_bytes=16 * 31_104)
    94097.0
    """
    return floor(pool_bytes / block_bytes)


@formula(
    unit="1",
    symbol=r"n_b",
    source="vLLM 0.11 to 0.33, v1/kv_cache_interface.py: SlidingWindowSpec",
    assumes=("the tokens of the steps in flight are kept beside the window",),
)
def window_blocks(tokens: Any, window: Any, max_num_batched_tokens: Any, block_tokens: Any) -> Any:
    """Blocks that a sequence may need in a windowed layer; at short lengths more than in a full one.

    gemma-2-27b, 8,192 tokens, window 4,096, steps of 8,192 tokens, blocks of 16:

    >>> window_blocks(tokens=8192, window=4096, max_num_batched_tokens=8192, block_tokens=16)
    513.0
    """
    return ceil(minimum(window - 1 + max_num_batched_tokens, tokens) / block_tokens) + 1
