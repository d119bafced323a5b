"""Reads of KV tiers: replay against the token-by-token reference, the ledger, and timelines worked out by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_ledger import SLO, STRATEGIES, deployments, requests
from test_replay import (
    BUSY,
    LONGEST,
    MODELS,
    PACES,
    SMALL,
    assert_agree,
    crowd,
    every_strategy,
    many,
    tight,
)

from costmodel.evaluate import summary
from costmodel.evaluate.reference import evaluate
from costmodel.evaluate.replay import replay
from costmodel.evaluate.timeline import ACCOUNTS, Run, TierUse
from costmodel.inputs.workload import Request, Slo
from costmodel.serving.deployment import Deployment
from costmodel.serving.strategies import COLOCATED, DISAGGREGATED, Rule, RuleKind, Strategy, deflected
from costmodel.serving.tiers import KvTier

HELD = ("both", "prefill", "decode", "store")


def tier(name: str = "host", **changes: Any) -> KvTier:
    """A private tier of 60 tokens of 100 bytes, read in 0.1 ms a token."""
    base = KvTier(name, False, 6_000.0, 1e6, 1e6, 100.0)
    return replace(base, **changes)


@st.composite
def tiers(draw: st.DrawFn) -> tuple[KvTier, ...]:
    """One to three tiers: private or shared, small or roomy, behind ports of their own or those of copies."""
    found = []
    for number in range(draw(st.integers(1, 3))):
        shared = draw(st.booleans())
        found.append(
            tier(
                f"tier{number}",
                shared=shared,
                capacity_bytes=draw(st.sampled_from([3_000.0, 20_000.0, 1e9])),
                read_bytes_per_s=draw(st.sampled_from([3.1e5, 2.3e6, 1.7e7])),
                latency_s=draw(st.sampled_from([0.0, 1.3e-3])),
                chunk_tokens=draw(st.sampled_from([16, 256])),
                per_chunk_s=draw(st.sampled_from([0.0, 1.1e-4])),
                on_link=shared and draw(st.booleans()),
            )
        )
    return tuple(found)


def assert_same_prefixes(one: Run, other: Run) -> None:
    """Both runs found and read the same, to the last token."""
    a, b = one.prefixes, other.prefixes
    assert (a.memory_tokens, a.computed_tokens, a.hits) == (b.memory_tokens, b.computed_tokens, b.hits)
    for use, again in zip(a.tiers, b.tiers, strict=True):
        for field in fields(TierUse):
            value = getattr(again, field.name)
            assert getattr(use, field.name) == (
                pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            )


def check(
    bench: Any, strategy: Strategy, deployment: Deployment, rows: list[Request], concurrency: int | None
) -> Run:
    """Both evaluators agree, each ledger adds up to its delay, and stalls suffered are stalls inflicted."""
    assert_agree(bench, strategy, deployment, rows, concurrency)
    times = bench.tables(deployment)
    run = evaluate(strategy, deployment, rows, SLO, times, concurrency=concurrency)
    assert_same_prefixes(run, replay(strategy, deployment, rows, SLO, times, concurrency=concurrency))
    for record in run.records:
        assert abs(sum(record.account(name) for name in ACCOUNTS) - record.delay) < 1e-9
        stages = summary.ttft_stages(record, deployment.settings.first_token)
        assert abs(sum(stages.values()) - record.ttft) < 1e-9
        assert record.load >= 0 and record.queue >= -1e-12 and record.p0 >= record.load
        assert (record.load > 0) == (record.read > 0)
    suffered, inflicted = (sum(getattr(r, n) for r in run.records) for n in ("stalls", "inflicted"))
    assert abs(suffered - inflicted) < 1e-9
    return run


@every_strategy
@many
@given(
    rows=requests(),
    shape=deployments(),
    below=tiers(),
    held=st.sampled_from(HELD),
    load=st.sampled_from(["always", "cheaper"]),
    concurrency=st.sampled_from([None, None, 1, 3]),
)
def test_stated_prefixes_anywhere(
    bench: Any,
    strategy: Strategy,
    rows: list[Request],
    shape: dict[str, Any],
    below: tuple[KvTier, ...],
    held: str,
    load: str,
    concurrency: int | None,
) -> None:
    if shape["prefill"] == shape["decode"]:
        concurrency = None  # instances that send each other requests in step tie, up to rounding
    deployment = bench.deployment(shape.pop("topology"), **shape)
    engine = replace(deployment.settings, prefix_held=held, load=load)
    check(bench, strategy, replace(deployment, settings=engine, tiers=below), rows, concurrency)


KINDS = [("a100-sxm-80gb", 1), ("a100-sxm-80gb", 2), ("h100-sxm", 1)]
#: In the two that are left out a copy ends where a step does, to the last digit: rounding tells which was first.
CROWDS = [seed for seed in range(200, 400) if seed not in (261, 322)]


def drawn_tiers(random: Random) -> tuple[KvTier, ...]:
    """As :func:`tiers`, from a plain generator."""
    found = []
    for number in range(random.randint(1, 3)):
        shared = random.random() < 0.5
        found.append(
            tier(
                f"tier{number}",
                shared=shared,
                capacity_bytes=random.choice([3_000.0, 20_000.0, 1e9]),
                read_bytes_per_s=random.choice([3.1e5, 2.3e6, 1.7e7]),
                latency_s=random.choice([0.0, 1.3e-3]),
                chunk_tokens=random.choice([16, 256]),
                per_chunk_s=random.choice([0.0, 1.1e-4]),
                on_link=shared and random.random() < 0.5,
            )
        )
    return tuple(found)


def test_blocks_that_tiers_keep(bench: Any) -> None:
    """Crowds over tight memory: prompts that read, some from several tiers, preempted ones among them."""
    seen: Counter[str] = Counter()
    for seed in CROWDS:
        random = Random(seed)
        rows = crowd(random, random.randint(2, 40), random.choice(PACES), random.choice(LONGEST), blocks=True)
        shape = {
            "topology": random.choice(["1P1D", "2P1D", "1P2D", "2P3D"]),
            "prefill": random.choice(KINDS),
            "decode": random.choice(KINDS),
            "overlap": random.choice(["serial", "layerwise"]),
            "control_s": random.choice([0.0, 0.003]),
            "token_budget": random.choice([16, 64, 300]),
            "first_token": random.choice(["decode", "prefill", "recompute"]),
            "kv_policy": "grow",
            "lag": random.random() < 0.5,
            "routing": random.choice(["shortest", "round-robin", "prefix"]),
            "load": random.choice(["always", "cheaper"]),
        }
        concurrency = random.choice([None, None, 2, 5])
        if shape["prefill"] == shape["decode"]:
            concurrency = None
        strategy = random.choice((*STRATEGIES, BUSY))
        deployment = tight(bench, SMALL, MODELS[SMALL][0], rows, random.choice([0, 1, 2, 5]), shape)
        deployment = replace(deployment, tiers=drawn_tiers(random))
        run = check(bench, strategy, deployment, rows, concurrency)
        for record in run.records:
            seen["read"] += record.read > 0
            seen["read and in memory"] += 0 < record.read < record.cached
            seen["read and preempted"] += record.read > 0 and record.preempted > 0
            seen["read and deflected"] += record.read > 0 and record.route == "local" and not strategy.pooled
        seen["two tiers"] += sum(use.reads > 0 for use in run.prefixes.tiers) > 1
    assert min(seen.values()) > 3 and len(seen) == 5, seen


# --- timelines by hand ------------------------------------------------------------------------------------
#
# A token takes a tick to compute and two to read; copies take half a tick a token, and 2 of control.


def store(bench: Any, **changes: Any) -> KvTier:
    """A tier that reads a token in two ticks."""
    return tier(capacity_bytes=1e6, bytes_per_token=1.0, read_bytes_per_s=1 / (2 * bench.tick), **changes)


def played(
    bench: Any,
    strategy: Strategy,
    deployment: Deployment,
    rows: Sequence[tuple[float, int, int, int]],
) -> list[Any]:
    """Evaluate rows of (arrival, uncached, cached, output), times in ticks, both ways; return the records."""
    listed = [Request(at * bench.tick, new, old, out) for at, new, old, out in rows]
    times: Any = dict.fromkeys((deployment.prefill,), bench.RoundTimes())
    one, other = (how(strategy, deployment, listed, Slo(), times) for how in (evaluate, replay))
    assert [bench.seen(r) for r in one.records] == [bench.seen(r) for r in other.records]
    return one.records


def test_reads_take_turns_and_others_pass(bench: Any) -> None:
    one = type(bench.round_deployment().topology)(1, 0)
    deployment = replace(bench.round_deployment(one), tiers=(store(bench),))
    rows = [(0, 5, 10, 1), (0, 5, 10, 1), (0, 30, 0, 1)]
    first, second, third = played(bench, COLOCATED, deployment, rows)
    # The third has nothing to read and runs 0-30. The first is read 0-20, waits for that step and runs 30-35;
    # the second is read 20-40 and runs at once.
    assert bench.ticks(third.p0, third.p1) == (0, 30) and bench.ledger(third) == {}
    assert bench.ledger(first) == {"load": 20, "queue": 10} and bench.ticks(first.p0, first.p1) == (30, 35)
    assert bench.ledger(second) == {"load": 40} and bench.ticks(second.p0, second.p1) == (40, 45)
    assert [r.read for r in (first, second, third)] == [10, 10, 0]


def test_reads_and_copies_of_one_port_wait_for_each_other(bench: Any) -> None:
    deployment = replace(bench.round_deployment(), tiers=(store(bench, shared=True, on_link=True),))
    # A: 20 tokens run 0-20, and would be copied 20-30. B is read 5-25 before, so that A's copy takes 25-35 and
    # ends with 2 of control. C asks at 26, before B's prompt ends at 29: C is read 35-55, B's 14 tokens are copied
    # 55-62; C runs 55-59, and its 14 tokens are copied 62-69.
    rows = [(0, 20, 0, 2), (5, 4, 10, 2), (26, 4, 10, 2)]
    a, b, c = played(bench, DISAGGREGATED, deployment, rows)
    assert bench.ledger(a)["link"] == 5 and bench.ticks(a.copied) == (37,)
    assert bench.ticks(b.load, b.p0) == (20, 25)
    assert bench.ticks(c.load, c.p0, c.p1, c.copied) == (29, 55, 59, 71)
    assert bench.ticks(b.copied) == (64,)


@pytest.mark.parametrize(
    ("held", "remote", "local"),
    [
        # uncached 8 and cached 30: (tokens computed, tokens copied), and those of a prompt kept on the decode side
        ("both", (8, 8), 8),
        ("prefill", (8, 38), 38),
        ("decode", (38, 8), 8),
        ("store", (8, 38), 8),
    ],
)
def test_where_a_stated_prefix_lies(bench: Any, held: str, remote: tuple[int, int], local: int) -> None:
    deployment = bench.round_deployment(prefix_held=None)
    tiers_ = (store(bench),) if held == "store" else ()
    deployment = replace(deployment, tiers=tiers_, settings=replace(deployment.settings, prefix_held=held))
    load = 60 if held == "store" else 0
    (record,) = played(bench, DISAGGREGATED, deployment, [(0, 8, 30, 1)])
    computed, copied = remote
    assert bench.ticks(record.load, record.p1) == (load, load + computed)
    assert bench.ticks(record.copied - record.reserved) == (copied / 2 + 2,)
    stays = deflected(Rule(RuleKind.THRESHOLD, threshold=1000))
    (record,) = played(bench, stays, deployment, [(0, 8, 30, 1)])
    assert record.route == "local" and bench.ticks(record.load, record.p1) == (load, load + local)
    (record,) = played(bench, COLOCATED, deployment, [(0, 8, 30, 1)])
    assert bench.ticks(record.load, record.p1) == (load, load + 8)


def test_only_what_reads_faster_is_read_where_that_is_asked(bench: Any) -> None:
    # Two ticks to read a token and one to compute it: not worth it. At half a tick it is.
    slow, fast = store(bench), replace(store(bench), read_bytes_per_s=2 / bench.tick)
    for below, expected in ((slow, (0, 18)), (fast, (5, 13))):
        deployment = replace(bench.round_deployment(load="cheaper"), tiers=(below,))
        (record,) = played(bench, COLOCATED, deployment, [(0, 8, 10, 1)])
        assert bench.ticks(record.load, record.p1) == expected


@pytest.mark.parametrize("strategy", [COLOCATED, DISAGGREGATED], ids=["pooled", "split"])
def test_no_prompt_is_read_faster_than_its_tier_allows(bench: Any, strategy: Strategy) -> None:
    below = tier(read_bytes_per_s=1e9, bytes_per_token=114_688.0, capacity_bytes=1e12)
    deployment = replace(bench.deployment("1P1D"), tiers=(below,))
    rows = [Request(0.01 * i, 50, 90, 3) for i in range(10)]
    for record in bench.evaluate(strategy, deployment, rows, SLO).records:
        bound = record.read * below.bytes_per_token / below.read_bytes_per_s
        assert record.read == 90 and record.load >= bound * (1 - 1e-12)
        assert record.p0 >= (record.request.arrival_s + bound) * (1 - 1e-12)
