"""Element types and their sizes."""

from __future__ import annotations

from .errors import InputError, unknown

DTYPE_BYTES: dict[str, float] = {
    "bf16": 2,
    "fp16": 2,
    "fp32": 4,
    "fp8": 1,
    "int8": 1,
    # Without their scales, which a weight format counts apart:
    "int4": 0.5,
    "fp4": 0.5,
    "mxfp4": 0.5,
    "nvfp4": 0.5,
}

#: Bytes of a cached element; block-scaled types with their scales.
CACHE_BYTES: dict[str, float] = {
    "bf16": 2,
    "fp16": 2,
    "fp32": 4,
    "fp8": 1,
    "int8": 1,
    "nvfp4": 9 / 16,  # 4 bits and an fp8 scale for 16 values
    "q8_0": 34 / 32,  # llama.cpp: 8 bits and a 2-byte scale for 32 values
    "q4_0": 18 / 32,  # llama.cpp: 4 bits and a 2-byte scale for 32 values
}


#: Names of engines and of torch for the same dtypes.
SPELLINGS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}


def dtype_bytes(name: str) -> float:
    """Return the bytes of one weight. Raises InputError for a name that :data:`DTYPE_BYTES` does not hold.

    >>> dtype_bytes("bf16")
    2
    """
    if name not in DTYPE_BYTES:
        raise InputError(unknown("dtype", name, DTYPE_BYTES, remedy=f"(known: {', '.join(DTYPE_BYTES)})"))
    return DTYPE_BYTES[name]


def cache_dtype(weight_dtype: str) -> str:
    """Dtype of the KV cache where none is asked for: that of the weights, bf16 for narrow weights.

    >>> cache_dtype("fp16"), cache_dtype("fp8")
    ('fp16', 'bf16')
    """
    return weight_dtype if dtype_bytes(weight_dtype) >= 2 else "bf16"
