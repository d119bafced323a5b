"""Words for the dtype of weights, as the dtypes that bounds know."""

from __future__ import annotations

import re

#: Words by what they mean, the first that fits: bits of a weight, whatever scheme stores them. A lower bound holds
#: for a mixture of widths (Q4_K_M, a quantised model with wide layers) if it counts the narrow ones alone.
_MEANINGS: tuple[tuple[str, str], ...] = (
    (r"nvfp4", "nvfp4"),
    (r"mxfp4", "mxfp4"),
    (r"w4a4|fp4|float4|e2m1", "fp4"),
    (r"w4a8", "w4a8"),
    (r"(?:gptq|awq|bnb|bitsandbytes|autoround)[\s_-]*(?:int)?8(?:[\s_-]*bits?)?", "int8"),
    (
        r"w4a16|u?int[\s_-]?4|[\s_-]4[\s_-]?bits?|^4[\s_-]?bits?|awq|gptq|nf4|i?q[2-6](?:_|k|\b)|autoround",
        "int4",
    ),
    (r"fp[\s_-]?8|float8|e4m3|e5m2|f8", "fp8"),
    (r"w8a8|w8a16|u?int[\s_-]?8|smoothquant|8[\s_-]?bits?|q8_\d|q8\b", "int8"),
    (r"bf[\s_-]?16|bfloat16", "bf16"),
    (r"fp[\s_-]?16|float16|half|f16|16[\s_-]?bits?", "fp16"),
    (r"fp[\s_-]?32|float32|f32", "fp32"),
)
_OF_OTHERS = re.compile(r"(?i)\b(?:kv|cache|activations?|attention|accumulat\w*|compute)\b")


def dtype_meant(text: str) -> str | None:
    """Return the dtype that words for weights mean; None where they name none.

    >>> dtype_meant("FP8 W8A8"), dtype_meant("AWQ 4-bit"), dtype_meant("BF16 weights, FP8 KV cache")
    ('fp8', 'int4', 'bf16')
    """
    parts = [part for part in re.split(r"[,;()+/]|\band\b|\bwith\b", text) if part.strip()]
    own = [part for part in parts if not _OF_OTHERS.search(part)]
    said = " ".join(own).strip().lower()
    for pattern, dtype in _MEANINGS:
        if re.search(rf"(?<![a-z0-9])(?:{pattern})(?![0-9])", said):
            return dtype
    return None
