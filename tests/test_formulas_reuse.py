"""The book's formulas of reuse, by hand."""

from __future__ import annotations

import pytest

from costmodel.formulas import reuse


def test_reading_from_a_tier_adds_latency_pieces_and_bytes() -> None:
    # 600 tokens in 3 pieces of 256 of 2 ms, 10 ms of latency, 600 * 1,000 bytes at 1 MB/s = 0.6 s
    found = reuse.tier_read_time(
        tokens=600,
        kv_bytes_per_token=1000,
        latency=0.01,
        tier_chunk=256,
        per_chunk=0.002,
        tier_bytes_per_s=1e6,
    )
    assert found == pytest.approx(0.616, rel=1e-12)
