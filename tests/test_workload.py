"""Workloads: lengths, arrivals, and the packaged five against the published prefill times."""

from __future__ import annotations

import itertools
import math
from random import Random
from statistics import fmean, median, pstdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.workload import Arrivals, Lengths, Request, Slo, Workload
from costmodel.serving.instance import make_instance
from costmodel.serving.step import StepTimes
from costmodel.workloads import load_workload, workload_names

NAMES = ("bursty", "hphd", "hpld", "lphd", "lpld")


def plain(rate: float = 2.0, **arrivals: Any) -> Workload:
    return Workload(
        "plain",
        Arrivals(rate, **arrivals),
        Lengths(1000, 0.8),
        16,
        Lengths(100, 0.7, high=900),
        Slo(),
        "here",
    )


# --- lengths --------------------------------------------------------------------------------------------


def test_log_normal_quantiles_by_hand() -> None:
    # exp(ln 1000 + 0.8 z): z = 1 at 0.8413447, 1.6448536 at 0.95; truncation at 1 and 1e9 cuts nothing.
    lengths = Lengths(1000, 0.8, 1, 10**9)
    assert lengths.quantile(0.5) == 1000
    assert lengths.quantile(0.8413447460685429) == round(1000 * math.exp(0.8)) == 2226
    assert lengths.quantile(0.95) == round(1000 * math.exp(0.8 * 1.6448536269514722)) == 3728
    assert lengths.quantile(0.1586552539314571) == 449


def test_truncation_is_of_the_distribution_not_a_pile_at_its_ends() -> None:
    # Truncated to the upper half (low = median), the median is the upper quartile: z = 0.6744898.
    assert Lengths(1000, 0.8, 1000, 10**9).quantile(0.5) == round(1000 * math.exp(0.8 * 0.6744897501960817))
    lengths = Lengths(1000, 0.8, 500, 2000)
    draws = [lengths.draw(random := Random(3))] + [lengths.draw(random) for _ in range(4000)]
    assert min(draws) >= 500 and max(draws) <= 2000
    assert draws.count(2000) < 40 and draws.count(500) < 40
    assert lengths.quantile(0.0) == 500 and lengths.quantile(1.0) == 2000


@given(
    st.floats(1, 50_000),
    st.floats(0, 3),
    st.integers(1, 50_000),
    st.integers(1, 10**6),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_quantiles_rise_within_their_limits(
    middle: float, sigma: float, low: int, high: int, one: float, two: float
) -> None:
    low, high = min(low, math.floor(middle)), max(high, math.ceil(middle))
    lengths = Lengths(middle, sigma, low, high)
    a, b = lengths.quantile(min(one, two)), lengths.quantile(max(one, two))
    assert low <= a <= b <= high


def test_fixed_lengths_and_bad_ones() -> None:
    assert {Lengths(7, 0).draw(Random(i)) for i in range(5)} == {7}
    for bad in ((0.5, 1), (10, -1), (10, math.nan), (10, 1, 11), (10, 1, 1, 9), (10, math.inf)):
        with pytest.raises(InputError):
            Lengths(*bad)  # type: ignore[arg-type]


def test_a_sample_has_the_median_and_spread_asked_for() -> None:
    rows = plain().sample(4000, 5)
    # standard error of a median: 1.25 sigma / sqrt(n) = 1.6 %
    assert median(r.uncached_tokens for r in rows) == pytest.approx(1000, rel=0.06)
    assert median(r.output_tokens for r in rows) == pytest.approx(98.8, rel=0.06)  # cut at 900: z < 3.139
    assert pstdev(math.log(r.uncached_tokens) for r in rows) == pytest.approx(0.8, rel=0.05)
    assert {r.cached_tokens for r in rows} == {16} and rows[0].isl == rows[0].uncached_tokens + 16


# --- arrivals -------------------------------------------------------------------------------------------


def gaps(arrivals: Arrivals, count: int, seed: int = 1) -> list[float]:
    times = list(itertools.islice(arrivals.times(Random(seed)), count))
    assert times == sorted(times)
    return [b - a for a, b in itertools.pairwise([0.0, *times])]


@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0])
def test_gaps_have_the_mean_and_variation_asked_for(cv: float) -> None:
    found = gaps(Arrivals(4.0, cv), 20_000)
    assert fmean(found) == pytest.approx(0.25, rel=0.05)
    assert pstdev(found) / fmean(found) == pytest.approx(cv, rel=0.05, abs=1e-9)


def test_bursts_keep_the_mean_rate_and_fill_their_share_of_time() -> None:
    arrivals = Arrivals(10.0, on_share=0.25, on_period_s=2.0)
    found = gaps(arrivals, 60_000)
    assert arrivals.bursty and not Arrivals(10.0).bursty
    assert 1 / fmean(found) == pytest.approx(10, rel=0.1)
    # within a burst arrivals come at 40/s, every 25 ms; off periods of 6 s on average separate them
    inside = [gap for gap in found if gap < 0.25]
    assert fmean(inside) == pytest.approx(0.025, rel=0.05)
    off = [gap for gap in found if gap > 0.5]
    # each burst of 80 arrivals on average is followed by one off period
    assert len(found) / len(off) == pytest.approx(80, rel=0.15)


def test_bad_arrivals_and_slos() -> None:
    for bad in (
        (-1.0,),
        (0.0,),
        (math.nan,),
        (math.inf,),
        (1.0, -1.0),
        (1.0, math.nan),
        (1.0, 1.0, 0.0),
        (1.0, 1.0, 0.5),
    ):
        with pytest.raises(InputError):
            Arrivals(*bad)
    for slo in ((0.0,), (-1.0,), (math.nan,), (None, 0.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)):
        with pytest.raises(InputError):
            Slo(*slo)


def test_slo_is_met_at_its_value_and_needs_no_tpot_of_one_token() -> None:
    slo = Slo(1.0, 0.05)
    assert slo.met(1.0, 0.05) and slo.met(1.0, None)
    assert not slo.met(1.001, 0.05) and not slo.met(1.0, 0.0501)
    assert Slo().met(9e9, 9e9) and not Slo().given and Slo(tpot_s=1.0).given


# --- samples --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrivals", [{}, {"cv": 2.0}, {"on_share": 0.5, "on_period_s": 3.0}])
def test_another_rate_rescales_the_gaps_and_nothing_else(arrivals: dict[str, float]) -> None:
    slow, fast = (plain(rate, **arrivals).sample(300, 7) for rate in (2.0, 5.0))
    assert [r[1:] for r in slow] == [r[1:] for r in fast]
    pairs = [(one.arrival_s, two.arrival_s) for one, two in zip(slow, fast)]
    if "on_share" not in arrivals:
        assert [two for _, two in pairs] == pytest.approx([one * 2 / 5 for one, _ in pairs])
    # The bursts stay where they are, so that every request comes earlier at the higher rate.
    assert all(two <= one for one, two in pairs)
    assert plain(2.0, **arrivals).at_rate(5.0).sample(300, 7) == fast


def test_the_seed_fixes_everything() -> None:
    assert plain().sample(50, 1) == plain().sample(50, 1)
    assert plain().sample(50, 1) != plain().sample(50, 2)
    assert plain().sample(50, 1) == plain().sample(80, 1)[:50]


def test_a_recorded_sample_is_replayed_at_any_rate() -> None:
    rows = tuple(Request(10 + t, 5, 0, 2) for t in (0.0, 1.0, 1.0, 4.0))  # 3 gaps in 4 s: 0.75/s
    recorded = Workload("trace", Arrivals(0.75), None, 0, None, Slo(), "here", rows)
    assert [r.arrival_s for r in recorded.sample(10, 1)] == [0, 1, 1, 4]
    assert [r.arrival_s for r in recorded.at_rate(1.5).sample(3, 1)] == [0, 0.5, 0.5]


@pytest.mark.parametrize("points", [8, 12, 16, 24, 64])
def test_typical_requests_have_the_means_of_a_sample(points: int) -> None:
    typical, sample = plain().typical(points), plain().sample(20_000, 1)
    assert len(typical) == points
    for name in ("uncached_tokens", "output_tokens"):
        one, many = (fmean(getattr(r, name) for r in rows) for rows in (typical, sample))
        assert one == pytest.approx(many, rel=0.07)  # eight points miss part of the tail
    # Prompts and outputs are independent: the mean product is nearly that of the means.
    product = fmean(r.uncached_tokens * r.output_tokens for r in typical)
    means = fmean(r.uncached_tokens for r in typical) * fmean(r.output_tokens for r in typical)
    assert product == pytest.approx(means, rel=0.05)


# --- the five -------------------------------------------------------------------------------------------

#: P95 prefill execution in ms, as reported for arXiv 2607.02043 (DeepSeek-V2-Lite on an A100).
PUBLISHED = {"lpld": 191.4, "hpld": 1340.2, "hphd": 1222.8, "bursty": 1070.1}


def test_names() -> None:
    assert workload_names() == NAMES
    assert load_workload("HPHD") == load_workload("hphd")
    with pytest.raises(InputError, match="hphd"):
        load_workload("hphdd")


@pytest.mark.parametrize(("name", "milliseconds"), PUBLISHED.items())
def test_p95_prompts_prefill_in_the_published_time(name: str, milliseconds: float) -> None:
    kind = make_instance(read_model("deepseek-ai/DeepSeek-V2-Lite"), load_gpu("a100-sxm-80gb"))
    lengths = load_workload(name).uncached
    assert lengths is not None
    assert StepTimes(kind).prefill(lengths.quantile(0.95)) * 1e3 == pytest.approx(milliseconds, rel=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_every_packaged_workload_is_capped_and_says_how_it_was_chosen(name: str) -> None:
    workload = load_workload(name)
    assert workload.uncached is not None and workload.output is not None
    assert max(r.uncached_tokens for r in workload.sample(5000, 1)) <= workload.uncached.high == 32768
    assert "P95" in workload.chosen or "lpld" in workload.chosen
    assert workload.slo.given and workload.cached_tokens == 0
    assert workload.bursty == (name == "bursty")


def test_names_say_which_lengths_are_high() -> None:
    five = {name: load_workload(name) for name in NAMES}
    for name in ("lpld", "lphd", "hpld", "hphd"):
        uncached, output = five[name].uncached, five[name].output
        assert uncached is not None and output is not None
        assert (uncached.median > 4000) == name.startswith("hp")
        assert (output.median > 128) == name.endswith("hd")
    assert five["lphd"].uncached == five["lpld"].uncached


FILE = """
name = "own"
chosen = "by hand"
[arrivals]
rate = "3 /s"
[prompt]
median = 100
sigma = 0.5
cached = 32
[output]
median = 10
sigma = 0
[slo]
ttft = "500 ms"
"""


def test_a_workload_file(tmp_path: Any) -> None:
    path = tmp_path / "own.toml"
    path.write_text(FILE)
    own = load_workload(path)
    assert own.rate == 3 and own.cached_tokens == 32 and own.slo == Slo(0.5, None, 0.9)
    for old, new, said in (
        ('rate = "3 /s"', 'rate = "-3 /s"', "rate"),
        ('rate = "3 /s"', 'rate = "3 ms"', "rate"),
        ("sigma = 0.5", "sigam = 0.5", "sigma"),
        ("median = 10\n", "median = 0\n", "median"),
        ('ttft = "500 ms"', 'ttft = "0 ms"', "ttft"),
        ("cached = 32", "cached = 1.5", "cached"),
        ("[output]", "[output", "TOML"),
    ):
        path.write_text(FILE.replace(old, new))
        with pytest.raises(InputError, match=said) as caught:
            load_workload(path)
        assert "own.toml" in str(caught.value)
