"""``ask_replay``: what holds of any run, Little's law, loads that are the same, overload, and long traces."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from costmodel.decision.replayed import Replayed, Sinks
from costmodel.errors import InputError
from costmodel.evaluate.timeline import Record
from costmodel.inputs.load import Load
from costmodel.inputs.workload import Request, Slo
from costmodel.questions.replay import NAMES, Answer, ask_replay
from costmodel.serving.deployment import Settings
from costmodel.serving.scenario import Scenario
from costmodel.workloads import load_workload

SCENARIO = Scenario("Qwen3-0.6B", "a100-sxm-80gb")
ACCOUNTS = (
    "queue_s", "admission_s", "load_s", "stretch_s", "link_s", "handover_s", "stalls_s", "gathering_s", "recompute_s",
)  # fmt: skip


def drawn(count: int, rate: float, longest: int = 40, seed: int = 1) -> Iterator[Request]:
    """Poisson arrivals with prompts of 50 to 400 tokens."""
    random, time = Random(seed), 0.0
    for _ in range(count):
        yield Request(time, random.randint(50, 400), 0, random.randint(1, longest))
        time += random.expovariate(rate)


ROWS = list(drawn(400, 100.0))


def one(*arguments: Any, **options: Any) -> Replayed:
    """The answer for a single strategy."""
    answer = ask_replay(*arguments, **options)
    assert isinstance(answer, Replayed)
    return answer


def kept(records: list[Record]) -> Any:
    """Outputs that keep every record."""
    return lambda strategy, deployment: Sinks(records=[records.append])


@pytest.fixture(scope="module")
def answer() -> Answer:
    return ask_replay(ROWS, SCENARIO, slo=Slo(0.5, 0.02))


def test_what_adds_up_under_every_strategy(answer: Answer) -> None:
    assert [s.name for s in answer.strategies] == list(NAMES) and answer.answered
    for found in answer.strategies:
        assert (found.requests, found.finished, found.unfinished, found.stable) == (400, 400, 0, True)
        ledger = found.ledger or {}
        assert sum(ledger[name] for name in ACCOUNTS) == pytest.approx(
            ledger["e2e_s"] - ledger["ideal_s"], abs=1e-9
        )
        assert found.e2e_mean_s == pytest.approx(ledger["e2e_s"], rel=1e-12)
        assert sum((found.ttft_p95_stages or {}).values()) == pytest.approx(found.ttft_p95_s, abs=1e-9)
        assert found.prompt_tokens == sum(r.isl for r in ROWS)
        assert found.output_tokens == sum(r.output_tokens for r in ROWS)
    # the ideal is a property of the requests: one for all strategies
    ideals = [(found.ledger or {})["ideal_s"] for found in answer.strategies]
    assert ideals == pytest.approx([ideals[0]] * 4, rel=1e-12)
    delays = {found.name: found.mean_delay_s or 0.0 for found in answer.strategies}
    assert answer.best == min(delays, key=lambda name: delays[name])


def test_unlike_pools_share_the_faster_ones_ideal() -> None:
    unlike = Scenario("Qwen3-0.6B", "a100-sxm-80gb", prefill_hardware="h100-sxm")
    fast = Scenario("Qwen3-0.6B", "h100-sxm")
    mixed, alike = (ask_replay(ROWS[:50], scenario) for scenario in (unlike, fast))
    ideals = [(found.ledger or {})["ideal_s"] for found in (*mixed.strategies, *alike.strategies)]
    assert ideals == pytest.approx([ideals[0]] * 8, rel=1e-12)


def test_figures_are_those_of_the_records() -> None:
    records: list[Record] = []
    found = one(ROWS, SCENARIO, ("disaggregated",), slo=Slo(0.0063, 0.00266), outputs=kept(records))
    ttfts = sorted(r.first - r.request.arrival_s for r in records)
    assert found.ttft_max_s == ttfts[-1] and found.ttft_mean_s == pytest.approx(sum(ttfts) / 400)
    assert ttfts[378] <= (found.ttft_p95_s or 0.0) <= ttfts[381]
    assert found.rate_per_s == pytest.approx(399 / (ROWS[-1].arrival_s - ROWS[0].arrival_s))
    met = 0
    for r in records:
        gaps = r.request.output_tokens - 1
        slow = gaps and (r.end - r.first) / gaps > 0.00266
        met += r.first - r.request.arrival_s <= 0.0063 and not slow
    assert 0 < met < 400 and found.attainment == met / 400
    assert found.span_s == max(r.end for r in records) - ROWS[0].arrival_s


@pytest.mark.parametrize("strategy", NAMES)
def test_littles_law_of_a_closed_loop(strategy: str) -> None:
    records: list[Record] = []
    found = one(ROWS, SCENARIO, (strategy,), concurrency=8, outputs=kept(records))
    events = sorted([(r.request.arrival_s, 1) for r in records] + [(r.end, -1) for r in records])
    last = max(r.request.arrival_s for r in records)
    inside, before, area = 0, 0.0, 0.0
    for time, step in events:  # at one instant, those who leave come first
        area += inside * (time - before)
        assert inside == 8 or time == before or before in (0.0, last) or before > last
        inside, before = inside + step, time
    # N = X E: clients inside on average = completions a second x seconds each
    throughput, mean = found.rate_per_s or 0.0, found.e2e_mean_s or 0.0
    assert throughput == pytest.approx(400 / before) and area / before == pytest.approx(throughput * mean)
    assert 7.5 < throughput * mean <= 8


def test_loads_that_are_the_same(tmp_path: Path) -> None:
    def ends(load: Load | None, rows: Any = ROWS) -> tuple[list[float], float | None]:
        records: list[Record] = []
        found = one(rows, SCENARIO, ("chunked",), load=load, outputs=kept(records))
        return sorted(r.end for r in records), found.rate_per_s

    own, rate = ends(None)
    assert rate is not None
    twice, doubled = ends(Load(speedup=2.0))
    again, same = ends(Load(rate=2 * rate))
    assert twice == pytest.approx(again) and doubled == pytest.approx(2 * rate) and same == doubled
    assert ends(Load(rate=rate))[0] == pytest.approx(own)
    once = [r._replace(arrival_s=r.arrival_s / 2) for r in ROWS]
    assert ends(None, once)[0] == pytest.approx(twice)
    # twice over: as many again, a mean gap later
    gap = 1 / rate
    later = [r._replace(arrival_s=r.arrival_s + ROWS[-1].arrival_s + gap) for r in ROWS]
    assert ends(Load(repeat=2))[0] == pytest.approx(ends(None, ROWS + later)[0])
    assert ends(Load(limit=100))[0] == pytest.approx(ends(None, ROWS[:100])[0])
    path = tmp_path / "trace.csv"
    path.write_text(
        "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{r[0]!r},{r.isl},{r[3]}\n" for r in ROWS)
    )
    assert ends(None, path) == (own, rate) and ends(Load(speedup=2.0), path)[0] == pytest.approx(twice)
    assert ends(None, iter(ROWS)) == (own, rate)
    tuples = [(r.arrival_s, r.isl, r.output_tokens) for r in ROWS]
    assert ends(None, tuples) == (own, rate)


def test_repeat_and_limit_of_a_closed_loop() -> None:
    found = one(ROWS, SCENARIO, ("colocated",), concurrency=4, load=Load(repeat=3, limit=50))
    assert found.finished == 150


def test_a_workload_is_drawn_at_its_rate() -> None:
    hphd = load_workload("hphd")
    found = one(hphd, Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"), ("disaggregated",),
                load=Load(limit=1000, rate=2.0))  # fmt: skip
    # 999 exponential gaps: the mean within 4 standard errors
    assert found.requests == 1000 and found.rate_per_s == pytest.approx(2.0, rel=4 / 999**0.5)
    assert found.attainment is not None  # the workload's own objectives
    with pytest.raises(InputError, match="--repeat"):
        ask_replay(hphd, SCENARIO, load=Load(repeat=2))


def test_exact_and_sketched_quantiles_agree() -> None:
    rows = list(drawn(60_000, 300.0, longest=3))
    sketched, exact = (one(rows, SCENARIO, ("colocated",), exact=exact) for exact in (False, True))
    assert "sketch" in sketched.quantiles and exact.quantiles == "exact"
    for name in (
        "ttft_p50_s",
        "ttft_p90_s",
        "ttft_p95_s",
        "ttft_p99_s",
        "tpot_p50_s",
        "tpot_p99_s",
        "e2e_p95_s",
    ):
        assert getattr(sketched, name) == pytest.approx(getattr(exact, name), rel=1.001e-3), name
    for name in ("ttft_mean_s", "e2e_mean_s", "ttft_max_s", "mean_delay_s"):
        assert getattr(sketched, name) == pytest.approx(getattr(exact, name), rel=1e-12)


def test_memory_does_not_grow_with_the_trace() -> None:
    peaks: list[int] = []

    def rows() -> Iterator[Request]:
        for number, row in enumerate(drawn(130_000, 400.0, longest=1)):
            if number == 70_000:  # past 50,000 nothing more is kept
                tracemalloc.start()
            if number in (100_000, 129_999):
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
            yield row

    try:
        found = one(rows(), SCENARIO, ("colocated",))
    finally:
        tracemalloc.stop()
    assert found.finished == 130_000
    # blocks of records on their way; 30,000 tuples of 6 in a list would add 30,000 x 88 bytes = 2.6 MB
    assert peaks[0] < 10e6 and peaks[1] < peaks[0] + 0.5e6, peaks


def test_busy_windows_integrate_to_the_busy_share(answer: Answer) -> None:
    for found in answer.strategies:
        for pool in found.pools[:2]:  # the link has no windows
            windows = [w for w in found.utilisation_over_time if w.pool == pool.role]
            assert windows[0].start_s == 0.0
            assert [w.start_s for w in windows[1:]] == [w.end_s for w in windows[:-1]]
            assert all(0 <= w.busy_share <= 1 + 1e-12 for w in windows)
            busy = sum((w.end_s - w.start_s) * w.busy_share for w in windows)
            # of the time until the last request ended, on any pool
            last = max(w.end_s for w in found.utilisation_over_time)
            assert busy / last == pytest.approx(pool.busy_share)


def test_overload_stops_early_and_has_no_percentile() -> None:
    # One prompt of 2048 tokens fills a step: four instances complete 4 / t a second, of 1.5 x that arriving.
    step = one([Request(0.0, 2048, 0, 1)], SCENARIO, ("colocated",)).ttft_p50_s or 0.0
    capacity = 4 / step
    rows = [Request(i / (1.5 * capacity), 2048, 0, 1) for i in range(20_000)]
    found = one(rows, SCENARIO, ("colocated",))
    assert not found.stable and not found.answered  # type: ignore[attr-defined]
    assert found.requests < 10_000 and "stopped after" in (found.reason or "")
    assert found.backlog_per_s == pytest.approx(0.5 * capacity, rel=0.02)
    assert found.utilisation == pytest.approx(1.5, rel=0.02)
    for name in (
        "ttft_p50_s",
        "ttft_p95_s",
        "tpot_p99_s",
        "e2e_p95_s",
        "mean_delay_s",
        "ledger",
        "attainment",
    ):
        assert getattr(found, name) is None, name
    transient = one(rows[:5000], SCENARIO, ("colocated",), transient=True)
    assert not transient.stable and transient.finished == 5000 and transient.reason
    # the last of 5,000 waits until 5,000 are done at 4 / t, having come after 5,000 at 6 / t
    assert transient.ttft_max_s == pytest.approx(5000 / capacity / 3, rel=0.02)


def test_one_strategy_of_several_may_be_overloaded() -> None:
    long = [Request(i * 0.02, 6000, 0, 4) for i in range(4000)]
    answer = ask_replay(long, Scenario("Qwen3-0.6B", "a100-sxm-80gb", topology="1P3D"))
    stable = {found.name: found.stable for found in answer.strategies}
    assert stable["colocated"] and not stable["disaggregated"] and answer.answered
    assert answer.best != "disaggregated"


def test_cached_prefixes_lower_prefill_work() -> None:
    rows = [
        Request(i * 0.02, 1024, 0, 4, (*range(i % 4 * 100, i % 4 * 100 + 63), 10_000 + i), 16)
        for i in range(200)
    ]
    scenario = Scenario("Qwen3-0.6B", "a100-sxm-80gb", settings=Settings(routing="prefix"))
    with_cache, without = list[Record](), list[Record]()
    reused = one(rows, scenario, ("colocated",), outputs=kept(with_cache))
    cold = one(rows, scenario, ("colocated",), reuse=False, outputs=kept(without))
    # each of four families is computed once, and then found: 63 of 64 blocks of 16 tokens
    assert sorted(r.cached for r in with_cache) == [0] * 4 + [63 * 16] * 196
    # 16 of 1024 tokens take less than half as long; decode steps stay
    work = [(found.pools[0].busy_share or 0.0) * (found.span_s or 0.0) * 4 for found in (reused, cold)]
    prefill = [sum(r.p1 - r.p0 for r in records) for records in (with_cache, without)]
    assert work[1] - work[0] == pytest.approx(prefill[1] - prefill[0]) and prefill[0] < 0.5 * prefill[1]
    assert (reused.ttft_p95_s or 0.0) < (cold.ttft_p95_s or 0.0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([],), {}, "there is no request"),
        (([7],), {}, "request 1"),
        (([(1.0, 5, 5), (0.5, 5, 5)],), {}, "sort the trace by arrival"),
        (([(0.0, 5, 0)],), {}, "output_tokens"),
        ((ROWS, SCENARIO, ("colocted",)), {}, "did you mean 'colocated'"),
        ((ROWS,), {"concurrency": 0}, "--concurrency must be at least 1"),
        ((ROWS,), {"concurrency": 2, "load": Load(speedup=2.0)}, "--speedup"),
        (([(0.0, 5, 5)],), {"load": Load(rate=2.0)}, "no rate of its own"),
    ],
)
def test_mistakes(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    rows, scenario, *rest = (*arguments, SCENARIO)[: max(2, len(arguments))]
    with pytest.raises(InputError, match=message):
        ask_replay(rows, scenario, *rest, **options)
