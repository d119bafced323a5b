"""The lines that an engine prints about its KV cache when it starts, worded as its version words them."""

from __future__ import annotations

from ..inputs.model import LatentAttention
from .capacity import Fit
from .kv import bytes_per_gpu
from .pool import GIB

#: vLLM: from these versions on the weights line says "memory", sizes drop trailing zeros, two lines are one.
SAYS_MEMORY, ROUNDS, ONE_LINE = (0, 12), (0, 14, 1), (0, 28)


def log_lines(fit: Fit, *, weights_known: bool) -> tuple[str, ...]:
    """Return the lines of the stage that limits, times left out. Raises nothing."""
    writer = {"vllm": _vllm, "sglang": _sglang, "trtllm": _trtllm}.get(fit.setting.engine.name)
    return writer(fit, weights_known) if writer else ()


def _vllm(fit: Fit, weights_known: bool) -> tuple[str, ...]:
    version, pool = fit.setting.version, fit.worst.pool
    lines = []
    if weights_known:
        size = pool.weights.total_bytes / GIB
        shown = f"{round(size, 2)}" if version >= ROUNDS else f"{size:.4f}"
        lines.append(f"Model loading took {shown} GiB{' memory' if version >= SAYS_MEMORY else ''}")
    left = pool.pool_bytes / GIB
    lines.append(f"Available KV cache memory: {round(left, 2) if version >= ROUNDS else f'{left:.2f}'} GiB")
    size_line = f"GPU KV cache size: {fit.tokens:,} tokens"
    many = f"Maximum concurrency for {fit.max_model_len:,} tokens per request: {fit.concurrency:.2f}x"
    if version >= ONE_LINE:
        return (*lines, f"{size_line}, {many}")
    return (*lines, size_line, many)


def _sglang(fit: Fit, weights_known: bool) -> tuple[str, ...]:
    """SGLang writes GB and means GiB."""
    tokens = fit.tokens
    lines = [f"Load weight end. mem usage={fit.worst.pool.weights.total_bytes / GIB:.2f} GB."]
    lines = lines if weights_known else []
    lines.append(_sglang_pools(fit, tokens))
    return (*lines, f"max_total_num_tokens={tokens}, context_len={fit.max_model_len}")


def _sglang_pools(fit: Fit, tokens: int) -> str:
    """One pool of K and V (or of latents); two where some layers have windows. States are not worded."""
    model, ratio = fit.worst.pool.stage.model, fit.setting.rules["window_ratio"]
    spread = fit.layout.attention_tp
    sizes = [(mixer, count * bytes_per_gpu(mixer, fit.kv_dtype, spread)) for mixer, count in model.mixers]
    windows = [mixer.window is not None for mixer, _ in sizes]
    if any(windows) and not all(windows):
        return (
            f"Use sliding window memory pool. full_layer_tokens={tokens}, "
            f"swa_layer_tokens={int(ratio * tokens) // fit.block_tokens * fit.block_tokens}"
        )
    size = tokens * sum(each for _, each in sizes) / GIB
    parts = f"K size: {size / 2:.2f} GB, V size: {size / 2:.2f} GB"
    if any(isinstance(mixer, LatentAttention) for mixer, _ in sizes):
        parts = f"KV size: {size:.2f} GB"
    return f"KV Cache is allocated. #tokens: {tokens}, {parts}"


def _trtllm(fit: Fit, weights_known: bool) -> tuple[str, ...]:
    left, tokens = fit.worst.pool.pool_bytes / GIB, fit.tokens
    per_sequence = -(-fit.max_model_len // fit.block_tokens)
    return (
        f"Number of tokens per block: {fit.block_tokens}.",
        f"Max KV cache blocks per sequence: {per_sequence}, tokens per block={fit.block_tokens}, "
        f"primary blocks={fit.blocks or 0}, max sequence length={fit.max_model_len}",
        f"[MemUsageChange] Allocated {left:.2f} GiB for max tokens in paged KV cache ({tokens}).",
    )
