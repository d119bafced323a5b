"""Times of operators: hand sums, each side of each maximum, and the bound they collapse to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import operators, roofline

# 8 flop/s at a share of 0.25 are 2; 10 byte/s at a share of 0.5 are 5
HARDWARE: dict[str, Any] = {
    "peak_flop_per_s": 8.0,
    "memory_bytes_per_s": 10.0,
    "compute_share": 0.25,
    "bandwidth_share": 0.5,
}


def test_tile_roofline_time() -> None:
    # arithmetic 6 * 3 / 2 = 9 against bytes 35 / 5 = 7, and 0.3
    assert operators.tile_roofline_time(flop=6, bytes_moved=35, fill=3, latency=0.3, **HARDWARE) == 9.3
    # arithmetic 6 * 1.5 / 2 = 4.5 against bytes 7
    assert operators.tile_roofline_time(flop=6, bytes_moved=35, fill=1.5, latency=0.3, **HARDWARE) == 7.3


def test_additive_time() -> None:
    # 6 * 1.5 / 2 + 35 / 5 + 0.3
    time = operators.additive_time(flop=6, bytes_moved=35, fill=1.5, latency=0.3, **HARDWARE)
    assert time == pytest.approx(11.8)


def test_streaming_time() -> None:
    got = operators.streaming_time(bytes_moved=35, memory_bytes_per_s=10.0, bandwidth_share=0.5, latency=0.3)
    assert got == 7.3


def test_decode_attention_time() -> None:
    own: dict[str, Any] = {"latency": 0.3, "per_sequence_head": 0.01, "batch": 3, "kv_heads": 7}
    rates = {name: HARDWARE[name] for name in ("peak_flop_per_s", "memory_bytes_per_s", "bandwidth_share")}
    # bytes 35 / 5 = 7 hide 6 / 8 of arithmetic; 0.3 and 0.01 * 3 * 7
    memory_bound = operators.decode_attention_time(flop=6, bytes_moved=35, **rates, **own)
    assert memory_bound == pytest.approx(7.51, rel=1e-12)
    # 72 flop at the whole peak of 8 take 9 and hide the bytes
    compute_bound = operators.decode_attention_time(flop=72, bytes_moved=35, **rates, **own)
    assert compute_bound == pytest.approx(9.51, rel=1e-12)


def test_latent_decode_time() -> None:
    # arithmetic 18 / 2 = 9 against bytes 7; then 5 / 2 against 7; each with 0.3 + 0.01 * 3
    own: dict[str, Any] = {"latency": 0.3, "per_sequence": 0.01, "batch": 3, **HARDWARE}
    assert operators.latent_decode_time(flop=18, bytes_moved=35, **own) == pytest.approx(9.33, rel=1e-12)
    assert operators.latent_decode_time(flop=5, bytes_moved=35, **own) == pytest.approx(7.33, rel=1e-12)


def ring_bytes_sent(tp: int, size: int) -> int:
    """Bytes that one GPU sends in a ring all-reduce of ``size`` bytes cut into ``tp`` equal pieces."""
    steps = [size // tp for _ in range(tp - 1)]  # reduce-scatter
    return sum(steps + steps)  # all-gather repeats them


@pytest.mark.parametrize("tp", [2, 3, 4, 8])
def test_all_reduce_bound_is_the_ring(tp: int) -> None:
    size = 840
    got = operators.all_reduce_bound(bytes_moved=size, tp=tp, link_bytes_per_s=7.0)
    assert got == pytest.approx(ring_bytes_sent(tp, size) / 7.0, rel=1e-12)


def test_all_reduce_time() -> None:
    # 2 * 4 / 5 * 400 = 640 bytes over 0.5 * 20 = 10 byte/s: 64; sqrt(36 / 400) = 0.3 more: 83.2; and 0.7
    link: dict[str, Any] = {"link_bytes_per_s": 20, "bandwidth_share": 0.5, "latency": 0.7}
    got = operators.all_reduce_time(bytes_moved=400, tp=5, half_size=36, **link)
    assert got == pytest.approx(83.9, rel=1e-12)
    # a message of half_size takes twice its bandwidth term: 2 * 57.6 / 10 + 0.7
    assert operators.all_reduce_time(bytes_moved=36, tp=5, half_size=36, **link) == pytest.approx(12.22)


def test_one_gpu_sends_nothing() -> None:
    assert operators.all_reduce_bound(bytes_moved=400, tp=1, link_bytes_per_s=20) == 0


positive = st.floats(1e-3, 1e6)
shares = st.floats(0.05, 1)


@given(positive, positive, st.floats(1, 3), positive, positive, shares, shares, st.floats(0, 1))
def test_no_time_is_below_the_roofline(
    flop: float, size: float, fill: float, peak: float, bandwidth: float, ec: float, eb: float, latency: float
) -> None:
    hardware: dict[str, Any] = {
        "peak_flop_per_s": peak,
        "memory_bytes_per_s": bandwidth,
        "compute_share": ec,
        "bandwidth_share": eb,
        "latency": latency,
    }
    bound = roofline.roofline_time(flop, size, peak, bandwidth) * (1 - 1e-12)
    assert operators.tile_roofline_time(flop=flop, bytes_moved=size, fill=fill, **hardware) >= bound
    assert operators.additive_time(flop=flop, bytes_moved=size, fill=fill, **hardware) >= bound
    rates = {name: hardware[name] for name in hardware if name != "compute_share"}
    assert (
        operators.decode_attention_time(
            flop=flop, bytes_moved=size, per_sequence_head=0, batch=1, kv_heads=1, **rates
        )
        >= bound
    )
    assert (
        operators.latent_decode_time(flop=flop, bytes_moved=size, per_sequence=0, batch=1, **hardware)
        >= bound
    )
