"""Statistics of a run taken one request at a time, against brute force over lists."""

from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from random import Random
from statistics import fmean, stdev
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.evaluate import summary, tally
from costmodel.evaluate.batches import STUDENT
from costmodel.evaluate.sketch import Sketch
from costmodel.evaluate.tally import Distribution, Tally, Totals, settled
from costmodel.evaluate.timeline import ACCOUNTS, Record
from costmodel.inputs.workload import Request, Slo

SLO = Slo(1.5, 0.12)
PERCENTS = {"p50_s": 50, "p90_s": 90, "p95_s": 95, "p99_s": 99}


def drawn(random: Random, index: int, single: float = 0.2, slower: float = 1.0) -> Record:
    """A request with every account set; its timestamps are those that the accounts lead to."""
    tokens = 1 if random.random() < single else random.randint(2, 40)
    request = Request(random.uniform(0, 50), random.randint(1, 900), random.choice([0, 64]), tokens)
    record = Record(request, route=random.choice(["local", "remote"]))
    record.index, record.preempted = index, random.choice([0, 0, 0, 1, 2])
    for name in (*ACCOUNTS, "seating", "ideal_prefill", "ideal_decode", "held_byte_s"):
        setattr(record, name, random.lognormvariate(-2, 1) * slower * random.choice([0, 1, 1]))
    record.gathering *= -1
    before = ("queue", "load", "ideal_prefill", "stretch", "recompute", "admission")
    copied = ("seating", "link", "handover")
    rest = ("stalls", "gathering", "ideal_decode")
    wait = sum(getattr(record, name) for name in before)
    copying = sum(getattr(record, name) for name in copied)
    record.first = request.arrival_s + wait + (copying if record.route == "remote" else 0)
    record.end = request.arrival_s + wait + copying + sum(getattr(record, name) for name in rest)
    return record


def records_of(seed: int, count: int, single: float = 0.2) -> list[Record]:
    random = Random(seed)
    return [drawn(random, index, single) for index in range(count)]


def totals_of(records: list[Record], first_token: str = "decode", **options: object) -> Totals:
    taken = Tally(SLO, first_token, **options)  # type: ignore[arg-type]
    for record in records:
        taken.add(record)
    return taken.totals()


def brute_quantile(values: list[float], percent: int) -> float:
    """The smallest value with at least that share of the sample at or below it, in whole numbers."""
    return sorted(values)[max(1, -(-percent * len(values) // 100)) - 1]


def check_distribution(found: Distribution | None, values: list[float]) -> None:
    if not values:
        assert found is None
        return
    assert found is not None
    assert found.mean_s == pytest.approx(fmean(values), rel=1e-12, abs=1e-15)
    assert found.max_s == pytest.approx(max(values), rel=1e-12)
    for name, percent in PERCENTS.items():
        assert getattr(found, name) == pytest.approx(brute_quantile(values, percent), rel=1e-12)


def check_sums(found: Totals, done: list[Record]) -> None:
    assert found.counted == len(done) and found.preemptions == sum(r.preempted for r in done)
    assert found.prompt_tokens == sum(r.request.uncached_tokens + r.request.cached_tokens for r in done)
    assert found.output_tokens == sum(r.request.output_tokens for r in done)
    assert found.local_share == len([r for r in done if r.route == "local"]) / len(done)
    assert found.held_byte_s == pytest.approx(fmean(r.held_byte_s for r in done), rel=1e-12)
    met = [r for r in done if r.ttft <= 1.5 and (r.tpot is None or r.tpot <= 0.12)]
    assert (found.met, found.attainment) == (len(met), len(met) / len(done))
    assert found.ledger is not None
    for name in ACCOUNTS:
        parts = [getattr(r, name) + (r.seating if name == "admission" else 0) for r in done]
        assert found.ledger[f"{name}_s"] == pytest.approx(fmean(parts), rel=1e-12)
    assert found.ledger["ideal_s"] == pytest.approx(fmean(r.ideal for r in done))
    assert found.ledger["e2e_s"] == pytest.approx(fmean(r.e2e for r in done))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 400),
    single=st.sampled_from([0.0, 0.3, 1.0]),
    block=st.sampled_from([1, 7, 4096]),
    exact=st.booleans(),
    windowed=st.booleans(),
)
def test_a_run_against_lists(
    seed: int, count: int, single: float, block: int, exact: bool, windowed: bool
) -> None:
    records = records_of(seed, count, single)
    Random(seed).shuffle(records)  # requests do not finish in the order of arrival
    window = range(count // 5, count - count // 20)
    with patch.object(tally, "_BLOCK", block):
        found = totals_of(records, exact=exact, counted=window if windowed else None)
    done = [r for r in records if not windowed or window.start <= r.index < window.stop]
    assert found.finished == count and found.quantiles == "exact"
    assert found.ideal_prefill_s == pytest.approx(math.fsum(r.ideal_prefill for r in records))
    check_sums(found, done)
    check_distribution(found.ttft, [r.ttft for r in done])
    check_distribution(found.tpot, [r.tpot for r in done if r.tpot is not None])
    check_distribution(found.e2e, [r.e2e for r in done])
    check_distribution(found.delay, [r.delay for r in done])
    check_distribution(found.queue, [r.queue + r.admission + r.seating for r in done])
    assert list(found.slowest_ttft) == sorted(done, key=lambda r: -r.ttft)[:5]
    assert list(found.slowest_e2e) == sorted(done, key=lambda r: -r.e2e)[:5]


@pytest.mark.parametrize("first_token", ["decode", "prefill", "recompute"])
@pytest.mark.parametrize("count", [1, 4, 37, 1000])
def test_stages_are_those_of_the_summary(first_token: str, count: int) -> None:
    records = records_of(5, count)
    found, expected = (
        totals_of(records, first_token).ttft_p95_stages,
        summary.p95_stages(records, first_token),
    )
    assert found is not None and found.ttft_s == pytest.approx(expected.ttft_s)
    assert found.scale == pytest.approx(expected.scale)
    assert found.stages == pytest.approx(expected.stages)
    assert math.fsum(found.stages.values()) == pytest.approx(found.ttft_s, rel=1e-14)


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("exact", [True, False])
def test_empty_and_single_runs(count: int, exact: bool) -> None:
    record = Record(Request(2.0, 10, 5, 1), route="local", first=3.0, end=3.0, queue=0.25, ideal_prefill=0.75)
    found = totals_of([record] * count, exact=exact)
    assert (found.finished, found.counted, found.prompt_tokens) == (count, count, 15 * count)
    assert found.tpot is None
    assert found.attainment_error is found.delay_error is found.ttft_p95_ci_s is None
    if count:
        assert found.ttft == found.e2e == Distribution(*[1.0] * 6)
        assert found.delay == found.queue == Distribution(*[0.25] * 6)
        assert found.attainment == found.local_share == 1 and found.slowest_ttft == (record,)
    else:
        assert found.ttft is found.ledger is found.ttft_p95_stages is None
        assert found.attainment is found.local_share is found.held_byte_s is None


def test_no_request_in_the_window() -> None:
    found = totals_of(records_of(1, 3), counted=range(7, 9))
    assert (found.finished, found.counted) == (3, 0) and found.ttft is None


def test_figures_may_be_asked_for_on_the_way() -> None:
    records, taken = records_of(3, 500), Tally(SLO, "decode")
    for place, record in enumerate(records, 1):
        taken.add(record)
        if place % 90 == 0:
            check_sums(taken.totals(), records[:place])
    assert taken.totals() == taken.totals()


@pytest.mark.parametrize("requests", [1, 19, 20, 101])
def test_the_settled_window(requests: int) -> None:
    records = [Record(Request(0.0, 1, 0, 1), end=1.0, index=i) for i in range(requests)]
    assert [r.index for r in summary.settled(records)] == list(settled(requests))


# --- batches --------------------------------------------------------------------------------------------


def test_eight_batches_of_a_short_run() -> None:
    def record(ttft: float) -> Record:
        return Record(Request(0.0, 1, 0, 1), first=ttft, end=ttft)

    assert totals_of([record(1.0)] * 159).ttft_p95_ci_s is None
    # Batches of 20 requests all alike, 1 to 8 s: mean 4.5, variance 6; the SLO of 1.5 s is met by one batch of
    # eight: variance 7/8 x 1/8 x 8/7 = 1/8.
    found = totals_of([record(float(i)) for i in range(1, 9) for _ in range(20)])
    assert found.ttft_p95_ci_s == pytest.approx(2.365 * math.sqrt(6 / 8))
    assert found.delay_error == pytest.approx(math.sqrt(6 / 8))
    assert found.attainment_error == pytest.approx(math.sqrt(1 / 8 / 8))


def test_student_s_quantiles() -> None:
    stats = pytest.importorskip("scipy.stats")
    assert {n: pytest.approx(stats.t.ppf(0.975, n - 1), abs=5e-4) for n in range(8, 16)} == STUDENT


# --- beyond what is kept --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_run() -> list[Record]:
    """120,000 requests, slower and slower by waves, so that batches differ."""
    random = Random(11)
    return [drawn(random, i, 0.1, slower=2 + math.sin(i / 9000)) for i in range(120_000)]


@pytest.fixture(scope="module")
def pair(long_run: list[Record]) -> tuple[Totals, Totals]:
    return totals_of(long_run), totals_of(long_run, exact=True)


def test_a_long_run_is_sketched(pair: tuple[Totals, Totals]) -> None:
    sketched, exact = pair
    assert exact.quantiles == "exact"
    assert sketched.quantiles.startswith("sketch, relative error at most 0.1 % (ddsketch 3.")
    for name in ("ttft", "tpot", "e2e", "delay", "queue"):
        found, expected = getattr(sketched, name), getattr(exact, name)
        assert (found.mean_s, found.max_s) == (expected.mean_s, expected.max_s)
        for percent in PERCENTS:
            assert getattr(found, percent) == pytest.approx(getattr(expected, percent), rel=0.001001)
    for name in ("ledger", "met", "preemptions", "held_byte_s", "slowest_ttft", "slowest_e2e"):
        assert getattr(sketched, name) == getattr(exact, name)


def test_accounts_of_a_long_run_add_up(pair: tuple[Totals, Totals]) -> None:
    for ledger in (pair[0].ledger, pair[1].ledger):
        assert ledger is not None
        total = math.fsum(ledger[f"{name}_s"] for name in ACCOUNTS)
        assert total == pytest.approx(ledger["e2e_s"] - ledger["ideal_s"], rel=1e-9)


def test_stages_of_a_long_run(pair: tuple[Totals, Totals]) -> None:
    assert pair[0].ttft is not None and pair[0].ttft_p95_stages is not None
    found, expected = pair[0].ttft_p95_stages, pair[1].ttft_p95_stages
    assert expected is not None and found.ttft_s == pair[0].ttft.p95_s
    assert math.fsum(found.stages.values()) == pytest.approx(found.ttft_s, rel=1e-14)
    # 2,400 requests are averaged; of the 0.5 % bins at both ends a share may stand for other requests
    assert found.stages == pytest.approx(expected.stages, rel=0.01)
    assert found.scale == pytest.approx(expected.scale, rel=0.002)


def test_growing_batches(long_run: list[Record], pair: tuple[Totals, Totals]) -> None:
    # 50,000 / 16 = 3125 a batch; sixteen are full at 50,000 and at 100,000, so the size is 12,500: nine full
    parts = [long_run[i * 12_500 : (i + 1) * 12_500] for i in range(9)]
    met = [fmean(SLO.met(r.ttft, r.tpot) for r in part) for part in parts]
    delay = [fmean(r.delay for r in part) for part in parts]
    ttft = [brute_quantile([r.ttft for r in part], 95) for part in parts]
    assert pair[0].attainment_error == pytest.approx(stdev(met) / 3)
    assert pair[0].delay_error == pytest.approx(stdev(delay) / 3)
    # each P95 is within 0.1 %, and they differ by tens of per cent
    assert pair[0].ttft_p95_ci_s == pytest.approx(2.306 * stdev(ttft) / 3, rel=0.01)


def test_fifty_thousand_are_exact() -> None:
    record = Record(Request(0.0, 1, 0, 1), first=1.0, end=1.0)
    assert totals_of([record] * 50_000).quantiles == "exact"
    one_more = totals_of([record] * 50_001)
    assert one_more.quantiles != "exact" and one_more.ttft == Distribution(*[1.0] * 6)


def test_memory_stays_constant() -> None:
    def endless() -> Iterator[Record]:
        random = Random(7)
        while True:
            wait, work = random.expovariate(1), random.lognormvariate(0, 1)
            yield Record(Request(0.0, 9, 0, 5), first=wait, end=wait + work, queue=wait, ideal_decode=work)

    source, taken = endless(), Tally(SLO, "decode")
    for _ in range(10_000):  # what is imported on first use is no part of it
        taken.add(next(source))
    tracemalloc.start()
    try:
        for _ in range(50_000):
            taken.add(next(source))
        early, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(100_000):
            taken.add(next(source))
        late, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # every value kept would be 100,000 requests of 14 values, 8 bytes each: 11 MB
    assert late - early < 3e6 and peak - early < 8e6


# --- the sketch -----------------------------------------------------------------------------------------

_random = np.random.default_rng(5)
SAMPLES = {
    "log-normal": _random.lognormal(0, 1, 60_000),
    "bimodal": np.where(_random.random(60_000) < 0.5, _random.normal(0.05, 0.002, 60_000), 7.0),
    "constant": np.full(60_000, 0.7321),
    "heavy tail": _random.pareto(1.1, 60_000) + 1,
    "both signs": _random.normal(0.01, 1, 60_000),
    "mostly zero": np.maximum(_random.normal(-1, 1, 60_000), 0),
    "few": np.arange(1.0, 21.0),
    "one": np.array([3.0]),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_sketch_against_sorted_lists(name: str) -> None:
    values = SAMPLES[name]
    whole, left, right = Sketch(), Sketch(), Sketch()
    for part in np.array_split(values, 7):
        whole.add(part)
    left.add(values[::2])
    right.add(values[1::2])
    left.merge(right)
    assert whole.count == left.count == len(values)
    for percent in (1, 5, 10, 25, 50, 75, 90, 94, 95, 96, 99, 100):
        found = whole.quantile(percent / 100)
        assert found == pytest.approx(brute_quantile(values.tolist(), percent), rel=0.001001)
        assert left.quantile(percent / 100) == found


def test_rounding_counts_as_zero() -> None:
    sketch = Sketch()
    sketch.add(np.array([-3e-17, 0.0, 2e-16, 1.0, -1.0]))
    assert [sketch.quantile(share) for share in (0.4, 0.6, 0.8)] == [0, 0, 0]
    assert sketch.quantile(0.2) == pytest.approx(-1, rel=0.001001)


def test_numpy_waits_for_the_first_figures() -> None:
    code = "import sys; import costmodel.evaluate.tally; print({'numpy', 'ddsketch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
