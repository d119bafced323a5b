"""Attention of decodes, and multi-head latent attention: hand sums, and each side of each condition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.formulas import decode, latent


@pytest.mark.parametrize(
    ("batch", "heads", "kv_heads", "blocks"),
    [(16, 32, 8, 128), (3, 128, 2, 6), (3, 130, 2, 12), (5, 7, 7, 35)],
)
def test_decode_blocks(batch: int, heads: int, kv_heads: int, blocks: int) -> None:
    assert decode.decode_blocks(batch, heads, kv_heads) == blocks


@given(batch=st.integers(1, 50), kv_heads=st.integers(1, 8), group=st.integers(1, 200))
def test_decode_blocks_is_the_loop(batch: int, kv_heads: int, group: int) -> None:
    loop = sum(1 for _ in range(batch) for _ in range(kv_heads) for _ in range(0, group, 64))
    assert decode.decode_blocks(batch, kv_heads * group, kv_heads) == loop


@pytest.mark.parametrize(
    ("tiles", "length", "passes"),
    [
        (8, 500, 0),  # 0.8 of 10 processors
        (7, 500, 1),
        (100, 500, 0),
        (7, 129, 1),  # two steps of 128 tokens
        (7, 128, 0),  # one
        (7, 1, 0),
        (8, 128, 0),
    ],
)
def test_combining_passes(tiles: int, length: int, passes: int) -> None:
    assert decode.combining_passes(tiles, sm_count=10, length=length) == passes


# 3 decodes over 200 tokens, 12 query and 3 KV heads of 5: 9 blocks, of 10 processors enough.
# Arithmetic 2 * 2 * 12 * 5 * 600 = 144,000 at 14,400 a second, 10 s. Reading 600 * 2 * 3 * 5 bytes at half of 1,440,
# 25 s. Q and O 2 * 3 * 12 * 5 * 2 = 720 bytes, 1 s. Blocks of 1 s on 10 processors, 0.9 s. Latency 0.125 s
DECODES: dict[str, Any] = {
    "batch": 3,
    "context": 600,
    "heads": 12,
    "kv_heads": 3,
    "head_dim": 5,
    "dtype_bytes": 2,
    "kv_dtype_bytes": 1,
    "repacking": 0,
    "sm_count": 10,
    "peak_flop_per_s": 14_400,
    "memory_bytes_per_s": 1440,
    "bandwidth_share": 0.5,
    "latency": 0.125,
    "pass_latency": 0.25,
    "block_time": 1.0,
}
ALONE = {"batch": 1, "context": 200}  # 10/3 s, 25/3 s and 1/3 s, 3 blocks
ONE_EACH = {"heads": 3, "repacking": 1}  # a KV head for each query head: 2.5 s, 25 s and 0.25 s


@pytest.mark.parametrize(
    ("changes", "time"),
    [
        ({}, 0.125 + 1 + 25),
        ({"peak_flop_per_s": 3500}, 0.125 + 1 + 288 / 7),  # arithmetic leads
        ({"flop_per_mac": 6, "kv_tensors": 1}, 0.125 + 1 + 30),
        ({"kv_tensors": 4}, 0.125 + 1 + 50),
        ({"kv_dtype_bytes": 3}, 0.125 + 1 + 75),
        ({"block_time": 50.0}, 0.125 + 1 + 45),  # blocks lead
        ({"sm_count": 11}, 0.125 + 1 + 25),  # 0.8 of them are 8.8
        ({"sm_count": 20}, 0.125 + 0.25 + 1 + 25),  # 9 are fewer than 16: splits are combined
        ({"sm_count": 20, "context": 384}, 0.125 + 1 + 16),  # 128 tokens are not split
        ({"sm_count": 20, "context": 385}, 0.125 + 0.25 + 1 + 385 / 24),  # 128 and a third are
        # repacking: 9 blocks do not fill twice 10 processors; Q and O three times, one pass more
        ({"repacking": 1}, 0.125 + 2 * 0.25 + 3 + 25),
        ({"repacking": 1, "sm_count": 8}, 0.125 + 2 * 0.25 + 3 + 25),  # nor twice 8
        ({"repacking": 1, "sm_count": 5}, 0.125 + 0.25 + 3 + 25),  # they fill twice 5
        ({"repacking": 1, "context": 384}, 0.125 + 0.25 + 3 + 16),
        # of 2 sequences, 2 KV heads or 2 query heads a KV head too: 6 blocks of 10 processors in the first two
        ({"repacking": 1, "batch": 2}, 0.125 + 2 * 0.25 + 2 + 25),
        ({"repacking": 1, "kv_heads": 2}, 0.125 + 2 * 0.25 + 3 + 50 / 3),
        ({"repacking": 1, "heads": 6}, 0.125 + 2 * 0.25 + 1.5 + 25),
        # a lone sequence or KV head lies in rows already
        ({"repacking": 1, **ALONE}, 0.125 + 0.25 + 1 / 3 + 25 / 3),
        ({"repacking": 1, "kv_heads": 1}, 0.125 + 0.25 + 1 + 10),  # arithmetic leads 25 / 3
        # without groups nothing is repacked or split: 200 tokens are one step of 128 after the first
        (ONE_EACH, 0.125 + 0.25 + 25),
        ({**ONE_EACH, "block_time": 50.0}, 0.125 + 0.25 + 50),
        ({**ONE_EACH, "block_time": 50.0, "context": 769}, 0.125 + 0.25 + 100),  # 256 and a third: two
        ({**ONE_EACH, "block_time": 50.0, "context": 768}, 0.125 + 0.25 + 50),
        ({**ONE_EACH, "block_time": 50.0, "sm_count": 5}, 0.125 + 0.25 + 90),  # 9 blocks on 5 lead
        # FlashAttention 3 splits such sequences, too
        ({"heads": 3, "block_time": 50.0}, 0.125 + 0.25 + 45),
        ({"heads": 3, "sm_count": 20}, 0.125 + 0.25 + 0.25 + 25),
    ],
)
def test_decode_attention_time(changes: dict[str, Any], time: float) -> None:
    assert decode.decode_attention_time(**{**DECODES, **changes}) == pytest.approx(time, rel=1e-12)


def test_one_more_decode_may_save_a_pass() -> None:
    # 15 of 16 blocks that 20 processors need, then 18: reading 25/3 s and ends 1/3 s a decode, and no more pass
    five = decode.decode_attention_time(**{**DECODES, "batch": 5, "context": 5, "sm_count": 20})
    assert five == pytest.approx(0.125 + 5 / 3 + 0.75, rel=1e-12)  # a token each: nothing to split
    costly = {**DECODES, "sm_count": 20, "pass_latency": 100.0}
    five = decode.decode_attention_time(**{**costly, "batch": 5, "context": 1000})
    six = decode.decode_attention_time(**{**costly, "batch": 6, "context": 1200})
    assert five == pytest.approx(0.125 + 100 + 5 / 3 + 125 / 3, rel=1e-12)
    assert six == pytest.approx(0.125 + 2 + 50, rel=1e-12)


def test_latent_prefill_time() -> None:
    # 18 FLOPs at a quarter of 8 a second, 9 s; 35 bytes at half of 10, 7 s
    got = latent.latent_prefill_time(
        flop=18,
        bytes_moved=35,
        peak_flop_per_s=8,
        memory_bytes_per_s=10,
        compute_share=0.25,
        bandwidth_share=0.5,
    )
    assert got == pytest.approx(16, rel=1e-12)


# 3 decodes over 600 latents of 7 + 4, 65 heads, two blocks of 64 each on 4 processors, 1.5 of 0.1 s.
# Arithmetic 2 * 65 * (14 + 4) * 600 = 1,404,000 at a quarter of 561,600 a second, 10 s. Latents 600 * 11 * 1 =
# 6,600 bytes at half of 528, 25 s. Q and O 3 * 65 * 18 * 2 = 7,020 bytes
LATENTS: dict[str, Any] = {
    "batch": 3,
    "context": 600,
    "heads": 65,
    "kv_rank": 7,
    "rope_dim": 4,
    "dtype_bytes": 2,
    "kv_dtype_bytes": 1,
    "sm_count": 4,
    "peak_flop_per_s": 561_600,
    "memory_bytes_per_s": 528,
    "compute_share": 0.25,
    "bandwidth_share": 0.5,
    "block_time": 0.1,
}


@pytest.mark.parametrize(
    ("changes", "time"),
    [
        ({}, 25 + 7020 / 264 + 0.15),
        ({"context": 601}, 6611 / 264 + 7020 / 264 + 0.15),
        ({"kv_dtype_bytes": 3}, 75 + 7020 / 264 + 0.15),
        ({"flop_per_mac": 8}, 40 + 7020 / 264 + 0.15),  # arithmetic leads
        ({"peak_flop_per_s": 100_000}, 56.16 + 7020 / 264 + 0.15),
        ({"heads": 64}, 25 + 6912 / 264 + 0.075),  # one block each
    ],
)
def test_latent_decode_time(changes: dict[str, Any], time: float) -> None:
    assert latent.latent_decode_time(**{**LATENTS, **changes}) == pytest.approx(time, rel=1e-12)


def test_module_time() -> None:
    # 33 tokens of 4 bytes at 60 a second, and 0.5
    got = latent.module_time(tokens=33, memory_bytes_per_s=60, latency=0.5, token_bytes=4)
    assert got == pytest.approx(2.7, rel=1e-12)
