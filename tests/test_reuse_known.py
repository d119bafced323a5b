"""Reuse against published figures and hand arithmetic; where both disagree, or predictions are off, it is said how.

Recompute by step times counts operators alone, without an engine's host time. Errors stand in the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel import (
    Parallelism,
    ReuseOptions,
    ask_reuse,
    kv_pool,
    load_gpu,
    make_instance,
    read_model,
)
from costmodel.formulas import reuse as book
from costmodel.memory.settings import EngineSettings
from costmodel.questions.reuse_hits import Fleet
from costmodel.questions.reuse_loads import LoadRow, PrefixRow


def one(model: str, tier: str, asked: ReuseOptions, gpu: str, tp: int) -> tuple[PrefixRow, LoadRow]:
    answer = ask_reuse(model, [tier], asked, hardware=gpu, tp=tp)
    return answer.prefixes[0], answer.loads[0]


@pytest.mark.parametrize(
    ("gpu", "least", "printed"), [("a800-sxm-80gb", 5.86e9, 6), ("h800-sxm", 18.57e9, 19)]
)
def test_mooncake_rule_for_llama3_70b_on_eight_gpus(gpu: str, least: float, printed: int) -> None:
    # FAST'25, section 5.2: at 8,192 tokens 6 GB/s on 8 x A800 (312 TFLOP/s each), 19 GB/s on 8 x H800 (989)
    row, load = one("Llama-3.1-70B", "store-eth-100", ReuseOptions(prefixes=(8192,)), gpu, tp=8)
    assert row.mooncake_bytes_per_s == pytest.approx(least, rel=2e-3)
    assert round((row.mooncake_bytes_per_s or 0) / 1e9) == printed
    # The rule takes GPUs for as fast as their peak: by step times less bandwidth suffices.
    assert load.break_even_bytes_per_s is not None
    assert load.break_even_bytes_per_s < 0.75 * least


# llm-d, guides/p2p-kv-cache-sharing/benchmark-results/gpt-oss-120b-h200.md: tokens, pull and recompute in ms
PULLS = [
    (2048, 49.0, 70.6), (8192, 120.1, 205.4), (16384, 196.2, 426.3), (32768, 376.3, 983.0), (49152, 550.5, 1695.0)
]  # fmt: skip


def test_pulls_of_gpt_oss_beat_recompute_at_every_measured_length(tmp_path: Path) -> None:
    path = tmp_path / "pulls.csv"
    rows = "".join(f"{n},{pull / 1e3},{again / 1e3}\n" for n, pull, again in PULLS)
    path.write_text(f"tokens,load_s,recompute_s\n{rows}")
    answer = ask_reuse("gpt-oss-120b", [], ReuseOptions(measured=path), hardware="h200-sxm")
    found = answer.measured
    assert found is not None
    # 18 full layers of 2 x 8 x 64 x 2 B; 49,152 tokens are 1.81 GB
    assert answer.kv_bytes_per_token == 18 * 2048 == 36864
    assert answer.kv_bytes_per_token * 49152 / 1e9 == pytest.approx(1.81, abs=0.005)
    # by the ends alone (550.5 - 49.0) ms / 47,104 = 10.65 us a token, and 49.0 - 2,048 * 0.01065 = 27.2 ms
    assert found.load_per_token_s == pytest.approx(10.65e-6, rel=0.02)
    assert found.load_fixed_s == pytest.approx(27.2e-3, rel=0.02)
    assert found.load_bytes_per_s == pytest.approx(3.46e9, rel=0.02)  # of 50: the wire is not what limits
    assert found.load_mape == pytest.approx(0.035, abs=0.005)
    # published: below 2,048 tokens
    assert found.break_even_tokens is None and "below 2,048 tokens" in str(found.break_even_reason)
    # A recompute without a fixed part, c n + d n^2, would miss the lengths held out by 11 %: 34.5 us a token at both
    # ends, 25 between them. With a fixed part of about 30 ms it misses them by less than 1 %.
    assert found.recompute_mape < 0.01
    assert found.recompute_fixed_s == pytest.approx(0.03, abs=0.002)
    # Step times of operators alone are 20 % short of what was measured, which has the engine around them, and
    # never above it.
    assert found.predicted_bias == pytest.approx(-0.20, abs=0.03)
    assert all(row.predicted_s is not None and row.predicted_s < row.recompute_s for row in found.rows)
    # The band of the same prefills, whose fits are borrowed of an H100, holds all five.
    lengths = tuple(tokens - 1 for tokens, _, _ in PULLS)
    asked = ReuseOptions(prefixes=lengths)
    bands = ask_reuse("gpt-oss-120b", ["dram-pcie5"], asked, hardware="h200-sxm").prefixes
    for row, (_, _, again) in zip(bands, PULLS):
        assert (row.prefill_low_s or 1e9) < again / 1e3 < (row.prefill_high_s or 0)


def test_a_chunk_of_lmcache_is_told_in_gib() -> None:
    # LMCache/LMCache#2213: 2,048 tokens of 57,344 B (28 layers, 4 KV heads of 128) are "0.1094 gb", stored in
    # 10.76 ms at "10.17": 117,440,512 B = 0.1094 GiB, and 10.17 GiB/s = 10.91 GB/s, 7 % more than it reads
    asked = ReuseOptions(prefixes=(2048,))
    answer = ask_reuse("Qwen/Qwen2.5-7B", ["dram-pcie4,bandwidth=10.17GiB/s"], asked)
    (load,) = answer.loads
    assert load.stored_bytes == 117_440_512
    assert load.stored_bytes / 2**30 == pytest.approx(0.1094, abs=1e-4)
    assert load.load_s == pytest.approx(10.76e-3, rel=1e-3)
    assert load.bound_s is not None and load.bound_s == pytest.approx(117_440_512 / 31.5e9)


def test_a_second_query_finds_gpu_memory_before_any_tier(tmp_path: Path) -> None:
    # LMCache/LMCache#1109: Qwen2.5-72B, TP 2, 14,771 tokens asked twice; the engine's own cache has them already
    path = tmp_path / "twice.jsonl"
    blocks = list(range(29))  # of 512 tokens
    line = f'{{"timestamp": 0, "input_length": 14771, "output_length": 10, "hash_ids": {blocks}}}\n'
    path.write_text(line * 2)
    asked = ReuseOptions(trace=path, pool_bytes=20e9, sequences=1)
    tier = "dram-pcie5,bandwidth=25GB/s,capacity=100GB"
    answer = ask_reuse("Qwen/Qwen2.5-72B", [tier], asked, hardware="h100-sxm", tp=2, dtype="fp8")
    memory, dram = answer.levels
    assert memory.hit_rate == pytest.approx(14770 / (2 * 14771)) and dram.gained_share == 0
    assert answer.fleet[0].gain == 1
    # with no room there, the tier has it: 80 layers x 2 x 8 x 128 x 2 B = 327,680 B a token, 4.84 GB, over two wires
    (load,) = ask_reuse("Qwen/Qwen2.5-72B", [tier], ReuseOptions(prefixes=(14770,)), tp=2).loads
    assert load.stored_bytes == 14770 * 327680 == pytest.approx(4.84e9, rel=1e-3)
    assert load.load_s == pytest.approx(0.097, rel=5e-3)


def test_an_engine_that_takes_5_seconds_for_14771_tokens_is_not_held_up_by_its_gpus() -> None:
    # 2 x 72.7e9 x 14,771 FLOPs in fp8 on 2 x 1,979 TFLOP/s are 0.54 s; attention in 16 bits, 80 layers x 4 x 64 x 128 x
    # 14,771^2 / 2 FLOPs on 2 x 989, adds 0.14 s. Step times say 1.49 s, where 5.4 s were measured on a GPU not stated.
    asked = ReuseOptions(prefixes=(14770,))
    answer = ask_reuse("Qwen/Qwen2.5-72B", ["dram-pcie5"], asked, hardware="h100-sxm", tp=2, dtype="fp8")
    (row,) = answer.prefixes
    products, attention = 2 * 72.7e9 * 14771 / (2 * 1979e12), 80 * 4 * 64 * 128 * 14771**2 / 2 / (2 * 989e12)
    assert products == pytest.approx(0.54, abs=0.005)
    assert row.prefill_bound_s == pytest.approx(products + attention, rel=0.05)
    assert row.prefill_s is not None and products + attention < row.prefill_s < 5.442 / 3


def test_a_disk_of_40_gb_and_a_small_mixture_of_experts() -> None:
    # LMCache/LMCache#2205, Qwen3-Coder-30B-A3B: 48 layers x 2 x 4 x 128 x 2 B = 98,304 B a token; 40 GB hold 406,901
    asked = ReuseOptions(prefixes=(8192, 64000))
    tier = "nvme-gen4,capacity=40GB,bandwidth=3GB/s,chunk=128"
    answer = ask_reuse("Qwen/Qwen3-Coder-30B-A3B-Instruct", [tier], asked, hardware="h100-sxm")
    assert answer.kv_bytes_per_token == 98304
    assert answer.tiers[0].capacity_tokens == 406_901
    short, long = answer.loads
    assert long.load_s == pytest.approx(2.1, abs=0.01)  # 6.29 GB
    # Products alone, 2 x 3.3e9 x 64,000 FLOPs at 40 % of 989 TFLOP/s, take 1.07 s, by which the disk would lose. But
    # attention over 64,000 tokens is 4 x 48 x 32 x 128 x 64,000^2 / 2 FLOPs, 1.6 s at the peak itself: the disk wins
    # there, and loses between the few tokens that still read all experts and some 35,000.
    assert pytest.approx(1.63, abs=0.01) == 4 * 48 * 32 * 128 * 64000**2 / 2 / 989e12
    assert long.recompute_s is not None and long.recompute_s > 2.7
    assert long.pays and not short.pays
    assert answer.tiers[0].break_even_tokens == pytest.approx(35_000, rel=0.1)
    slower = ask_reuse("Qwen/Qwen3-Coder-30B-A3B-Instruct", [tier], asked, hardware="a100-sxm-80gb")
    assert all(load.pays for load in slower.loads)


def guide() -> tuple[PrefixRow, LoadRow, Fleet]:
    """llm-d's guide: Qwen3-32B, 8 engines of 2 H100s, 45 groups of 10 prompts with 30,000 shared tokens each."""
    asked = ReuseOptions(prefixes=(30000,), isl=30256, osl=1024, sequences=6, hit_rate=1.0)
    answer = ask_reuse("Qwen/Qwen3-32B", ["dram-pcie5,bandwidth=50GB/s"], asked, hardware="h100-sxm", tp=2)
    return answer.prefixes[0], answer.loads[0], answer.fleet[0]


def test_a_hit_gains_25_fold_and_a_fleet_a_fifth() -> None:
    # 30,000 x 262,144 B over 2 x 50 GB/s are 79 ms. Recompute by 2 x 32.8e9 x 30,000 FLOPs at half of 2 x 989 TFLOP/s
    # is 2.0 s; step times, which count attention, say 2.17 s.
    row, load, fleet = guide()
    assert load.load_s == pytest.approx(0.0786, abs=5e-4)
    assert pytest.approx(2.0, abs=0.02) == 2 * 32.8e9 * 30000 / (2 * 989e12 * 0.5)
    assert row.recompute_s == pytest.approx(2.0, rel=0.10)
    assert load.gain == pytest.approx(25, rel=0.12)
    # Measured: 38,535 -> 46,662 tokens/s, 1.21 times as many. No reuse of prefixes makes it more than 1.56 times.
    assert fleet.most_gain is not None and 46662 / 38535 < fleet.most_gain == pytest.approx(1.56, abs=0.03)
    # Little's law: 45 requests at 8 engines for 37.8 s each are 6.7 s of an engine a request; step times say 6.0 s
    # without any hit, 10 % less, though that run had some.
    assert pytest.approx(6.72, abs=0.01) == 37.8 / (45 / 8)
    assert fleet.request_s == pytest.approx(6.72, rel=0.12)


def test_memory_of_that_guide_had_no_room_for_what_ran() -> None:
    # 9,271 blocks of 16 tokens of 262,144 B an engine are 38.9 GB, of eight 311 GB (the guide counts 2.62 MB a block,
    # which is ten tokens, and 193 GB). 45 prefixes are 354 GB: 1.14 times that. With questions and answers the
    # 45 requests that ran at once held 369 GB: six of an engine overflow it by 10 GB.
    pool = 9271 * 16 * 262144
    # vLLM's rules at a share of 0.65 give 35.6 GB on two H100s, 8 % less than those blocks; the version is not stated.
    engine = make_instance(read_model("Qwen/Qwen3-32B"), load_gpu("h100-sxm"), Parallelism(tp=2))
    ruled = 2 * kv_pool(engine, EngineSettings(memory_share=0.65)).pool_bytes
    assert ruled == pytest.approx(pool, rel=0.10) and ruled < pool
    assert 8 * pool == pytest.approx(311e9, rel=1e-3)
    assert 45 * 30000 * 262144 / (8 * pool) == pytest.approx(1.14, abs=0.005)
    assert book.cyclic_lru_hits(set_tokens=45 * 30000, cache_tokens=8 * 9271 * 16) == 0
    asked = ReuseOptions(sequences=6, context=31280, pool_bytes=pool)
    over = ask_reuse("Qwen/Qwen3-32B", ["dram-pcie5,capacity=100GB"], asked, tp=2).overflow
    assert over is not None
    assert over.wanted_bytes == 6 * 31280 * 262144
    assert over.overflow_bytes == pytest.approx(10.3e9, rel=5e-3)
    assert over.taken_by == "dram-pcie5"


def test_loads_of_vllms_connector_gain_2_to_22_fold() -> None:
    # blog.vllm.ai/2026/01/08: Llama-3.1-8B, H100, TTFT of a hit in host memory 2 to 22 times shorter by length of the
    # prompt, 2 times at 512 tokens. 131,072 B at 50 GB/s are 2.62 us a token.
    asked = ReuseOptions(prefixes=(512, 8192, 90000))
    answer = ask_reuse("Llama-3.1-8B", ["dram-pcie5-vllm-0.12"], asked, hardware="h100-sxm")
    gains = [load.ttft_gain or 0.0 for load in answer.loads]
    assert answer.loads[1].load_s / 8192 == pytest.approx(2.62e-6, rel=1e-3)
    assert gains[0] == pytest.approx(2, rel=0.15) and gains[2] == pytest.approx(22, rel=0.15)
    assert gains[0] < gains[1] < gains[2]
    # By hand: products 2 x 8.03e9 FLOPs at 60 % of 989 TFLOP/s are 27 us a token, ten times a load; attention adds
    # 4 x 32 x 4,096 x 45,000 FLOPs a token at 90,000, 48 us at half the peak: 29 times. Step times say 21 for the
    # prefix alone, since long prompts run nearer to the peak than that.
    assert pytest.approx(48e-6, rel=0.01) == 4 * 32 * 4096 * 45000 / (989e12 * 0.5)
    assert answer.loads[2].gain == pytest.approx(21, abs=1)
    # both ways at once 83.4 GB/s: 1.67 times one way, and 41.7 GB/s for reads
    assert answer.tiers[0].duplex_factor == pytest.approx(1.67, abs=0.005)
    assert answer.tiers[0].shared_bytes_per_s == pytest.approx(41.7e9)


def test_a_tier_that_keeps_another_dtype_holds_a_seventh() -> None:
    # noonghunna/club-3090#422: 36,808 tokens took 4.93 GB of host memory, 134 kB each, where the GPU keeps 18.9 kB:
    # counting host memory by the GPU's rate overstates what it holds 7.1 times
    each = 4.93e9 / 36808
    assert each == pytest.approx(134e3, rel=1e-3)
    by_gpu, own = (
        ask_reuse("Qwen/Qwen3-32B", [f"dram-pcie4,capacity=60GB,bytes_per_token={rate}"])
        .tiers[0]
        .capacity_tokens
        for rate in ("18900B", f"{each:.0f}B")
    )
    assert by_gpu is not None and own is not None
    assert by_gpu / own == pytest.approx(7.1, abs=0.05)
    assert own == pytest.approx(60e9 / each, rel=1e-3)
