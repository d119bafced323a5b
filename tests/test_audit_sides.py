"""Runs side by side: a prompt computed twice, unlike numbers of GPUs, unlike counts of tokens."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.sides import check_gpus, check_prefill_twice, check_ratio_of_two, check_tokens


def ttfts(apart: float, whole: float, **more: object) -> str:
    return row("ttft", apart, "ms", strategy="disaggregated", topology="1P1D", id="pd", **more) + row(
        "ttft", whole, "ms", strategy="colocated", id="one", **more
    )


@pytest.mark.parametrize(
    ("apart", "whole", "count"),
    [(402, 200, 1), (200, 402, 0), (300, 200, 0), (430, 200, 0), (378, 200, 0)],  # 2.01, 0.5, 1.5, 2.15, 1.89
)
def test_a_prompt_computed_twice(apart: float, whole: float, count: int) -> None:
    findings = found(check_prefill_twice, "concurrency = 1\n" + ttfts(apart, whole))
    assert len(findings) == count
    for finding in findings:
        assert (finding.id, finding.grade, finding.of) == ("prefill_twice", "suspicious", ("pd", "one"))
        assert "2.01 times" in finding.said


def test_only_of_a_lone_request_and_of_like_runs() -> None:
    assert not found(check_prefill_twice, "concurrency = 8\n" + ttfts(402, 200))
    assert not found(check_prefill_twice, ttfts(402, 200))
    unlike = ttfts(402, 200).replace("'one'", "'one'\ninput_tokens = 100")
    assert not found(check_prefill_twice, "concurrency = 1\n" + unlike)
    stated = ttfts(402, 200).replace("'pd'", "'pd'\ntp = 1\nhardware = 'H100'")
    assert found(
        check_prefill_twice, "concurrency = 1\n" + stated
    )  # what is not stated of the other may be alike
    for unlike in ("tp = 2", "hardware = 'A100'"):
        text = stated.replace("'one'", f"'one'\n{unlike}")
        assert not found(check_prefill_twice, "concurrency = 1\n" + text)
    other = ttfts(402, 200).replace("'one'", "'one'\nstatistic = 'p99'")
    assert not found(check_prefill_twice, "concurrency = 1\n" + other)


@pytest.mark.parametrize(
    ("stated", "ratio", "count"),
    [
        ('topology = "1P1D"\nconcurrency = 1\n', 2, 1),
        ('topology = "1P1D"\nconcurrency = 1\n', 1.5, 0),
        ('topology = "1P1D"\nconcurrency = 8\n', 2, 0),
        ('strategy = "colocated"\nconcurrency = 1\n', 2, 0),
    ],
)
def test_the_ratio_alone(stated: str, ratio: float, count: int) -> None:
    findings = found(check_ratio_of_two, stated + row("ttft_ratio", ratio, "x", id="ratio"))
    assert [(f.id, f.grade, f.of) for f in findings] == [("prefill_twice", "suspicious", ("ratio",))] * count


def rates(apart: float, whole: float, gpus: tuple[int, int] = (2, 1), unit: str = "req/s") -> str:
    return row("request_throughput", apart, unit, strategy="PD", hardware=f"{gpus[0]}x H200", id="pd") + row(
        "request_throughput", whole, unit, strategy="colocated", hardware=f"{gpus[1]}x H200", id="one"
    )


def test_unequal_gpus_that_turn_the_verdict() -> None:
    # 5.58 / 2 = 2.79 against 4.55 / 1
    (finding,) = found(check_gpus, "concurrency = 16\n" + rates(5.58, 4.55))
    assert (finding.id, finding.grade, finding.of) == ("unequal_gpus", "inconsistent", ("pd", "one"))
    assert finding.arithmetic == "5.58 req/s / 2 = 2.79 against 4.55 req/s / 1 = 4.55 per GPU"
    assert "per GPU colocated is ahead, in all it is behind" in finding.said


def test_unequal_gpus_that_do_not() -> None:
    (finding,) = found(check_gpus, rates(9.58, 4.55))  # 4.79 a GPU
    assert finding.grade == "suspicious" and "PD is ahead in all and per GPU" in finding.said


def test_what_is_no_unequal_comparison() -> None:
    assert not found(check_gpus, rates(5.58, 4.55, (2, 2)))
    assert not found(check_gpus, rates(5.58, 4.55, unit="req/s/GPU"))
    assert not found(check_gpus, rates(5.58, 4.55).replace("1x H200", "H200"))  # how many is not stated
    assert not found(check_gpus, rates(5.58, 4.55).replace("1x H200", "1x A100"))
    scaled = rates(5.58, 4.55).replace("colocated", "PD")  # one way on more GPUs
    assert not found(check_gpus, scaled)
    equal = rates(9.1, 4.55, (2, 1)) + rates(5.58, 9.1, (2, 2)).replace("'pd'", "'pd2'").replace(
        "'one'", "'one2'"
    )
    assert not found(check_gpus, equal)  # the same two ways stand on equal GPUs, too


H07 = (
    row("total_throughput", 7516, "tok/s", scenario="offline", id="offline")
    + row("output_throughput", 2566, "tok/s", scenario="online", id="online")
    + row("input_throughput", 3241, "tok/s", scenario="online", id="prompts")
)


def test_total_beside_output() -> None:
    # 7,516 / 2,566 = 2.93; 2,566 + 3,241 = 5,807; 7,516 / 5,807 = 1.29
    (finding,) = found(check_tokens, H07)
    assert (finding.id, finding.grade, finding.of) == (
        "unlike_throughput",
        "suspicious",
        ("offline", "online", "prompts"),
    )
    assert (
        "5,807" in finding.said
        and "= 2.93;" in str(finding.arithmetic)
        and "= 1.29" in str(finding.arithmetic)
    )
    assert not found(check_tokens, H07 + row("total_throughput", 5807, "tok/s", scenario="online"))


def test_throughput_that_is_stated_to_count_unlike_tokens() -> None:
    text = row("throughput", 7516, "tok/s", throughput_counts="total") + row(
        "throughput", 2566, "tok/s", throughput_counts="output"
    )
    (finding,) = found(check_tokens, text)
    assert finding.id == "unlike_throughput"
    assert not found(check_tokens, text.replace("'output'", "'total'"))
