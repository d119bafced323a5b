"""``reuse``: loads, break-evens, hits, fleets, turns and measured prefixes, by hand and against simpler loops."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from costmodel import InputError, ReuseOptions, ask_reuse
from costmodel.cli import main
from costmodel.decision.loading import Parabola, bandwidth_form, bandwidth_root, tokens_form, tokens_root
from costmodel.questions.inputs import as_model
from costmodel.questions.reuse import ReuseAnswer
from costmodel.questions.reuse_about import linear_work
from costmodel.questions.reuse_measured import Measured, relative_fit
from costmodel.report.page import shown
from costmodel.serving.tiers import KvTier

LLAMA = "Llama-3.1-8B"  # 131,072 B of KV a token
DRAM = "dram-pcie5-vllm-0.12,capacity=500GB"


def tier(**changed: Any) -> KvTier:
    values: dict[str, Any] = {
        "name": "a",
        "shared": False,
        "capacity_bytes": 1e12,
        "read_bytes_per_s": 1e9,
        "write_bytes_per_s": 1e9,
        "bytes_per_token": 1e5,
    }
    return KvTier(**values | changed)


# --- break-evens ---------------------------------------------------------------------------------------------


def test_break_even_length_by_hand() -> None:
    # 1 ms a token to compute, 0.1 ms to read, 90 ms of latency: 0.9 ms n = 90 ms at 100 tokens
    rates, below = Parabola(1e-3, 0.0), tier(latency_s=0.09, chunk_tokens=1)
    root = tokens_root(rates.seconds, below, 10_000)
    assert root.value in (100, 101)  # at 100 both cost the same but for rounding
    assert tokens_form(rates, below).root.value == pytest.approx(100)
    # 0.01 ms n^2 more: 1e-5 n^2 + 9e-4 n - 0.09 = 0 at n = 60
    curved = Parabola(1e-3, 1e-5)
    assert tokens_form(curved, below).root.value == pytest.approx(60)
    assert tokens_root(curved.seconds, below, 10_000).value in (60, 61)


def test_break_even_length_with_pieces_is_a_root_of_its_own_number_of_pieces() -> None:
    # 2 ms a piece of 16 tokens: 0.9 n = 90 + 2 k with 16 (k - 1) < n <= 16 k: k = 8 gives n = 117.8
    rates, below = Parabola(1e-3, 0.0), tier(latency_s=0.09, chunk_tokens=16, per_chunk_s=2e-3)
    form = tokens_form(rates, below)
    assert form.root.value == pytest.approx(106 / 0.9)
    assert (form.root.valid_from, form.root.valid_to) == (112, 128)
    assert form.root.regime == "n = 8 pieces of 16 tokens"
    assert "n*per_chunk" in form.text
    # by steps: the shortest length from which loading pays at every longer one
    longest = max(n for n in range(16, 1000) if rates.seconds(n) <= below.read_s(n))
    assert tokens_root(rates.seconds, below, 1000).value == longest + 1


def test_break_evens_that_are_none_say_why() -> None:
    cheap, dear = Parabola(1e-3, 0.0), Parabola(1e-5, 0.0)
    below = tier(chunk_tokens=8)
    always = tokens_root(cheap.seconds, below, 1000)
    assert always.value == 1 and "every length up to 1,000" in always.regime
    assert tokens_form(cheap, below).root.value is None
    assert "loading pays at every length" in tokens_form(cheap, below).root.regime
    never = tokens_root(dear.seconds, below, 1000)
    assert never.value is None and "computing is faster at every length up to 1,000" in never.regime
    assert "computing is faster" in tokens_form(dear, below).root.regime
    upside = tokens_root(lambda n: 0.05, below, 1000)  # computing takes 50 ms whatever the length
    assert upside.value is None and "up to 499 tokens" in upside.regime  # 0.1 ms a token to read
    falling = tokens_form(Parabola(1e-3, -1e-6), below)  # 1 ms n - 1 us n^2 is more than 0.1 ms n up to 899
    assert falling.root.value is None and "up to some length" in falling.root.regime


def test_break_even_length_where_each_piece_ends_what_loading_gains() -> None:
    # 20 us a token to compute, 2.62144 us to read, 1 ms and 4 ms a piece of 256: with k pieces loading pays from
    # (1 + 4 k) ms / 17.37856 us: 747.9 with 3, 978.2 with 4, ... 2,589.4 with 11, 2,819.6 with 12; with 13 from
    # 3,049.7, where 12 pieces end at 3,072: it pays from 2,820 on, and before for the ends of some pieces
    rates = Parabola(20e-6, 0.0)
    below = tier(bytes_per_token=131072, read_bytes_per_s=50e9, latency_s=1e-3, per_chunk_s=4e-3)
    root = tokens_root(rates.seconds, below, 131_072)
    assert root.value == 2820 and "for some shorter prefixes" in root.regime
    form = tokens_form(rates, below).root
    assert form.value == pytest.approx(49e-3 / 17.37856e-6)
    assert form.regime == "n = 12 pieces of 256 tokens" and (form.valid_from, form.valid_to) == (2816, 3072)


@pytest.mark.parametrize("seed", range(12))
def test_break_even_length_is_that_of_a_loop_over_all_lengths(seed: int) -> None:
    draw = random.Random(seed)
    rates = Parabola(draw.uniform(0.9e-4, 4e-4), draw.choice((0.0, 1e-8, 1e-7)))
    below = tier(
        latency_s=draw.choice((0.0, 0.004)),
        chunk_tokens=draw.choice((16, 100, 256)),
        per_chunk_s=draw.choice((0.0, 0.001, 0.01)),
        fixed_bytes=7e6,
        windows=((5e4, 100), (1e4, 200)),
    )
    longest = 3000
    pays = [rates.seconds(n) > below.read_s(n) for n in range(1, longest + 1)]
    fails = [n for n, good in enumerate(pays, 1) if not good]
    root, form = tokens_root(rates.seconds, below, longest), tokens_form(rates, below).root
    if not pays[-1]:
        assert root.value is None and ("computing is faster at every length" in root.regime) == (
            not any(pays)
        )
        return
    assert root.value == (fails[-1] + 1 if fails else 1)
    assert ("for some shorter" in root.regime) == (bool(fails) and any(pays[: fails[-1]]))
    if form.value is not None and form.value < longest:
        assert math.ceil(form.value) == pytest.approx(root.value, abs=1)


def test_break_even_length_inside_a_window() -> None:
    # 1 MB and 2 MB a token of a window of 100: 3 ms a token to read at 1 GB/s until it is full, then 1 ms; computing
    # takes 2 ms: it pays from 2 n = n + 200 at 200 on; with 3.5 ms and 10 ms of latency from 0.5 n = 10 at 20 on
    below = tier(bytes_per_token=1e6, fixed_bytes=2e8, windows=((2e6, 100),))
    full = tokens_form(Parabola(2e-3, 0.0), below).root
    assert full.value == pytest.approx(200) and full.valid_from == 100
    late = replace(below, latency_s=0.01)
    part = tokens_form(Parabola(3.5e-3, 0.0), late).root
    assert part.value == pytest.approx(20) and part.valid_to == 100
    assert "windows of 100 tokens not yet full" in part.regime
    assert tokens_root(Parabola(3.5e-3, 0.0).seconds, late, 1000).value in (20, 21)
    # 50 tokens are 150 MB: computed in 100 ms, they are read as soon at 1.5 GB/s
    assert bandwidth_form(Parabola(2e-3, 0.0), below, 50).root.value == pytest.approx(1.5e9)
    assert bandwidth_root(0.1, below, 50).value == pytest.approx(1.5e9)


def test_break_even_bandwidth_by_hand() -> None:
    # 100 tokens: computing 100 ms; 10 ms of latency and 7 pieces of 2 ms leave 76 ms for 10 MB and 2 MB besides
    below = tier(latency_s=0.01, chunk_tokens=16, per_chunk_s=2e-3, fixed_bytes=2e6)
    form = bandwidth_form(Parabola(1e-3, 0.0), below, 100)
    assert form.root.value == pytest.approx(12e6 / 0.076)
    assert form.root.regime == "n = 7 pieces of 16 tokens"
    assert bandwidth_root(0.1, below, 100).value == pytest.approx(12e6 / 0.076)
    late = tier(latency_s=0.2)
    assert bandwidth_form(Parabola(1e-3, 0.0), late, 100).root.value is None
    assert bandwidth_root(0.1, late, 100).value is None


# --- loads ---------------------------------------------------------------------------------------------------


def test_loads_without_a_gpu_by_hand() -> None:
    asked = ReuseOptions(prefixes=(1000, 4000), prefill_per_token_s=20e-6, prefill_growth_s=1e-9)
    answer = ask_reuse(LLAMA, [f"{DRAM},latency=1ms"], asked)
    first, second = answer.loads
    # 1 ms and 131.072 MB at 50 GB/s; computing 20 + 1 ms
    assert first.load_s == pytest.approx(0.001 + 131.072e6 / 50e9)
    assert first.bound_s == pytest.approx(131.072e6 / 63e9)
    assert first.recompute_s == pytest.approx(0.021)
    assert first.gain == pytest.approx(0.021 / 0.00362144)
    assert first.break_even_bytes_per_s == pytest.approx(131.072e6 / 0.020)
    assert first.numeric_bytes_per_s == pytest.approx(first.break_even_bytes_per_s)
    assert second.recompute_s == pytest.approx(0.08 + 0.016)
    assert first.pays and second.pays
    assert first.ttft_gain is None and "--hardware" in str(first.ttft_gain_reason)
    (row,) = answer.tiers
    assert row.capacity_tokens == 3_814_697  # 500 GB / 131,072 B
    # 1 ms = (20 us - 2.62144 us) n + 1 ns n^2: n = (-17.37856 + sqrt(17.37856^2 + 4)) / 0.002 = 57.36
    assert row.closed_form_tokens == pytest.approx(57.353, abs=0.01)
    assert row.break_even_tokens == 58
    assert row.duplex_factor == pytest.approx(1.668) and row.shared_bytes_per_s == pytest.approx(41.7e9)


def test_nothing_is_guessed_without_times() -> None:
    answer = ask_reuse(LLAMA, ["dram-pcie5"], ReuseOptions(sequences=4, context=1000))
    (load, *_) = answer.loads
    assert load.recompute_s is None and load.gain is None and "--hardware" in str(load.gain_reason)
    assert answer.tiers[0].capacity_tokens is None and "capacity=" in str(answer.tiers[0].capacity_reason)
    assert answer.overflow is not None
    assert answer.overflow.wanted_bytes == 4 * 1000 * 131072
    assert answer.overflow.pool_bytes is None and "--pool" in str(answer.overflow.pool_reason)
    assert [row.prefix_tokens for row in answer.prefixes] == [512, 2048, 8192, 32768]


def test_step_times_make_recompute_the_difference_of_two_prefills() -> None:
    asked = ReuseOptions(prefixes=(8192,), isl=8448)
    answer = ask_reuse(LLAMA, [DRAM], asked, hardware="h100-sxm")
    (row,), (load,) = answer.prefixes, answer.loads
    assert row.uncached_tokens == 256
    assert row.prefill_s is not None and row.after_hit_s is not None and row.recompute_s is not None
    assert row.recompute_s == pytest.approx(row.prefill_s - row.after_hit_s)
    assert row.prefill_bound_s is not None and row.prefill_bound_s <= row.prefill_s
    assert row.prefill_low_s is not None and row.prefill_high_s is not None
    assert row.prefill_bound_s <= row.prefill_low_s < row.prefill_s < row.prefill_high_s
    assert load.bound_s is not None and load.bound_s <= load.load_s
    assert load.gain == pytest.approx(row.recompute_s / load.load_s)
    assert load.ttft_gain == pytest.approx(row.prefill_s / (load.load_s + row.after_hit_s))
    # 32 layers, hidden 4,096, 4 query heads a KV head, 989 TFLOP/s:
    # 989e12 * 2 * 4096 * 2 / (4 * (4 * 8192 * 4096 + 22 * 4096^2)) = 8.05 GB/s
    assert row.mooncake_bytes_per_s == pytest.approx(8.05e9, rel=2e-3)
    assert load.pays_by_mooncake


def test_b_of_mooncakes_rule_beside_that_of_the_model() -> None:
    # Llama-3-70B: hidden 8,192, 8 query heads a KV head, feed-forward 28,672 wide: 2 (2 + 2 / 8 + 3 x 3.5) = 25.5
    assert linear_work(as_model("Llama-3.1-70B")) == pytest.approx(25.5, rel=1e-4)  # and norms
    # Llama-3.1-8B: 2 (2 + 2 / 4 + 3 x 3.5) = 26
    answer = ask_reuse(LLAMA, [DRAM], ReuseOptions(prefixes=(512,)), hardware="h100-sxm")
    assert any(
        "b = 22 as for Llama-3-70B" in said and said.endswith("take 26") for said in answer.about.assumptions
    )


def test_mooncake_rule_is_not_bent_to_models_it_is_not_of() -> None:
    for name in ("Qwen/Qwen3-32B", "gpt-oss-120b", "deepseek-ai/DeepSeek-V2-Lite"):
        answer = ask_reuse(name, ["dram-pcie5"], ReuseOptions(prefixes=(512,)), hardware="h200-sxm")
        assert answer.prefixes[0].mooncake_bytes_per_s is None
        assert "rule" in str(answer.prefixes[0].mooncake_bytes_per_s_reason)


@pytest.mark.parametrize(
    ("model", "tp", "old", "new"),
    [
        # bytes of a copy before and since vLLM 0.12, blocks of 16 tokens (blog.vllm.ai/2026/01/08): 16 tokens x KV
        # heads of a rank x width x 2 B; times 2 and layers since
        ("Llama-3.1-8B", 1, 32768, 2 * 2**20),
        ("Qwen/Qwen3-32B", 2, 16384, 2 * 2**20),
        ("Llama-3.1-70B", 4, 8192, 1.25 * 2**20),
        ("Qwen/Qwen2.5-7B", 1, 16384, 0.875 * 2**20),
    ],
)
def test_copies_are_as_large_as_the_layout_makes_them(model: str, tp: int, old: int, new: float) -> None:
    answer = ask_reuse(model, ["dram-pcie5-vllm-0.11", "dram-pcie5-vllm-0.12"], tp=tp)
    assert [row.piece_bytes for row in answer.tiers] == [old, new]


def test_small_copies_are_told_with_the_bandwidth_measured_for_them() -> None:
    # LMCache, 256 tokens of Llama-3.2-1B-like KV: Qwen2.5-7B has 57,344 B a token, 14.7 MB a chunk
    (row,) = ask_reuse("Qwen/Qwen2.5-7B", ["dram-pcie5-lmcache"]).tiers
    assert row.piece_bytes == 256 * 57344
    # between 256 KiB (20.165 us) and 16 MiB (342.392 us): 20.165 + 0.873 * 322.227 = 301.5 us for 14.68 MB
    assert row.piece_bytes_per_s == pytest.approx(48.69e9, rel=1e-3)


def test_numbers_are_read_by_people() -> None:
    assert shown("overflow_tokens", 823712.4) == "823,712" and shown("distance", -1.1468) == "-1.147"
    assert shown("prefill_s", 4.54e-24).startswith("4.54e-")
    assert shown("hit_rate", 0.5) == "50.0 %" and shown("load_mape", 5e26) == "5e+28 %"


def test_every_null_of_an_answer_has_its_reason() -> None:
    plain = asdict(ask_reuse(LLAMA, ["nvme-gen4"], ReuseOptions(prefixes=(1000,), sequences=4, context=100)))
    timed = asdict(ask_reuse("gpt-oss-120b", ["store-eth-25"], ReuseOptions(), hardware="h200-sxm"))
    for answer in (plain, timed):
        for row in (*answer["tiers"], *answer["loads"]):
            for key, value in row.items():
                if value is None and not key.endswith("_reason"):
                    stems = (
                        key,
                        key.rpartition("_")[0],
                        key.rsplit("_", 2)[0],
                        "closed_form" if "form" in key else key,
                    )
                    assert any(row.get(f"{stem}_reason") for stem in stems), key


def test_what_pays_at_every_length_has_no_closed_form() -> None:
    (row,) = ask_reuse(LLAMA, ["dram-pcie5"], ReuseOptions(prefixes=(100,)), hardware="h100-sxm").tiers
    assert row.break_even_tokens == 1 and row.closed_form_tokens is None
    assert row.closed_form_reason == row.regime == "loading pays at every length up to 131,072 tokens"


def test_tiers_that_a_replay_would_not_use_are_an_error() -> None:
    command = [
        "replay",
        "hphd",
        "--model",
        LLAMA,
        "--hardware",
        "h100-sxm",
        "--topology",
        "1P1D",
        "--no-reuse",
    ]
    found = CliRunner().invoke(main, [*command, "--offload", "dram-pcie5,capacity=1GB"])
    assert found.exit_code == 2 and "--no-reuse keeps no prefixes" in found.stderr


def test_a_closed_form_far_from_step_times_is_not_told() -> None:
    # experts are loaded whole by few tokens: recompute of gpt-oss-120b grows fast, then slowly
    (row,) = ask_reuse("gpt-oss-120b", ["store-eth-25"], ReuseOptions(), hardware="h200-sxm").tiers
    assert row.break_even_tokens is not None
    if row.closed_form_tokens is None:
        assert row.distance is None and row.closed_form_reason
    else:
        assert row.closed_form_tokens == pytest.approx(row.break_even_tokens, rel=0.1, abs=1)


# --- memory and hits -----------------------------------------------------------------------------------------


def test_overflow_goes_down_to_the_first_tier_with_room() -> None:
    # 10 x 10,000 tokens of 131,072 B are 13.1 GB over a pool of 3.1 GB: 76,294 tokens
    asked = ReuseOptions(sequences=10, context=10_000, pool_bytes=3.1072e9)
    tiers = ["dram-pcie5,capacity=4GB", "store-eth-100,capacity=100GB"]
    over = ask_reuse(LLAMA, tiers, asked).overflow
    assert over is not None
    assert over.wanted_bytes == 13.1072e9 and over.overflow_bytes == pytest.approx(10e9)
    assert over.taken_by == "store-eth-100"
    small = ask_reuse(LLAMA, tiers[:1], asked).overflow
    assert small is not None and small.taken_by is None and "no tier has room" in str(small.taken_by_reason)
    # a tier of 12 GB has room for the 10 GB, but not for the 13.1 GB that are written to it; both together do not count
    for sizes, taken in (((12, 12), None), ((12, 14), "store-eth-100"), ((14, 1), "dram-pcie5")):
        pair = [f"{name},capacity={size}GB" for name, size in zip(("dram-pcie5", "store-eth-100"), sizes)]
        both = ask_reuse(LLAMA, pair, asked).overflow
        assert both is not None and both.taken_by == taken
    roomy = ask_reuse(LLAMA, tiers, replace(asked, pool_bytes=14e9)).overflow
    assert roomy is not None and roomy.taken_by is None and "everything fits" in str(roomy.taken_by_reason)


def test_a_tier_without_room_for_a_prefix_gains_nothing() -> None:
    # 1 GB has room for 7,629 tokens of 131,072 B
    asked = ReuseOptions(prefixes=(7629, 7630), isl=8000, osl=10, sequences=1, hit_rate=1.0)
    answer = ask_reuse(LLAMA, ["dram-pcie5,capacity=1GB"], asked, hardware="h100-sxm")
    held, beyond = answer.loads
    assert held.fits and held.pays and held.gain is not None
    assert beyond.fits is False and beyond.pays is False and beyond.gain is None and beyond.ttft_gain is None
    assert "no room for it, but for 7,629 tokens" in str(beyond.gain_reason) == str(beyond.pays_reason)
    assert answer.fleet[0].gain is not None and answer.fleet[1].gain is None
    assert answer.fleet[1].reason == beyond.gain_reason
    assert "every length up to 7,629 tokens" in answer.tiers[0].regime
    (nothing,) = ask_reuse(LLAMA, ["dram-pcie5,capacity=100kB"], asked, hardware="h100-sxm").tiers
    assert nothing.break_even_tokens is None and "no room for any prefix" in nothing.regime


def trace_file(folder: Path, prompts: list[list[int]]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text(
        "".join(
            json.dumps(
                {"timestamp": i, "input_length": 512 * len(p), "output_length": 10, "hash_ids": p}
            ) + "\n"
            for i, p in enumerate(prompts)
        )
    )  # fmt: skip
    return path


def test_levels_find_what_their_room_holds(tmp_path: Path) -> None:
    # four prompts of two blocks in turn, ten rounds: 8 blocks; the room of 2 blocks finds nothing, 8 find all
    path = trace_file(tmp_path, [[10 * (i % 4), 10 * (i % 4) + 1] for i in range(40)])
    asked = ReuseOptions(trace=path, pool_bytes=2 * 512 * 131072, sequences=8)
    tiers = ["dram-pcie5,capacity=300MB", "store-eth-100,capacity=536870912B"]  # 2,288 and 4,096 tokens
    answer = ask_reuse(LLAMA, tiers, asked, hardware="h100-sxm")
    memory, dram, store = answer.levels
    assert (memory.room_tokens, memory.hit_rate) == (1024, 0)
    assert (dram.room_tokens, dram.hit_rate) == (2288, 0)
    # 36 of 40 prompts find 1,023 of their 1,024 tokens
    assert store.hit_rate == pytest.approx(36 * 1023 / (40 * 1024))
    assert store.gained_share == store.hit_rate
    assert answer.curve is not None
    assert (answer.curve.enough_tokens, answer.curve.working_set_tokens) == (4096, 4096)
    assert answer.curve.infinite_hit_rate == store.hit_rate
    assert (answer.curve.flat_from_tokens, answer.curve.flat_to_tokens) == (0, 3584)
    no_gain, gain = answer.fleet
    assert gain.hit_share is None and "the mean" in str(gain.hit_share_reason)
    assert (no_gain.gain, no_gain.load_s) == (1.0, 0.0)
    assert gain.gain is not None and gain.most_gain is not None
    assert 1 < gain.gain < gain.most_gain


@pytest.mark.parametrize(("again", "nearly"), [(19, 512), (4, 1024)])
def test_nearly_all_is_nine_tenths(tmp_path: Path, again: int, nearly: int) -> None:
    # one block comes again so many times in a row, found in 512 tokens; another once, with a third between: 1,024
    path = trace_file(tmp_path, [[1]] * (again + 1) + [[2], [3], [2]])
    curve = ask_reuse(LLAMA, [], ReuseOptions(trace=path)).curve
    assert curve is not None
    assert (curve.nearly_tokens, curve.enough_tokens, curve.working_set_tokens) == (nearly, 1024, 1536)
    assert curve.nearly_bytes == nearly * 131072
    assert curve.points[0].hit_rate == pytest.approx(again * 511 / ((again + 4) * 512))


def test_a_tier_without_capacity_says_what_to_add(tmp_path: Path) -> None:
    path = trace_file(tmp_path, [[1, 2], [1, 2]])
    answer = ask_reuse(LLAMA, ["dram-pcie5"], ReuseOptions(trace=path, pool_bytes=1e9))
    assert answer.levels[1].hit_rate is None and "capacity=" in str(answer.levels[1].hit_rate_reason)


def test_running_sequences_leave_the_rest_of_the_pool(tmp_path: Path) -> None:
    path = trace_file(tmp_path, [[1, 2], [1, 2]])
    asked = ReuseOptions(trace=path, pool_bytes=131072 * 5000.0, sequences=3, context=1000)
    assert ask_reuse(LLAMA, [], asked).levels[0].room_tokens == 2000


def test_a_prompt_shorter_than_the_usual_prefixes_has_shorter_ones() -> None:
    answer = ask_reuse(LLAMA, ["dram-pcie5"], ReuseOptions(isl=400), hardware="h100-sxm")
    assert [(row.prefix_tokens, row.uncached_tokens) for row in answer.prefixes] == [(100, 300), (200, 200)]
    assert len(answer.loads) == 2 and answer.tiers[0].break_even_tokens == 1
    assert any("no --prefix is given" in said for said in answer.about.assumptions)
    (two,) = ask_reuse(LLAMA, ["dram-pcie5"], ReuseOptions(isl=2)).prefixes
    assert two.prefix_tokens == 1


def test_a_fleet_of_each_stated_prefix() -> None:
    asked = ReuseOptions(prefixes=(512, 8192), isl=8448, osl=256, sequences=16, hit_rate=0.5)
    rows = ask_reuse(LLAMA, [DRAM, "store-eth-25"], asked, hardware="h100-sxm").fleet
    assert [(row.tier, row.prefix_tokens) for row in rows] == [
        (name, prefix) for name in ("dram-pcie5-vllm-0.12", "store-eth-25") for prefix in (512, 8192)
    ]
    assert rows[0].load_s == pytest.approx(512 * 131072 / 50e9)


def test_prompt_tokens_beyond_their_hashes_are_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    rows = [{"timestamp": i, "input_length": 5000, "output_length": 10, "hash_ids": [1]} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    answer = ask_reuse(LLAMA, [], ReuseOptions(trace=path))
    # 512 of 5,000 tokens have a hash
    assert any("90% of prompt tokens are beyond the hashes" in said for said in answer.about.warnings)
    whole = ask_reuse(LLAMA, [], ReuseOptions(trace=trace_file(tmp_path, [[1, 2], [1, 2]])))
    assert not any("hashes" in said for said in whole.about.warnings)


def test_more_turns_than_a_model_has_positions_for_are_a_warning() -> None:
    # 1,000 x (100 + 50) tokens; Llama-3.1-8B is made for 131,072
    long, short = (
        ask_reuse(LLAMA, [], ReuseOptions(turns=turns, turn_tokens=100, osl=50)).about.warnings
        for turns in (1000, 800)
    )
    assert any("150,000 tokens exceed the 131,072 positions" in said for said in long) and not short


def test_a_fleet_gains_less_than_a_hit() -> None:
    asked = ReuseOptions(prefixes=(8192,), isl=8448, osl=256, sequences=16, hit_rate=0.5)
    (row,) = ask_reuse(LLAMA, [DRAM], asked, hardware="h100-sxm").fleet
    assert row.recompute_s is not None and row.load_s is not None and row.request_s is not None
    saved = 0.5 * (row.recompute_s - row.load_s)
    assert row.reuse_s == pytest.approx(row.request_s - saved)
    assert row.gain == pytest.approx(row.request_s / (row.request_s - saved))
    assert row.hidden_gain == pytest.approx(row.request_s / (row.request_s - 0.5 * row.recompute_s))
    assert row.most_gain == pytest.approx(row.request_s / (row.request_s - row.recompute_s))
    assert row.hit_gain is not None and row.gain is not None and row.hit_gain > 3 * row.gain
    (blank,) = ask_reuse(LLAMA, [DRAM], ReuseOptions(prefixes=(8192,), hit_rate=0.5)).fleet
    assert blank.gain is None and "--hardware" in str(blank.reason)
    (some,) = ask_reuse(
        LLAMA, [DRAM], ReuseOptions(prefixes=(8192,), hit_rate=0.5), hardware="h100-sxm"
    ).fleet
    assert some.reason == "needs --isl, --osl, --sequences (that decode together)"


# --- turns and measurements ----------------------------------------------------------------------------------


def test_turns_by_place() -> None:
    # 3 turns of 100 tokens, answers of 50: 450 tokens stand before them
    asked = ReuseOptions(turns=3, turn_tokens=100, osl=50)
    rows = {row.place.split(",")[-1].strip(): row for row in ask_reuse(LLAMA, [], asked).turns}
    each = 131072
    told = {
        place: (row.computed_tokens, row.to_decode_bytes, row.to_prefill_bytes, row.stored_bytes)
        for place, row in rows.items()
    }
    assert told == {
        "prefill instance": (400, 750 * each, 0, 0),
        "copies to it alone": (750, 300 * each, 0, 0),
        "copies both ways": (300, 300 * each, 450 * each, 0),
        "store": (300, 750 * each, 450 * each, 450 * each),
        "nowhere": (750, 750 * each, 0, 0),
    }
    assert all(row.prefill_s is None and row.prefill_reason for row in rows.values())
    timed = ask_reuse(LLAMA, [], asked, hardware="h100-sxm").turns
    seconds = {row.place: row.prefill_s or 0.0 for row in timed}
    assert seconds["store"] == seconds["decode instance, copies both ways"] < seconds["prefill instance"]
    assert seconds["prefill instance"] < seconds["nowhere"]


def test_relative_fit_goes_through_exact_points_and_weighs_by_value() -> None:
    assert relative_fit([(1, 10), (1, 30)], [7, 17]) == pytest.approx((2, 0.5))
    # y = a through (1, 1) and (1, 2): least squares of a - 1 and a / 2 - 1 is a = (1 + 1/2) / (1 + 1/4)
    assert relative_fit([(1, 0), (1, 0), (0, 1)], [1, 2, 3]) == pytest.approx((1.2, 3))
    assert relative_fit([(1, n, n * n) for n in (1, 2, 5)], [9, 18, 81]) == pytest.approx((6, 0, 3))


def measured_file(folder: Path, rows: list[tuple[int, float, float]]) -> Path:
    path = folder / "measured.csv"
    path.write_text("tokens,load_s,recompute_s\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    return path


def test_measured_lines_meet_where_they_meet(tmp_path: Path) -> None:
    # load 50 ms + 10 us n, recompute 20 us n + 1 ns n^2: 1e-9 n^2 + 1e-5 n - 0.05 = 0 at n = 3,660.25
    rows = [(n, 0.05 + 1e-5 * n, 2e-5 * n + 1e-9 * n**2) for n in (1000, 2000, 4000, 8000, 16000)]
    four = ask_reuse(LLAMA, [], ReuseOptions(measured=measured_file(tmp_path, rows[:4]))).measured
    assert four is not None and four.recompute_fixed_s == 0
    assert four.break_even_tokens == pytest.approx(3660.25, abs=0.01)
    found = ask_reuse(LLAMA, [], ReuseOptions(measured=measured_file(tmp_path, rows))).measured
    assert found is not None
    assert found.break_even_tokens == pytest.approx(3660.25, abs=0.01)
    assert found.load_fixed_s == pytest.approx(0.05) and found.load_per_token_s == pytest.approx(1e-5)
    assert found.recompute_per_token_s == pytest.approx(2e-5)
    assert found.recompute_growth_s == pytest.approx(1e-9)
    assert found.recompute_fixed_s == pytest.approx(0, abs=1e-9)
    assert found.load_mape < 1e-9 and found.recompute_mape < 1e-9
    assert found.load_bytes_per_s == pytest.approx(131072 / 1e-5)
    assert [row.fitted for row in found.rows] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("load", "recompute", "told"),
    [
        (0.001, 0.01, "below 1,000 tokens"),
        (0.1, 0.01, "none of the measured"),
    ],
)
def test_measured_lines_that_do_not_meet(tmp_path: Path, load: float, recompute: float, told: str) -> None:
    rows = [(n, load * n / 1000, recompute * n / 1000) for n in (1000, 2000, 3000, 4000)]
    found = ask_reuse(LLAMA, [], ReuseOptions(measured=measured_file(tmp_path, rows))).measured
    assert found is not None and found.break_even_tokens is None and told in str(found.break_even_reason)


def measured(folder: Path, rows: list[tuple[int, float, float]]) -> Measured:
    found = ask_reuse(LLAMA, [], ReuseOptions(measured=measured_file(folder, rows))).measured
    assert found is not None
    return found


def test_measured_loads_may_pay_at_both_ends_alone(tmp_path: Path) -> None:
    # by thousands k: loads 10 k ms; 12, 28 and 60 ms at 1, 3 and 5 lie on 10 + 2 k^2: 2 k^2 - 10 k + 10 = 0 at
    # (5 - sqrt 5) / 2 = 1.38 and 3.618; held out: 18 for 15 and 42 for 41
    rows = [
        (1000, 0.01, 0.012),
        (2000, 0.02, 0.015),
        (3000, 0.03, 0.028),
        (4000, 0.04, 0.041),
        (5000, 0.05, 0.06),
    ]
    found = measured(tmp_path, rows)
    assert found.break_even_tokens == pytest.approx(3618.034, abs=0.01)
    assert "for some shorter prefixes" in found.break_even_regime
    assert [row.pays for row in found.rows] == [True, False, False, True, True] and found.paying == 3
    assert found.recompute_mape == pytest.approx((3 / 15 + 1 / 41) / 2)
    assert found.recompute_per_token_s == 0.0 and found.recompute_fixed_s == pytest.approx(0.01)
    # held out at 4,000, it took 60 ms to load: the fits say it pays there
    late = measured(tmp_path, [*rows[:3], (4000, 0.048, 0.036), rows[4]])
    assert late.break_even_tokens is None
    assert "pays at 4,000 tokens, as measured it does not: loading took less at 2 of 5" in str(
        late.break_even_reason
    )


def test_measured_lengths_that_pay_are_counted_not_guessed(tmp_path: Path) -> None:
    # fits of 1, 3 and 5 thousand pay by far; at 2 and 4 loading took a few percent longer than computing
    rows = [(n * 1000, 0.01 * n, 0.011 * n if n % 2 else 0.0097 * n) for n in range(1, 6)]
    found = measured(tmp_path, rows)
    assert found.break_even_tokens is None
    assert "by the fits; loading took less at 3 of 5 measured lengths" in str(found.break_even_reason)


def test_a_fit_that_misses_what_was_held_out_tells_no_break_even(tmp_path: Path) -> None:
    rows = [(1000, 0.001, 0.5), (2000, 0.1, 1.0), (3000, 0.003, 1.5), (4000, 0.2, 2.0)]
    answer = ask_reuse(LLAMA, [], ReuseOptions(measured=measured_file(tmp_path, rows)))
    found = answer.measured
    # no slope by a fit that far off; (1/1 + 1/3) / (1/1 + 1/9) = 1.2 ms for 100 and 200: 98.8 and 99.4 % short
    assert found is not None and found.load_mape == pytest.approx(0.991)
    assert found.break_even_tokens is None and "99% (loads)" in str(found.break_even_reason)
    assert any("misses the lengths held out by 99%" in warning for warning in answer.about.warnings)


def test_flat_loads_have_no_bandwidth(tmp_path: Path) -> None:
    rows = [(n * 1000, 0.02, 0.012 * n) for n in range(1, 6)]
    found = measured(tmp_path, rows)
    assert found.load_per_token_s is None and found.load_bytes_per_s is None
    assert "no slope is determined" in str(found.load_bytes_per_s_reason)
    assert found.load_fixed_s == pytest.approx(0.02)
    assert found.break_even_tokens == pytest.approx(2000 / 1.2)
    # loads up and down by 10 % around 20 ms grow by 1 % from first to last: less than the fit is off
    noisy = [(n * 1000, 0.02 * (1.1 if n % 2 else 0.9) * (1 + 0.0025 * n), 0.012 * n) for n in range(1, 6)]
    assert measured(tmp_path, noisy).load_per_token_s is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tokens,load_s\n1,2\n", "no column recompute_s"),
        ("tokens,load_s,recompute_s,load_s\n1,2,3,4\n", "more than one column load_s"),
        ("tokens,load_s,recompute_s\n1,2,x\n", "line 2"),
        ("tokens,load_s,recompute_s\n1,2,-3\n", "line 2"),
        ("tokens,load_s,recompute_s\n1,1,1\n2,2,2\n3,3,3\n", "at least 4"),
        ("tokens,load_s,recompute_s\n1,1,1\n1,2,2\n3,3,3\n4,4,4\n", "twice"),
        ("", "no column"),
    ],
)
def test_measured_files_are_checked(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "m.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        ask_reuse(LLAMA, [], ReuseOptions(measured=path))


# --- the command ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--tier", "dram-pcie5", "--prefix", "100", "--isl", "100"], "leaves nothing"),
        (["--tier", "dram-pcie5", "--turns", "3"], "--turn-tokens"),
        (["--tier", "dram-pcie5", "--hit-rate", "0.5", "--trace", "x"], "pass one"),
        (["--tier", "dram-pcie5", "--hit-rate", "0.5"], "pass --prefix"),
        (["--measured", "x", "--hit-rate", "0.5", "--prefix", "100"], "pass --tier"),
        (["--tier", "dram-pcie5", "--isl", "1"], "leaves no prefix"),
        (["--tier", "dram-pcie5", "--tier", "dram-pcie5,capacity=1TB"], "name=dram-pcie5-2"),
        (["--tier", "dram-pcie5", "--context", "5"], "--sequences"),
        (["--tier", "dram-pcie6"], "did you mean 'dram-pcie5'"),
        (["--tier", "dram-pcie5", "--stack", "vllm-2026"], "pass --hardware"),
        (
            ["--tier", "dram-pcie5", "--prefill-per-token", "1us", "--hardware", "h100-sxm"],
            "pass one",
        ),
        ([], "pass --tier"),
    ],
)
def test_what_contradicts_itself_is_an_error(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["reuse", LLAMA, *arguments])
    assert result.exit_code == 2 and told in result.stderr


def test_every_null_has_its_reason() -> None:
    asked = ReuseOptions(
        prefixes=(1000,), hit_rate=0.5, sequences=2, context=100, turns=2, turn_tokens=5, osl=5
    )
    answer = ask_reuse(LLAMA, ["dram-pcie5"], asked)
    silent = {
        "after_hit_s", "prefill_bound_s", "prefill_low_s", "prefill_high_s",
        "pays", "pays_by_mooncake", "break_even_regime", "numeric_bytes_per_s",
        "regime", "closed_form", "closed_form_latex", "closed_form_regime", "valid_from", "valid_to", "distance",
        "piece_bytes_per_s", "capacity_bytes", "recompute_s", "overflow_tokens",
    }  # fmt: skip
    parts: list[Sequence[Any]] = [
        answer.prefixes,
        answer.tiers,
        answer.loads,
        answer.turns,
        [answer.overflow],
    ]
    for rows in parts:
        for row in rows:
            values = asdict(row)
            for key, value in values.items():
                if value is None and not key.endswith("_reason") and key not in silent:
                    stems = {key, key.rsplit("_", 1)[0], key.removesuffix("_tokens")}
                    assert any(values.get(f"{stem}_reason") for stem in stems), key


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
def test_the_command_prints_every_part(form: str, tmp_path: Path) -> None:
    path = trace_file(tmp_path, [[10 * (i % 4), 10 * (i % 4) + 1] for i in range(40)])
    rows = [(n, 0.05 + 1e-5 * n, 2e-5 * n + 1e-9 * n**2) for n in (1000, 2000, 4000, 8000)]
    command = [
        "reuse",
        LLAMA,
        "--hardware",
        "h100-sxm",
        "--tier",
        DRAM,
        "--prefix",
        "1024",
        "--sequences",
        "4",
    ]
    command += [
        "--context",
        "2000",
        "--turns",
        "3",
        "--turn-tokens",
        "100",
        "--osl",
        "50",
        "--trace",
        str(path),
    ]
    command += ["--measured", str(measured_file(tmp_path, rows)), "-f", form, "--detail"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    if form == "json":
        found = json.loads(result.stdout)
        assert found["schema"] == "costmodel.reuse/1"
        assert {field for field in ReuseAnswer.__dataclass_fields__ if field != "about"} <= set(found)
        assert found["assumptions"] and found["sources"] and found["not_modelled"]
    else:
        for part in (
            "Load against recompute",
            "no room for",
            "Hits of",
            "a fleet",
            "A conversation",
            "Measured",
        ):
            assert part in result.stdout
