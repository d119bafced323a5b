"""The book's formulas of reuse, by hand."""

from __future__ import annotations

import pytest

from costmodel.formulas import reuse


def test_reading_from_a_tier_adds_latency_pieces_and_bytes() -> None:
    # 600 tokens in 3 pieces of 256 of 2 ms, 10 ms of latency, 600 * 1,000 bytes at 1 MB/s = 0.6 s
    found = reuse.tier_read_time(
        tokens=600,
        kv_bytes_per_token=1000,
        latency=0.01,
        tier_chunk=256,
        per_chunk=0.002,
        tier_bytes_per_s=1e6,
    )
    assert found == pytest.approx(0.616, rel=1e-12)


def test_overflow_is_what_all_hold_beyond_the_pool() -> None:
    # 3 * (7 * 11 + 5) = 246
    held = {"held_sequences": 3, "length": 7, "kv_bytes_per_token": 11, "sequence_fixed_bytes": 5}
    assert reuse.kv_overflow(**held, free_bytes=200) == 46
    assert reuse.kv_overflow(**held, free_bytes=246) == 0
    assert reuse.kv_overflow(**held, free_bytes=1e9) == 0


def test_a_prefill_looks_back_at_every_token_before_it() -> None:
    # token i of u new ones over p: a + b (2 (p + i) - 1), summed: a u + b (u^2 + 2 p u)
    a, b, prefix, new = 3.0, 0.25, 5, 4
    by_token = sum(a + b * (2 * (prefix + i) - 1) for i in range(1, new + 1))
    found = reuse.prefill_over_prefix(
        uncached=new, prefix=prefix, prefill_fixed=7, prefill_per_token=a, prefill_growth=b
    )
    assert found == 7 + by_token == 7 + 12 + 0.25 * 56


@pytest.mark.parametrize("new", [1, 17, 400])
def test_what_a_prefix_saves_does_not_depend_on_what_follows(new: int) -> None:
    rates = {"prefill_per_token": 2e-5, "prefill_growth": 3e-9}
    whole = reuse.prefill_over_prefix(uncached=1000 + new, prefix=0, prefill_fixed=0.01, **rates)
    rest = reuse.prefill_over_prefix(uncached=new, prefix=1000, prefill_fixed=0.01, **rates)
    assert reuse.prefix_recompute_time(prefix=1000, **rates) == pytest.approx(whole - rest)
    assert whole - rest == pytest.approx(0.02 + 0.003)  # 1,000 * 20 us + 10^6 * 3 ns


def test_the_advantage_of_loading_is_compute_less_every_part_of_the_load() -> None:
    # compute 0.1 * 600 + 0.001 * 360,000 = 420; load 10 + 3 * 2 + 600 * 1,000 / 1e4 + 500 / 1e4 = 76.05
    values = {"kv_bytes_per_token": 1000, "latency": 10, "tier_chunk": 256, "per_chunk": 2}
    found = reuse.load_advantage(
        prefix=600,
        prefill_per_token=0.1,
        prefill_growth=0.001,
        sequence_fixed_bytes=500,
        tier_bytes_per_s=1e4,
        **values,
    )
    assert found == pytest.approx(343.95, rel=1e-12)


@pytest.mark.parametrize(
    ("peak", "least", "printed"),
    [(312e12, 5.86e9, 6), (989e12, 18.57e9, 19)],  # 8 x A800, 8 x H800: section 5.2 rounds up
)
def test_mooncake_rule_at_8192_tokens_of_llama3_70b(peak: float, least: float, printed: int) -> None:
    # 2 * 8192 * 2 B / (8 * 26 * 8192^2) = 2.3475 mB/MFLOP, where 4 * 8192 + 22 * 8192 = 26 * 8192
    found = reuse.mooncake_bandwidth(
        prefix=8192, hidden=8192, kv_group=8, kv_dtype_bytes=2, compute_flop_per_s=8 * peak
    )
    assert found == pytest.approx(least, rel=1e-3)
    assert round(found / 1e9) == printed


def test_mooncake_rule_part_by_part() -> None:
    # 60 * 2 * 3 * 5 / (7 * (4 * 11 * 3 + 22 * 9)) = 1800 / 2310
    found = reuse.mooncake_bandwidth(prefix=11, hidden=3, kv_group=7, kv_dtype_bytes=5, compute_flop_per_s=60)
    assert found == pytest.approx(1800 / 2310)


def test_gains() -> None:
    assert reuse.duplex_factor(both_ways_bytes_per_s=30, tier_bytes_per_s=20) == 1.5
    assert reuse.hit_gain(recompute=6, load_time=4) == 1.5
    # 10 s, a quarter of requests save 8 - 2: 10 - 1.5 = 8.5
    spent = {"request_time": 10, "hit_share": 0.25, "recompute": 8, "load_time": 2}
    assert reuse.reuse_request_time(**spent) == 8.5
    assert reuse.fleet_gain(**spent) == pytest.approx(10 / 8.5)
    assert reuse.fleet_gain(request_time=10, hit_share=0, recompute=8, load_time=2) == 1
    # all hit at no cost: what is left is the rest, and no reuse gains more
    assert reuse.fleet_gain(request_time=10, hit_share=1, recompute=8, load_time=0) == 5


@pytest.mark.parametrize("room", [1, 3, 5, 6, 7, 12, 40])
def test_a_cyclic_scan_of_an_lru_cache_hits_all_or_nothing(room: int) -> None:
    asked, hits = list(range(6)) * 5, 0
    held: list[int] = []
    for item in asked:
        hits += item in held
        held = [*(other for other in held if other != item), item][-room:]
    share = hits / (len(asked) - 6)  # the first round has nothing to find
    assert reuse.cyclic_lru_hits(set_tokens=6, cache_tokens=room) == share


@pytest.mark.parametrize(("turns", "new", "answer"), [(1, 100, 50), (2, 7, 3), (9, 13, 21)])
def test_turns_by_a_loop_over_them(turns: int, new: int, answer: int) -> None:
    before = nothing = kept = prefill = copied = stored = 0
    for turn in range(turns):
        nothing += before + new
        kept += new
        prefill += new + (answer if turn else 0)
        copied += before
        stored += new + answer
        before += new + answer
    sizes = {"turns": turns, "turn_tokens": new, "osl": answer}
    assert reuse.turns_context(**sizes) == copied
    assert reuse.turns_computed_nothing_kept(**sizes) == nothing
    assert reuse.turns_computed_all_kept(turns=turns, turn_tokens=new) == kept
    assert reuse.turns_computed_prefill_side(**sizes) == prefill
    assert reuse.turns_copied_whole(**sizes, kv_bytes_per_token=10) == 10 * nothing
    assert reuse.turns_copied_new(turns=turns, turn_tokens=new, kv_bytes_per_token=10) == 10 * kept
    assert reuse.turns_copied_back(**sizes, kv_bytes_per_token=10) == 10 * copied
    assert reuse.turns_stored(**sizes, kv_bytes_per_token=10) == 10 * stored
