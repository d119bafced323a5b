"""Options that engines are started with, as conditions: their names in flags, configurations and logs, and switches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from ..dtypes import DTYPE_BYTES, SPELLINGS
from .record import Stated

#: Options of vLLM, of SGLang and of TensorRT-LLM, and the conditions that they state.
VLLM = {
    "model": "model",
    "tensor_parallel_size": "tp",
    "pipeline_parallel_size": "pp",
    "max_model_len": "max_model_len",
    "max_seq_len": "max_model_len",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_seqs": "max_num_seqs",
    "gpu_memory_utilization": "memory_utilization",
    "block_size": "block_size",
    "kv_cache_dtype": "kv_dtype",
    "dtype": "dtype",
}
SGLANG = {
    "model_path": "model",
    "tp_size": "tp",
    "pp_size": "pp",
    "ep_size": "ep",
    "context_length": "max_model_len",
    "chunked_prefill_size": "max_num_batched_tokens",
    "max_running_requests": "max_num_seqs",
    "mem_fraction_static": "memory_utilization",
    "page_size": "block_size",
    "kv_cache_dtype": "kv_dtype",
    "dtype": "dtype",
}
TRTLLM = {
    "max_num_tokens": "max_num_batched_tokens",
    "max_batch_size": "max_num_seqs",
    "max_seq_len": "max_model_len",
    "tokens_per_block": "block_size",
}
#: Short names that command lines have besides.
_SHORT = {"tp": "tp", "pp": "pp", "ep": "ep", "m": "model"}
#: Values by which an engine chooses for itself: they state nothing.
OWN_CHOICE = ("auto", "none", "null", "")
#: Quantizations by their options' words, where a weight's dtype is called otherwise.
_QUANTIZED = {
    "awq_marlin": "awq",
    "gptq_marlin": "gptq",
    "modelopt": "fp8",
    "modelopt_fp4": "nvfp4",
    "w8a8_int8": "int8",
    "w8a8_fp8": "fp8",
    "bitsandbytes": "int4",
}
#: Switches without a value. Later ones of a condition count where several stand.
_SWITCHES: tuple[tuple[str, str, str], ...] = (
    (r"load[_-]in[_-]8bit", "dtype", "int8"),
    (r"load[_-]in[_-]4bit", "dtype", "int4"),
    (r"enable[_-]fp8", "dtype", "fp8"),
    (r"int8[_-]kv[_-]cache", "kv_dtype", "int8"),
    (r"fp8[_-]kv[_-]cache", "kv_dtype", "fp8"),
    (r"enable[_-](?:prefix[_-]caching|block[_-]reuse|kv[_-]cache[_-]reuse)", "cache_state", "prefix cache on"),
    (r"no[_-]enable[_-]prefix[_-]caching|disable[_-]radix[_-]cache", "cache_state", "prefix cache off"),
    (r"no[_-]enable[_-]block[_-]reuse|disable[_-]kv[_-]cache[_-]reuse", "cache_state", "prefix cache off"),
)  # fmt: skip
_FALSE = r"\s*[=:\s]\s*['\"]?(?:false|0|off|no)\b"
_VALUE = r"['\"]?([A-Za-z0-9][\w./+-]*)"
_SIXTEEN = ("bf16", "fp16", "fp32")
#: Conditions that words on an engine may hold options in.
_HOLDING = ("engine_flags", "engine_changes", "engine")

_SPECULATIVE = re.compile(
    r"(?i)specul|\bspec[\s_-]*dec|\beagle|medusa|\bmtp|multi[\s-]token pred|\bdraft|\bn-?gram\b|prompt[\s_-]lookup"
    r"|lookahead dec"
)
_NOT_SPECULATIVE = re.compile(
    r"(?i)\b(?:no|not|without|w/o|non|disabled?)[\s-]+(?:[\w-]+\s+)?(?:specul\w*|spec[\s_-]*dec\w*|mtp|eagle\w*|draft\w*)"
    r"(?:\s+decod\w+)?|(?:specul\w*|spec)[\s_-]*(?:decod\w*|config|algorithm)[\s:=(]*(?:is\s+)?(?:off|disabled|none|null)\b"
)
#: Words of a report that say how tokens were made.
_MAKING = ("engine", "engine_flags", "engine_changes", "scenario", "strategy", "workload", "model")


def stated_by_options(stated: Mapping[str, Stated]) -> dict[str, Stated]:
    """Return what options among a report's words state, by condition.

    >>> stated_by_options({"engine_flags": "--kv-cache-dtype fp8 -tp 8 --max-num-seqs=256"})
    {'tp': 8, 'max_num_seqs': 256, 'kv_dtype': 'fp8'}
    """
    return dict(_read(" ; ".join(str(stated[key]) for key in _HOLDING if key in stated)))


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[tuple[str, Stated], ...]:
    """Conditions in a text, which a record of many figures repeats."""
    found: dict[str, Stated] = {}
    for option, condition in {**_SHORT, **VLLM, **SGLANG, **TRTLLM}.items():
        value = _value(text, option)
        if value is not None and value.lower() not in OWN_CHOICE:
            found.update(_typed(condition, value))
    found.update(_switched(text))
    quantized = quantized_as(_value(text, "quantization") or _value(text, "q") or "")
    return tuple(({**found, "dtype": quantized} if quantized else found).items())


def quantized_as(word: str) -> str | None:
    """Return the dtype of weights that a quantization's name means; None where it names none.

    >>> quantized_as("awq_marlin"), quantized_as("compressed-tensors"), quantized_as("fp8")
    ('awq', None, 'fp8')
    """
    folded = word.strip().lower()
    if folded in _QUANTIZED:
        return _QUANTIZED[folded]
    return folded if folded in (*DTYPE_BYTES, "awq", "gptq") and folded not in _SIXTEEN else None


def of_activations(dtype: Stated) -> bool:
    """Say whether a stated dtype is of 16 bits or more: beside quantized weights it is that of activations."""
    text = str(dtype).strip().lower().removeprefix("torch.")
    return SPELLINGS.get(text, text) in (*_SIXTEEN, "auto")


def _value(text: str, option: str) -> str | None:
    """The value of an option: after --name or -name, or after name= and name: where the name is longer than a word."""
    name = option.replace("_", "[_-]")
    found = re.search(rf"(?<![\w-])--?{name}(?![\w-])[\s=:,]+{_VALUE}", text)
    if found is None and len(option) > len("model"):
        found = re.search(rf"(?<![\w-])['\"]?{name}['\"]?\s*[=:]\s*{_VALUE}", text)
    return found[1].rstrip(".") if found else None


def _typed(condition: str, value: str) -> Iterator[tuple[str, Stated]]:
    if condition in ("model", "dtype", "kv_dtype"):
        yield condition, value
    elif re.fullmatch(r"\d{1,9}", value):
        yield condition, int(value)
    elif condition == "memory_utilization" and re.fullmatch(r"0?\.\d{1,6}", value):
        yield condition, float(value)


def _switched(text: str) -> Iterator[tuple[str, Stated]]:
    for pattern, condition, value in _SWITCHES:
        found = re.search(rf"(?<![\w-])(?:--?)?(?:{pattern})(?![\w-])({_FALSE})?", text, re.IGNORECASE)
        if found is None:
            continue
        if not found[1]:
            yield condition, value
        elif condition == "cache_state":
            yield condition, f"prefix cache {'on' if value.endswith('off') else 'off'}"


def speculates(conditions: Mapping[str, Stated], note: str | None = None) -> bool:
    """Say whether a report's words on its engine, workload or model, or a figure's note, tell of drafted tokens.

    >>> speculates({"engine": "vLLM"}, "with a 1B draft model"), speculates({"scenario": "no speculative decoding"})
    (True, False)
    """
    words = [str(conditions[key]) for key in _MAKING if key in conditions]
    text = " ; ".join([*words, note or ""])
    return bool(_SPECULATIVE.search(_NOT_SPECULATIVE.sub("", text)))
