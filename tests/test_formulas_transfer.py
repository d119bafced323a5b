"""The copy: published transfers, and a step-by-step pipeline as the oracle of layer-wise overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import transfer

V2_LITE = 27 * 576 * 2  # bytes a token in bf16: 27 layers, 512 + 64 elements
QWEN3_8B = 36 * 2 * 8 * 128 * 2  # 36 layers, K and V, 8 KV heads of 128


@pytest.mark.parametrize(
    ("bytes_per_s", "microseconds"),
    [(300e9, 53.1), (31.5e9, 505.6), (450e9, 35.4)],  # NVLink 3, PCIe 4 x16, NVLink 4, one direction
)
def test_bounds_of_512_tokens_of_v2_lite(bytes_per_s: float, microseconds: float) -> None:
    size = transfer.payload_bytes(tokens=512, kv_bytes_per_token=V2_LITE)
    assert size == 15_925_248
    assert transfer.transfer_bound(size, bytes_per_s) * 1e6 == pytest.approx(microseconds, abs=0.05)


def test_wire_bytes_of_a_replicated_cache() -> None:
    # SGLang, Qwen3-235B-A22B, TP 8 over 4 KV heads, 94 layers: published GB of the wire
    per_token = 94 * 4 * 128 * 2 * 2
    for tokens, gigabytes in [(4096, 1.58), (8192, 3.15), (16_384, 6.31), (32_768, 12.62)]:
        size = transfer.wire_bytes(kv_bytes=tokens * per_token, replication=2)
        assert size / 1e9 == pytest.approx(gigabytes, abs=0.005)
    assert transfer.wire_bytes(kv_bytes=7, replication=3) == 21


PUBLISHED_MS = [
    # vLLM, Qwen3-8B, TP 8 to TP 8 over 8 x 200 Gb/s: tokens, milliseconds of transfer
    (128, 0.54),
    (256, 0.61),
    (512, 0.92),
    (1024, 1.50),
    (2048, 2.51),
    (4096, 4.75),
    (8192, 8.84),
    (16_384, 16.43),
    (32_768, 31.65),
]


@pytest.mark.parametrize(("tokens", "milliseconds"), PUBLISHED_MS)
def test_nine_published_copies_follow_one_latency_and_one_bandwidth(tokens: int, milliseconds: float) -> None:
    blocks = tokens // 16 + 1  # that connector sends one block more than the prompt fills
    got = transfer.wire_time(
        kv_bytes=blocks * 16 * QWEN3_8B,
        link_bytes_per_s=transfer.link_bandwidth(ports=8, port_bytes_per_s=25e9),
        latency=0.378e-3,
        per_descriptor=0,
        descriptors=transfer.descriptors(blocks=blocks, layers=36, regions=2),
        bandwidth_share=146.1 / 200,
    )
    assert got * 1e3 == pytest.approx(milliseconds, rel=0.075)


def test_wire_time_by_hand() -> None:
    # 30 bytes at 0.75 of 8 byte/s: 5; 0.3; 11 descriptors of 0.02: 0.22
    got = transfer.wire_time(
        kv_bytes=30,
        link_bytes_per_s=8,
        latency=0.3,
        per_descriptor=0.02,
        descriptors=11,
        bandwidth_share=0.75,
    )
    assert got == pytest.approx(5.52, rel=1e-12)


def test_counts() -> None:
    assert transfer.link_bandwidth(ports=3, port_bytes_per_s=7) == 21
    assert transfer.descriptors(blocks=3, layers=5, regions=7) == 105
    assert transfer.payload_bytes(tokens=3, kv_bytes_per_token=7) == 21


def test_serial_copy_is_exposed_whole() -> None:
    assert transfer.exposed_serial(wire=3.25) == 3.25


def pipeline(wire: float, prefill_time: float, layers: int) -> float:
    """Time from the prefill's end to the copy's, layer by layer on one link."""
    free = 0.0
    for layer in range(1, layers + 1):
        ready = layer * prefill_time / layers
        free = max(free, ready) + wire / layers
    return free - prefill_time


@given(wire=st.floats(0.01, 10), prefill_time=st.floats(0.01, 10), layers=st.integers(1, 80))
def test_layerwise_copy_is_the_pipeline(wire: float, prefill_time: float, layers: int) -> None:
    expected = pipeline(wire, prefill_time, layers)
    assert transfer.exposed_layerwise(wire, prefill_time, layers) == pytest.approx(
        expected, rel=1e-9, abs=1e-11
    )


def test_layerwise_copy_in_each_regime() -> None:
    # the copy hides but for its last layer: 6 / 4 against 6 - 8 * 3 / 4 = 0
    assert transfer.exposed_layerwise(wire=6.0, prefill_time=8.0, layers=4) == 1.5
    # it outlasts the prefill: 20 / 4 against 20 - 8 * 3 / 4
    assert transfer.exposed_layerwise(wire=20.0, prefill_time=8.0, layers=4) == 14


def test_handover_time() -> None:
    assert transfer.handover_time(control=0.25, exposed=1.5) == 1.75


def test_a_copy_has_no_intensity() -> None:
    assert transfer.transfer_intensity(bytes_moved=3e9) == 0
    assert transfer.transfer_intensity.latex() == "I = 0"
    assert transfer.transfer_intensity.unit == "flop/byte"
    assert transfer.transfer_intensity(bytes_moved=4, flop=6) == 1.5  # any arithmetic would show
