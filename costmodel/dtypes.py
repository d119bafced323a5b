"""Element types and their sizes."""

from __future__ import annotations

from .errors import InputError, unknown

DTYPE_BYTES: dict[str, int] = {"bf16": 2, "fp16": 2, "fp32": 4, "fp8": 1, "int8": 1}


def dtype_bytes(name: str) -> int:
    """Return the bytes of one element. Raises InputError for a name that :data:`DTYPE_BYTES` does not hold.

    >>> dtype_bytes("bf16")
    2
    """
    if name not in DTYPE_BYTES:
        raise InputError(unknown("dtype", name, DTYPE_BYTES, remedy=f"(known: {', '.join(DTYPE_BYTES)})"))
    return DTYPE_BYTES[name]


def cache_dtype(weight_dtype: str) -> str:
    """Dtype of the KV cache where none is asked for: that of the weights, bf16 for one-byte weights.

    >>> cache_dtype("fp16"), cache_dtype("fp8")
    ('fp16', 'bf16')
    """
    return weight_dtype if dtype_bytes(weight_dtype) >= 2 else "bf16"
