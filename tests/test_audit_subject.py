"""What cannot be computed of a subject is said with its reason, whatever lacks it."""

from __future__ import annotations

import pytest
from audit_records import case_of, found, row

from costmodel.audit.checks.bounds import check_bounds
from costmodel.audit.checks.layout import check_layout
from costmodel.audit.checks.memory import check_weights
from costmodel.audit.subject import Unknown, subject_of
from costmodel.audit.understood import understood


@pytest.mark.parametrize("stated", [{"model": "Llama-3.1-8B"}, {"parameters": 8e9}])
def test_a_gpu_that_states_no_peak(stated: dict[str, str | float]) -> None:
    subject = subject_of({**stated, "hardware": "Ascend 910B"})  # sources differ on its peak and bandwidth
    with pytest.raises(Unknown, match="ascend-910b has no peak_bf16"):
        subject.prefill(1024, 0, 1)
    with pytest.raises(Unknown, match="ascend-910b has no"):
        subject.decode(1, 0, 1)


def test_a_gpu_as_stated_that_states_no_memory() -> None:
    subject = subject_of({"hardware": "M2 Pro", "peak_flops": 6.8e12})
    with pytest.raises(Unknown, match="memory"):
        _ = subject.memory_bytes


@pytest.mark.parametrize(
    ("stated", "dtype"),
    [
        ({"dtype": "fp8 (e4m3)"}, "fp8"),
        ({"dtype": "FP8 W8A8"}, "fp8"),
        ({"dtype": "w8a8"}, "int8"),
        ({"dtype": "AWQ 4-bit"}, "int4"),
        ({"dtype": "int4-g32"}, "int4"),
        ({"dtype": "INT4 weight-only"}, "int4"),
        ({"dtype": "W4A16"}, "int4"),
        ({"dtype": "Q4_K_M"}, "int4"),
        ({"dtype": "Q8_0"}, "int8"),
        ({"dtype": "GPTQ-Int8"}, "int8"),
        ({"dtype": "nvfp4"}, "nvfp4"),
        ({"dtype": "BF16 weights"}, "bf16"),
        ({"dtype": "bf16 (fp8 KV cache)"}, "bf16"),
        ({"dtype": "torch.bfloat16"}, "bf16"),
        ({"model": "Llama-3.1-8B (w8a8 int8)"}, "int8"),
        ({"model": "Llama-3.1-8B-AWQ-4bit"}, "int4"),
        ({"dtype": "auto"}, None),
        ({}, None),
    ],
)
def test_words_for_dtypes(stated: dict[str, str], dtype: str | None) -> None:
    assert subject_of({"model": "Llama-3.1-8B", **stated}).stated_dtype == dtype


def test_four_bits_of_a_checkpoint_that_stores_none_are_bound_by_half_a_byte() -> None:
    subject = subject_of({"model": "Llama-3.1-8B", "dtype": "awq", "hardware": "1x H100"})
    least = subject.decode(1, 0, 1)  # 7.5e9 to 8.03e9 parameters x 0.5 B / 3.35 TB/s
    assert 7.5e9 * 0.5 / 3.35e12 <= least.seconds <= 8.04e9 * 0.5 / 3.35e12
    with pytest.raises(Unknown, match=r"int4 weights of .* not packaged"):
        _ = subject.weight_bytes


def test_a_gpu_without_a_peak_for_activations_counts_them_at_that_of_the_products() -> None:
    stated: dict[str, str | float] = {"model": "Llama-2-70b", "dtype": "fp8", "hardware": "8x Gaudi 2"}
    least = subject_of(stated).prefill(1000, 0, 8)
    # 2 x 69e9 x 1000 / (8 x 865 TFLOP/s) = 19.9 ms, and attention and head besides
    assert 0.0190 < least.seconds < 0.0215
    with pytest.raises(Unknown, match="peak_fp16"):
        subject_of({**stated, "dtype": "fp16"}).prefill(1000, 0, 8)


TWO = 'model = "Qwen2.5-72B"\nhardware = "prefill: 4x H100; decode: 8x H20"\ninput_tokens = 8192\n'


@pytest.mark.parametrize(
    ("metric", "value", "grade"),
    [
        ("ttft", 420, "holds"),  # 2 x 72e9 x 8192 / (4 x 989 TFLOP/s) = 298 ms; on the H20s 997 ms
        ("ttft", 250, "inconsistent"),  # and in fp8 half of it
        ("tpot", 6, "holds"),  # 145 GB / (8 x 4.0 TB/s) = 4.5 ms; on 12 x H100 3.6 ms
        ("tpot", 4, "inconsistent"),
    ],
)
def test_bounds_of_each_side(metric: str, value: float, grade: str) -> None:
    assert [f.grade for f in found(check_bounds, TWO + row(metric, value, "ms"), "below_bound")] == [grade]


def test_weights_are_held_by_both_sides() -> None:
    text = TWO.replace("4x H100", "1x H100")  # 145 GB on 80 GB
    assert [f.grade for f in found(check_weights, text + row("ttft", 1, "s"))] == ["inconsistent", "holds"]


@pytest.mark.parametrize(
    ("stated", "grades"),
    [
        ('hardware = "4x H100"\ntp = 8', ["inconsistent"]),
        ('hardware = "8x H100"\ntp = 8\npp = 2', ["inconsistent"]),
        ('hardware = "8x H100"\ntp = 8', []),
        ('hardware = "H100"\ntp = 8', []),
        ('hardware = "8x H100 per node"\ntp = 16', []),
        ('hardware = "2 nodes of 8x H100"\ntp = 16', []),
        ('hardware = "prefill: 4x H100; decode: 8x H20"\ndecode_tp = 16', ["inconsistent"]),
        ('hardware = "8x H100"\ntp = 4\ninstances = 4', ["suspicious"]),
        ('hardware = "8x H100"\ntp = 4\ninstances = 2', []),
    ],
)
def test_degrees_of_parallelism_that_take_more_gpus_than_there_are(stated: str, grades: list[str]) -> None:
    text = f'model = "Llama-3.1-8B"\n{stated}\n' + row("ttft", 1, "s")
    assert [finding.grade for finding in found(check_layout, text)] == grades


def test_what_was_understood_is_said() -> None:
    text = (
        'model = "Llama-3.1-8B"\nhardware = "16x H100, 2 nodes"\ntp = 8\ndtype = "FP8 W8A8"\n'
        'link = "8*400Gb IB"\n' + row("ttft", 1, "s")
    )
    said = understood(case_of(text))
    assert "16 x h100-sxm in all, 8 of an instance" in said
    assert "weights in fp8, KV in bf16" in said
    assert "link '8*400Gb IB': 8 x 400 Gb/s = 400 GB/s" in said
    said = understood(case_of(TWO + row("ttft", 1, "s")))
    assert "prefill on 4 x h100-sxm; decode on 8 x h20" in said
