"""A KV pool in bytes, tokens, blocks and sequences; weights as logs print them."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.pool import (
    check_blocks,
    check_bytes_per_token,
    check_full_length,
    check_weight_bytes,
)


@pytest.mark.parametrize(
    ("pool", "unit", "id_", "grade"),
    [
        # 40 layers x 2 x 8 KV heads x 128 x 2 B = 163,840 B; 42,656 tokens are 6.509 GiB, 6.989 GB
        (6.51, "GiB", "bytes_per_token", "holds"),
        (6.51, "GB", "binary_as_decimal", "inconsistent"),
        (6.99, "GB", "bytes_per_token", "holds"),
        # half of it: 8 bits, which are not stated
        (3.25, "GiB", "narrow_kv", "suspicious"),
        (2.05, "GiB", "bytes_per_token", "inconsistent"),
    ],
)
def test_bytes_of_a_token_of_a_pool(pool: float, unit: str, id_: str, grade: str) -> None:
    text = 'model = "Qwen3-14B"\nhardware = "A100"\n'
    text += row("kv_pool_bytes", pool, unit) + row("kv_cache_tokens", 42656)
    (finding,) = found(check_bytes_per_token, text)
    assert (finding.id, finding.grade) == (id_, grade)


def test_a_cache_whose_dtype_is_stated_is_not_read_as_narrow() -> None:
    text = 'model = "Qwen3-14B"\nhardware = "A100"\nkv_dtype = "bf16"\n'
    text += row("kv_pool_bytes", 3.25, "GiB") + row("kv_cache_tokens", 42656)
    assert [f.grade for f in found(check_bytes_per_token, text)] == ["inconsistent"]


@pytest.mark.parametrize(
    # 1,952 x 16 = 31,232 tokens x 131,072 B = 3.81 GiB; / 20,000 = 1.56
    ("pool", "sequences", "grade"),
    [(3.81, 1.56, "holds"), (38.1, 15.6, "inconsistent")],
)
def test_blocks_against_bytes_and_sequences(pool: float, sequences: float, grade: str) -> None:
    text = 'model = "Llama-3.1-8B"\nhardware = "A100"\nblock_size = 16\nmax_model_len = 20000\n'
    text += row("kv_pool_bytes", pool, "GiB") + row("full_length_sequences", sequences)
    blocks = text + row("kv_cache_blocks", 1952)
    assert [f.grade for f in found(check_bytes_per_token, blocks)] == [grade]
    assert [f.grade for f in found(check_full_length, blocks)] == [grade]
    # without blocks the bytes of the pool count: they agree with the sequences in both rows
    assert [f.grade for f in found(check_full_length, text)] == ["holds"]


def test_a_pool_of_one_gpu_of_two() -> None:
    text = 'model = "Qwen3-14B"\nhardware = "2xA100"\ntp = 2\n' + row("kv_cache_tokens", 42656)
    (finding,) = found(check_bytes_per_token, text + row("kv_pool_bytes", 3.255, "GiB"))
    assert finding.grade == "holds" and "one of 2 GPUs" in finding.said  # 81,920 B a token on each


def test_hybrid_pools_are_not_inverted() -> None:
    text = 'model = "gpt-oss-20b"\n' + row("kv_pool_bytes", 6.51, "GiB") + row("kv_cache_tokens", 42656)
    (finding,) = found(check_bytes_per_token, text)
    assert finding.grade == "not_computable" and "windows or states" in str(finding.reason)


@pytest.mark.parametrize(
    ("blocks", "tokens", "grade", "why"),
    [
        (116617, 3731744, "holds", "agree"),  # x 32
        (116617, 3731760, "holds", "agree"),  # half a block more
        (3731744, 3731744, "inconsistent", "the blocks are tokens"),
        (116617, 1865872, "inconsistent", "16 tokens a block"),
    ],
)
def test_blocks_and_tokens(blocks: int, tokens: int, grade: str, why: str) -> None:
    text = row("kv_cache_blocks", blocks, "blocks") + row("kv_cache_tokens", tokens)
    (finding,) = found(check_blocks, "block_size = 32\n" + text)
    assert (finding.id, finding.grade) == ("kv_blocks", grade) and why in finding.said
    (finding,) = found(check_blocks, text)
    assert finding.grade == "not_computable"


@pytest.mark.parametrize(
    ("model", "tokens", "printed", "grade", "why"),
    [
        ("Qwen3-14B", 42656, 1.30, "holds", "agree"),  # / 32,768 = 1.302
        ("Qwen3-14B", 42656, 1.41, "inconsistent", "should not"),
        ("gpt-oss-20b", 290864, 33.04, "inconsistent", "windows or states"),  # / 32,768 = 8.88
    ],
)
def test_sequences_of_full_length(model: str, tokens: int, printed: float, grade: str, why: str) -> None:
    text = f'model = "{model}"\n' + row("kv_cache_tokens", tokens) + row("full_length_sequences", printed)
    (finding,) = found(check_full_length, "max_model_len = 32768\n" + text)
    assert finding.grade == grade and why in finding.said
    (finding,) = found(check_full_length, text)
    assert finding.grade == "not_computable"


@pytest.mark.parametrize(
    ("stated", "unit", "note", "id_", "grade"),
    [
        # Qwen3-30B-A3B: 30.53e9 x 2 B = 56.87 GiB; a log of TP 4 prints 14.2474 GiB a rank
        (14.2474, "GiB", "of one GPU", "weight_bytes", "holds"),
        (14.2474, "GB", "of one GPU", "binary_as_decimal", "inconsistent"),
        (56.9, "GiB", "", "weight_bytes", "holds"),
        (56.9, "GiB", "of one GPU", "weight_bytes", "inconsistent"),
        (28.4, "GiB", "", "weight_bytes", "inconsistent"),
    ],
)
def test_weights_of_a_log(stated: float, unit: str, note: str, id_: str, grade: str) -> None:
    text = 'model = "Qwen3-30B-A3B"\nhardware = "4xH100"\ntp = 4\n' + row(
        "weight_bytes", stated, unit, note=note
    )
    (finding,) = found(check_weight_bytes, text)
    assert (finding.id, finding.grade) == (id_, grade)
