"""What tiers gain: a published benchmark of a fleet, working sets around a capacity, and blocks against a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.decision.reuse import Seen, gain
from costmodel.evaluate import summary
from costmodel.evaluate.prefix import PrefixCache
from costmodel.evaluate.replay import replay
from costmodel.evaluate.tiers import Found, Prefixes, TierStore
from costmodel.evaluate.timeline import Run
from costmodel.inputs.workload import Request, Slo
from costmodel.memory.settings import EngineSettings
from costmodel.questions.replay import ReplayAnswer, ask_replay
from costmodel.questions.tiers import parse_tiers
from costmodel.serving.deployment import Deployment, Settings
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import CHUNKED, COLOCATED
from costmodel.serving.tiers import KvTier

# --- Qwen3-32B on 16 H100s -----------------------------------------------------------------------------
#
# llm-d/llm-d, guides/tiered-prefix-cache/cpu/README.md: 8 engines of 2 H100s with 9,271 blocks of 16 tokens each,
# 45 groups of 10 prompts that share 30,000 tokens, 256 of their own, 1,024 of output; 45 requests at a time. Baseline
# and 100 GB of CPU memory an engine: 38,534.8 and 46,662.5 tokens/s, mean TTFT 9.0 and 6.7 s, E2E 37.8 and 31.0 s.

GROUPS, EACH, SHARED, OWN, OUT, CLIENTS, ENGINES, BLOCK = 45, 10, 30_000, 256, 1_024, 45, 8, 16
KV = 64 * 2 * 8 * 128 * 2  # layers, K and V, heads of 128 elements of 2 bytes: 262,144 bytes a token
BASE, TIERED = (38_534.8, 9.0, 37.8), (46_662.5, 6.7, 31.0)


def groups() -> list[Request]:
    """The prompts in an order of chance, with the hashes of their blocks."""
    order = [group for group in range(GROUPS) for _ in range(EACH)]
    Random(1).shuffle(order)
    shared, own = SHARED // BLOCK, OWN // BLOCK
    rows = []
    for number, group in enumerate(order):
        blocks = [group * 10_000 + i for i in range(shared)] + [10**9 + number * own + i for i in range(own)]
        rows.append(Request(0.0, SHARED + OWN, 0, OUT, tuple(blocks), BLOCK))
    return rows


def fleet(*offload: str) -> Deployment:
    """The deployment, with the KV pool that its engines logged."""
    return Scenario(
        "Qwen/Qwen3-32B",
        "h100-sxm",
        topology=str(ENGINES),
        tp=2,
        engine=EngineSettings(pool_bytes=9_271 * 16 * KV / 2),
        settings=Settings(routing="prefix", token_budget=8192, max_seqs=1024),
        offload=parse_tiers(offload, "--offload"),
    ).deployment()


def seen(run: Run) -> tuple[float, float, float]:
    """Tokens a second, mean TTFT and mean E2E."""
    done = run.finished
    tokens = sum(record.request.isl + record.request.output_tokens for record in done)
    return (
        tokens / run.span_s,
        summary.mean([record.ttft for record in done]),
        summary.mean([record.e2e for record in done]),
    )


@pytest.fixture(scope="module")
def benchmark() -> tuple[Run, Run, Deployment]:
    """The requests without and with host memory below the GPUs', one client in turn after the other."""
    bare, tiered = fleet(), fleet("dram-pcie5-vllm-0.12,capacity=100GiB")
    rows = groups()
    one, other = (replay(CHUNKED, d, rows, Slo(), concurrency=CLIENTS) for d in (bare, tiered))
    return one, other, tiered


def test_the_prefixes_exceed_gpu_memory_by_little(benchmark: tuple[Run, Run, Deployment]) -> None:
    pool = benchmark[2].prefill_pool
    have, need = ENGINES * 2 * pool.pool_bytes, GROUPS * SHARED * KV
    assert need == pytest.approx(354e9, rel=1e-3) and have == pytest.approx(311e9, rel=1e-3)
    assert need / have == pytest.approx(1.14, abs=0.005)


def test_a_hit_gains_25_times_and_the_fleet_a_quarter(benchmark: tuple[Run, Run, Deployment]) -> None:
    bare, tiered, deployment = benchmark
    before, after = seen(bare), seen(tiered)
    # 30,000 tokens are 7.86 GB: 79 ms over two ways of 50 GB/s. By hand, 2 x 32.8e9 x 30,000 FLOPs at half of the peak
    # of two GPUs take 2.0 s, 25 times as long.
    assert deployment.tiers[0].read_s(SHARED) == pytest.approx(SHARED * KV / 100e9, rel=1e-9)
    found = gain(
        "chunked",
        tiered.prefixes,
        len(tiered.records),
        Seen(before[1], summary.gpu_seconds(bare), before[0]),
        Seen(after[1], summary.gpu_seconds(tiered), after[0]),
    )
    # Hits here read 26,000 tokens on average, behind those that GPU memory still has.
    assert found.per_hit_gain == pytest.approx(25, rel=0.2)
    # Published: 1.21 times the tokens a second, 1.34 the mean TTFT, 1.22 E2E. Simulated gains are within 10 %.
    assert found.rate_gain == pytest.approx(TIERED[0] / BASE[0], rel=0.10)
    assert found.ttft_gain == pytest.approx(BASE[1] / TIERED[1], rel=0.10)
    assert before[2] / after[2] == pytest.approx(BASE[2] / TIERED[2], rel=0.10)
    assert found.fleet_gain == pytest.approx(found.rate_gain, rel=0.05)  # the GPUs are never idle


def test_absolute_figures_are_off_by_a_tenth_but_for_ttft(benchmark: tuple[Run, Run, Deployment]) -> None:
    # Nothing is fitted to this benchmark. TTFT is half as long again as measured, with and without the tier: all 45
    # clients begin at once here, and how the benchmark's own came is not stated.
    errors = [
        [found / measured - 1 for found, measured in zip(seen(run), figures)]
        for run, figures in ((benchmark[0], BASE), (benchmark[1], TIERED))
    ]
    assert errors[0] == pytest.approx([-0.11, 0.49, 0.03], abs=0.03)
    assert errors[1] == pytest.approx([-0.07, 0.44, -0.01], abs=0.03)


def test_prefixes_that_fit_gpu_memory_gain_next_to_nothing(bench: Any) -> None:
    # The guide's other case: 8,000 shared tokens a group; 23,389.6 tokens/s without and 23,032.6 with the tier.
    rows = [r._replace(uncached_tokens=8_256, blocks=(*r.blocks[:500], *r.blocks[-16:])) for r in groups()]
    rates = [
        seen(replay(CHUNKED, d, rows, Slo(), concurrency=CLIENTS))[0]
        for d in (fleet(), fleet("dram-pcie5-vllm-0.12,capacity=100GiB"))
    ]
    assert rates[1] / rates[0] == pytest.approx(23_032.6 / 23_389.6, abs=0.04)


# --- working sets around a capacity --------------------------------------------------------------------------


def around(bench: Any, prompts: int, rounds: int, fits: int, *, shared: bool) -> Run:
    """Prompts of one block and one token more, one after the other, time after time; a tier for ``fits`` blocks."""
    block, far = 32, 10.0
    kv = KvTier("host", shared, fits * block * 100.0, 1e9, 1e9, 100.0)
    # GPU memory has room for the request under way alone
    deployment = replace(bench.deployment("1P1D", pool_tokens=block + 3), tiers=(kv,))
    rows = [Request(far * i, block + 1, 0, 1, (i % prompts,), block) for i in range(prompts * rounds)]
    run: Run = bench.evaluate(COLOCATED, deployment, rows, Slo())
    return run


@pytest.mark.parametrize("prompts", [3, 8, 20])
def test_a_cycle_larger_than_a_tier_hits_nothing_and_a_smaller_one_everything(
    bench: Any, prompts: int
) -> None:
    missed = around(bench, prompts, 4, prompts - 1, shared=True)
    assert missed.prefixes.hits == 0 and all(r.read == 0 for r in missed.records)
    assert missed.prefixes.tiers[0].written_tokens == 4 * prompts * 32
    hit = around(bench, prompts, 4, prompts, shared=True)
    assert [r.read for r in hit.records] == [0] * prompts + [32] * 3 * prompts
    assert hit.prefixes.tiers[0].written_tokens == prompts * 32


def test_an_offload_tier_serves_its_own_instance_and_a_store_all(bench: Any) -> None:
    # Two pooled instances that take turns: of a cycle of two prompts each always comes to the same instance, of a
    # cycle of three to one and the other. A tier of one instance has it after two rounds, a store after one.
    reads = {
        (prompts, shared): [r.read for r in around(bench, prompts, 4, 100, shared=shared).records]
        for prompts in (2, 3)
        for shared in (False, True)
    }
    assert reads[2, True] == reads[2, False] == [0] * 2 + [32] * 6
    assert reads[3, True] == [0] * 3 + [32] * 9
    assert reads[3, False] == [0] * 6 + [32] * 6


def test_of_a_prompt_that_finds_half_the_room_its_beginning_is_kept() -> None:
    memory = PrefixCache(1.0)
    request = Request(0.0, 17, 0, 1, (1, 2, 3, 4), 4)
    memory.add(request, 8.0)
    assert memory.hit(request) == 8
    store = TierStore(KvTier("host", True, 80.0, 1e3, 1e3, 10.0))
    store.write(request)
    assert [store.has(block) for block in request.blocks] == [True, True, False, False]


# --- blocks, against a loop ----------------------------------------------------------------------------------


class Plain:
    """A tier as lists: blocks in the order of their last use."""

    def __init__(self, room: int) -> None:
        self.room, self.order = room, list[int]()

    def use(self, blocks: Sequence[int], *, new: bool) -> None:
        for block in reversed(blocks):
            if block in self.order or new:
                self.order = [b for b in self.order if b != block] + [block]
        self.order = self.order[max(0, len(self.order) - self.room) :]


class Slow:
    """Prefill takes a second a token."""

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        return float(tokens)


@given(
    prompts=st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 9), st.booleans()), max_size=25
    ),
    rooms=st.lists(st.integers(0, 14), min_size=1, max_size=3),
)
def test_what_is_found_is_what_a_loop_finds(
    prompts: list[tuple[int, int, int, bool]], rooms: list[int]
) -> None:
    block = 4
    stores = [
        TierStore(KvTier(f"t{i}", True, room * block * 10.0, 1e3, 1e3, 10.0)) for i, room in enumerate(rooms)
    ]
    memory = PrefixCache(1.0)
    instance = Prefixes(memory, stores, Slow())
    plain, held = [Plain(room) for room in rooms], set[int]()
    for number, (family, length, alike, kept) in enumerate(prompts):
        blocks = [family * 100 + i if i < alike else 10_000 + number * 100 + i for i in range(length)]
        request = Request(0.0, length * block + 1, 0, 1, tuple(blocks), block)
        # the loop: memory first, then the first tier that has the next block
        expected, at = [0] * len(rooms), 0
        while at < length and blocks[at] in held:
            at += 1
        in_memory = at
        while (
            at < length
            and (place := next((i for i, p in enumerate(plain) if blocks[at] in p.order), -1)) >= 0
        ):
            expected[place] += block
            at += 1
        found = instance.find(request)
        assert found == Found(at * block, tuple((i, n) for i, n in enumerate(expected) if n))
        assert found.cached - sum(n for _, n in found.reads) == in_memory * block
        instance.take(request, found)
        for place, tokens in enumerate(expected):
            if tokens:
                plain[place].use(blocks[:at], new=False)
        if kept:
            memory.add(request, 1e9)
            held |= set(blocks)
        instance.write(request, request.isl - found.cached)
        for one in plain:
            one.use(blocks, new=True)
        for store, one in zip(stores, plain):
            assert store.tokens == len(one.order) * block
            assert all(store.has(b) for b in one.order)


def test_the_last_token_is_computed_even_where_all_blocks_are_found() -> None:
    store = TierStore(KvTier("host", True, 1e9, 1e3, 1e3, 10.0))
    instance = Prefixes(PrefixCache(1.0), [store], Slow())
    request = Request(0.0, 8, 0, 1, (1, 2), 4)
    instance.write(request, 8)
    assert instance.find(request) == Found(7, ((0, 7),))


def test_cheaper_reads_the_fast_part_of_a_prefix_alone() -> None:
    # 8 tokens of 10 bytes lie in a tier of 100 B/s (0.8 s), 8 more in one of 1 B/s (80 s); a token takes 1 s to compute
    fast, slow = (TierStore(KvTier(n, True, 1e9, rate, 1e3, 10.0)) for n, rate in (("a", 100.0), ("b", 1.0)))
    instance = Prefixes(PrefixCache(1.0), [fast, slow], Slow(), cheaper=True)
    request = Request(0.0, 17, 0, 1, (1, 2), 8)
    fast.write(request._replace(blocks=(1,)))
    slow.write(request)
    assert instance.find(request) == Found(8, ((0, 8),))
    instance.cheaper = False
    assert instance.find(request) == Found(16, ((0, 8), (1, 8)))


# --- figures -----------------------------------------------------------------------------------------------


def test_writes_beyond_a_tier_are_a_warning() -> None:
    # 4,096 new tokens of 114,688 bytes at 10/s are 4.7 GB/s for two instances, where one takes 1 GB/s
    scenario = Scenario(
        "Qwen3-0.6B",
        "h100-sxm",
        topology="2",
        offload=parse_tiers(["dram-pcie5,capacity=1TB,write=1GB/s"], "--offload"),
    )
    rows = [Request(0.1 * i, 4096, 0, 2, tuple(range(i * 100, i * 100 + 16)), 256) for i in range(400)]
    answer = ask_replay(rows, scenario, ("colocated", "chunked"))
    assert isinstance(answer, ReplayAnswer)
    for result in answer.strategies:
        (tier,) = result.tiers
        assert tier.write_use == pytest.approx(4096 * 114_688 * 5 / 1e9, rel=0.02)
        assert tier.reads == 0 and result.hit_rate_tokens == {"hbm": 0, "tier dram-pcie5": 0, "computed": 1}
        assert result.reuse is not None and result.reuse.per_hit_reason == "no prompt read a prefix"
    assert sum("times the writes that it takes" in text for text in answer.about.warnings) == 2
