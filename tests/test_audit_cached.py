"""Prompts that a cache answered: repeated sets, times below the bound, ratios of the same work."""

from __future__ import annotations

import pytest
from audit_records import case_of, found, row

from costmodel.audit.checks.cached import check_cached, check_ratio, check_repeated, invert_ratio

# Llama-3.1-8B on one H100 (989 TFLOP/s): 6.98e9 weights beside the vocabulary's 0.53e9; 8,192 tokens take
# 2 x 6.98e9 x 8,192 + attention of 32 layers x 4,096 x 4 x 8,192^2 / 2 = 1.14e14 + 1.76e13 flop = 133 ms.
H100 = 'model = "Llama-3.1-8B"\nhardware = "1xH100"\ndtype = "bf16"\ninput_tokens = 8192\n'


def test_a_time_that_only_a_cache_explains() -> None:
    assert not found(check_cached, H100 + row("ttft", 140, "ms"))
    (finding,) = found(check_cached, H100 + row("ttft", 30, "ms", id="t"))
    assert (finding.id, finding.grade, finding.of) == ("cached_prompts", "suspicious", ("t",))
    # 30 / 133 = 22.6 % may be computed, and less, as the last tokens attend to all others: above 77.4 %
    needed = int(finding.said.split("at least ")[1].split()[0].replace(",", ""))
    assert 0.774 < needed / 8192 < 0.83


def test_coldness_is_what_is_impossible_then() -> None:
    (finding,) = found(check_cached, 'cache_state = "cold"\n' + H100 + row("prefill_time", 30, "ms"))
    assert finding.grade == "impossible" and "one of the two is wrong" in finding.said


def test_more_than_the_stated_share() -> None:
    (finding,) = found(check_cached, "cached_share = 0.5\n" + H100 + row("ttft", 30, "ms"))
    assert finding.grade == "inconsistent" and "more than the 4,096 stated" in finding.said
    assert not found(check_cached, "cached_share = 0.9\n" + H100 + row("ttft", 30, "ms"))


def test_too_fast_for_any_cache() -> None:
    # one token reads 7.5e9 x 2 B / 3.35 TB/s = 4.5 ms of weights
    (finding,) = found(check_cached, H100 + row("ttft", 3, "ms"))
    assert finding.grade == "impossible" and "all but one token" in finding.said


def test_a_rate_of_prompts_above_the_peak() -> None:
    # 8,192 / 133 ms = 61,600 tokens/s
    assert not found(check_cached, H100 + row("input_throughput", 58_000, "tok/s"))
    (finding,) = found(check_cached, H100 + row("input_throughput", 273_000, "tok/s"))
    assert finding.grade == "suspicious"  # 8,192 / 273,000 = 30 ms


@pytest.mark.parametrize(
    ("state", "count"),
    [
        ("warm", 1),
        ("prefix cache hits", 1),
        ("cold", 0),
        ("prefix cache off", 0),
        ("no hits", 0),
        ("prefix cache on", 0),
    ],
)
def test_a_warm_cache(state: str, count: int) -> None:
    assert len(found(check_repeated, f'cache_state = "{state}"\n' + row("ttft", 1, "s"))) == count
    assert not found(check_repeated, f'cache_state = "{state}"\ncached_share = 0.5\n' + row("ttft", 1, "s"))
    assert not found(check_repeated, f'cache_state = "{state}"\n' + row("tpot", 1, "s"))


def test_prompts_drawn_again_from_one_seed() -> None:
    sweep = row("ttft", 1, "s", concurrency=1, id="one") + row("ttft", 1, "s", concurrency=8, id="eight")
    (finding,) = found(check_repeated, "seed = 0\ninput_tokens = 1024\n" + sweep)
    assert finding.grade == "suspicious" and finding.of == ("one", "eight") and "2 runs" in finding.said
    assert not found(check_repeated, 'seed = 0\ncache_state = "disabled"\n' + sweep)
    assert not found(check_repeated, sweep)
    ratio = row("ttft_ratio", 49, "x")
    assert found(check_repeated, 'seed = "the same for every point"\n' + ratio)
    assert not found(check_repeated, "seed = 0\n" + ratio)
    other = sweep.replace("concurrency = 8", "concurrency = 8\ninput_tokens = 2048")
    assert not found(check_repeated, "seed = 0\n" + other)


def pair(slow: str = "", fast: str = "") -> str:
    return row("ttft", 4.9, "s", id="slow") + slow + row("ttft", 100, "ms", id="fast") + fast


def test_a_ratio_gives_the_cached_share() -> None:
    # 4.9 s / 100 ms = 49; 1 - 1 / 49 = 98.0 %
    text = pair('seed = "0"\n', 'seed = "1"\n')
    (finding,) = found(check_ratio, text)
    assert (finding.id, finding.grade, finding.of) == ("cached_ratio", "suspicious", ("slow", "fast"))
    assert "49 times" in finding.said and "98.0%" in finding.said
    (inversion,) = invert_ratio(case_of(text))
    assert inversion.quantity == "cached_share" and inversion.value == pytest.approx(48 / 49)


@pytest.mark.parametrize(
    ("slow", "fast", "grade"),
    [
        ("", "", "suspicious"),
        ('cache_state = "cold"\n', 'cache_state = "warm"\n', "holds"),
        ("", "cached_share = 0.99\n", "holds"),
        ("", "cached_share = 0.5\n", "inconsistent"),
    ],
)
def test_what_is_stated_of_the_cache(slow: str, fast: str, grade: str) -> None:
    (finding,) = found(check_ratio, pair(slow, fast))
    assert finding.grade == grade


def test_figures_that_differ_in_more_are_no_pair() -> None:
    assert not found(check_ratio, pair("concurrency = 1\n", "concurrency = 2\n"))
    assert not found(check_ratio, pair().replace("4.9", "0.14"))


def test_a_rate_of_prompts_that_rises() -> None:
    # 20,701 / 313 = 66.1; 1 - 1 / 66.1 = 98.5 %, of 8,111 / 8,112 cached
    text = (
        "input_tokens = 8112\n"
        + row("input_throughput", 313, "tok/s")
        + row("input_throughput", 20701, "tok/s")
    )
    (finding,) = found(check_ratio, text + "cached_tokens = 8111\n")
    assert finding.grade == "holds" and "98.5%" in finding.said and "100.0% are stated" in finding.said
