"""What engines keep and hold: weights of a GPU by hand, blocks against start-up logs, lengths against loops."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from cli_runner import asked, run
from hypothesis import assume, given
from hypothesis import strategies as st

from costmodel.data import Sourced
from costmodel.errors import DoesNotFitError, InputError
from costmodel.families import read_model
from costmodel.inputs.hardware import Gpu, load_gpu
from costmodel.inputs.model import (
    Attention,
    Dense,
    Experts,
    Indexer,
    LatentAttention,
    Layer,
    Mixer,
    Model,
    Recurrent,
)
from costmodel.inputs.parameters import storage_of
from costmodel.memory.capacity import Fit, fit
from costmodel.memory.engine import dotted, parse_version
from costmodel.memory.engine_file import load_engine
from costmodel.memory.fewest import layouts_for
from costmodel.memory.logs import log_lines
from costmodel.memory.pages import Plan, plan_pages
from costmodel.memory.parallelism import Parallelism
from costmodel.memory.settings import EngineSettings, resolve
from costmodel.memory.stages import check_split, pipeline_stages, split_layers
from costmodel.memory.weights import GpuWeights, gpu_parameters, gpu_weights

GIB, MIB = 2**30, 2**20
H100 = load_gpu("h100-sxm")

# hidden 64, 4 query heads and 2 KV heads of 16, feed-forward of 128, two norms; vocabulary 100, padded to 128
HEADS = Attention(4, 2, 16)
WIDE = Dense(128)


def model_of(*layers: Layer, hidden: int = 64, vocab: int = 100, tied: bool = False) -> Model:
    return Model("tiny", "test", hidden, vocab, layers, tied, "bf16", None, "test",
                 final_norm_parameters=hidden)  # fmt: skip


def tiny(count: int = 3, *, tied: bool = False) -> Model:
    return model_of(Layer(count, (HEADS, WIDE), 128), tied=tied)


def weights_of(model: Model, layout: Parallelism, stage: int = 0) -> GpuWeights:
    return gpu_weights(pipeline_stages(model, layout.pp)[stage], storage_of(model), layout, wide_copies=True)


def rules_of(version: str) -> Mapping[str, Any]:
    return load_engine("vllm").rules(parse_version(version)).values


def seen(gpu: Gpu, memory: float) -> Gpu:
    """The GPU with so many bytes that the engine sees."""
    return replace(gpu, values={**gpu.values, "memory_visible": Sourced(memory, "", "test")})


# Pipeline stages


@pytest.mark.parametrize(
    ("layers", "pp", "split"),
    [
        # vLLM 0.19, distributed/utils.py: the remainder goes to the last but one and those before it.
        (32, 1, (32,)),
        (32, 4, (8, 8, 8, 8)),
        (3, 2, (2, 1)),
        (61, 4, (15, 15, 16, 15)),
        (62, 4, (15, 16, 16, 15)),
        (63, 4, (16, 16, 16, 15)),
        (27, 8, (3, 3, 3, 3, 4, 4, 4, 3)),
    ],
)
def test_layers_of_stages(layers: int, pp: int, split: tuple[int, ...]) -> None:
    assert split_layers(layers, pp) == split
    assert sum(split) == layers


def test_a_split_must_name_every_layer_once() -> None:
    assert check_split(48, 2, [16, 32]) == (16, 32)
    for wrong in ([48], [16, 31], [0, 48], [16, 16, 16], [-1, 49]):
        with pytest.raises(InputError, match=r"--pp-layers .*: expected 2 whole numbers .* add up to 48"):
            check_split(48, 2, wrong)


def test_stages_keep_the_order_of_unlike_layers() -> None:
    # windowed, full, windowed, windowed: stage 1 holds the first two, stage 2 two windowed ones
    window = Layer(3, (Attention(4, 2, 16, window=8), WIDE), 128)
    full = Layer(1, (HEADS, WIDE), 128)
    one, two = pipeline_stages(replace(model_of(window, full), order=(0, 1, 0, 0)), 2)
    assert [(layer.count, layer.mixers[0].window) for layer in one.model.layers] == [(1, 8), (1, None)]
    assert [(layer.count, layer.mixers[0].window) for layer in two.model.layers] == [(2, 8)]
    assert (one.first, one.last, two.first, two.last, two.start) == (True, False, False, True, 2)


# Weights of a GPU


def test_weights_on_one_gpu() -> None:
    # q and o 64 x 64, k and v 32 x 64, three matrices of 128 x 64, norms 128: 36,992 a layer;
    # embedding and head of 128 padded rows, last norm 64
    held = weights_of(tiny(), Parallelism())
    assert held.layers_bytes == 3 * 36_992 * 2
    assert held.ends_bytes == (128 * 64 * 2 + 64) * 2
    assert held.copies_bytes == held.towers_bytes == held.rotary_bytes == 0
    # norms: 256 bytes a layer in steps of 512; the last norm: 128 bytes
    assert held.rounding_bytes == 3 * 256 + 384
    parts = held.layers_bytes + held.ends_bytes + held.rounding_bytes
    assert held.total_bytes == parts and held.tensors_bytes == parts - held.rounding_bytes


def test_tensor_parallel_weights_repeat_kv_heads_and_norms() -> None:
    # TP4: q and o a quarter (1,024 each); 2 KV heads on 4 GPUs: one of 16 x 64 each for k and v;
    # feed-forward 24,576 / 4; norms whole; 128 / 4 rows of each table
    layout = Parallelism(4)
    held = weights_of(tiny(), layout)
    assert held.layers_bytes == 3 * (4 * 1024 + 6144 + 128) * 2
    assert held.ends_bytes == (2 * 32 * 64 + 64) * 2
    stage = pipeline_stages(tiny(), 1)[0]
    assert gpu_parameters(stage, layout) == 3 * (4 * 1024 + 6144 + 128) + 2 * 32 * 64 + 64


@pytest.mark.parametrize(("vocab", "tp", "rows"), [(64, 1, 64), (65, 1, 128), (100, 2, 64), (130, 4, 48)])
def test_the_vocabulary_is_padded_to_64_before_it_is_split(vocab: int, tp: int, rows: int) -> None:
    model = model_of(Layer(1, (HEADS, WIDE), 128), vocab=vocab)
    assert weights_of(model, Parallelism(tp)).ends_bytes == (2 * rows * 64 + 64) * 2


def test_stages_hold_embedding_first_and_head_last() -> None:
    layout, table = Parallelism(pp=2), 128 * 64
    first, last = (weights_of(tiny(), layout, stage) for stage in (0, 1))
    assert (first.layers_bytes, first.ends_bytes) == (2 * 36_992 * 2, table * 2)
    assert (last.layers_bytes, last.ends_bytes) == (36_992 * 2, (table + 64) * 2)


def test_a_tied_head_is_stored_once_or_again_on_the_last_stage() -> None:
    table = 128 * 64
    assert weights_of(tiny(tied=True), Parallelism()).ends_bytes == (table + 64) * 2
    first, middle, last = (weights_of(tiny(tied=True), Parallelism(pp=3), stage) for stage in range(3))
    assert (first.ends_bytes, middle.ends_bytes, last.ends_bytes) == (table * 2, 0, (table + 64) * 2)


def test_experts_whole_under_ep_and_split_under_tp() -> None:
    # 8 experts of width 32 and one shared one; router 8 x 64 whole; attention at TP4 4,096 (see above)
    experts = Experts(8, 2, 32, shared_width=32)
    model = model_of(Layer(1, (HEADS, experts), 128))
    beside = 4096 + 128 + 8 * 64 + 3 * 8 * 64  # attention, norms, router, a quarter of the shared expert
    split = weights_of(model, Parallelism(4))
    assert split.layers_bytes == (beside + 8 * 3 * 8 * 64) * 2
    whole = weights_of(model, Parallelism(4, ep=4))
    assert whole.layers_bytes == (beside + 2 * 3 * 32 * 64) * 2
    # 6 experts over 4 GPUs: the fullest two hold 2
    uneven = model_of(Layer(1, (HEADS, Experts(6, 2, 32)), 128))
    assert (
        weights_of(uneven, Parallelism(4, ep=4)).layers_bytes == (4096 + 128 + 6 * 64 + 2 * 3 * 32 * 64) * 2
    )


def test_data_parallel_attention_splits_attention_within_a_group() -> None:
    # TP4 in two groups: q and o by half (2,048 each), one KV head each (1,024 each); feed-forward by four
    held = weights_of(tiny(1), Parallelism(4, dp_attention=2))
    assert held.layers_bytes == (2 * 2048 + 2 * 1024 + 6144 + 128) * 2
    alone = weights_of(tiny(1), Parallelism(4, dp_attention=4))
    assert alone.layers_bytes == (2 * 4096 + 2 * 2048 + 6144 + 128) * 2


def test_dense_blocks_lie_within_a_group_or_over_all_gpus() -> None:
    """TP4 in two groups. vLLM splits dense blocks and shared experts by two, SGLang by four; experts by four."""
    settings = [EngineSettings(engine=name) for name in ("vllm", "sglang")]
    attention = 2 * 2048 + 2 * 1024 + 128  # as above, with the norms
    routed = 8 * 64 + 8 * 3 * 8 * 64  # router whole, 8 experts of width 32 / 4
    for blocks, vllm, sglang in (
        (WIDE, 24_576 // 2, 24_576 // 4),
        (Experts(8, 2, 32, shared_width=32), routed + 3 * 16 * 64, routed + 3 * 8 * 64),
    ):
        model = model_of(Layer(1, (HEADS, blocks), 128))
        for setting, size in zip(settings, (vllm, sglang)):
            held = fit(model, H100, Parallelism(4, dp_attention=2), kv_dtype="bf16", max_model_len=64,
                       settings=setting)  # fmt: skip
            assert held.worst.pool.weights.layers_bytes == (attention + size) * 2


@pytest.mark.parametrize(
    ("model", "tp", "before", "later"),
    [
        # 27 kv_b_proj of 16 x 256 x 512 in bf16: copied up to 0.19 (the log's 29.43 GiB), no more from 0.20 on
        ("deepseek-ai/DeepSeek-V2-Lite", 1, 27 * 16 * 256 * 512 * 2, 0),
        # 61 of 128 x 256 x 512 in fp8, a sixteenth on each GPU: widened in every version
        ("deepseek-ai/DeepSeek-V3", 16, 61 * 8 * 256 * 512 * 2, 61 * 8 * 256 * 512 * 2),
    ],
)
def test_absorbed_copies_by_version(model: str, tp: int, before: int, later: int) -> None:
    for version, size in (("0.11.0", before), ("0.19.0", before), ("0.20.0", later), ("0.33.0", later)):
        settings = EngineSettings(version=version)
        held = fit(
            read_model(model), H100, Parallelism(tp), kv_dtype="bf16", max_model_len=64, settings=settings
        )
        assert held.worst.pool.weights.copies_bytes == size


def test_down_projections_of_latents_and_indexers_are_whole_on_every_gpu() -> None:
    # q_a 32 x 64, kv_a 24 x 64 and norms of 32 and 16 whole; q_b 64 x 32, kv_b 64 x 16, o 64 x 32 by half
    latent = LatentAttention(4, 32, 16, 8, 8, 8)
    whole = 32 * 64 + 24 * 64 + 32 + 16
    held = weights_of(model_of(Layer(2, (latent, WIDE), 128)), Parallelism(2))
    assert held.layers_bytes == 2 * (whole + (64 * 32 + 64 * 16 + 64 * 32 + 24_576) // 2 + 128) * 2
    # the absorbed copy of kv_b_proj: half of 64 x 16 in 16 bits a layer
    assert held.copies_bytes == 2 * 64 * 16 // 2 * 2
    stage = pipeline_stages(model_of(Layer(2, (latent, WIDE), 128)), 1)[0]
    assert gpu_weights(stage, storage_of(stage.model), Parallelism(2)).copies_bytes == 0
    # indexer of 2 heads of 8: wq_b 16 x 32, wk 8 x 64, its norm 2 x 8, weights_proj 2 x 64, all whole
    sparse = replace(latent, indexer=Indexer(2, 8), top_k=4)
    more = weights_of(model_of(Layer(2, (sparse, WIDE), 128)), Parallelism(2))
    assert more.layers_bytes - held.layers_bytes == 2 * (16 * 32 + 8 * 64 + 16 + 2 * 64) * 2


@pytest.mark.parametrize(
    ("width", "added"),
    [
        # up and down of width x 1,024 in bf16: 2 KiB a unit of width. From 10 MiB on whole 2 MiB, unless
        # more than 1 MiB would be left, which other tensors take.
        (5119, 0),  # 10 MiB - 2 KiB: below 10 MiB in steps of 512 bytes
        (5120, 0),  # 10 MiB, whole
        (5121, 0),  # 10 MiB + 2 KiB: 2 MiB - 2 KiB left, split off
        (5631, 0),  # 11 MiB - 2 KiB: 1 MiB + 2 KiB left, split off
        (5632, MIB),  # 11 MiB: exactly 1 MiB left, not split off
        (5633, MIB - 2048),
        (6143, 2048),
        (6144, 0),
    ],
)
def test_rounding_on_both_sides_of_the_allocators_limits(width: int, added: int) -> None:
    model = model_of(Layer(3, (Dense(width, matrices=2),), 0), hidden=1024, vocab=64)
    assert weights_of(model, Parallelism()).rounding_bytes == 3 * 2 * added


@pytest.mark.parametrize(("norms", "added"), [(1, 510), (255, 2), (256, 0), (257, 510)])
def test_small_tensors_round_to_512_bytes(norms: int, added: int) -> None:
    # two bytes each; tables of 64 x 64 and the last norm of 64 (128 bytes, +384) beside them
    model = model_of(Layer(2, (Dense(64, matrices=2),), norms), vocab=64)
    assert weights_of(model, Parallelism()).rounding_bytes == 2 * added + 384


@pytest.mark.parametrize(
    ("model", "tp", "logged"),
    [
        # vLLM 0.19.0, H100: github.com/jgchn/llm-d-planner@3c876c8a, accuracy/results/v0.19.0/results_raw.csv
        ("meta-llama/Llama-3.1-8B-Instruct", 1, 14.99),
        ("meta-llama/Llama-3.1-8B-Instruct", 2, 7.51),
        ("Qwen/Qwen2.5-72B-Instruct", 2, 67.80),
        ("google/gemma-3-12b-it", 1, 23.31),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 2, 43.51),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 4, 53.12),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 1, 29.43),
    ],
)
def test_weights_as_logged(model: str, tp: int, logged: float) -> None:
    assert weights_of(read_model(model), Parallelism(tp)).total_bytes / GIB == pytest.approx(logged, rel=2e-3)


# Blocks of vLLM

#: Start-up logs of vLLM 0.19.0 at 8,192 tokens a sequence and a step: the same file as above, each row's
#: kv_cache_blocks, kv_cache_tokens, max_concurrency. Bytes of a block by hand: 16 tokens x bytes of a token
#: and layer x layers of a group. Last: tokens as 0.20.2 defines them, int(blocks / blocks a request x 8192).
LOGGED: dict[str, tuple[int, str, int, list[int], int, int, str, int]] = {
    # 23 full and 23 windowed of 8,192 bytes; 512 + 513 blocks a request
    "google/gemma-2-27b-it": (1, "bf16", 16 * 8192 * 23, [23, 23], 7335, 58_672, "7.16", 58_622),
    # 12 and 12 of 1,024 bytes at TP2
    "openai/gpt-oss-20b": (2, "bf16", 16 * 1024 * 12, [12, 12], 323_972, 2_591_776, "316.07", 2_589_247),
    # 8 full and 40 windowed, in five groups, of 8,192 bytes; 512 + 5 x 513
    "google/gemma-3-12b-it": (1, "bf16", 16 * 8192 * 8, [8] * 6, 48_867, 130_304, "15.88", 130_100),
    # 5 full and 29 windowed of 4,096 bytes: five groups of 5 and one of 4
    "google/gemma-3-4b-it": (1, "bf16", 16 * 4096 * 5, [5, 5, 5, 5, 5, 5, 4], 204_817, 468_144, "57.05", 467_370),
    # 12 full and 36 chunked of 1,024 bytes at TP4; 4 x 512
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": (
        4, "bf16", 16 * 1024 * 12, [12] * 4, 91_495, 365_968, "44.68", 365_980,
    ),
    # 27 latents of 1,152 bytes
    "deepseek-ai/DeepSeek-V2-Lite-Chat": (1, "bf16", 16 * 1152 * 27, [27], 94_097, 1_505_552, "183.78", 1_505_552),
    # 32 layers of 2,048 bytes in fp8
    "meta-llama/Llama-3.1-8B-Instruct": (1, "fp8", 16 * 2048 * 32, [32], 59_502, 952_032, "116.21", 952_032),
    "Qwen/Qwen2.5-72B-Instruct": (2, "bf16", 16 * 2048 * 80, [80], 1245, 19_920, "2.43", 19_920),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": (2, "bf16", 16 * 2048 * 32, [32], 29_121, 465_936, "56.88", 465_936),
}  # fmt: skip


def held_in(
    model: Model, pool: float, length: int, *, tp: int = 1, kv_dtype: str = "bf16", **engine: Any
) -> Fit:
    """What fits in a pool of so many bytes, steps of 8,192 tokens unless said otherwise."""
    settings = EngineSettings(**{"max_num_batched_tokens": 8192, **engine}, pool_bytes=pool)
    return fit(model, None, Parallelism(tp), kv_dtype=kv_dtype, max_model_len=length, settings=settings)


@pytest.mark.parametrize("name", LOGGED)
def test_tokens_and_concurrency_from_logged_blocks(name: str) -> None:
    tp, kv_dtype, block_bytes, groups, blocks, tokens, concurrency, later = LOGGED[name]
    model = read_model(name)
    held = held_in(model, blocks * block_bytes, 8192, tp=tp, kv_dtype=kv_dtype, version="0.19.0")
    plan = held.worst.plan
    assert plan is not None and plan.block_bytes == block_bytes
    assert sorted((group.layers for group in plan.groups), reverse=True) == groups
    assert (held.blocks, held.tokens, f"{held.concurrency:.2f}") == (blocks, tokens, concurrency)
    # one byte less is one block less
    assert held_in(model, blocks * block_bytes - 1, 8192, tp=tp, kv_dtype=kv_dtype).blocks == blocks - 1
    for version, said in (("0.20.0", tokens), ("0.20.2", later)):
        assert held_in(
            model, blocks * block_bytes, 8192, tp=tp, kv_dtype=kv_dtype, version=version
        ).tokens == said  # fmt: skip


def layers_of(full: int, windowed: int, window: int = 32) -> Model:
    return model_of(
        Layer(full, (HEADS, WIDE), 128), Layer(windowed, (Attention(4, 2, 16, window=window), WIDE), 128)
    )


def plan_of(model: Model, version: str, **more: Any) -> Plan:
    (stage,) = pipeline_stages(model, 1)
    return plan_pages(
        model, stage, "bf16", 1, more.get("block", 16), more.get("budget", 8192), rules_of(version)
    )


@pytest.mark.parametrize(
    ("version", "windowed", "groups"),
    [
        # 20 full layers. Groups of the fewer, unless the more are below 1 (0.11), 1.25 (0.12), 1.5 (0.18.1)
        # times as many; then one group each, the smaller one padded.
        ("0.11.0", 24, [20, 12, 12]),
        ("0.12.0", 24, [20, 24]),
        ("0.12.0", 25, [20, 13, 12]),
        ("0.17.1", 28, [20, 14, 14]),
        ("0.18.1", 28, [20, 28]),
        ("0.19.0", 29, [20, 29]),
        ("0.19.0", 30, [20, 15, 15]),
    ],
)
def test_slack_of_group_sizes_by_version(version: str, windowed: int, groups: list[int]) -> None:
    plan = plan_of(layers_of(20, windowed), version)
    assert [group.layers for group in plan.groups] == groups
    assert plan.block_bytes == max(groups) * 16 * 128  # 2 KV heads x 16 x 2 x 2 bytes


def test_chunked_layers_count_in_full_before_0_14_1() -> None:
    # Llama-4-Scout at TP4: 1,024 bytes a token and layer; 48 layers in one group, or four groups of 12
    scout = read_model("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    (stage,) = pipeline_stages(scout, 1)
    for version, block_bytes in (("0.13.0", 16 * 1024 * 48), ("0.14.1", 16 * 1024 * 12)):
        assert plan_pages(scout, stage, "bf16", 4, 16, 8192, rules_of(version)).block_bytes == block_bytes


@pytest.mark.parametrize(("version", "windows"), [("0.25.1", 768 + 1), ("0.26.0", 1280 + 1)])
def test_windows_keep_the_tokens_of_the_steps_in_flight(version: str, windows: int) -> None:
    # gemma-2-27b at 32,768: ceil((4095 + 8192) / 16) = 768, with two steps in flight ceil((4095 + 16384) / 16)
    # = 1280, and one more; a full layer 2,048
    plan = plan_of(read_model("google/gemma-2-27b-it"), version)
    assert plan.sequence_blocks(32_768) == 2048 + windows


def test_stages_share_the_groups_of_the_whole_model() -> None:
    # full layers 0, 2, 4, windowed 1, 3, 5 on stages of 3: groups of 2 and 1, then of 1 and 2
    model = replace(layers_of(3, 3), order=(0, 1, 0, 1, 0, 1))
    plans = [
        plan_pages(model, stage, "bf16", 1, 16, 64, rules_of("0.19.0")) for stage in pipeline_stages(model, 2)
    ]
    assert [[group.layers for group in plan.groups] for plan in plans] == [[2, 1], [1, 2]]
    assert [plan.block_bytes for plan in plans] == [2 * 16 * 128] * 2


def test_the_smallest_stage_decides() -> None:
    # 3 layers over two stages, 2 and 1: with the same pool the first holds half the blocks
    held = fit(
        tiny(), None, Parallelism(pp=2), kv_dtype="bf16", max_model_len=64,
        settings=EngineSettings(pool_bytes=2 * 16 * 128 * 10),
    )  # fmt: skip
    assert [stage.units for stage in held.stages] == [10, 20]
    assert (held.worst.pool.stage.index, held.blocks, held.tokens) == (0, 10, 160)


@pytest.mark.parametrize(("version", "per_group", "fits"), [("0.25.1", 1, "2.39"), ("0.26.0", 2, "2.31")])
def test_hybrid_blocks_hold_a_state(version: str, per_group: int, fits: str) -> None:
    """Log: 302,921 tokens, 2.31x for 131,072 (github.com/mitchross/talos-argocd-proxmox/pull/1995).

    Qwen3.8-27B-FP8 has the dimensions of Qwen3.5-27B: at TP2 24 states of 128 x 128 fp32 and 3 inputs of
    5,120 channels in bf16, 1,603,584 bytes; fp8 KV 2 heads x 256 x 2 = 1,024 bytes; 1,566 tokens, in steps of
    16: 1,568. Pages of 1,605,632 bytes in 1 + 3 groups of 16 layers; 4.99 GiB are 208 blocks; a request takes
    ceil(131072 / 1568) = 84 and one (from 0.26: two) in each group of states.
    """
    model = read_model("Qwen/Qwen3.5-27B")
    held = held_in(model, 4.99 * GIB, 131_072, tp=2, kv_dtype="fp8", version=version)
    plan = held.worst.plan
    assert plan is not None
    assert (plan.block_tokens, plan.block_bytes, len(plan.groups)) == (1568, 1_605_632 * 16, 4)
    assert (held.blocks, plan.sequence_blocks(131_072)) == (208, 84 + 3 * per_group)
    assert f"{held.concurrency:.2f}" == fits
    if version == "0.26.0":
        assert held.tokens == 302_921


def test_states_do_not_lower_the_tokens_of_a_block() -> None:
    # a state of 2 x 8 x 8 elements and no convolution: 256 bytes, less than 16 tokens of 128 bytes
    small = Recurrent("scan", 2, 8, 8, 0, 1, 2, ())
    model = model_of(Layer(2, (HEADS, WIDE), 128), Layer(2, (small, WIDE), 128))
    assert plan_of(model, "0.19.0").block_tokens == 16
    # 2 x 64 x 64 elements are 16,384 bytes: 128 tokens
    large = Recurrent("scan", 2, 64, 64, 0, 1, 2, ())
    assert (
        plan_of(model_of(Layer(2, (HEADS, WIDE), 128), Layer(2, (large, WIDE), 128)), "0.19.0").block_tokens
        == 128
    )


# The longest sequence and sequences at once, against loops


def blocks_by_loop(kind: str, window: int, budget: int, tokens: int) -> int:
    """Blocks of 16 tokens of one group, counted one by one."""
    kept = {"full": tokens, "window": min(window - 1 + budget, tokens), "chunk": min(window + budget, tokens)}
    found = 0
    while kind != "state" and found * 16 < kept[kind]:
        found += 1
    return {"full": found, "window": found + 1, "chunk": found, "state": 1}[kind]


KINDS: dict[str, Mixer] = {
    "full": HEADS,
    "window": Attention(4, 2, 16, window=40),
    "chunk": Attention(4, 2, 16, window=24, chunked=True),
    "state": Recurrent("scan", 2, 8, 8, 0, 1, 2, ()),
}


@given(
    st.sets(st.sampled_from(["window", "chunk", "state"])),
    st.integers(4, 40),
    st.integers(1, 60),
    st.integers(1, 300),
)
def test_longest_and_sequences_against_a_loop(
    others: set[str], blocks: int, budget: int, length: int
) -> None:
    kinds = ["full", *sorted(others)]
    model = model_of(*(Layer(1, (KINDS[kind], WIDE), 128) for kind in kinds))
    windows = {"window": 40, "chunk": 24}

    def needed(tokens: int) -> int:
        return sum(blocks_by_loop(kind, windows.get(kind, 0), budget, tokens) for kind in kinds)

    pool = blocks * 16 * 128 + 100
    held = held_in(model, pool, length, version="0.19.0", max_num_batched_tokens=budget)
    longest = 0
    while needed(longest + 1) <= blocks:
        longest += 1
    assert (held.blocks, held.longest) == (blocks, longest)
    together = 0
    while (together + 1) * needed(length) <= blocks:
        together += 1
    assert held.sequences(length) == together


def stage_holds(engine: str, layers: list[str], pool: int, many: int, tokens: int) -> bool:
    """Whether a pool has room for ``many`` sequences: layers of 128 bytes a token, states of 2 x 8 x 8 x 2 = 256.

    TensorRT-LLM: whole pages of 32 tokens in every layer that caches, and the states. SGLang: 9 of 19 parts for
    states, and windowed layers have 0.8 of the tokens where others have none.
    """
    full, windowed, states = (layers.count(kind) for kind in ("full", "window", "state"))
    if engine == "trtllm":
        each = 128 * (full + windowed)
        pages = pool // (32 * each) if each else 10**9
        needed = -(-tokens // 32)
        return many * needed <= pages and many * (needed * 32 * each + 256 * states) <= pool
    apart = Fraction(pool * 9, 19) if states else 0
    if states and many > apart // (256 * states):
        return False
    rate = 128 * (full + windowed * (Fraction(4, 5) if full else 1))
    return not rate or many * tokens <= (pool - apart) // rate


@given(
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(1, 200),
    st.integers(1, 300),
)
def test_pools_counted_in_tokens_against_a_loop(
    full: int, windowed: int, states: int, pp: int, kilobytes: int, length: int
) -> None:
    assume(full + windowed > 0)
    counts = {"full": full, "window": windowed, "state": states}
    kinds = [Layer(count, (KINDS[kind], WIDE), 128) for kind, count in counts.items() if count]
    # an odd pool is no whole number of tokens or states, where rounding would decide
    model, pool = model_of(*kinds, Layer(1, (WIDE,), 64)), kilobytes * 4096 + 1
    order = [kind for kind, count in counts.items() for _ in range(count)] + ["none"]
    first = split_layers(len(order), pp)[0]
    parts = [order[:first], order[first:]]
    for engine in ("trtllm", "sglang"):
        holds = partial(_all_hold, engine, parts, pool)
        settings = EngineSettings(engine=engine, pool_bytes=float(pool))
        layout = Parallelism(pp=pp)
        try:
            held = fit(model, None, layout, kv_dtype="bf16", max_model_len=length, settings=settings)
        except DoesNotFitError:
            assert not holds(1, 1)
            continue
        assert holds(held.sequences(length), length) and not holds(held.sequences(length) + 1, length)
        assert held.longest is not None
        assert (held.longest == 0 or holds(1, held.longest)) and not holds(1, held.longest + 1)


def _all_hold(engine: str, parts: list[list[str]], pool: int, many: int, tokens: int) -> bool:
    return all(stage_holds(engine, part, pool, many, tokens) for part in parts)


@pytest.mark.parametrize(("model", "gpu", "users", "tokens"), [
    ("Qwen/Qwen3-8B", "h100-sxm", 300, 32_768),
    ("meta-llama/Llama-3.1-70B", "h100-sxm", 64, 16_384),
    ("Qwen/Qwen3-0.6B", "h100-sxm", 5000, 1024),
])  # fmt: skip
def test_fewest_gpus_against_every_layout(model: str, gpu: str, users: int, tokens: int) -> None:
    found, board = read_model(model), load_gpu(gpu)
    best: list[tuple[int, int, int, int, int]] = []
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4, 8):
            try:
                held = fit(found, board, Parallelism(tp, pp), kv_dtype="bf16", max_model_len=tokens)
            except DoesNotFitError:
                continue
            sequences = 10**9
            for stage in held.stages:
                heads = sum(layer.count for layer in stage.pool.stage.model.layers) * max(1, 8 // tp)
                blocks = int(stage.pool.pool_bytes // (heads * 128 * 2 * 2 * 16))
                sequences = min(sequences, blocks // -(-tokens // 16), 1024)
            if sequences:
                instances = -(-users // sequences)
                best.append((instances * tp * pp, pp, tp, instances, sequences))
    answer = layouts_for(found, board, users, tokens, kv_dtype="bf16")
    assert [(a.gpus, a.pp, a.tp, a.instances, a.sequences) for a in answer] == sorted(best)
    assert best and answer[0].instances * answer[0].sequences >= users


# Budgets of the engines


def test_vllm_budget_by_version() -> None:
    # 0.9 of 79.19 GiB and no graphs, or 0.92 less 0.84 GiB of graphs; all else as given
    model = read_model("meta-llama/Llama-3.1-8B-Instruct")
    for version, share, graphs in (("0.19.0", 0.90, 0.0), ("0.20.0", 0.92, 0.84)):
        settings = EngineSettings(version=version, activation_bytes=2 * GIB, non_torch_bytes=GIB)
        held = fit(model, H100, Parallelism(), kv_dtype="bf16", max_model_len=8192, settings=settings)
        pool = held.worst.pool
        left = 79.19 * GIB * share - pool.weights.total_bytes - 3 * GIB - graphs * GIB
        assert pool.pool_bytes == pytest.approx(left, rel=1e-12)
        assert pool.graphs_subtracted is bool(graphs)
        assert sum(factor.bytes for factor in pool.factors) == pytest.approx(pool.pool_bytes, rel=1e-12)


@pytest.mark.parametrize(
    ("engine", "version"), [("vllm", "0.19.0"), ("vllm", "0.33.0"), ("sglang", None), ("trtllm", None)]
)
def test_factors_add_up_to_the_pool(engine: str, version: str | None) -> None:
    model = read_model("deepseek-ai/DeepSeek-V2-Lite")
    settings = EngineSettings(engine=engine, version=version)
    held = fit(model, H100, Parallelism(2), kv_dtype="bf16", max_model_len=8192, settings=settings)
    pool = held.worst.pool
    assert sum(factor.bytes for factor in pool.factors) == pytest.approx(pool.pool_bytes, rel=1e-9)
    assert 0 < pool.pool_bytes < 79.19 * GIB


def test_default_batch_of_vllm_depends_on_the_gpu() -> None:
    """vLLM, engine/arg_utils.py, get_batch_defaults for the API server."""
    h200 = load_gpu("h200-sxm")
    for gpu, version, tokens, seqs in (
        (H100, "0.19.0", 8192, 1024),
        (h200, "0.33.0", 8192, 1024),
        (load_gpu("a100-sxm-80gb"), "0.19.0", 2048, 256),
        (load_gpu("a100-sxm-40gb"), "0.19.0", 2048, 256),
        (replace(load_gpu("a100-sxm-80gb"), name="NVIDIA A100"), "0.19.0", 2048, 256),
        (seen(h200, 178 * GIB), "0.27.1", 8192, 1024),
        (seen(h200, 178 * GIB), "0.28.0", 16384, 1024),
    ):
        setting = resolve(EngineSettings(version=version), gpu, Parallelism(tp=1))
        assert (setting.max_num_batched_tokens, setting.max_num_seqs) == (tokens, seqs)


@pytest.mark.parametrize(("gpus", "share"), [(1, 0.835), (8, 0.818)])
def test_default_static_fraction_of_sglang(gpus: int, share: float) -> None:
    # 0.5.9, server_args.py, on 81,559 MiB: 512 + 1.5 x 8192 + 2 x 256 (from TP4 on 2 x 512) + GPUs / 8 x 1024:
    # 13,440 or 14,848 MiB
    setting = resolve(EngineSettings(engine="sglang"), seen(H100, 81_559 * MIB), Parallelism(tp=gpus))
    assert setting.memory_share == share


def test_sglang_pool_is_a_share_of_what_was_free_less_weights() -> None:
    model = read_model("Qwen/Qwen3-8B")
    settings = EngineSettings(engine="sglang", memory_share=0.85, non_torch_bytes=GIB)
    held = fit(model, H100, Parallelism(), kv_dtype="bf16", max_model_len=32_768, settings=settings)
    pool = held.worst.pool
    assert pool.pool_bytes == pytest.approx((79.19 - 1) * GIB * 0.85 - pool.weights.total_bytes, rel=1e-12)
    # 36 layers x 8 KV heads x 128 x 2 x 2 bytes; pages of one token
    assert held.tokens == pool.pool_bytes // 147_456
    assert held.blocks is None and held.longest == held.tokens


def test_sglang_windows_get_a_share_of_the_tokens() -> None:
    # gpt-oss-20b: 12 full and 12 windowed layers of 2,048 bytes; the latter get 0.8 of the tokens:
    # 12 x 2,048 x 1.8 = 44,236.8 bytes a token; 10 GiB are 242,725.9 tokens
    held = held_in(read_model("openai/gpt-oss-20b"), 10 * GIB, 8192, engine="sglang")
    assert held.tokens == 242_725


def test_sglang_states_take_nine_nineteenths_of_the_pool() -> None:
    # Qwen3.5-27B: 16 full layers x 4 x 256 x 2 x 2 = 65,536 bytes a token in 10 of 19 parts of 19 GiB
    held = held_in(read_model("Qwen/Qwen3.5-27B"), 19 * GIB, 8192, engine="sglang")
    assert held.tokens == pytest.approx(10 * GIB / 65_536, abs=1)


def test_trtllm_pool_is_a_share_of_what_is_free() -> None:
    """TensorRT-LLM's documentation logs total 79.10 GiB, available 70.48, allocated 63.44 (4,060 x 64 tokens).

    At 262,144 bytes a token (the rate of Llama-2-7B at TP2, 32 layers x 16 heads x 128 x 2 x 2) 63.44 GiB are
    4,060.16 blocks of 64 tokens.
    """
    model = read_model("meta-llama/Llama-2-7b-hf")
    weights = weights_of(model, Parallelism(2)).total_bytes
    settings = EngineSettings(
        engine="trtllm", activation_bytes=8.62 * GIB - weights, non_torch_bytes=0.0, block_tokens=64
    )
    held = fit(
        model, seen(H100, 79.10 * GIB), Parallelism(2), kv_dtype="bf16", max_model_len=4096, settings=settings
    )
    assert held.worst.pool.pool_bytes / GIB == pytest.approx(0.9 * 70.48, rel=1e-12)
    given = held_in(model, 63.44 * GIB, 4096, tp=2, engine="trtllm", block_tokens=64)
    assert (given.blocks, given.tokens) == (4060, 259_840)
    assert "primary blocks=4060, max sequence length=4096" in log_lines(given, weights_known=False)[1]
    assert log_lines(given, weights_known=False)[2].endswith(
        "Allocated 63.44 GiB for max tokens in paged KV cache (259840)."
    )


# Log lines


@pytest.mark.parametrize(
    ("version", "lines"),
    [
        # Wording of the wheels: v1/worker/gpu_model_runner.py, v1/worker/gpu_worker.py, v1/core/kv_cache_utils.py
        ("0.11.0", (r"Model loading took \d+\.\d{4} GiB", r"Available KV cache memory: \d+\.\d\d GiB", "two")),
        ("0.13.0", (r"Model loading took \d+\.\d{4} GiB memory", r"Available KV cache memory: \d+\.\d\d GiB", "two")),
        ("0.14.1", (r"Model loading took 15\.27 GiB memory", r"Available KV cache memory: \d+\.\d{1,2} GiB", "two")),
        ("0.27.1", (r"Model loading took 15\.27 GiB memory", r"Available KV cache memory: \d+\.\d{1,2} GiB", "two")),
        ("0.28.0", (r"Model loading took 15\.27 GiB memory", r"Available KV cache memory: \d+\.\d{1,2} GiB", "one")),
    ],
)  # fmt: skip
def test_wording_of_vllm_by_version(version: str, lines: tuple[str, str, str]) -> None:
    # Qwen3-8B: 15.27 GiB of weights as logged by 0.19.0 (llm-d-planner's accuracy report)
    settings = EngineSettings(version=version)
    model = read_model("Qwen/Qwen3-8B")
    held = fit(model, H100, Parallelism(), kv_dtype="bf16", max_model_len=8192, settings=settings)
    said = log_lines(held, weights_known=True)
    size = f"GPU KV cache size: {held.tokens:,} tokens"
    many = f"Maximum concurrency for 8,192 tokens per request: {held.concurrency:.2f}x"
    assert re.fullmatch(lines[0], said[0]) and re.fullmatch(lines[1], said[1])
    assert said[2:] == ((size, many) if lines[2] == "two" else (f"{size}, {many}",))


@pytest.mark.parametrize(("version", "shown"), [("0.13.0", "29.50"), ("0.14.1", "29.5")])
def test_trailing_zeros_go_with_0_14_1(version: str, shown: str) -> None:
    held = held_in(tiny(), 29.5 * GIB, 64, version=version)
    assert log_lines(held, weights_known=False)[0] == f"Available KV cache memory: {shown} GiB"


def test_lines_of_deepseek_v2_lite_as_vllm_printed_them() -> None:
    # the log: 94,097 blocks of 16 x 31,104 bytes, 43.61 GiB
    held = held_in(
        read_model("deepseek-ai/DeepSeek-V2-Lite-Chat"), 94_097 * 16 * 31_104, 8192, version="0.19.0"
    )
    assert log_lines(held, weights_known=False) == (
        "Available KV cache memory: 43.61 GiB",
        "GPU KV cache size: 1,505,552 tokens",
        "Maximum concurrency for 8,192 tokens per request: 183.78x",
    )


def test_lines_of_sglang() -> None:
    # K and V of 36 x 8 x 128 x 2 bytes each a token, 10,000 tokens: 0.687 GiB, rounded; GB means GiB
    held = held_in(read_model("Qwen/Qwen3-8B"), 10_000 * 147_456, 8192, engine="sglang")
    assert log_lines(held, weights_known=False) == (
        "KV Cache is allocated. #tokens: 10000, K size: 0.69 GB, V size: 0.69 GB",
        "max_total_num_tokens=10000, context_len=8192",
    )
    latent = held_in(read_model("deepseek-ai/DeepSeek-V2-Lite"), 10_000 * 31_104, 8192, engine="sglang")
    assert (
        log_lines(latent, weights_known=False)[0] == "KV Cache is allocated. #tokens: 10000, KV size: 0.29 GB"
    )


# Settings, refusals and exit codes


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan"), float("inf")])
def test_a_share_of_memory_lies_above_0_and_up_to_1(share: float) -> None:
    with pytest.raises(InputError, match=r"memory share .*: expected a share"):
        EngineSettings(memory_share=share)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_num_seqs": 0},
        {"max_num_seqs": -5},
        {"max_num_batched_tokens": 1.5},
        {"max_num_batched_tokens": True},
        {"block_tokens": -16},
        {"block_tokens": 0},
        {"pool_bytes": -1.0},
        {"activation_bytes": -1.0},
        {"non_torch_bytes": float("nan")},
    ],
)
def test_counts_are_whole_and_bytes_not_negative(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        EngineSettings(**wrong)


def test_versions() -> None:
    assert [parse_version(text) for text in ("0.19.0", "0.20.2", "v0.11", "0.19.0rc1", "1.0")] == [
        (0, 19), (0, 20, 2), (0, 11), (0, 19), (1, 0),
    ]  # fmt: skip
    assert dotted((0, 20, 2)) == "0.20.2"
    with pytest.raises(InputError, match="expected numbers such as"):
        parse_version("latest")
    with pytest.raises(InputError, match="known up to vLLM"):
        resolve(EngineSettings(version="99.0"), H100, Parallelism(tp=1))
    with pytest.raises(InputError, match="no rules are known for so early a version"):
        resolve(EngineSettings(version="0.5.0"), H100, Parallelism(tp=1))
    with pytest.raises(InputError, match="unknown engine"):
        resolve(EngineSettings(engine="vlm"), H100, Parallelism(tp=1))


def test_what_is_missing_in_bytes_and_in_exit_codes() -> None:
    """Llama-3.1-70B on one H100: 70,553,706,496 weights of two bytes, 131,072 x 128 sines and cosines.

    Every matrix is whole 2 MiB and every norm whole 512 bytes; 0.9 of 79.19 GiB is there for them.
    """
    missing = round(70_553_706_496 * 2 + 131_072 * 128 * 2 - 0.9 * 79.19 * GIB)
    ask = ("kv", "meta-llama/Llama-3.1-70B", "--tokens", "8192", "--hardware", "h100-sxm")
    result = run(*ask, "--activation", "0GiB", "--non-torch", "0GiB")
    assert result.exit_code == 1
    assert "meta-llama/Llama-3.1-70B does not fit on h100-sxm TP1: 131.45 GiB of weights" in result.output
    assert f"({missing} bytes)" in result.output and f"{missing / GIB:.2f} GiB" in result.output
    assert run(*ask, "--tp", "4").exit_code == 0
    # a stage that does not fit is named
    staged = run(*ask, "--pp", "2", "--gpu-memory-utilization", "0.8")
    assert staged.exit_code == 1 and re.search(r"PP2 \(stage [12] of 2\)", staged.output)
    nobody = run(*ask[:2], "--tokens", "100000000", "--hardware", "h100-sxm", "--users", "1")
    assert nobody.exit_code == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--engine", "nothing"), "unknown engine"),
        (("--engine-version", "99.0"), "known up to"),
        (("--engine-version", "abc"), "expected numbers"),
        (("--gpu-memory-utilization", "1.5"), "must lie in"),
        (("--tp", "3"), "does not divide"),
        (("--ep", "2"), "does not divide --tp"),
        (("--pp", "2", "--pp-layers", "1,2"), "add up to"),
        (("--pp-layers", "16,16"), "pass --pp"),
        (("--pp", "33"), "more than the 32 layers"),
        (("--max-num-seqs", "0"), "max-num-seqs"),
        (("--kv-pool", "-1GiB"), "kv-pool"),
        (("--kv-dtype", "fp8_ds_mla"), "layout of latent attention"),
    ],
)
def test_bad_settings_exit_with_2(options: tuple[str, ...], said: str) -> None:
    result = run("kv", "meta-llama/Llama-3.1-8B", "--tokens", "100", "--hardware", "h100-sxm", *options)
    assert result.exit_code == 2 and said in result.output, result.output


def test_a_pool_below_one_block_holds_nothing() -> None:
    with pytest.raises(DoesNotFitError, match="less than one block of 16 tokens"):
        held_in(tiny(), 3 * 16 * 128 - 1, 64)
    assert held_in(tiny(), 3 * 16 * 128, 64).blocks == 1


def test_every_factor_of_the_answer_stands_in_it() -> None:
    answer = asked("kv", "meta-llama/Llama-3.1-8B-Instruct", "--tokens", "8192", "--hardware", "h100-sxm",
                   "--gpu-memory-utilization", "0.95")  # fmt: skip
    found = answer["capacity"]
    # 0.95 x 79.19 GiB; the log: 14.99 GiB of weights, 1.89 of activation, 0.25 outside torch, 58.11 left
    assert found["budget_bytes"] == pytest.approx(0.95 * 79.19 * GIB)
    logged = (14.99, 1.89, 0.25, 58.11)
    names = ("weights_bytes", "activation_bytes", "non_torch_bytes", "kv_pool_bytes")
    for name, size in zip(names, logged):
        assert found[name] / GIB == pytest.approx(size, abs=0.015)
    assert sum(factor["bytes"] for factor in found["factors"]) == pytest.approx(found["kv_pool_bytes"])
    assert found["kv_cache_tokens"] == pytest.approx(476_016, rel=5e-4)
