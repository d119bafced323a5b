"""Cache layouts of latents, indexer keys and recurrent states: hand calculations, on primes where they can be."""

from __future__ import annotations

import pytest

from costmodel.formulas import kv


def test_latent_in_fp8() -> None:
    # 512 values of a byte, 4 scales of 4 bytes, 64 elements of the rotary key in two bytes
    assert kv.kv_bytes_latent_fp8(kv_rank=512, rope_dim=64) == 512 + 4 * 4 + 64 * 2 == 656
    assert kv.kv_bytes_latent_fp8(kv_rank=256, rope_dim=32) == 256 + 2 * 4 + 32 * 2
    got = kv.kv_bytes_latent_fp8(21, 5, fp8_bytes=2, scale_bytes=11, scale_group=7, wide_bytes=13)
    assert got == 21 * 2 + 3 * 11 + 5 * 13


def test_latent_in_nvfp4() -> None:
    # 512 values of half a byte, 32 scales of a byte, 64 elements of the rotary key in one byte
    assert kv.kv_bytes_latent_nvfp4(kv_rank=512, rope_dim=64) == 256 + 32 + 64 == 352
    assert kv.kv_bytes_latent_nvfp4(kv_rank=256, rope_dim=32) == 128 + 16 + 32
    got = kv.kv_bytes_latent_nvfp4(21, 5, fp4_bytes=2, scale_bytes=11, scale_group=7, rope_bytes=13)
    assert got == 21 * 2 + 3 * 11 + 5 * 13


def test_key_of_an_indexer() -> None:
    # a byte a value and 4 for each 128 of them
    assert kv.kv_bytes_indexer(index_dim=128) == 128 + 4
    assert kv.kv_bytes_indexer(index_dim=64) == 64 + 2
    assert kv.kv_bytes_indexer(21, fp8_bytes=2, scale_bytes=11, scale_group=7) == 42 + 33


def test_states() -> None:
    # 3 elements of 5 bytes and 7 of 11
    assert kv.state_bytes(state_elements=3, state_dtype_bytes=5, conv_elements=7, dtype_bytes=11) == 92


@pytest.mark.parametrize(("rank", "rope"), [(512, 64), (256, 32)])
def test_narrow_latents_are_more_than_their_share_of_bf16(rank: int, rope: int) -> None:
    wide = kv.kv_bytes_latent(rank, rope, 2)
    assert wide / 2 < kv.kv_bytes_latent_fp8(rank, rope) < wide
    assert wide / 4 < kv.kv_bytes_latent_nvfp4(rank, rope) < wide / 2
