"""Replay against the token-by-token reference: every timestamp and account, on random small workloads."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from itertools import accumulate
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_ledger import NAMES, SLO, STRATEGIES, deployments, requests

from costmodel.evaluate.reference import evaluate
from costmodel.evaluate.replay import replay
from costmodel.evaluate.timeline import Record, Run
from costmodel.inputs.workload import Request
from costmodel.serving.deployment import Deployment
from costmodel.serving.strategies import (
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)

BUSY = deflected(Rule(RuleKind.BUSY, threshold=20, queue=2))
every_strategy = pytest.mark.parametrize("strategy", (*STRATEGIES, BUSY), ids=[*NAMES, "busy"])
any_strategy = st.sampled_from((*STRATEGIES, BUSY))
many = settings(max_examples=70, suppress_health_check=[HealthCheck.too_slow])
SECONDS = [f.name for f in fields(Record) if f.type == "float" and f.name != "held_byte_s"]
EQUAL = ["index", "route", "cached", "preempted", "ahead", "ahead_tokens", "prefill_on", "decode_on"]
#: Windows of 512 and 128 tokens, a recurrent state, windows and shared caches: and the tokens near which it matters.
SMALL = "Qwen3-0.6B"
MODELS = {
    SMALL: (1, 120),
    "google/gemma-3-1b-it": (1, 512),
    "openai/gpt-oss-20b": (1, 128),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": (4, 60),
    "google/gemma-4-E2B-it": (1, 512),
}


def assert_same(one: Run, other: Run) -> None:
    """Both runs have the same records within 1e-9 s, and the same use of their pools."""
    assert len(one.records) == len(other.records)
    for a, b in zip(one.records, other.records):
        for name in EQUAL:
            assert getattr(a, name) == getattr(b, name), name
        for name in SECONDS:
            assert abs(getattr(a, name) - getattr(b, name)) < 1e-9, (name, a, b)
        assert a.held_byte_s == pytest.approx(b.held_byte_s, rel=1e-9)
    for use, again in zip(one.pools, other.pools):
        assert use.role == again.role
        for field in fields(use)[1:]:
            assert getattr(use, field.name) == pytest.approx(getattr(again, field.name), rel=1e-9, abs=1e-12)


def assert_agree(
    bench: Any, strategy: Strategy, deployment: Deployment, rows: list[Request], concurrency: int | None
) -> list[Record]:
    """Evaluate both ways; return the records."""
    times = bench.tables(deployment)
    run = evaluate(strategy, deployment, rows, SLO, times, concurrency=concurrency)
    assert_same(run, replay(strategy, deployment, rows, SLO, times, concurrency=concurrency))
    assert run.finished == run.records and len(run.records) == len(rows)
    return run.records


@every_strategy
@many
@given(rows=requests(), shape=deployments(), concurrency=st.sampled_from([None, None, 1, 3]))
def test_replay_is_the_reference(
    bench: Any, strategy: Strategy, rows: list[Request], shape: dict[str, Any], concurrency: int | None
) -> None:
    deployment = bench.deployment(shape.pop("topology"), **shape)
    assert_agree(bench, strategy, deployment, rows, concurrency)


#: What a crowd can run into.
PLACES = (
    "preempted",
    "before the first token, prefill",
    "before the first token, recompute",
    "preempted again",
    "cached",
)
PACES, LONGEST = (0.0, 1e-4, 2e-3, 2e-2), (3, 20, 90)


def crowd(
    random: Random, count: int, pace: float, longest: int, near: int = 30, blocks: bool = False
) -> list[Request]:
    """``count`` requests, close together, prompts around ``near`` tokens; ``blocks`` that begin alike."""
    times = accumulate(random.choice((0.0, pace * random.random())) for _ in range(count))
    rows = []
    for time in times:
        prompt = max(2, near + random.randint(-30, 30)) if random.random() < 0.3 else random.randint(10, 50)
        row = Request(time, prompt, 0, random.randint(1, longest))
        if blocks:
            hashes = range(-(-prompt // 8))
            own = random.randint(0, len(hashes))  # from here on unlike those of others
            family, alone = random.randrange(3), random.randrange(10**9)
            row = row._replace(
                blocks=tuple(family * 1000 + i if i < own else alone + i for i in hashes), block_tokens=8
            )
        rows.append(row)
    return rows


@st.composite
def crowds(draw: st.DrawFn, most: int = 40, near: int = 30, blocks: bool = False) -> list[Request]:
    """Crowds of up to ``most`` requests."""
    count, random = draw(st.integers(2, most)), draw(st.randoms(use_true_random=False))
    return crowd(random, count, draw(st.sampled_from(PACES)), draw(st.sampled_from(LONGEST)), near, blocks)


def tight(bench: Any, model: str, tp: int, rows: list[Request], beside: int, shape: dict[str, Any]) -> Any:
    """A deployment of any model whose pools hold the longest request and some of the shortest ``beside`` it."""
    (source, _), (target, _) = shape.pop("prefill"), shape.pop("decode")
    ends = bench.kind_of(source, tp, model), bench.kind_of(target, tp, model)
    base = bench.deployment(shape.pop("topology"), **shape)
    longest, shortest = max(row.isl + row.output_tokens for row in rows), min(row.isl for row in rows)
    pools = []
    for kind in ends:
        pool = bench.pool_of(kind, 1)
        held = pool.held_bytes(longest) + beside * pool.held_bytes(shortest + 4)
        pools.append(replace(pool, pool_bytes=held))
    path = replace(base.path, source=ends[0], target=ends[1])
    return replace(
        base, prefill=ends[0], decode=ends[1], prefill_pool=pools[0], decode_pool=pools[1], path=path
    )


def assert_agree_on_many(
    bench: Any,
    model: str,
    examples: int,
    policy: str | None = None,
    first_token: str | None = None,
    **how: Any,
) -> None:
    """Compare on crowds over tight pools."""

    @settings(many, max_examples=examples)
    @given(
        data=st.data(),
        strategy=any_strategy,
        shape=deployments(max_seqs=256, kv_policy=policy, first_token=first_token),
        beside=st.sampled_from([0, 1, 2, 5]),
        routing=st.sampled_from(["shortest", "round-robin", "prefix"]),
        concurrency=st.sampled_from([None, None, 2, 5]),
    )
    def check(
        data: st.DataObject,
        strategy: Strategy,
        shape: dict[str, Any],
        beside: int,
        routing: str,
        concurrency: int | None,
    ) -> None:
        if shape["prefill"] == shape["decode"]:
            concurrency = None  # instances that send each other requests in step tie, up to rounding
        tp, near = MODELS[model]
        rows = data.draw(crowds(near=near, **how))
        shape["routing"] = routing
        assert_agree(bench, strategy, tight(bench, model, tp, rows, beside, shape), rows, concurrency)

    check()


@pytest.mark.parametrize("model", [name for name in MODELS if name != SMALL])
def test_windows_that_forget_and_states_that_do_not_grow(bench: Any, model: str) -> None:
    assert_agree_on_many(bench, model, 100, most=20)


def test_prefix_caches_that_forget(bench: Any) -> None:
    assert_agree_on_many(bench, SMALL, 100, blocks=True)


def test_preemption(bench: Any) -> None:
    assert_agree_on_many(bench, SMALL, 120, "grow")


def test_preemption_before_the_first_token(bench: Any) -> None:
    assert_agree_on_many(bench, SMALL, 120, "grow", "recompute")


@pytest.mark.parametrize("model", MODELS)
def test_crowds_reach_every_place(bench: Any, model: str) -> None:
    """What the random workloads above are for does happen: here the draws do not hang on the library's."""
    seen: Counter[str] = Counter()
    tp, near = MODELS[model]
    for seed in range(50):
        random = Random(seed)
        rows = crowd(random, random.randint(10, 30), random.choice(PACES), 90, near, blocks=True)
        first_token = ("prefill", "recompute")[seed % 2]
        shape = {
            "topology": "1P1D",
            "prefill": ("h100-sxm", tp),
            "decode": ("a100-sxm-80gb", tp),
            "kv_policy": "grow",
            "token_budget": 16,
            "routing": "prefix",
            "first_token": first_token,
        }
        strategy = (*STRATEGIES, BUSY)[seed // 2 % (len(STRATEGIES) + 1)]
        deployment = tight(bench, model, tp, rows, random.choice((1, 2, 5)), shape)
        for record in assert_agree(bench, strategy, deployment, rows, None):
            seen["preempted"] += record.preempted > 0
            seen["preempted again"] += record.preempted > 1
            seen[f"before the first token, {first_token}"] += record.redone > 0
            seen["cached"] += record.cached > 0
            seen["requests"] += 1
    recurrent = "Next" in model  # a state is small and is not shared: it is neither outgrown twice nor cached
    for what in PLACES[: 3 if recurrent else None]:
        assert seen[what] > 3, (what, seen)
    assert seen["cached"] < 0.9 * seen["requests"]


def one_kind(bench: Any, rows: list[Request]) -> Deployment:
    """1P1D of one kind, whose pools hold little more than the longest request."""
    shape = {"topology": "1P1D", "prefill": ("a100-sxm-80gb", 1), "decode": ("a100-sxm-80gb", 1)}
    longest = max(row.isl + row.output_tokens for row in rows)
    found: Deployment = bench.deployment(**shape, pool_tokens=1.1 * longest)
    return found


def test_passed_over_no_longer_once_a_preempted_request_is_ahead(bench: Any) -> None:
    # 103 + 20 tokens decode beside each other until they outgrow 124: the second is preempted and becomes the
    # head of the queue, so that the fourth waits behind it and not for memory.
    rows = [Request(0.0, prompt, 0, out) for prompt, out in ((125, 1), (103, 10), (20, 9), (104, 1))]
    records = assert_agree(bench, COLOCATED, one_kind(bench, rows), rows, None)
    assert records[2].preempted == 1 and records[3].queue > 0 and records[3].admission > 0


def test_a_prompt_without_blocks_takes_room_from_the_prefix_cache(bench: Any) -> None:
    # 133 of 146 tokens belong to the second request, so that the block of the first is forgotten.
    rows = [Request(0.0, 88, 0, 1, (5,), 16), Request(0.0, 132, 0, 1), Request(0.0, 74, 0, 1, (5,), 16)]
    assert_agree(bench, DISAGGREGATED, one_kind(bench, rows), rows, None)


@pytest.mark.parametrize(
    ("model", "policy", "kinds", "spare", "lengths"),
    [
        # what running decodes have reserved stays reserved: bytes are not theirs to grow into
        ("google/gemma-3-1b-it", "reserve", [("h100-sxm", 1)] * 2, (1.1, 1.4), [(483, 3), (532, 1)]),
        # a mixed step under way already holds the token that it adds to each decode
        (
            "openai/gpt-oss-20b",
            "grow",
            [("a100-sxm-80gb", 1), ("a100-sxm-80gb", 2)],
            (1.05, 1.3),
            [(110, 55), (114, 1), (1, 4), (47, 1), (30, 1)],
        ),
    ],
    ids=["reserved", "mixed"],
)
def test_memory_where_windows_forget(
    bench: Any,
    model: str,
    policy: str,
    kinds: Any,
    spare: tuple[float, float],
    lengths: list[tuple[int, int]],
) -> None:
    rows = [Request(0.0, prompt, 0, output) for prompt, output in lengths]
    base = bench.deployment("1P1D", kv_policy=policy, token_budget=2048 if policy == "reserve" else 16)
    ends = [bench.kind_of(*kind, model) for kind in kinds]
    longest = max(map(sum, lengths))
    pools = [
        replace(bench.pool_of(kind, 1), pool_bytes=s * bench.pool_of(kind, 1).held_bytes(longest))
        for kind, s in zip(ends, spare)
    ]
    path = replace(base.path, source=ends[0], target=ends[1])
    deployment = replace(
        base, prefill=ends[0], decode=ends[1], prefill_pool=pools[0], decode_pool=pools[1], path=path
    )
    assert_agree(bench, BUSY, deployment, rows, None)
