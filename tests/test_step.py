"""Times of steps: by hand from the fits, chunking, factors, and the fast path against the analysis."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache

import pytest

from costmodel.errors import InputError
from costmodel.families import read_model
from costmodel.inputs.hardware import load_gpu
from costmodel.inputs.model import Attention
from costmodel.memory.parallelism import Parallelism
from costmodel.serving.instance import InstanceKind, make_instance
from costmodel.serving.mixing import chunk_loads
from costmodel.serving.step import StepTimes, analyse_step
from costmodel.serving.work import Chunk, Load, token_loads

LLAMA, MIXTRAL, V2_LITE = (
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V2-Lite",
)
US = 1e-6


@lru_cache
def kind_of(
    model: str, gpu: str = "a100-sxm-80gb", tp: int = 1, dtype: str | None = None, kv_dtype: str | None = None
) -> InstanceKind:
    return make_instance(read_model(model), load_gpu(gpu), Parallelism(tp), dtype=dtype, kv_dtype=kv_dtype)


def load_named(loads: list[Load], name: str) -> Load:
    return next(load for load in loads if load.name == name)


# Each form by hand, on an A100 (312 TFLOP/s, 2,039 GB/s) with the parameters of its efficiency file.


def test_times_of_a_prefill_by_hand() -> None:
    step = analyse_step(kind_of(LLAMA), (Chunk(1000),))
    found = {operator.name: operator for operator in step.operators}
    # gemm 0.759, 0.717, 6.11 us: 1,000 rows fill 8 tiles of 128
    qkv = 2 * 1024 * 4096 * 6144 / (0.759 * 312e12) + 6.11 * US
    assert found["qkv"].time_s == pytest.approx(32 * qkv, rel=1e-12)
    # one row of the head: memory leads
    head = 2 * (4096 * 128256 + 4096 + 128256) / (0.717 * 2039e9) + 6.11 * US
    assert found["lm_head"].time_s == pytest.approx(head, rel=1e-12)
    # elementwise 0.489, 2.61 us
    norm = 1000 * 4096 * 4 * 2 / (0.489 * 2039e9) + 2.61 * US
    assert found["norm"].time_s == pytest.approx(64 * norm, rel=1e-12)
    # attention 0.604, 0.383, 12.13 us: 32 heads x 8 tiles are 256, three waves of 108 processors
    flop, moved = 4 * 32 * 128 * 1000 * 1001 / 2, 1000 * 2 * (32 + 8) * 128 * 2
    attention = flop * 3 * 108 / 256 / (0.604 * 312e12) + moved / (0.383 * 2039e9) + 12.13 * US
    assert found["prefill attention"].time_s == pytest.approx(32 * attention, rel=1e-12)
    assert (found["qkv"].limit, found["lm_head"].limit, found["norm"].limit) == (
        "compute",
        "memory",
        "memory",
    )
    assert found["qkv"].intensity == pytest.approx(found["qkv"].flop / found["qkv"].bytes, rel=1e-12)


def test_times_of_a_decode_by_hand() -> None:
    step = analyse_step(kind_of(LLAMA), batch=4, context=8000)
    found = {operator.name: operator for operator in step.operators}
    # attention 0.709, 15.93 us, 28.4 ns for each of 4 x 8 sequence-heads
    moved = 8000 * 4096 + 4 * 2 * 4096 * 2
    attention = moved / (0.709 * 2039e9) + 15.93 * US + 28.4e-9 * 32
    assert found["decode attention"].time_s == pytest.approx(32 * attention, rel=1e-12)
    # MLA, 0.655, 0.886, 62.14 us, 105.9 ns for each of 4 sequences; latents of 576
    latent = analyse_step(kind_of(V2_LITE), batch=4, context=8000)
    (mla,) = (operator for operator in latent.operators if operator.name == "decode attention")
    moved = 8000 * 576 * 2 + 4 * 16 * 1088 * 2
    assert mla.time_s == pytest.approx(27 * (moved / (0.886 * 2039e9) + 62.14 * US + 105.9e-9 * 4), rel=1e-12)
    assert (mla.limit, found["norm"].limit) == ("latency", "latency")


def test_time_of_experts_by_hand() -> None:
    # 512 tokens of 6 of 64 experts: every one is hit, by 48 rows or three tiles of 16; 0.399, 1.0, 29.43 us
    step = analyse_step(kind_of(V2_LITE), (Chunk(512),))
    (experts,) = (operator for operator in step.operators if operator.name == "experts")
    flop = 2 * 512 * 6 * 3 * 2048 * 1408
    moved = 64 * 3 * 2048 * 1408 * 2 + 512 * 6 * 3 * (2048 + 1408) * 2 + 512 * 2048 * 2
    each = flop / (0.399 * 312e12) + moved / 2039e9 + 29.43 * US
    assert experts.time_s == pytest.approx(26 * each, rel=1e-12)
    # half of the tiles is empty at 24 rows an expert
    assert load_named(token_loads(kind_of(V2_LITE), 256, 0), "experts").fill == pytest.approx(32 / 24)


def test_rounding_starts_no_tile_of_experts() -> None:
    # 512 tokens of 8 of 128 experts are 32 rows each, one whole tile of 32, though 128 (1 - (15/16)^512)
    # falls short of 128 by 6e-13
    kind = kind_of("Qwen/Qwen3-30B-A3B", "h100-sxm")
    assert load_named(token_loads(kind, 512, 0), "experts").fill == pytest.approx(1.0, rel=1e-9)
    assert load_named(token_loads(kind, 513, 0), "experts").fill == pytest.approx(64 * 128 / (513 * 8))


def test_time_of_an_all_reduce_by_hand() -> None:
    # 100 tokens of 4,096: 819,200 bytes, 2 x 3/4 of them over 0.706 of 300 GB/s; 0.627 MB, 5.06 us
    step = analyse_step(kind_of(LLAMA, tp=4), (Chunk(100),))
    first, second = (operator for operator in step.operators if operator.kind == "all_reduce")
    each = 1.5 * 819_200 / (0.706 * 300e9) * (1 + (0.627e6 / 819_200) ** 0.5) + 5.06 * US
    assert first.time_s == second.time_s == pytest.approx(32 * each, rel=1e-12)


def test_many_query_heads_a_kv_head_make_decode_attention_compute_bound() -> None:
    # 128 heads over one KV head of fp8: 4 x 128 x 128 FLOPs and 2 x 128 bytes a token, 256 FLOPs a byte
    # against 153 of an A100, so that arithmetic leads; no share of the peak was fitted.
    model = read_model(LLAMA)
    layers = (
        replace(
            model.layers[0],
            blocks=(Attention(heads=128, kv_heads=1, head_dim=128), *model.layers[0].feed_forwards),
        ),
    )
    kind = make_instance(replace(model, layers=layers), load_gpu("a100-sxm-80gb"), kv_dtype="fp8")
    step = analyse_step(kind, batch=1, context=10_000_000)
    (attention,) = (operator for operator in step.operators if operator.name == "decode attention")
    assert attention.time_s == pytest.approx(
        32 * (4 * 128 * 128 * 10_000_000 / 312e12 + 15.93 * US + 28.4e-9), rel=1e-12
    )
    assert attention.limit == "compute"


def test_fits_without_tiles_fill_nothing() -> None:
    kind = kind_of(LLAMA)
    gemm = kind.efficiency.operators["gemm"]
    plain = replace(gemm, parameters={k: v for k, v in gemm.parameters.items() if k != "tile_rows"})
    operators = {**kind.efficiency.operators, "gemm": plain}
    bare = replace(kind, efficiency=replace(kind.efficiency, operators=operators))
    assert load_named(token_loads(kind, 1000, 0), "qkv").fill == 1.024
    assert load_named(token_loads(bare, 1000, 0), "qkv").fill == 1.0
    # the H100's prefill attention was fitted without waves
    assert load_named(chunk_loads(kind_of(LLAMA, "h100-sxm"), Chunk(1000)), "prefill attention").fill == 1.0


def test_a_missing_fit_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"a100-sxm-80gb has no fit for 'gemm_fp8', which int8 weights need"):
        analyse_step(kind_of(LLAMA, dtype="int8"), (Chunk(10),))
    with pytest.raises(InputError, match="Ampere has no FP8"):
        kind_of(LLAMA, dtype="fp8")


def test_cards_without_a_switch_have_no_all_reduce() -> None:
    with pytest.raises(InputError, match="nvlink_bandwidth"):
        analyse_step(kind_of(LLAMA, "a100-pcie-80gb", tp=2), (Chunk(10),))


# The band.


def test_band_combines_the_errors_of_operator_kinds() -> None:
    step = analyse_step(kind_of(LLAMA), (Chunk(2000),))
    errors = {"gemm": 0.098, "attention_prefill": 0.139, "elementwise": 0.325}  # held out
    parts = {
        name: error * sum(op.time_s for op in step.operators if op.kind == name)
        for name, error in errors.items()
    }
    spread = sum(part**2 for part in parts.values()) ** 0.5
    assert step.high_s == pytest.approx(step.time_s + spread, rel=1e-12)
    assert step.low_s == pytest.approx(step.time_s - spread, rel=1e-12)
    assert step.mfu == pytest.approx(step.flop / 312e12 / step.time_s, rel=1e-12)
    assert step.mbu == pytest.approx(step.bytes / 2039e9 / step.time_s, rel=1e-12)


# Chunking.


@pytest.mark.parametrize("gpu", ["a100-sxm-80gb", "h100-sxm"])
@pytest.mark.parametrize("model", [LLAMA, MIXTRAL, V2_LITE])
def test_chunking_a_prompt_never_makes_it_faster(model: str, gpu: str) -> None:
    times = StepTimes(kind_of(model, gpu))
    for prompt in (2048, 5000, 16384):
        whole = times.prefill(prompt)
        for size in (256, 512, 2000, 2048):
            starts = range(0, prompt, size)
            chunks = [Chunk(min(size, prompt - start), start) for start in starts]
            total = sum(times.step((chunk,), int(chunk is chunks[-1]), 0, 0.0) for chunk in chunks)
            assert total >= whole, (prompt, size)


# The fast path.


def random_step(draw: random.Random) -> tuple[list[Chunk], int, int, float]:
    prefixes = [draw.choice([0, draw.randint(1, 20_000)]) for _ in range(draw.randint(0, 3))]
    chunks = [Chunk(draw.randint(1, 4000), prefix) for prefix in prefixes]
    batch = draw.randint(0 if chunks else 1, 200)
    return chunks, draw.randint(0, len(chunks)), batch, float(batch * draw.randint(1, 9000))


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "dtype"),
    [
        (LLAMA, "a100-sxm-80gb", 1, None),
        (MIXTRAL, "h100-sxm", 2, None),
        (V2_LITE, "a100-sxm-80gb", 1, None),
        ("deepseek-ai/DeepSeek-V3", "h200-sxm", 8, None),
        ("mistralai/Mistral-7B-v0.1", "h100-sxm", 4, "fp8"),
    ],
)
def test_step_times_are_those_of_the_analysis(model: str, gpu: str, tp: int, dtype: str | None) -> None:
    kind, draw = kind_of(model, gpu, tp, dtype), random.Random(11)
    times = StepTimes(kind)
    for _ in range(40):
        chunks, last, batch, context = random_step(draw)
        analysed = analyse_step(kind, chunks, last=last, batch=batch, context=context)
        assert times.step(chunks, last, batch, context) == pytest.approx(analysed.time_s, rel=1e-12)
        if batch:
            alone = analyse_step(kind, batch=batch, context=context)
            assert times.decode(batch, context) == pytest.approx(alone.time_s, rel=1e-12)
        for chunk in chunks:
            prompt = analyse_step(kind, (chunk,))
            assert times.prefill(*chunk) == pytest.approx(prompt.time_s, rel=1e-12)


def test_doubling_every_factor_doubles_the_time() -> None:
    kind, draw = kind_of(MIXTRAL, "h100-sxm", 2), random.Random(12)
    times = StepTimes(kind)
    twice = times.with_factors(dict.fromkeys(kind.efficiency.operators, 2.0))
    for _ in range(20):
        step = random_step(draw)
        assert twice.step(*step) == pytest.approx(2 * times.step(*step), rel=1e-12)
        assert twice.decode_smooth(2.5, 700) == pytest.approx(2 * times.decode_smooth(2.5, 700), rel=1e-12)


@pytest.mark.parametrize(("model", "tp"), [(LLAMA, 2), (V2_LITE, 1)])
def test_a_factor_moves_its_kind_alone(model: str, tp: int) -> None:
    kind, draw = kind_of(model, "a100-sxm-80gb", tp), random.Random(13)
    times = StepTimes(kind)
    for _ in range(5):
        chunks, last, batch, context = random_step(draw)
        analysed = analyse_step(kind, chunks, last=last, batch=batch, context=context)
        for name in kind.efficiency.operators:
            own = sum(operator.time_s for operator in analysed.operators if operator.kind == name)
            moved = times.with_factors({name: 1.25}).step(chunks, last, batch, context)
            assert moved - analysed.time_s == pytest.approx(0.25 * own, rel=1e-9, abs=1e-12)
        assert times.step(chunks, last, batch, context) == pytest.approx(analysed.time_s, rel=1e-12)


def test_smooth_times_agree_at_whole_numbers_and_join_them() -> None:
    times = StepTimes(kind_of(V2_LITE))
    for batch in (1, 2, 7, 64):
        assert times.token_smooth(batch, batch) == times.token_time(batch, batch)
        assert times.decode_smooth(batch, 900.0 * batch) == pytest.approx(
            times.decode(batch, 900.0 * batch), rel=1e-12
        )
    # between whole numbers a straight line
    ends = times.token_time(40, 3), times.token_time(41, 3)
    assert times.token_smooth(40.25, 3) == pytest.approx(0.75 * ends[0] + 0.25 * ends[1], rel=1e-12)
    # a quarter of a decode is one decode a quarter of the time
    assert times.decode_smooth(0.25, 250) == pytest.approx(0.25 * times.decode(1, 1000), rel=1e-12)
    assert times.decode_smooth(0, 0) == 0


def test_bytes_of_a_step() -> None:
    kind = kind_of(V2_LITE, tp=2)
    times = StepTimes(kind)
    loads = token_loads(kind, 30, 3)
    assert times.token_bytes(30, 3) == sum(load.runs * load.bytes_moved for load in loads)
    # latents are whole on each GPU: 27 x 576 x 2 bytes a token
    assert times.cached_bytes(3, 5000) == pytest.approx(5000 * 31_104, rel=1e-12)
    # 8 KV heads over 2 GPUs: half of 131,072
    assert StepTimes(kind_of(LLAMA, tp=2)).cached_bytes(3, 5000) == pytest.approx(5000 * 65_536, rel=1e-12)
