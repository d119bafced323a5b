"""Weights, KV pools, batches and clients against the memory of the stated GPUs."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.memory import check_batch, check_clients, check_pool, check_weights

# Llama-2-7B: 6.738e9 x 2 B = 12.55 GiB; 32 layers x 2 x 32 KV heads x 128 x 2 B = 524,288 B a token.
A10 = 'model = "Llama-2-7B"\nhardware = "A10 24GB"\n'
#: Stated, so that nothing narrower would explain a figure.
WIDE = 'dtype = "fp16"\nkv_dtype = "fp16"\n'
TTFT = row("ttft", 1.0, "s", id="ttft")


def test_blocks_that_are_tokens() -> None:
    # 8,348 blocks x 16 x 524,288 B = 65.22 GiB; 8,348 tokens are 4.08 GiB
    text = A10 + "block_size = 16\n" + row("kv_cache_blocks", 8348, "blocks", id="blocks")
    (finding,) = found(check_pool, text)
    assert (finding.id, finding.grade, finding.of) == ("kv_pool_fits", "impossible", ("blocks",))
    assert "needs 65.22 GiB, more than the whole memory" in finding.said
    assert "read as tokens it is 4.076 GiB" in finding.said
    (tokens,) = found(
        check_pool, text.replace("kv_cache_blocks", "kv_cache_tokens").replace("blocks'", "tokens'")
    )
    assert tokens.grade == "holds"


@pytest.mark.parametrize(
    ("tokens", "grade", "than"),
    [
        (10718, "holds", "%"),  # 5.23 GiB of 24 - 12.55
        (24000, "impossible", "what the weights leave"),  # 11.72 GiB, and an engine sees less than 24
        (50000, "impossible", "the whole memory"),  # 24.4 GiB
    ],
)
def test_a_pool_beside_the_weights(tokens: int, grade: str, than: str) -> None:
    (finding,) = found(check_pool, A10 + WIDE + row("kv_cache_tokens", tokens, "tokens"))
    assert finding.grade == grade and than in finding.said


def test_a_pool_of_several_gpus() -> None:
    # Llama-3.1-70B: 80 layers x 2 x 8 heads x 128 x 2 B = 327,680 B; 3,000,000 tokens = 915.5 GiB of 8 x 80 GiB,
    # 1,600,000 = 488.3 GiB; weights 131.4 GiB
    text = WIDE + 'model = "Llama-3.1-70B"\nhardware = "8xH100"\ntp = 8\n'
    for tokens, grade in ((1_600_000, "holds"), (1_700_000, "impossible"), (3_000_000, "impossible")):
        (finding,) = found(check_pool, text + row("kv_cache_tokens", tokens, "tokens"))
        assert finding.grade == grade


@pytest.mark.parametrize(
    ("pool", "note", "grade"),
    [
        (300, "", "holds"),  # of 8 x 80 GiB less 131.4
        (550, "", "impossible"),
        (60, "of one GPU", "holds"),  # 8 x 60 = 480
        (70, "of one GPU", "impossible"),  # 560
    ],
)
def test_a_pool_in_bytes(pool: int, note: str, grade: str) -> None:
    text = (
        WIDE
        + 'model = "Llama-3.1-70B"\nhardware = "8xH100"\ntp = 8\n'
        + row("kv_pool_bytes", pool, "GiB", note=note)
    )
    (finding,) = found(check_pool, text)
    assert (finding.id, finding.grade) == ("kv_pool_fits", grade)


def test_what_a_pool_does_not_say() -> None:
    for text, reason in (
        (A10 + row("kv_cache_blocks", 8348, "blocks"), "tokens of a block"),
        ('model = "Llama-2-7B"\n' + row("kv_cache_tokens", 8348), "no hardware"),
        ('model = "gpt-oss-20b"\nhardware = "H100"\n' + row("kv_cache_tokens", 8348), "windows or states"),
    ):
        (finding,) = found(check_pool, text)
        assert finding.grade == "not_computable" and reason in str(finding.reason)
    assert not found(check_pool, A10 + TTFT)


@pytest.mark.parametrize(
    ("model", "hardware", "more", "grade"),
    [
        ("Llama-2-7B", "A10", "", "holds"),  # 12.55 of 24 GiB
        ("Llama-3.1-70B", "2xH100", "", "holds"),  # 70.55e9 x 2 B = 131.4 of 160 GiB
        ("Llama-3.1-70B", "1xH100", "", "inconsistent"),  # 65.7 GiB in 8 bits
        ("Llama-3.1-70B", "1xH100", 'dtype = "bf16"\n', "impossible"),
        ("Llama-3.1-70B", "H100", 'dtype = "bf16"\n', "not_computable"),  # how many is not stated
        ("Llama-3.1-70B", "H100", 'dtype = "fp8"\n', "holds"),
        ("Llama-3.1-405B", "1xH100", "", "impossible"),  # 189 GiB in 4 bits
    ],
)
def test_weights(model: str, hardware: str, more: str, grade: str) -> None:
    (finding,) = found(check_weights, f'model = "{model}"\nhardware = "{hardware}"\n{more}{TTFT}')
    assert (finding.id, finding.grade, finding.of) == ("weights_fit", grade, ("ttft",))


def test_weights_that_lie_elsewhere_are_not_judged() -> None:
    text = 'model = "Llama-3.1-405B"\nhardware = "H100"\n'
    assert found(check_weights, text + TTFT)
    assert not found(check_weights, f'{text}engine_flags = "--cpu-offload-gb 700"\n{TTFT}')
    assert not found(check_weights, 'hardware = "H100"\n' + TTFT)
    assert not found(check_weights, f'{text}dtype = "w3"\n{TTFT}')  # no size is known of it


@pytest.mark.parametrize(("batch", "grade"), [(10, "holds"), (24, "impossible")])
def test_a_batch(batch: int, grade: str) -> None:
    # prompts of 1,024 tokens are 0.5 GiB: 10 take 5 GiB, 24 take 12 of the 24 - 12.55 = 11.45 GiB at most
    text = A10 + WIDE + row("tpot", 50, "ms", batch=batch, input_tokens=1024, id="gap")
    (finding,) = found(check_batch, text + row("ttft", 1, "s", input_tokens=1024))
    assert (finding.id, finding.grade, finding.of) == ("batch_fits", grade, ("gap",))
    assert not found(check_batch, "cached_share = 0.5\n" + text)


def test_clients_that_wait_for_room() -> None:
    # an A10 holds 24 - 12.55 = 11.45 GiB of KV at most, or 22 prompts of 0.5 GiB; engines see less than 24 GiB
    text = (
        A10
        + "input_tokens = 1024\n"
        + row("ttft", 9, "s", concurrency=100, id="many")
        + row("ttft", 1, "s", concurrency=8)
    )
    (finding,) = found(check_clients, text)
    assert (finding.id, finding.grade, finding.of) == ("clients_fit", "suspicious", ("many",))
    assert "of 100 clients are admitted" in finding.said
    most = int(finding.said.split("at most ")[1].split()[0])
    assert 18 <= most <= 22
    # two instances of one hold twice as many; one of two GPUs has its weights once: (48 - 12.55) / 0.5 = 70
    for layout, low, high in (("tp = 1", 36, 44), ("tp = 2", 62, 70)):
        (finding,) = found(check_clients, f"{layout}\n{text.replace('A10 24GB', '2x A10')}")
        assert low <= int(finding.said.split("at most ")[1].split()[0]) <= high


def test_a_latent_that_every_gpu_holds() -> None:
    # DeepSeek-V2-Lite: 31,104 B a token; 9e6 tokens are 260.7 GiB of 4 x 80, and 1,042.8 GiB where TP 4 repeats them
    text = 'model = "DeepSeek-V2-Lite"\nhardware = "4xA100 80GB"\n' + row("kv_cache_tokens", 9_000_000)
    (spread,) = found(check_pool, text)
    (repeated,) = found(check_pool, "tp = 4\n" + text)
    assert (spread.grade, repeated.grade) == ("holds", "impossible")


@pytest.mark.parametrize(
    ("stated", "tokens", "grade", "would"),
    [
        # 11.72 GiB of the 24 - 12.55: 5.86 GiB in 8 bits
        ("", 24000, "inconsistent", "an fp8 cache"),
        ('kv_dtype = "fp16"\n', 24000, "inconsistent", "fp8 weights"),
        (WIDE, 24000, "impossible", ""),
        # 24.4 GiB: 12.2 in 8 bits, beside 6.28 GiB of weights in 8 bits
        ("", 50000, "inconsistent", "fp8 weights and an fp8 cache"),
        ('dtype = "fp16"\n', 50000, "impossible", ""),
    ],
)
def test_a_pool_that_fits_in_dtypes_that_are_not_stated(
    stated: str, tokens: int, grade: str, would: str
) -> None:
    (finding,) = found(check_pool, A10 + stated + row("kv_cache_tokens", tokens, "tokens"))
    assert finding.grade == grade
    assert ("not stated" in finding.said) == bool(would) and would in finding.said


def test_a_batch_that_fits_in_8_bits() -> None:
    # of 22.18 - 12.55 = 9.63 GiB 18 take 9, and 24 take 12 or, in 8 bits, 6
    text = A10 + row("tpot", 50, "ms", batch=18, input_tokens=1024)
    assert [f.grade for f in found(check_batch, text)] == ["holds"]
    (finding,) = found(check_batch, text.replace("18", "24"))
    assert finding.grade == "inconsistent" and "an fp8 cache" in finding.said
    flags = 'engine_flags = "--kv-cache-dtype fp8"\n'
    assert [f.grade for f in found(check_batch, flags + text.replace("18", "24"))] == ["holds"]
