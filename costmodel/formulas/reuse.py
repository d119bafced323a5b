"""Reuse of cached prefixes: reading KV from a tier against computing it again."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import ceil


@formula(
    unit="second",
    symbol="t_{load}",
    source="derived: a latency, the connector's time for each piece, and the bytes at the tier's bandwidth",
    assumes=(
        "nobody else reads from the tier meanwhile",
        "pieces are read one after the other, the last one no longer than what is left",
    ),
)
def tier_read_time(
    tokens: Any, kv_bytes_per_token: Any, latency: Any, tier_chunk: Any, per_chunk: Any, tier_bytes_per_s: Any
) -> Any:
    """Time to read the KV of ``tokens`` from a tier to an instance.

    1,000 tokens of 131,072 bytes in 4 pieces of 256 at 0.1 ms each, 1 ms of latency, 50 GB/s:
    1 + 0.4 + 2.62 ms:

    >>> t = tier_read_time(tokens=1000, kv_bytes_per_token=131_072, latency=0.001, tier_chunk=256,
    ...     per_chunk=0.0001, tier_bytes_per_s=50e9)
    >>> f"{t * 1e3:.2f} ms"
    '4.02 ms'
    """
    return latency + ceil(tokens / tier_chunk) * per_chunk + kv_bytes_per_token * tokens / tier_bytes_per_s
