"""Hits of a prefix cache of every size: one pass against an LRU cache played for each size."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.evaluate import stack
from costmodel.evaluate.prefix import PrefixCache
from costmodel.evaluate.stack import miss_ratio_curve
from costmodel.inputs.traces import Trace
from costmodel.inputs.workload import Request

RAW = Path(__file__).parents[2] / "shared" / "traces" / "mooncake_synthetic_raw.jsonl.gz"
TOKENS = 4


def prompt(blocks: Sequence[int], short: int = 0) -> Request:
    """A prompt of whole blocks but for ``short`` tokens of the last."""
    return Request(0.0, len(blocks) * TOKENS - short, 0, 1, tuple(blocks), TOKENS)


def played(requests: Sequence[Request], size: float, tail_first: bool) -> int:
    """Hits of one LRU cache, block by block: the oracle."""
    held: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for request in requests:
        found = 0
        for block in request.blocks:
            if block not in held:
                break
            found += TOKENS
        hits += min(found, request.isl - 1)
        for block in reversed(request.blocks) if tail_first else request.blocks:
            held.pop(block, None)
            held[block] = None
        while len(held) * TOKENS > size:
            held.popitem(last=False)
    return hits


#: Prompts as paths in a tree: a hash stands for all tokens before it, too.
PATHS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), min_size=1, max_size=30)


def hashed(path: Sequence[int]) -> list[int]:
    return [hash(tuple(path[: end + 1])) for end in range(len(path))]


@settings(max_examples=150, deadline=None)
@given(paths=PATHS, short=st.integers(0, TOKENS - 1), tail_first=st.booleans())
def test_one_pass_is_an_lru_cache_of_every_size(paths: list[list[int]], short: int, tail_first: bool) -> None:
    requests = [prompt(hashed(path), short) for path in paths]
    curve = miss_ratio_curve(requests, tail_first=tail_first)
    for size in range(curve.working_set_tokens + 2 * TOKENS):
        assert curve.hits(size) == played(requests, size, tail_first), size
    assert curve.most_hits == played(requests, float("inf"), tail_first)


@settings(max_examples=80, deadline=None)
@given(blocks=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6), min_size=1, max_size=20))
def test_hashes_that_are_no_tree_count_a_prefix_as_far_as_all_of_it_is_there(blocks: list[list[int]]) -> None:
    requests = [prompt(each) for each in blocks]
    for tail_first in (True, False):
        curve = miss_ratio_curve(requests, tail_first=tail_first)
        for size in range(0, 11 * TOKENS, TOKENS):
            assert curve.hits(size) == played(requests, size, tail_first)


@settings(max_examples=60, deadline=None)
@given(paths=PATHS)
def test_the_cache_of_the_replay_hits_as_often(paths: list[list[int]]) -> None:
    requests = [prompt(hashed(path)) for path in paths]
    curve = miss_ratio_curve(requests)
    for size in (TOKENS, 3 * TOKENS, 10 * TOKENS):
        cache, hits = PrefixCache(bytes_per_token=1.0), 0
        for request in requests:
            hits += cache.hit(request)
            cache.add(request, float(size))
        assert curve.hits(size) == hits


def test_numbers_of_uses_begin_anew_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "_SMALLEST", 4)
    requests = [prompt([i % 7, 100 + i % 3, 200 + i % 5]) for i in range(60)]
    curve = miss_ratio_curve(requests)
    for size in range(0, 80, TOKENS):
        assert curve.hits(size) == played(requests, size, True)


def test_memory_is_bounded_by_distinct_blocks() -> None:
    recency = stack._Recency()
    for use in range(200_000):
        recency.use(use % 1000, 1)
    assert len(recency) == recency.tokens == 1000
    assert len(recency._tree) <= 2 * 1000 + 1


def test_by_hand() -> None:
    # two prompts of two blocks in turn, four times each: 16 tokens; nothing is found in less, 7 of 8 a prompt then
    requests = [prompt([i % 2 * 10, i % 2 * 10 + 1]) for i in range(8)]
    curve = miss_ratio_curve(requests)
    assert (curve.requests, curve.hashed, curve.prompt_tokens, curve.output_tokens) == (8, 8, 64, 8)
    assert (curve.working_set_tokens, curve.distinct_blocks) == (16, 4)
    # a block at the end is forgotten first: 12 tokens hold the first block of the prompt before last
    assert (curve.hits(11), curve.hits(12), curve.hits(16)) == (0, 6 * 4, 6 * 7)
    assert curve.infinite_hit_rate == 42 / 64 == curve.hit_rate(1e12)
    assert curve.enough_tokens == 16
    assert (curve.size_for(0.5), curve.size_for(0.9), curve.size_for(24 / 42)) == (12, 16, 12)


def test_a_cyclic_scan_finds_nothing_until_all_of_it_fits() -> None:
    curve = miss_ratio_curve([prompt([i % 6]) for i in range(60)])
    assert curve.hits(6 * TOKENS - 1) == 0
    assert curve.hits(6 * TOKENS) == 54 * (TOKENS - 1)


def test_nothing_shared_gains_nothing_at_any_size() -> None:
    curve = miss_ratio_curve([prompt([i]) for i in range(5)])
    assert (curve.most_hits, curve.enough_tokens, curve.size_for(0.9)) == (0, 0, None)
    assert curve.hit_rate(1e9) == 0


def test_what_has_no_hashes_is_refused() -> None:
    with pytest.raises(InputError, match="no requests"):
        miss_ratio_curve([])
    with pytest.raises(InputError, match="--hit-rate"):
        miss_ratio_curve([Request(0.0, 10, 0, 1)])


@pytest.mark.skipif(not RAW.exists(), reason="the trace is not here")
def test_the_synthetic_trace_of_mooncake_has_the_hits_of_its_infinite_cache() -> None:
    curve = miss_ratio_curve(Trace(RAW))
    # the CSV beside it counts the hits of an infinite cache: 0.6512 of all prompt tokens
    assert curve.infinite_hit_rate == pytest.approx(0.6512444360312151, abs=2e-4)
    assert curve.requests == 3993
    requests = list(Trace(RAW))
    for size in (100_000, 3_000_000):
        cache, hits = OrderedDict[int, None](), 0
        for request in requests:
            found = 0
            for block in request.blocks:
                if block not in cache:
                    break
                found += 512
            hits += min(found, request.isl - 1)
            for block in reversed(request.blocks):
                cache.pop(block, None)
                cache[block] = None
            while len(cache) * 512 > size:
                cache.popitem(last=False)
        assert curve.hits(size) == hits
