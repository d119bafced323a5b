"""Bytes of copies and of KV: what they agree with, and the slip of units that explains the rest."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.slips import check_copy_bytes, check_kv_bytes, check_payload

# Qwen3-8B: 36 layers x 2 x 8 KV heads x 128 x 2 B = 147,456 B a token; a block of 16 tokens is 2.25 MiB.
MOONCAKE = 'model = "Qwen3-8B"\nhardware = "H800, TP8"\nblock_size = 16\n'
#: Mooncake's docs/source/performance/vllm/vllm-v1-pd-performance.md: tokens, ms, what it prints as GB/s.
#: The row of 1,024 tokens is left out: a file keeps its 1.50 ms as 1.5, known to 3 %.
TABLE = [(128, 0.54, 36.53), (256, 0.61, 60.78), (512, 0.92, 78.73), (2048, 2.51, 112.88),
         (4096, 4.75, 119.00), (8192, 8.84, 127.57), (16384, 16.43, 137.09), (32768, 31.65, 142.25)]  # fmt: skip


def copy(tokens: int, ms: float, rate: float, unit: str, **more: object) -> str:
    return row("kv_transfer_time", ms, "ms", input_tokens=tokens, **more) + row(
        "kv_transfer_bandwidth", rate, unit, input_tokens=tokens, **more
    )


@pytest.mark.parametrize(("tokens", "ms", "rate"), TABLE)
def test_gib_printed_as_gb(tokens: int, ms: float, rate: float) -> None:
    # 128 tokens: 9 blocks = 20.25 MiB in 0.54 ms are 36.6 GiB/s, and 39.3 GB/s
    (slip,) = found(check_copy_bytes, MOONCAKE + copy(tokens, ms, rate, "GB/s"))
    assert (slip.id, slip.grade) == ("binary_as_decimal", "inconsistent") and "GiB/s" in slip.said
    (holds,) = found(check_copy_bytes, MOONCAKE + copy(tokens, ms, rate, "GiB/s"))
    assert (holds.id, holds.grade) == ("copy_bytes", "holds")


def test_one_block_more_than_the_prompt_fills() -> None:
    (holds,) = found(check_copy_bytes, MOONCAKE + copy(128, 0.54, 36.53, "GiB/s"))
    assert "9 blocks of 16 tokens" in holds.said
    (coarse,) = found(check_copy_bytes, MOONCAKE + copy(1024, 1.5, 95.23, "GB/s"))
    assert coarse.grade == "not_computable" and "leave 4% open" in str(coarse.reason)
    # 128 tokens exactly are 18 MiB: 2.2 MiB less, near a block of 16 tokens, if that is what blocks are
    without = MOONCAKE.replace("block_size = 16\n", "")
    (open_,) = found(check_copy_bytes, without + copy(128, 0.54, 36.53, "GiB/s"))
    assert open_.grade == "not_computable" and "15.6 tokens more" in str(open_.reason)
    (apart,) = found(check_copy_bytes, without + copy(128, 0.94, 136.53, "GiB/s"))
    assert (apart.id, apart.grade) == ("copy_bytes", "suspicious")


def test_bits_printed_as_bytes() -> None:
    # 4,096 tokens are 603,979,776 B; in 4.75 ms 127.2 GB/s = 1017.2 Gb/s
    (slip,) = found(check_copy_bytes, MOONCAKE + copy(4096, 4.75, 1017.2, "GB/s"))
    assert (slip.id, slip.grade) == ("bits_as_bytes", "inconsistent") and "Gb/s" in slip.said


def test_a_stated_payload_counts_before_the_model() -> None:
    # 10 GB in 100 ms are 100 GB/s; 93.1 GiB/s are the same
    stated = row("kv_transfer_time", 100.0, "ms", payload="10 GB")
    cases = ((100.1, "GB/s", "copy_bytes"), (93.13, "GB/s", "binary_as_decimal"),
             (93.13, "GiB/s", "copy_bytes"),             (50.5, "GB/s", "copy_bytes"))  # fmt: skip
    for rate, unit, id_ in cases:
        (finding,) = found(
            check_copy_bytes, stated + row("kv_transfer_bandwidth", rate, unit, payload="10 GB")
        )
        assert finding.id == id_
    assert finding.grade == "inconsistent" and "0.505 times the stated 10 GB" in finding.said


def test_every_head_is_copied_twice_where_there_are_more_gpus_than_heads() -> None:
    # Qwen3-235B-A22B: 94 layers x 2 x 4 KV heads x 128 x 2 B = 192,512 B; x 16,384 tokens = 3.154 GB, twice 6.308.
    # SGLang's page on Mooncake: 39.14 ms at 161.19 GB/s = 6.309 GB
    text = 'model = "Qwen3-235B-A22B"\nhardware = "H20, TP8"\n' + copy(16384, 39.14, 161.19, "GB/s")
    (twice,) = found(check_copy_bytes, text)
    assert (twice.id, twice.grade) == ("replicated_kv", "suspicious")
    (once,) = found(check_copy_bytes, text.replace("TP8", "TP4"))
    assert once.id == "copy_bytes" and "2 times 16,384 tokens" in once.said


def test_gib_of_kv_printed_as_gb() -> None:
    # OPT-66B: 64 layers x 2 x 9,216 x 2 B = 2,359,296 B; x 512 = 1.2080e9 B = 1.125 GiB, printed "1.13 GB"
    text = 'model = "OPT-66B"\n' + row("kv_bytes", 1.13, "GB", input_tokens=512)
    (slip,) = found(check_kv_bytes, text)
    assert (slip.id, slip.grade) == ("binary_as_decimal", "inconsistent") and "GiB" in slip.said
    assert slip.arithmetic == "kv_bytes 1.13 GB = 1.13 GB against 512 tokens, 1.208 GB: ratio 0.9355"
    (holds,) = found(check_kv_bytes, text.replace("'GB'", "'GiB'"))
    assert (holds.id, holds.grade) == ("kv_bytes", "holds")


@pytest.mark.parametrize(
    ("stated", "more", "id_", "grade"),
    [
        (31104, "", "kv_bytes", "holds"),  # 27 layers x (512 + 64) x 2 B
        (15552, "", "narrow_kv", "suspicious"),  # the same in 8 bits
        (15552, 'kv_dtype = "bf16"\n', "kv_bytes", "inconsistent"),
        (15552, 'kv_dtype = "fp8"\n', "kv_bytes", "holds"),
        (
            248832,
            'hardware = "A100"\ntp = 8\n',
            "replicated_kv",
            "suspicious",
        ),  # a latent is whole on every GPU
    ],
)
def test_bytes_of_a_token(stated: int, more: str, id_: str, grade: str) -> None:
    text = f'model = "DeepSeek-V2-Lite"\n{more}' + row("kv_bytes_per_token", stated, "B")
    (finding,) = found(check_kv_bytes, text)
    assert (finding.id, finding.grade) == (id_, grade)


def test_what_is_not_stated_is_not_filled_in() -> None:
    for text, reason in (
        (row("kv_bytes", 1.13, "GB", input_tokens=512), "model is not stated"),
        ('model = "OPT-66B"\n' + row("kv_bytes", 1.13, "GB"), "prompt tokens are stated"),
        ('model = "OPT-66B"\n' + row("kv_bytes", 1, "GB", input_tokens=512), "leave 50% open"),
    ):
        (finding,) = found(check_kv_bytes, text)
        assert finding.grade == "not_computable" and reason in str(finding.reason)
    assert not found(check_kv_bytes, row("ttft", 1, "s"))


@pytest.mark.parametrize(
    ("payload", "id_", "grade"),
    [
        ("1.13 GiB", "payload_bytes", "holds"),  # 1.2133e9 B against 1.2080e9
        ("1.21 GB", "payload_bytes", "holds"),
        ("1.13 GB", "binary_as_decimal", "inconsistent"),
        ("604 MB", "narrow_kv", "suspicious"),  # half
        ("3 GB", "payload_bytes", "suspicious"),
    ],
)
def test_a_stated_payload_against_the_prompt(payload: str, id_: str, grade: str) -> None:
    text = f'model = "OPT-66B"\ninput_tokens = 512\npayload = "{payload}"\n'
    (finding,) = found(check_payload, text + row("kv_transfer_time", 100, "ms", id="copy"))
    assert (finding.id, finding.grade, finding.of) == (id_, grade, ("copy",))
    assert not found(check_payload, f'payload = "{payload}"\n' + row("kv_transfer_time", 100, "ms"))


def test_latents_counted_as_keys_and_values() -> None:
    # DeepSeek-V3: 61 layers x 128 heads x (128 + 64 + 128) x 2 B = 4,997,120 B; of latents 61 x (512 + 64) x 2 = 70,272
    text = 'model = "DeepSeek-V3"\n'
    (finding,) = found(check_kv_bytes, text + row("kv_bytes_per_token", 4997120, "B"))
    assert (finding.id, finding.grade) == (
        "expanded_latents",
        "inconsistent",
    ) and "every head" in finding.said
    (finding,) = found(check_kv_bytes, text + row("kv_bytes", 305, "GiB", input_tokens=65536))
    assert finding.id == "expanded_latents"
    (finding,) = found(check_kv_bytes, text + row("kv_bytes_per_token", 70272, "B"))
    assert (finding.id, finding.grade) == ("kv_bytes", "holds")
