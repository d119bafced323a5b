"""FLOPs and bytes of operators: hand calculations on primes, brute-force loops where a sum was closed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import work


def test_gemm() -> None:
    assert work.gemm_flop(m=3, n=5, k=7) == 2 * 105
    assert work.gemm_flop(m=3, n=5, k=7, flop_per_mac=11) == 11 * 105
    # weights 7 * 5 * 11 = 385; inputs 3 * 7 and outputs 3 * 5 at 13: 36 * 13 = 468
    assert work.gemm_bytes(m=3, n=5, k=7, weight_dtype_bytes=11, dtype_bytes=13) == 853


def test_gemm_flop_is_the_loop() -> None:
    count = sum(1 for _ in range(3) for _ in range(5) for _ in range(7))
    assert work.gemm_flop(m=3, n=5, k=7, flop_per_mac=1) == count


sizes = st.integers(0, 60)


@given(chunk=sizes, prefix=sizes)
def test_causal_pairs_is_the_loop(chunk: int, prefix: int) -> None:
    assert work.causal_pairs(chunk, prefix) == sum(prefix + i for i in range(1, chunk + 1))


@given(chunk=sizes, prefix=sizes, window=st.integers(1, 80))
def test_windowed_pairs_is_the_loop(chunk: int, prefix: int, window: int) -> None:
    loop = sum(min(prefix + i, window) for i in range(1, chunk + 1))
    assert work.windowed_pairs(chunk, prefix, window) == loop


@pytest.mark.parametrize(
    ("chunk", "prefix", "window", "pairs"),
    [
        (5, 7, 100, 8 + 9 + 10 + 11 + 12),  # the window cuts nothing
        (5, 7, 10, 8 + 9 + 10 + 10 + 10),  # it cuts the later tokens
        (5, 7, 4, 5 * 4),  # the prefix fills it
        (5, 7, 7, 5 * 7),
        (5, 7, 12, 8 + 9 + 10 + 11 + 12),
    ],
)
def test_windowed_pairs_in_each_regime(chunk: int, prefix: int, window: int, pairs: int) -> None:
    assert work.windowed_pairs(chunk, prefix, window) == pairs


def test_chunks_of_a_prompt_have_its_pairs() -> None:
    whole = work.causal_pairs(chunk=100, prefix=0)
    parts = [work.causal_pairs(chunk=30, prefix=start) for start in (0, 30, 60)]
    assert sum(parts) + work.causal_pairs(chunk=10, prefix=90) == whole == 5050


def test_attention_flop() -> None:
    # 3 heads, (5 + 7) multiply-adds a pair, 11 pairs: 396
    assert work.attention_flop(heads=3, qk_dim=5, v_dim=7, pairs=11) == 2 * 396
    assert work.attention_flop(heads=3, qk_dim=5, v_dim=7, pairs=11, flop_per_mac=13) == 13 * 396


def test_prefill_attention_bytes() -> None:
    # Q 3 * 7 * 13 = 273 and O 3 * 7 * 17 = 357 elements of 19; K (3 + 5) * 11 * 13 = 1144 and
    # V (3 + 5) * 11 * 17 = 1496 elements of 23: 630 * 19 + 2640 * 23
    got = work.prefill_attention_bytes(
        chunk=3, prefix=5, heads=7, kv_heads=11, qk_dim=13, v_dim=17, dtype_bytes=19, kv_dtype_bytes=23
    )
    assert got == 11_970 + 60_720


def test_decode_attention_bytes() -> None:
    # K and V 2 * 3 * 11 * 13 = 858 elements of 19; Q and O 2 * 5 * 7 * 13 = 910 elements of 17
    shape = {"context": 3, "batch": 5, "heads": 7, "kv_heads": 11, "head_dim": 13, "dtype_bytes": 17}
    assert work.decode_attention_bytes(**shape, kv_dtype_bytes=19) == 858 * 19 + 910 * 17
    assert work.decode_attention_bytes(**shape, kv_dtype_bytes=19, kv_tensors=3) == 1287 * 19 + 910 * 17


def test_latent_absorbed() -> None:
    # scores 5 + 7 and values 5 multiply-adds: 17 a head and cached token
    assert work.latent_absorbed_flop(heads=3, kv_rank=5, rope_dim=7, context=11) == 2 * 3 * 17 * 11
    assert work.latent_absorbed_flop(3, 5, 7, 11, flop_per_mac=13) == 13 * 3 * 17 * 11
    # latents 3 * (11 + 13) = 72 of 19; Q 5 * 7 * 24 and O 5 * 7 * 11: 1225 of 17
    got = work.latent_absorbed_bytes(
        context=3, batch=5, heads=7, kv_rank=11, rope_dim=13, dtype_bytes=17, kv_dtype_bytes=19
    )
    assert got == 72 * 19 + 1225 * 17


def test_absorbed_against_expanded_deepseek_v3() -> None:
    # 2 * 512 + 64 = 1088 multiply-adds against 128 + 64 + 128 = 320: 3.4 times the FLOPs
    absorbed = work.latent_absorbed_flop(heads=128, kv_rank=512, rope_dim=64, context=1000)
    expanded = work.attention_flop(heads=128, qk_dim=192, v_dim=128, pairs=1000)
    assert absorbed / expanded == pytest.approx(3.4, rel=1e-12)


def test_latent_expand_flop() -> None:
    # a (3, 7) by (7, 5 * (11 + 13)) product
    assert work.latent_expand_flop(tokens=3, heads=5, kv_rank=7, nope_dim=11, v_dim=13) == 2 * 3 * 7 * 120
    got = work.latent_expand_flop(3, 5, 7, 11, 13, flop_per_mac=17)
    assert got == work.gemm_flop(m=3, n=120, k=7, flop_per_mac=17) == 17 * 2520


def test_streaming_bytes() -> None:
    assert work.streaming_bytes(tokens=3, width=5, tensors=7, dtype_bytes=11) == 1155


@given(chunk=sizes, prefix=sizes, window=st.integers(1, 80))
def test_own_chunk_pairs_is_the_loop(chunk: int, prefix: int, window: int) -> None:
    loop = sum(position % window + 1 for position in range(prefix, prefix + chunk))
    assert work.own_chunk_pairs(chunk, prefix, window) == loop


def test_scan_flop() -> None:
    # a head and token: 7 x 5 x 3 multiply-adds with the state, 11 x (5 + 3) with the tokens of its chunk
    shape = {"tokens": 2, "heads": 13, "key_dim": 5, "value_dim": 3, "state_macs": 7, "scan_chunk": 11}
    assert work.scan_flop(**shape) == 2 * 2 * 13 * (105 + 88)
    assert work.scan_flop(**shape, flop_per_mac=17) == 17 * 2 * 13 * (105 + 88)
    # no chunk: nothing but the state
    assert work.scan_flop(**shape | {"scan_chunk": 0}) == 2 * 2 * 13 * 105


def test_state_traffic_bytes() -> None:
    # read and written, for each sequence
    assert work.state_traffic_bytes(batch=3, layer_state_bytes=5) == 30
