"""Lines of start-up logs that say something, as engines word them from version to version."""

from __future__ import annotations

import re
from typing import NamedTuple

VLLM, SGLANG, TRTLLM = "vLLM", "SGLang", "TensorRT-LLM"
_NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?)"


class Wording(NamedTuple):
    """A line that gives one value: a text that it holds, the pattern of its value, what that is, and its unit.

    ``unit`` None: a condition. ``engine`` None: several engines write it so, and it does not tell which ran.
    """

    holds: str
    pattern: re.Pattern[str]
    name: str
    unit: str | None = None
    engine: str | None = None
    note: str | None = None


def _w(
    holds: str,
    after: str,
    name: str,
    unit: str | None = None,
    engine: str | None = None,
    value: str = _NUMBER,
    note: str | None = None,
) -> Wording:
    return Wording(holds, re.compile(after.replace("#", value)), name, unit, engine, note)


ONE_GPU = "of one GPU"
_TEXT = r"([^\s,;)\]'\"]{1,200})"
#: Values on lines of their own. Old and new wordings stand together: no version writes both.
#: Of several that give the same figure, the first that a log has counts.
VALUES = (
    # vLLM
    _w("API server version", r"vLLM API server version #", "engine_version", engine=VLLM, value=_TEXT),
    _w("vLLM server version", r"vLLM server version #", "engine_version", engine=VLLM, value=_TEXT),
    _w(
        "LLM engine (v",
        r"Initializing an? (?:V[01] )?LLM engine \(v#\)",
        "engine_version",
        engine=VLLM,
        value=_TEXT,
    ),
    _w(
        "LLM engine v",
        r"Initializing an? (?:V[01] )?LLM engine v#",
        "engine_version",
        engine=VLLM,
        value=_TEXT,
    ),
    _w("serving model", r"vLLM server version \S+ serving model #", "model", engine=VLLM, value=_TEXT),
    # the same as a picture, since 0.14
    _w("█ ▀▄▀ █", r"█ ▀▄▀ █\s+version #", "engine_version", engine=VLLM, value=_TEXT),
    _w("█▄█▀ █", r"█▄█▀ █.*█\s+model\s+#", "model", engine=VLLM, value=_TEXT),
    _w("Using max model len", r"Using max model len #", "max_model_len", engine=VLLM),
    _w("hunked prefill is enabled", r"max_num_batched_tokens=#", "max_num_batched_tokens", engine=VLLM),
    _w(
        "Loading model weights took",
        r"Loading model weights took # GB",
        "weight_bytes",
        "GiB",
        VLLM,
        note=ONE_GPU,
    ),
    _w("Model loading took", r"Model loading took # Gi?B", "weight_bytes", "GiB", VLLM, note=ONE_GPU),
    _w("model weights take", r"model weights take #GiB", "weight_bytes", "GiB", VLLM, note=ONE_GPU),
    _w(
        "reserved for KV Cache is",
        r"reserved for KV Cache is #GiB",
        "kv_pool_bytes",
        "GiB",
        VLLM,
        note=ONE_GPU,
    ),
    _w("KV cache memory", r"Available KV cache memory: # GiB", "kv_pool_bytes", "GiB", VLLM, note=ONE_GPU),
    _w("KV cache size:", r"KV cache size: # tokens", "kv_cache_tokens", "tokens", VLLM),
    _w("# GPU blocks:", r"\x23 GPU blocks: #", "kv_cache_blocks", "tokens", VLLM),
    _w("# cuda blocks:", r"\x23 cuda blocks: #", "kv_cache_blocks", "tokens", VLLM),
    _w(
        "Maximum concurrency for",
        r"Maximum concurrency for [0-9,]+ tokens per request: #x",
        "max_concurrency",
        "",
        VLLM,
    ),
    # SGLang writes GB and means GiB.
    _w("is allocated. dtype:", r"is allocated. dtype: torch.#,", "kv_dtype", engine=SGLANG, value=_TEXT),
    _w("Load weight end", r"mem usage=# GB", "weight_bytes", "GiB", SGLANG, note=ONE_GPU),
    _w("KV Cache is allocated", r"KV size: # GB", "kv_pool_bytes", "GiB", SGLANG, note=ONE_GPU),
    _w("max_total_num_tokens=", r"\bmax_total_num_tokens=#", "kv_cache_tokens", "tokens", SGLANG),
    _w("KV Cache is allocated", r"\x23tokens: #", "kv_cache_tokens", "tokens", SGLANG),
    _w("max_total_num_tokens=", r"chunked_prefill_size=#", "max_num_batched_tokens", engine=SGLANG),
    _w("max_total_num_tokens=", r"max_running_requests=#", "max_num_seqs", engine=SGLANG),
    _w("max_total_num_tokens=", r"context_len=#", "max_model_len", engine=SGLANG),
    # TensorRT-LLM
    _w("TensorRT-LLM version:", r"TensorRT-LLM version: #", "engine_version", engine=TRTLLM, value=_TEXT),
    _w("TensorRT LLM version:", r"TensorRT LLM version: #", "engine_version", engine=TRTLLM, value=_TEXT),
    _w("Number of tokens per block", r"Number of tokens per block: #", "block_size", engine=TRTLLM),
    _w("in paged KV cache", r"max tokens in paged KV cache \(#\)", "kv_cache_tokens", "tokens", TRTLLM),
    _w("in paged KV cache", r"Allocated # GiB for max tokens", "kv_pool_bytes", "GiB", TRTLLM, note=ONE_GPU),
    _w("max sequence length=", r"max sequence length=#", "max_model_len", engine=TRTLLM),
    # tuned kernels are chosen by the GPU's name
    _w("device_name=", r"device_name=#", "hardware", value=r"([A-Za-z0-9_]{3,60})"),
)
#: What says how large SGLang's pool is.
POOL = next(wording for wording in VALUES if wording.engine == SGLANG and wording.name == "kv_pool_bytes")
#: K and V apart: their sum is the pool.
KEYS_VALUES = re.compile(rf"K size: {_NUMBER} GB, V size: {_NUMBER} GB")
#: Lines that hold options: what stands before them.
OPTIONS = (
    ("non-default args:", re.compile(r"non-default args: \{"), VLLM),
    ("args: Namespace(", re.compile(r"\bargs: Namespace\("), VLLM),
    ("LLM engine (v", re.compile(r"LLM engine \(v[^)]{1,200}\) with config: (?:VllmConfig\()?"), VLLM),
    ("server_args=ServerArgs(", re.compile(r"server_args=ServerArgs\("), SGLANG),
)
_HOLDS = tuple({wording.holds for wording in VALUES if wording.engine} | {holds for holds, _, _ in OPTIONS})


def speaks(line: str) -> bool:
    """Say whether a line is one that only an engine's start writes."""
    return any(holds in line for holds in _HOLDS)
