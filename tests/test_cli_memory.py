"""``costmodel kv`` and engines' memory as a user asks for them: bytes and sequences by hand, refusals by name."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cli_runner import asked, run

from costmodel.data import HARDWARE, package_files
from costmodel.memory.settings import EngineSettings
from costmodel.questions.kv import ask_kv

GIB, MIB = 2**30, 2**20
H100, H200, B200 = (("--hardware", name) for name in ("h100-sxm", "h200-sxm", "b200-sxm"))
ENGINES = ("vllm", "sglang", "trtllm")
ROOT = Path(__file__).parents[1]


def kv(model: str, tokens: int, *options: str) -> dict[str, Any]:
    return asked("kv", model, "--tokens", str(tokens), *options)


def held(model: str, tokens: int, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = kv(model, tokens, *options)["capacity"]
    return found


def refused(*options: str, model: str = "Qwen2.5-7B", tokens: int = 1000) -> str:
    """The one message of a call that is bad usage."""
    result = run("kv", model, "--tokens", str(tokens), *options)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    assert result.output.startswith("error: ") and len(result.output) < 4000
    return result.output


def file_of(engine: str) -> str:
    return package_files(HARDWARE).joinpath(f"engines/{engine}.toml").read_text(encoding="utf-8")


def copy_of(engine: str, folder: Path) -> str:
    path = folder / f"my-{engine}.toml"
    path.write_text(file_of(engine), encoding="utf-8")
    return str(path)


# Steps of quantised checkpoints


@pytest.mark.parametrize(
    ("model", "peaks"),
    [
        # 4-bit weights are widened before Hopper's matrix units: products in the activations' dtype
        ("openai/gpt-oss-20b", {"peak_bf16"}),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", {"peak_fp16"}),  # its configuration says float16
        ("nvidia/Gemma-4-31B-IT-NVFP4", {"peak_bf16"}),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", {"peak_bf16"}),
        ("Qwen/Qwen3-8B-FP8", {"peak_fp8", "peak_bf16"}),  # the head is not quantised
    ],
)
def test_steps_name_the_peak_of_the_dtype_of_their_products(model: str, peaks: set[str]) -> None:
    answer = asked("step", model, *H100, "--phase", "decode", "--batch", "8", "--context", "1000")
    assert set(re.findall(r"h100-sxm (peak_\w+),", " ".join(answer["sources"]))) == peaks
    assert 0 < answer["bound_s"] < answer["time_s"]


def test_the_bound_of_a_four_bit_step_is_that_of_its_bytes() -> None:
    """Qwen2.5-7B in AWQ, 28 layers: q and o 3,584 x 3,584, k and v 512 x 3,584, three of 18,944 x 3,584.

    Half a byte each, the head of 152,064 x 3,584 in two bytes, and 8 x 1,000 tokens of 57,344 bytes at 3,350 GB/s.
    """
    asking = (*H100, "--phase", "decode", "--batch", "8", "--context", "1000")
    answer = asked("step", "Qwen/Qwen2.5-7B-Instruct-AWQ", *asking)
    layer = 2 * 3584 * 3584 + 2 * 512 * 3584 + 3 * 18_944 * 3584
    least = 28 * layer / 2 + 152_064 * 3584 * 2 + 8 * 1000 * 57_344
    assert least / 3350e9 <= answer["bound_s"] * (1 + 1e-6)
    # scales and zeros of 20 bits for 128 weights, and activations, are no tenth more
    assert answer["bound_s"] <= answer["bytes"] / 3350e9 <= 1.1 * least / 3350e9


# Stages


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("model", "pp"),
    [("Llama-3.1-70B", 6), ("Qwen2.5-7B", 6), ("DeepSeek-V2-Lite", 6), ("gpt-oss-20b", 6), ("gemma-4-E2B-it", 2)],
)  # fmt: skip
def test_stages_add_up(engine: str, model: str, pp: int) -> None:
    whole = kv(model, 1000)
    answer = kv(model, 1000, *H100, "--engine", engine, "--pp", str(pp))
    assert len(answer["stages"]) == len(answer["capacity"]["stages"]) == pp
    assert sum(stage["kv_bytes_per_gpu"] for stage in answer["stages"]) == whole["kv_bytes"]
    rates = [stage["kv_bytes_per_token_per_gpu"] for stage in answer["stages"]]
    assert sum(rates) == whole["kv_bytes_per_token"]
    layers = sum(row["count"] for row in whole["layers"])
    assert sum(stage["layers"] for stage in answer["stages"]) == layers
    assert answer["capacity"]["largest_batch"] > 0
    assert answer["capacity"]["log_lines"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stage_that_only_reads_other_layers_caches(engine: str) -> None:
    """gemma-4-E2B: the first 15 of 35 layers cache, 3 full ones of 2 x 512 x 2 and 12 of 2 x 256 x 2 bytes."""
    answer = kv("gemma-4-E2B-it", 1000, "--kv-pool", "1GiB", "--engine", engine, "--pp", "2")
    assert [stage["kv_bytes_per_token_per_gpu"] for stage in answer["stages"]] == [3 * 2048, 0]
    found = answer["capacity"]
    assert found["limiting_stage"] == 1
    # SGLang: windowed layers get 0.8 of the tokens; TensorRT-LLM: every layer in full, pages of 32
    if engine == "sglang":
        assert found["kv_cache_tokens"] == int(GIB / (3 * 2048 + 0.8 * 12 * 1024))
    if engine == "trtllm":
        assert found["kv_cache_tokens"] == GIB // (32 * (3 * 2048 + 12 * 1024)) * 32


def test_the_stage_with_most_states_limits_too() -> None:
    """Nemotron-H-47B in two stages of 49 layers: 2 attention and 24 Mamba-2 layers, and 3 and 21.

    4,096 bytes a token and attention layer, 16,900,096 a state: 256 heads x 64 x 256 x 4 and 20,480 x 3 x 2.
    """
    state = 256 * 64 * 256 * 4 + (16_384 + 2 * 8 * 256) * 3 * 2
    assert state == 16_900_096
    pool = ("--kv-pool", "10GiB", "--pp", "2")
    found = held("Nemotron-H-47B-Base-8K", 1000, *pool, "--engine", "trtllm")
    # 32 pages of 32 tokens: 8,388,608 + 24 states = 413,990,912, 25.94 of them; 29.2 in the other
    assert found["max_concurrency"] == pytest.approx(10 * GIB / (32 * 32 * 2 * 4096 + 24 * state))
    assert (found["largest_batch"], found["limiting_stage"]) == (25, 1)
    # 9 of 19 parts for states: 12.5 on the first stage, 14.3 on the second; tokens by the second's three layers
    found = held("Nemotron-H-47B-Base-8K", 1000, *pool, "--engine", "sglang")
    assert found["largest_batch"] == int(10 * GIB * 9 / 19 / (24 * state)) == 12
    assert found["kv_cache_tokens"] == int(10 * GIB * 10 / 19 / (3 * 4096)) == 459_901
    assert found["limiting_stage"] == 1


def test_unlike_stages() -> None:
    """Llama-3.1-8B in two stages of 16 x 4,096 bytes a token: 1 GiB are 1,024 blocks of 16 tokens."""
    answer = held("Llama-3.1-8B", 1000, "--pp", "2", "--kv-pool", "2GiB", "--kv-pool", "1GiB")
    assert [stage["kv_pool_bytes"] for stage in answer["stages"]] == [2 * GIB, GIB]
    assert (answer["limiting_stage"], answer["kv_cache_tokens"]) == (2, 16_384)
    mixed = held("Llama-3.1-8B", 1000, "--pp", "2", *H100, *H200)
    assert [stage["hardware"] for stage in mixed["stages"]] == ["h100-sxm", "h200-sxm"]
    assert mixed["limiting_stage"] == 1
    # uneven layers: 8 of 4,096 bytes in 1 GiB, 24 in 3 GiB, are the same tokens
    even = held(
        "Llama-3.1-8B", 1000, "--pp", "2", "--pp-layers", "8,24", "--kv-pool", "1GiB", "--kv-pool", "3GiB"
    )
    assert even["kv_cache_tokens"] == 2048 * 16
    for options, said in (
        (
            (*H100, *H200, *H200, "--pp", "2"),
            "--hardware was given 3 times; expected once, or once for each of 2",
        ),
        (("--kv-pool", "1GiB", "--kv-pool", "2GiB"), "--kv-pool was given 2 times"),
        ((*H100, *H200), "--hardware was given 2 times"),
    ):
        assert said in refused(*options)


# fp8 of sparse latents: 512 bytes, 4 scales of 4 and 64 rotary elements of 2 = 656; plain 576; indexer 132


@pytest.mark.parametrize(
    ("options", "each", "named"),
    [
        ((*H200, "--kv-dtype", "fp8"), 656 + 132, "fp8_ds_mla"),
        ((*H200, "--kv-dtype", "fp8_e4m3"), 656 + 132, "fp8_ds_mla"),
        ((*B200, "--kv-dtype", "fp8"), 576 + 132, "fp8"),
        ((*B200, "--kv-dtype", "fp8", "--engine-version", "0.18.0"), 656 + 132, "fp8_ds_mla"),
        ((*B200, "--kv-dtype", "fp8", "--engine-version", "0.18.1"), 576 + 132, "fp8"),
        ((*H200, "--kv-dtype", "fp8", "--engine", "sglang"), 656 + 132, "fp8_ds_mla"),
        ((*H200, "--kv-dtype", "fp8", "--engine", "trtllm"), 576 + 132, "fp8"),
        ((*H200, "--kv-dtype", "fp8", "--engine", "all"), 656 + 132, "fp8_ds_mla"),
        ((*H200, "--engine-version", "0.11"), 656 + 132, "fp8_ds_mla"),
        ((*H200, "--engine-version", "0.11", "--kv-dtype", "bf16"), 1152 + 132, "bf16"),
        ((*H200, "--engine-version", "0.12"), 1152 + 132, "bf16"),
        ((*H200, "--kv-dtype", "auto"), 1152 + 132, "bf16"),
    ],
)
def test_sparse_latents_by_engine_version_and_gpu(options: tuple[str, ...], each: int, named: str) -> None:
    answer = kv("DeepSeek-V3.2", 1000, "--tp", "8", *options)
    assert (answer["kv_bytes_per_token"], answer["kv_dtype"]) == (61 * each, named)


def test_sparse_latents_under_an_engine_file_of_ones_own(tmp_path: Path) -> None:
    for engine in ("vllm", "sglang"):
        mine = ("--engine", copy_of(engine, tmp_path))
        one = kv("DeepSeek-V3.2", 1000, "--tp", "8", *H200, "--kv-dtype", "fp8", *mine)
        assert one["kv_bytes_per_token"] == 48_068
        named = kv("DeepSeek-V3.2", 1000, "--tp", "8", *H200, "--kv-dtype", "fp8", "--engine", engine)
        assert one == named
    blackwell = kv(
        "DeepSeek-V3.2", 1000, "--tp", "8", *B200, "--kv-dtype", "fp8", "--engine", copy_of("vllm", tmp_path)
    )
    assert blackwell["kv_bytes_per_token"] == 43_188


# States and windows


def test_states_limit_the_sequences_of_sglang() -> None:
    """Nemotron-H-47B: 45 states of 16,900,096 bytes in 9 of 19 parts of the pool."""
    found = held("Nemotron-H-47B-Base-8K", 1000, *H200, "--engine", "sglang")
    assert found["largest_batch"] == int(found["kv_pool_bytes"] * 9 / 19 / (45 * 16_900_096)) == 26
    assert found["max_concurrency"] == 26
    longer = held("Nemotron-H-47B-Base-8K", 8000, *H200, "--engine", "sglang")
    assert longer["largest_batch"] == 26
    # 5 attention layers of 2 x 8 x 128 x 2 bytes in the other 10 parts
    assert found["kv_cache_tokens"] == int(found["kv_pool_bytes"] * 10 / 19 / (5 * 4096))


def test_states_beside_pages_in_trtllm() -> None:
    """Jamba-1.5-Mini: 4 attention layers of 4,096, 32 pages of 32 tokens; 28 states of 8,192 x (16 + 3) x 2."""
    found = held("AI21-Jamba-1.5-Mini", 1000, "--kv-pool", "1GiB", "--engine", "trtllm")
    needed = 32 * 32 * 4 * 4096 + 28 * 8192 * (16 + 3) * 2
    assert found["max_concurrency"] == pytest.approx(GIB / needed)
    assert found["largest_batch"] == GIB // needed == 42


def test_sequences_take_whole_pages_in_trtllm() -> None:
    """Qwen2.5-7B: 585 pages of 32 x 57,344 bytes in 1 GiB; 33 tokens take two."""
    found = held("Qwen2.5-7B", 33, "--kv-pool", "1GiB", "--engine", "trtllm")
    assert (found["kv_cache_blocks"], found["max_concurrency"]) == (GIB // (32 * 57_344), 292.5)
    assert found["largest_batch"] == 256  # its own limit
    more = held("Qwen2.5-7B", 33, "--kv-pool", "1GiB", "--engine", "trtllm", "--max-num-seqs", "1000")
    assert more["largest_batch"] == 292
    assert held("Qwen2.5-7B", 32, "--kv-pool", "1GiB", "--engine", "trtllm")["max_concurrency"] == 585


def test_a_model_of_windowed_layers_alone() -> None:
    """Mistral-7B-v0.1: 32 windowed layers of 4,096 bytes. SGLang keeps them in full, vLLM 4,096 tokens and a step."""
    ours = held("Mistral-7B-v0.1", 10_000, *H100, "--engine", "sglang")
    assert ours["kv_cache_tokens"] == int(ours["kv_pool_bytes"] // 131_072) == ours["longest_held_tokens"]
    assert ours["max_concurrency"] == pytest.approx(ours["kv_cache_tokens"] / 10_000)
    vllm = held("Mistral-7B-v0.1", 10_000, *H100)
    assert vllm["longest_held_tokens"] is None
    assert vllm["longest_reason"] == "no layer grows beyond its window: any length fits"
    assert vllm["longest_context_tokens"] == 32_768  # what it is made for
    # min(4,095 + 8,192, 10,000) tokens and a block more
    assert vllm["max_concurrency"] == pytest.approx(vllm["kv_cache_blocks"] / (625 + 1))
    page = run("kv", "Mistral-7B-v0.1", "--tokens", "10000", *H100)
    assert "any length fits" in page.output


@pytest.mark.parametrize(
    ("model", "pool", "engine"),
    [
        # six groups of layers, of which five keep windows: a block each and five more, in three blocks
        ("gemma-3-12b-it", 3 * 16 * 8192 * 8, "vllm"),
        # 45 states of 16,900,096 bytes in 9 of 19 parts of 1 GiB: not one
        ("Nemotron-H-47B-Base-8K", GIB, "sglang"),
    ],
)
def test_a_pool_that_holds_no_sequence_at_all(model: str, pool: int, engine: str) -> None:
    asking = ("kv", model, "--tokens", "10", "--kv-pool", f"{pool}B", "--engine", engine)
    result = run(*asking, "-f", "json")
    found = json.loads(result.stdout)["capacity"]
    assert result.exit_code == 1
    assert (found["largest_batch"], found["longest_held_tokens"], found["longest_reason"]) == (0, 0, None)
    page = run(*asking)
    assert page.exit_code == 1 and "Not one sequence of 10 tokens fits: the longest is 0" in page.output


# Scale blocks


@pytest.mark.parametrize(
    ("model", "layout", "said"),
    [
        # 1,536 / 8 = 192 rows in blocks of 128
        ("Qwen3-235B-A22B-FP8", ("--tp", "8"), "experts: 192 a GPU in blocks of 128 that share a scale"),
        # 18,432 / 32 = 576 = 4.5 blocks; 2,048 / 32 = 64
        ("DeepSeek-V3", ("--tp", "32"), "mlp: 576 a GPU in blocks of 128"),
        ("DeepSeek-V3", ("--tp", "32", "--ep", "32"), "mlp: 576 a GPU in blocks of 128"),
        # 768 / 4 = 192
        ("Qwen3-30B-A3B-FP8", ("--tp", "4"), "experts: 192 a GPU in blocks of 128"),
    ],
)  # fmt: skip
def test_a_split_inside_a_scale_block_is_refused(model: str, layout: tuple[str, ...], said: str) -> None:
    assert said in refused(*layout, model=model)


@pytest.mark.parametrize(
    ("model", "layout"),
    [
        ("Qwen3-235B-A22B-FP8", ("--tp", "4")),  # 384 = 3 x 128
        ("Qwen3-235B-A22B-FP8", ("--tp", "8", "--ep", "8")),
        ("DeepSeek-V3", ("--tp", "16")),  # 1,152 = 9 x 128, 2,048 / 16 = 128
        ("gpt-oss-20b", ("--tp", "4")),  # 720 = 22.5 x 32: the kernel rounds up
        ("Qwen3-30B-A3B-FP8", ("--tp", "2")),
    ],
)
def test_a_split_between_scale_blocks_is_taken(model: str, layout: tuple[str, ...]) -> None:
    assert kv(model, 1000, *layout)["kv_bytes_per_gpu"] > 0


def test_the_refusal_names_what_is_allowed() -> None:
    said = refused("--tp", "8", model="Qwen3-235B-A22B-FP8")
    assert "allowed TP: 1, 2, 4;" in said and "--ep" in said


# Users


@cache
def sequences_of(model: str, tokens: int, tp: int, pp: int, dp: int, *options: str) -> tuple[int, int]:
    """Sequences at once on a layout (0: none fits) and its expert parallelism: only where widths do not split."""
    for ep in dict.fromkeys((1, tp)):
        layout = ("--tp", str(tp), "--pp", str(pp), "--ep", str(ep), "--dp-attention", str(dp))
        result = run("kv", model, "--tokens", str(tokens), *H100, *layout, *options, "-f", "json")
        if result.exit_code == 0:
            return json.loads(result.stdout)["capacity"]["largest_batch"], ep
        if result.exit_code == 1:
            return 0, ep
    return 0, 1


def every_layout(
    model: str, users: int, tokens: int, tps: range | list[int], pps: list[int], *options: str
) -> list[tuple[int, ...]]:
    found = []
    for tp in tps:
        for pp in pps:
            for dp in dict.fromkeys((1, tp) if re.search(r"-A\d+B", model) else (1,)):  # models of experts
                sequences, ep = sequences_of(model, tokens, tp, pp, dp, *options)
                if sequences:
                    many = -(-users // sequences)
                    found.append((many * tp * pp, pp, tp, dp, ep, many, sequences, many * sequences))
    return sorted(found)


ROW = ("gpus", "pp", "tp", "dp_attention", "ep", "instances", "sequences", "held")


@pytest.mark.parametrize(
    ("model", "users", "tokens", "options"),
    [
        ("Qwen2.5-7B", 3000, 20_000, ()),
        ("Llama-3.1-70B", 64, 16_384, ("--engine", "sglang")),
        ("Qwen3-235B-A22B-FP8", 64, 32_768, ()),
        ("Qwen3-30B-A3B-FP8", 500, 8192, ("--engine", "trtllm", "--max-num-seqs", "100")),
    ],
)
def test_fewest_gpus_of_every_layout(model: str, users: int, tokens: int, options: tuple[str, ...]) -> None:
    answer = kv(model, tokens, "--users", str(users), *H100, *options)
    wanted = every_layout(model, users, tokens, range(1, 9), [1, 2, 4, 8], *options)
    assert wanted and [tuple(row[key] for key in ROW) for row in answer["fewest"]] == wanted
    best = answer["fewest"][0]
    assert best["held"] >= users > best["held"] - best["sequences"]
    assert answer["capacity"] is None and "--users" in answer["capacity_reason"]
    assert f"{best['gpus']} GPUs hold {users:,} sequences" in run(
        "kv", model, "--tokens", str(tokens), "--users", str(users), *H100, *options
    ).output  # fmt: skip


def test_fewest_gpus_of_latents_with_and_without_attention_groups() -> None:
    # Latents are whole on every GPU of a group: one group a GPU holds as many times more sequences.
    wanted = []
    for tp in range(1, 9):
        for groups in sorted({1, tp}):
            options = ("--tp", str(tp), "--dp-attention", str(groups), *H100)
            result = run("kv", "DeepSeek-V2-Lite", "--tokens", "16384", *options, "-f", "json")
            if result.exit_code == 0 and (held := json.loads(result.stdout)["capacity"]["largest_batch"]):
                instances = -(-900 // held)
                wanted.append((instances * tp, tp, groups, instances, held))
    answer = kv("DeepSeek-V2-Lite", 16_384, "--users", "900", *H100)
    rows = [row for row in answer["fewest"] if row["pp"] == 1]
    keys = ("gpus", "tp", "dp_attention", "instances", "sequences")
    assert sorted(tuple(row[key] for key in keys) for row in rows) == sorted(wanted)
    assert {row["dp_attention"] for row in rows} > {1, 2}


def test_whole_experts_are_shared_out_only_where_widths_do_not_split() -> None:
    rows = kv("Qwen3-235B-A22B-FP8", 32_768, "--users", "64", *H100, "--dp-attention", "1")["fewest"]
    assert {row["dp_attention"] for row in rows} == {1}
    assert {row["tp"]: row["ep"] for row in rows} == {1: 1, 2: 1, 4: 1, 8: 8}


@pytest.mark.parametrize(
    "degrees",
    [
        {"tp": 4},
        {"tp": 1},
        {"pp": 1},
        {"dp_attention": 1},
        {"pp": 2},
        {"tp": 2, "pp": 4},
        {"tp": 8, "ep": 8},
        {"ep": 4},
        {"tp": 4, "dp_attention": 2},
    ],
)
def test_degrees_that_are_given_are_kept(degrees: dict[str, int]) -> None:
    options = [
        text for name, degree in degrees.items() for text in (f"--{name.replace('_', '-')}", str(degree))
    ]
    if degrees == {"ep": 4}:  # it has to divide --tp, which is then to be given, too
        assert "--ep 4 does not divide --tp 1" in refused(
            "--users", "9", *H100, *options, model="Qwen3-30B-A3B"
        )
        return
    rows = kv("Qwen3-30B-A3B", 8192, "--users", "500", *H100, *options)["fewest"]
    assert rows and all(row[name] == degree for row in rows for name, degree in degrees.items())
    free = kv("Qwen3-30B-A3B", 8192, "--users", "500", *H100)["fewest"]
    assert rows[0]["gpus"] >= free[0]["gpus"]


def test_stages_that_the_default_would_not_try() -> None:
    rows = kv("Llama-3.1-70B", 8192, "--users", "10", *H100, "--pp", "5")["fewest"]
    wanted = every_layout("Llama-3.1-70B", 10, 8192, range(1, 9), [5])
    assert [tuple(row[key] for key in ROW) for row in rows] == wanted


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--users asks for the fewest GPUs: pass --hardware"),
        ((*H100, *H200, "--pp", "2"), "--users compares layouts of one GPU: pass --hardware once"),
        ((*H100, "--max-model-len", "4096"), "--max-model-len: no effect beside --users"),
        ((*H100, "--pp", "2", "--pp-layers", "14,14"), "--pp-layers: no effect beside --users"),
        ((*H100, "--kv-pool", "1GiB"), "--kv-pool: no effect beside --users"),
        ((*H100, "--engine", "all"), "--users compares layouts under one engine"),
        ((*H100, "--kv-dtype", "q8_0"), "--kv-dtype q8_0: vLLM has"),
    ],
)
def test_what_users_leave_no_meaning_is_refused(options: tuple[str, ...], said: str) -> None:
    assert said in refused("--users", "10", *options)


# Engines side by side


def test_all_engines_side_by_side() -> None:
    for model, tp in (("Qwen2.5-7B", "1"), ("gpt-oss-20b", "2"), ("DeepSeek-V2-Lite", "1")):
        options = (*H100, "--tp", tp)
        answer = kv(model, 4096, *options, "--engine", "all")
        assert [each["engine"] for each in answer["engines"]] == list(ENGINES)
        assert answer["capacity"] == answer["engines"][0]
        for each in answer["engines"]:
            assert each == held(model, 4096, *options, "--engine", each["engine"])
    alone = kv("Qwen2.5-7B", 4096, *H100)
    assert alone["engines"] == []
    page = run("kv", "Qwen2.5-7B", "--tokens", "4096", *H100, "--engine", "all").output
    for each in kv("Qwen2.5-7B", 4096, *H100, "--engine", "all")["engines"]:
        assert f"{each['engine']} {each['engine_version']}" in page
        assert f"{each['kv_cache_tokens']:,}" in page


def test_each_engine_keeps_sparse_latents_in_its_own_layout() -> None:
    """DeepSeek-V3.2 in fp8 on H200: 48,068 bytes a token in vLLM and SGLang, 43,188 in TensorRT-LLM."""
    answer = kv("DeepSeek-V3.2", 1000, "--tp", "8", *H200, "--kv-dtype", "fp8", "--engine", "all")
    for each, page, size in zip(answer["engines"], (64, 64, 32), (48_068, 48_068, 43_188)):
        assert each["kv_cache_tokens"] == int(each["kv_pool_bytes"] // (page * size)) * page


# Options in vain


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--max-num-seqs", "3"), "--max-num-seqs: no effect without --hardware or --kv-pool"),
        (("--max-num-batched-tokens", "3"), "--max-num-batched-tokens: no effect without"),
        (("--max-model-len", "3000"), "--max-model-len: no effect without"),
        (("--block-size", "32"), "--block-size: no effect without"),
        (("--gpu-memory-utilization", "0.5"), "--gpu-memory-utilization: no effect without"),
        (("--activation", "1GiB", "--non-torch", "1GiB"), "--activation, --non-torch: no effect without"),
        (("--kv-pool", "1GiB", "--activation", "1GiB"), "--activation: no effect beside --kv-pool"),
        (("--kv-pool", "1GiB", *H100, "--non-torch", "1GiB"), "--non-torch: no effect beside --kv-pool"),
        (("--kv-pool", "1GiB", "--mem-fraction-static", "0.8"), "no effect beside --kv-pool"),
        ((*H100, "--engine", "sglang", "--activation", "1GiB"), "SGLang's budget does not subtract activations"),
        ((*H100, "--engine", "sglang", "--kv-dtype", "int8"), "--kv-dtype int8: SGLang has bf16,"),
        ((*H100, "--engine", "trtllm", "--kv-dtype", "fp8_ds_mla"), "layout of latent attention"),
        ((*H100, "--kv-dtype", "q8_0"), "--kv-dtype q8_0: vLLM has bf16,"),
        (("--kv-pool", "1GiB", "--kv-dtype", "q4_0"), "--kv-dtype q4_0: vLLM has bf16,"),
        ((*H100, "--engine", "all", "--engine-version", "0.19"), "--engine-version belongs to one engine"),
        (("--pp-layers", "14,14"), "--pp-layers splits pipeline stages: pass --pp, too"),
        ((*H100, "--max-num-seqs", "100", "--max-num-batched-tokens", "99"),
         "--max-num-seqs 100 exceeds the 99 tokens of a step"),
        ((*H100, "--max-num-seqs", "8193"), "--max-num-seqs 8,193 exceeds the 8,192 tokens of a step"),
    ],
)  # fmt: skip
def test_options_that_would_change_nothing_are_refused(options: tuple[str, ...], said: str) -> None:
    assert said in refused(*options)


def test_dtypes_by_the_names_of_engines_and_of_llama_cpp() -> None:
    """Qwen2.5-7B caches 28 x 2 x 4 x 128 elements a token; q8_0 has 34 bytes for 32, q4_0 18."""
    elements = 28 * 2 * 4 * 128
    for name, each in (
        ("fp8_e4m3", 1), ("fp8_e5m2", 1), ("fp8", 1), ("bfloat16", 2), ("float16", 2), ("float32", 4),
        ("q8_0", 34 / 32), ("q4_0", 18 / 32),
    ):  # fmt: skip
        assert kv("Qwen2.5-7B", 10, "--kv-dtype", name)["kv_bytes_per_token"] == elements * each, name
    assert "unknown" in refused("--kv-dtype", "fp9")


def test_a_step_holds_no_more_sequences_than_tokens() -> None:
    """The default limit falls with the tokens of a step; the same number is allowed."""
    assert held("Qwen2.5-7B", 100, *H100, "--max-num-batched-tokens", "100")["largest_batch"] == 100
    both = ("--max-num-seqs", "100", "--max-num-batched-tokens", "100")
    assert held("Qwen2.5-7B", 100, *H100, *both)["largest_batch"] == 100


@pytest.mark.parametrize(
    ("tp", "chunk", "reserve"),
    [
        # MiB: 512, 128 a GPU, 1.5 a token of a chunk (2,048 at least), 2 a sequence of the graphs: 256, 512 from TP4
        (1, None, 512 + 128 + 1.5 * 8192 + 2 * 256),
        (1, 4096, 10_240),  # 7,296, but 10 GiB at least on so large a GPU
        (1, 16_384, 512 + 128 + 1.5 * 16_384 + 2 * 256),
        (1, 32_768, 512 + 128 + 1.5 * 32_768 + 2 * 256),
        (4, None, 512 + 4 * 128 + 1.5 * 8192 + 2 * 512),
        (8, 16_384, 512 + 8 * 128 + 1.5 * 16_384 + 2 * 512),
    ],
)
def test_the_default_share_of_sglang_falls_with_the_chunk(tp: int, chunk: int | None, reserve: float) -> None:
    options = ("--engine", "sglang", "--tp", str(tp))
    options += ("--max-num-batched-tokens", str(chunk)) if chunk else ()
    found = held("Qwen3-0.6B", 1000, *H100, *options)
    assert found["memory_share"] == round(1 - reserve / (79.19 * 1024), 3)


# Versions


@pytest.mark.parametrize(
    "version",
    ["0.19", "0.19.0", "v0.19.0", "0.19.0rc1", "0.19.0.post1", "0.19.0+cu130", "0.19.0rc2.dev477+g1d5922fad"],
)
def test_versions_are_those_of_their_release(version: str) -> None:
    found = held("gemma-2-27b-it", 4096, *H100, "--engine-version", version)
    same = held("gemma-2-27b-it", 4096, *H100)
    assert found.pop("engine_version") == version and same.pop("engine_version") == "0.19.0"
    assert found == same


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("latest", "engine version 'latest': expected numbers such as 0.19.0"),
        ("0.19.x", "engine version '0.19.x': expected numbers"),
        ("0.19.0\n", "expected numbers"),
        ("٠.١٩", "expected numbers"),
        ("19", "expected numbers"),
        ("", "--engine-version: empty"),
        ("1" * 5000, "expected numbers"),
        ("0." + "1" * 5000, "expected numbers"),
        ("0.33.1", "--engine-version 0.33.1: rules are known up to vLLM 0.33.0"),
        ("1.0", "rules are known up to vLLM"),
        ("0.10.2", "no rules are known for so early a version"),
    ],
)
def test_other_versions_are_refused(version: str, said: str) -> None:
    found = refused(*H100, "--engine-version", version)
    assert said in found and len(found) < 300


# Exit codes


def test_exit_codes() -> None:
    """0: it fits. 1: no sequence of these tokens does, or the weights do not. 2: bad usage."""
    assert run("kv", "Qwen2.5-7B", "--tokens", "1000", *H100).exit_code == 0
    long = ("kv", "Qwen2.5-7B", "--tokens", "2000000", *H100)
    page = run(*long)
    assert page.exit_code == 1 and "Not one sequence of 2,000,000 tokens fits: the longest is" in page.output
    printed = run(*long, "-f", "json")
    answer = json.loads(printed.stdout)
    assert printed.exit_code == 1 and answer["capacity"]["largest_batch"] == 0
    assert 0 < answer["capacity"]["longest_held_tokens"] < 2_000_000
    assert f"{answer['capacity']['longest_held_tokens']:,}" in page.output
    weights = run("kv", "Llama-3.1-70B", "--tokens", "1000", *H100)
    assert weights.exit_code == 1 and "does not fit on h100-sxm TP1: 131.45 GiB of weights" in weights.output
    none = ("kv", "Llama-3.1-70B", "--tokens", "100000000", *H100, "--users", "1")
    page, printed = run(*none), run(*none, "-f", "json")
    assert page.exit_code == printed.exit_code == 1
    assert "No layout tried holds a sequence of 100,000,000 tokens." in page.output
    assert json.loads(printed.stdout)["fewest"] == []
    assert run("kv", "Qwen2.5-7B", "--tokens", "1000", "--kv-pool", "10KiB").exit_code == 1
    assert run("kv", "Qwen2.5-7B", "--tokens", "1000", "--kv-pol", "10KiB").exit_code == 2
    # one GPU and one sequence
    assert (
        "1 GPU holds 1 sequence of 1,000 tokens: 1 x TP1."
        in run("kv", "Qwen2.5-7B", "--tokens", "1000", *H100, "--users", "1").output
    )
    # without hardware, nothing was asked to fit
    assert run("kv", "Qwen2.5-7B", "--tokens", "2000000").exit_code == 0


# Every factor


MODELS = [
    ("Llama-3.1-8B-Instruct", "1"), ("gpt-oss-20b", "2"), ("DeepSeek-V2-Lite", "1"), ("gemma-3-12b-it", "1"),
    ("Nemotron-H-8B-Base-8K", "1"), ("Qwen3-8B-FP8", "1"), ("Mistral-Small-3.1-24B-Instruct-2503", "2"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "tp"), MODELS)
@pytest.mark.parametrize("engine", [*ENGINES, "vllm 0.33.0"])
def test_factors_add_up_and_logs_agree(model: str, tp: str, engine: str) -> None:
    name, _, version = engine.partition(" ")
    options = (*H100, "--tp", tp, "--engine", name, *(("--engine-version", version) if version else ()))
    found = held(model, 4096, *options)
    factors = {factor["name"]: factor["bytes"] for factor in found["factors"]}
    assert sum(factors.values()) == pytest.approx(found["kv_pool_bytes"], rel=1e-12)
    apart = ("memory asked for", "memory", "weights and KV may take", "peak activation", "outside torch",
             "CUDA graphs", "left unused")  # fmt: skip
    weights = -sum(size for key, size in factors.items() if key not in apart)
    assert weights == pytest.approx(found["weights_bytes"], rel=1e-12)
    assert ("CUDA graphs" in factors) is found["cuda_graphs_subtracted"] is (version == "0.33.0")
    lines = "\n".join(found["log_lines"])
    tokens, length = found["kv_cache_tokens"], found["max_model_len"]
    if name == "vllm":
        assert f"GPU KV cache size: {tokens:,} tokens" in lines
        assert (
            f"Maximum concurrency for {length:,} tokens per request: {found['max_concurrency']:.2f}x" in lines
        )
        shown = re.search(r"Available KV cache memory: ([\d.]+) GiB", lines)
        assert shown and float(shown[1]) == round(found["kv_pool_bytes"] / GIB, 2)
    elif name == "sglang":
        assert f"max_total_num_tokens={tokens}, context_len={length}" in lines
        assert f"mem usage={found['weights_bytes'] / GIB:.2f} GB" in lines
    else:
        assert f"primary blocks={found['kv_cache_blocks']}, max sequence length={length}" in lines
        assert (
            f"Allocated {found['kv_pool_bytes'] / GIB:.2f} GiB for max tokens in paged KV cache ({tokens})"
            in lines
        )
        assert tokens == found["kv_cache_blocks"] * 32


@pytest.mark.parametrize("engine", [*ENGINES, "all"])
def test_the_factor_table_is_in_binary_units(engine: str) -> None:
    asking = ("Qwen2.5-7B", "--tokens", "4096", *H100, "--engine", engine)
    page = run("kv", *asking, "--explain").output
    named = dict.fromkeys(ENGINES if engine == "all" else (engine,), 0.0)
    units = {"KiB": 2**10, "MiB": MIB, "GiB": GIB, "B": 1}
    for heading in named:
        part = page.split(f"Where the pool of {heading} comes from, each GPU")[1].split(" are left.")[0]
        rows = re.findall(r"^\S.*?  +(-?[\d.,]+) (\w+) ", part, flags=re.MULTILINE)
        assert len(rows) >= 5 and {unit for _, unit in rows} <= set(units)
        named[heading] = sum(float(size.replace(",", "")) * units[unit] for size, unit in rows)
    answer = kv(asking[0], 4096, *asking[3:])
    for found in answer["engines"] or [answer["capacity"]]:
        # four digits a row
        assert named[found["engine"]] == pytest.approx(found["kv_pool_bytes"], abs=0.02 * GIB)


@pytest.mark.parametrize(("engine", "tp"), [("vllm", 2), ("sglang", 1), ("trtllm", 4), ("all", 1)])
def test_the_library_answers_the_same(engine: str, tp: int) -> None:
    settings = EngineSettings(engine=engine, max_num_seqs=64)
    ours = ask_kv("Qwen2.5-7B", 4096, tp=tp, hardware="h100-sxm", engine=settings)
    printed = kv("Qwen2.5-7B", 4096, *H100, "--tp", str(tp), "--engine", engine, "--max-num-seqs", "64")
    plain = json.loads(json.dumps(asdict(ours)))
    about = plain.pop("about")
    assert {key: printed[key] for key in plain} == plain
    assert all(printed[key] == about[key] for key in about)


# Configurations


CONFIG: dict[str, Any] = {
    "model_type": "acmelm", "torch_dtype": "bfloat16", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336, "vocab_size": 128_256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False, "moe_shared_width": 512, "num_hash_heads": 7,
}  # fmt: skip


def test_a_key_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    text = json.dumps({**CONFIG, "model_type": "llama"})
    path.write_text(text.replace('"num_hidden_layers": 32', '"num_hidden_layers": 16, "num_hidden_layers": 32'),
                    encoding="utf-8")  # fmt: skip
    assert "num_hidden_layers: stands twice in one object" in refused(model=str(path))
    nested = {"model_type": "llava", "text_config": {**CONFIG, "model_type": "llama"}}
    path.write_text(json.dumps(nested).replace('"hidden_size": 4096', '"hidden_size": 1, "hidden_size": 4096'),
                    encoding="utf-8")  # fmt: skip
    assert "hidden_size: stands twice" in refused(model=str(path))


def test_an_assumed_family_names_the_sizes_it_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / "acme.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    assert "unknown model_type 'acmelm'" in refused(model=str(path))
    answer = kv(str(path), 100, "--assume-family", "llama")
    assert answer["kv_bytes_per_token"] == 131_072
    said = " ".join(answer["warnings"])
    assert "llama does not read moe_shared_width, num_hash_heads" in said and "sizes may be wrong" in said


# Engine files of one's own


def without(table: str, text: str) -> str:
    """A file's text with all tables of a name left out."""
    return re.sub(rf"\[\[{table}\]\]\n(?:[^\[\n].*\n|\n)*", "", text)


VLLM, SGLANG, TRTLLM = (file_of(engine) for engine in ENGINES)


@pytest.mark.parametrize(
    ("text", "old", "new", "said"),
    [
        (VLLM, "sampler_bytes = 14.47\n", "", "missing key 'activation[0].sampler_bytes'"),
        (VLLM, "memory_share = 0.90\n", "", "missing key 'memory_share' in the first [[rules]]"),
        (without("non_torch", VLLM), "", "", "missing tables [[non_torch]]"),
        (without("batch", VLLM), "", "", "missing key 'batch'"),
        (VLLM, 'kv_tokens = "group"', 'kv_tokens = "wat"', "rules[0].kv_tokens: unknown value 'wat' (one of group,"),
        (VLLM, 'kv_tokens = "group"', 'kv_tokens = "grup"', "did you mean 'group'"),
        (VLLM, 'value = "0.13 GiB"', 'value = "abc"', "non_torch[0].value: 'abc' does not start with a number"),
        (VLLM, 'value = "0.13 GiB"', 'value = "-5 GiB"', "non_torch[0].value: '-5 GiB' is negative"),
        (VLLM, 'value = "0.13 GiB"', "value = 5", "non_torch[0].value: 5 is not a quoted text"),
        (VLLM, "tp = 1\n", 'tp = "one"\n', "non_torch[0].tp: 'one' is not a whole number, at least 1"),
        (VLLM, "state_alignment = 16", "state_alignment = 0", "rules[0].state_alignment: 0 is not a whole number"),
        (VLLM, "block_tokens = 16", "block_tokens = 0", "block_tokens: 0 is not a whole number, at least 1"),
        (VLLM, "block_tokens = 16", "block_tokens = 9999999999", "block_tokens: more than 1,000,000,000"),
        (VLLM, "memory_share = 0.90", "memory_share = 5", "rules[0].memory_share: 5 is not a number in (0, 1]"),
        (VLLM, "memory_share = 0.90", "memory_share = nan", "rules[0].memory_share: nan is not a number in (0, 1]"),
        (VLLM, "memory_share = 0.90", 'memory_share = "90 GiB"', "rules[0].memory_share: '90 GiB' is not a number"),
        (VLLM, "group_slack = 1.25", "group_slak = 1.25", "'rules[1].group_slak'; did you mean 'rules[1].group_slack'"),
        (VLLM, "experts_workspace = true", 'experts_workspace = "no"', "experts_workspace: 'no' is not true or false"),
        (VLLM, 'from = "0.11"', 'from = "x"', "rules[0].from: 'x' is not a quoted version"),
        (VLLM, 'from = "0.17"', "from = 0.17", "from: 0.17 is not a quoted version"),
        (VLLM, 'source = "rules"', 'source = "ruels"', "rules[0].source: 'ruels' does not stand in [sources]"),
        (VLLM, "share_of_total", "static_pool", "missing key 'window_ratio' in the first [[rules]]"),
        (VLLM, "share_of_total", "share_of_free", "'group' does not go with a budget of 'share_of_free'"),
        (VLLM, "share_of_total", "shares", "budget: unknown value 'shares'"),
        (SGLANG, "static_pool", "share_of_total", "missing key 'memory_share' in the first [[rules]]"),
        (TRTLLM, "share_of_free", "static_pool", "missing key 'state_ratio' in the first [[rules]]"),
        (TRTLLM, 'from = "0.10"\nmax', 'from = "0.10"\nmemory = "20 GiB"\nmax', "the first [[batch]] has a condition"),
        (VLLM, 'default_version = "0.19.0"', 'default_version = "0.99"', "default_version: '0.99' is above"),
        (VLLM, "[sources]", "[sources]\n[rulez]", "unknown key 'rulez'; did you mean 'rules'"),
        ("name = ", "", "", "is not TOML"),
    ],
)  # fmt: skip
def test_engine_files_with_one_mistake(tmp_path: Path, text: str, old: str, new: str, said: str) -> None:
    path = tmp_path / "engine.toml"
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    message = refused(*H100, "--engine", str(path))
    assert said in message and message.startswith(f"error: {path}: "), message


def test_all_mistakes_of_an_engine_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "engine.toml"
    text = VLLM.replace("memory_share = 0.90", "memory_share = 5", 1).replace("group_slack", "group_slak")
    text = text.replace('value = "0.13 GiB"', 'value = "abc"').replace("sampler_bytes = 14.47\n", "")
    path.write_text(text, encoding="utf-8")
    message = refused(*H100, "--engine", str(path))
    for said in (
        "rules[0].memory_share: 5", "'rules[0].group_slak'", "'rules[1].group_slak'", "'rules[3].group_slak'",
        "missing key 'group_slack'", "non_torch[0].value: 'abc'", "'activation[0].sampler_bytes'",
        "'activation[2].sampler_bytes'",
    ):  # fmt: skip
        assert said in message
    assert message.count("error: ") == 1 and "8 problems:" in message


@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_of_an_engine_file_answers_as_the_packaged_one(tmp_path: Path, engine: str) -> None:
    """Also with a byte order mark and the line ends of Windows."""
    wanted = kv("Qwen2.5-7B", 4096, *H100, "--engine", engine)
    path = Path(copy_of(engine, tmp_path))
    assert kv("Qwen2.5-7B", 4096, *H100, "--engine", str(path)) == wanted
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert kv("Qwen2.5-7B", 4096, *H100, "--engine", str(path)) == wanted


def test_an_engine_file_that_says_otherwise_answers_otherwise(tmp_path: Path) -> None:
    """Half of 79.19 GiB instead of 0.9: 31.676 GiB less."""
    path = Path(copy_of("vllm", tmp_path))
    path.write_text(VLLM.replace("memory_share = 0.90", "memory_share = 0.5"), encoding="utf-8")
    gone = held("Qwen2.5-7B", 100, *H100)["kv_pool_bytes"]
    gone -= held("Qwen2.5-7B", 100, *H100, "--engine", str(path))["kv_pool_bytes"]
    assert gone == pytest.approx(0.4 * 79.19 * GIB)


# What engines make of a dtype, of names and of lengths


@pytest.mark.parametrize(("model", "same"), [("google/gemma-2-9b", "bf16"), ("bigscience/bloom-7b1", "bf16")])
def test_float32_and_unstated_dtypes_are_loaded_with_16_bits(model: str, same: str) -> None:
    # gemma-2-9b: 42 layers x 2 x 8 heads x 256 x 2 bytes; bloom-7b1: 30 x 2 x 4,096 x 2
    slope = {"google/gemma-2-9b": 42 * 2 * 8 * 256 * 2, "bigscience/bloom-7b1": 30 * 2 * 4096 * 2}[model]
    found, asked = kv(model, 2048, *H100), kv(model, 2048, *H100, "--dtype", same)
    assert found["kv_bytes_per_token_all_layers"] == slope
    assert found["capacity"] == asked["capacity"]
    assert any("engines load 16 bits unless told otherwise" in line for line in found["assumptions"])
    assert kv(model, 2048, "--dtype", "fp32")["kv_bytes_per_token_all_layers"] == 2 * slope
    said = run(
        "step", model, "--hardware", "h100-sxm", "--phase", "decode", "--batch", "8", "--context", "1024"
    )
    assert said.exit_code == 0, said.output


def test_fp8_that_the_checkpoint_asks_for_keeps_sparse_latents_as_asked(tmp_path: Path) -> None:
    # 61 layers x (656 + 132) bytes, whether the option or the checkpoint says fp8
    found = {
        **json.loads((ROOT / "models" / "deepseek-ai--DeepSeek-V3.2.json").read_text()),
        "_source": "a test",
    }
    found["quantization_config"] = {
        "quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
        "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
    }  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(found))
    layout = ("--hardware", "h200-sxm", "--tp", "8")
    for options in ((), ("--kv-dtype", "fp8")):
        answer = kv(str(file), 8192, *layout, *options)
        assert (answer["kv_dtype"], answer["kv_bytes_per_token"]) == ("fp8_ds_mla", 61 * (656 + 132))
    assert "KV in fp8_ds_mla, as the checkpoint says" in kv(str(file), 8192, *layout)["assumptions"]


def test_one_engine_that_holds_a_sequence_is_an_answer() -> None:
    options = ("--engine", "all", *H100, "--gpu-memory-utilization", "0.99", "--non-torch", "0.25GiB")
    result = run("kv", "casperhansen/llama-3-70b-instruct-awq", "--tokens", "131072", *options, "-f", "json")
    engines = json.loads(result.stdout)["engines"]
    assert engines[0]["largest_batch"] == 0 and any(each["largest_batch"] for each in engines)
    assert result.exit_code == 0


def test_blocks_of_one_token_are_counted_where_the_engine_logs_them() -> None:
    found = held("Qwen2.5-7B", 1000, *H100, "--engine", "trtllm", "--block-size", "1")
    assert found["kv_cache_blocks"] == found["kv_cache_tokens"] > 0
    assert any(f"primary blocks={found['kv_cache_blocks']}," in line for line in found["log_lines"])


def test_a_limit_below_the_tokens_asked_is_refused() -> None:
    assert "engines refuse sequences of 131,072 tokens" in refused(
        "--max-model-len", "100", *H100, model="Llama-3.1-8B", tokens=131_072
    )
