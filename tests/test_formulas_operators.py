"""Streams and collectives by hand; every form of the catalogue against its bound, in growth, and by three roads.

The bounds are counted here, from the definitions, and not by the book.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.formula import Formula
from costmodel.formulas import decode, gemm, latent, mixed, moe, operators, prefill, whole
from costmodel.operators.catalogue import FORMS, PARAMETERS

Point = dict[str, Any]

# --- streams ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bytes_moved", "missed"), [(10, 0.0), (45, 0.0), (50.625, 0.25), (61.875, 0.75), (67.5, 1.0), (500, 1.0)]
)
def test_cache_misses(bytes_moved: float, missed: float) -> None:
    # 45 of 90 bytes stay; the next 22.5 push them out
    got = operators.cache_misses(bytes_moved, l2_bytes=90, cached_part=0.5)
    assert got == pytest.approx(missed, rel=1e-12)


def test_uncached_bytes() -> None:
    assert operators.uncached_bytes(bytes_moved=130, l2_bytes=100) == 30
    assert operators.uncached_bytes(bytes_moved=70, l2_bytes=100) == 0


@pytest.mark.parametrize(
    ("bytes_moved", "moving"),
    [
        (45, 45 * 0.75 / 12 + 45 * 0.25 / 2),  # a quarter misses, at 0.5 of 4 a second; the rest at 3 times 4
        (30, 2.5),
        (90, 45),
    ],
)
def test_streaming_time(bytes_moved: float, moving: float) -> None:
    got = operators.streaming_time(
        bytes_moved,
        l2_bytes=100,
        memory_bytes_per_s=4,
        latency=6,
        bandwidth_share=0.5,
        cached_share=3,
        cached_part=0.4,
    )
    assert got == pytest.approx(math.hypot(6, moving), rel=1e-12)


def test_plain_kernel_time() -> None:
    # 6 FLOPs at a quarter of 8 a second, 3 s; 35 bytes at half of 10, 7 s; 0.3 s
    got = operators.plain_kernel_time(
        flop=6,
        bytes_moved=35,
        peak_flop_per_s=8,
        memory_bytes_per_s=10,
        compute_share=0.25,
        bandwidth_share=0.5,
        latency=0.3,
    )
    assert got == pytest.approx(10.3, rel=1e-12)


# --- collectives ------------------------------------------------------------------------------------------


def ring_bytes_sent(tp: int, size: int) -> int:
    """Bytes that one GPU sends in a ring all-reduce of ``size`` bytes cut into ``tp`` equal pieces."""
    steps = [size // tp for _ in range(tp - 1)]  # reduce-scatter
    return sum(steps + steps)  # all-gather repeats them


@pytest.mark.parametrize("tp", [1, 2, 3, 4, 8])
def test_all_reduce_bound_is_the_ring(tp: int) -> None:
    size = 840
    got = operators.all_reduce_bound(bytes_moved=size, tp=tp, link_bytes_per_s=11.0)
    assert got == pytest.approx(ring_bytes_sent(tp, size) / 11.0, rel=1e-12)


def test_collective_time() -> None:
    # 1.6 * 400 bytes and sqrt(9 * 400) = 60 more, at half of 20: 70 s; 4 steps of 0.2 s, and 0.7 s
    got = operators.collective_time(
        bytes_moved=400,
        sent=1.6,
        tp=5,
        link_bytes_per_s=20,
        bandwidth_share=0.5,
        latency=0.7,
        step_latency=0.2,
        ramp_bytes=9,
    )
    assert got == pytest.approx(71.5, rel=1e-12)


@pytest.mark.parametrize(
    ("bytes_moved", "tp", "sent", "steps"),
    [
        # one shot of everything to the others, below 2,000 bytes over all GPUs
        (100, 4, 300, 1),
        (499, 4, 1497, 1),
        (500, 4, 750, 2),  # then two, of (T - 1) / T each
        (1600, 4, 2400, 2),
        (666, 3, 1332, 1),
        (700, 3, 2800 / 3, 2),
        (249, 8, 1743, 1),
        (250, 8, 437.5, 2),
        (1600, 2, 1600, 1),  # two GPUs never need the second
        (900, 2, 900, 1),
    ],
)
def test_custom_all_reduce_time(bytes_moved: float, tp: int, sent: float, steps: int) -> None:
    got = operators.custom_all_reduce_time(
        bytes_moved,
        tp,
        link_bytes_per_s=10,
        bandwidth_share=0.5,
        latency=0.5,
        step_latency=0.25,
        ramp_bytes=4,
        one_shot_bytes=2000,
    )
    expected = (sent + math.sqrt(4 * bytes_moved)) / 5 + 0.25 * steps + 0.5
    assert got == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("tp", "last"), [(4, 524_288), (8, 262_144)])
def test_vllm_takes_one_shot_below_half_and_a_quarter_of_a_mebibyte(tp: int, last: int) -> None:
    # github.com/vllm-project/vllm, csrc/custom_all_reduce.cuh: bytes < 512 * 1024 up to 4 GPUs, 256 * 1024 up to 8
    link: dict[str, Any] = {
        "link_bytes_per_s": 1.0,
        "bandwidth_share": 1.0,
        "latency": 0.0,
        "step_latency": 0.0,
        "ramp_bytes": 0.0,
    }
    assert operators.custom_all_reduce_time(last - 1, tp, **link) == (tp - 1) * (last - 1)
    assert operators.custom_all_reduce_time(last, tp, **link) == 2 * (tp - 1) / tp * last


# --- every form -------------------------------------------------------------------------------------------

SHAPES: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("m", "n", "k", "chunk", "tokens"), st.integers(1, 3000)),
    "prefix": st.integers(0, 9000),
    "length": st.integers(1, 9000),
    "window": st.one_of(st.none(), st.integers(1, 4000)),
    "batch": st.integers(1, 300),
    "sequences": st.integers(1, 4),
    "kv_heads": st.integers(1, 8),
    "group": st.integers(1, 16),
    **dict.fromkeys(("head_dim", "qk_dim", "v_dim", "rope_dim"), st.sampled_from((64, 128, 192))),
    "kv_rank": st.sampled_from((256, 512)),
    "experts": st.integers(1, 64),
    "ranks": st.sampled_from((1, 2, 8)),
    "top_k": st.integers(1, 8),
    **dict.fromkeys(("hidden", "width"), st.integers(16, 4000)),
    "matrices": st.sampled_from((2, 3)),
    "skew": st.floats(0, 3),
    "flop": st.floats(1e3, 1e15),
    "bytes_moved": st.floats(1e3, 1e9),
    **dict.fromkeys(("weight_dtype_bytes", "kv_dtype_bytes"), st.sampled_from((0.5, 1, 2))),
    "dtype_bytes": st.sampled_from((2, 4)),
    "cache_writes": st.integers(0, 1),
    "kernel": st.sampled_from(((64, 0), (128, 1))),
    # no multiples of 5: 0.8 of them is never a number of blocks, where roads may round apart
    "sm_count": st.sampled_from((4, 16, 108, 132, 148)),
    "tp": st.sampled_from((2, 3, 4, 8)),
    "l2_bytes": st.floats(1e6, 1e8),
    "peak_flop_per_s": st.floats(1e13, 1e15),
    "memory_bytes_per_s": st.floats(1e11, 1e13),
    "link_bytes_per_s": st.floats(1e10, 1e12),
    "layers": st.integers(1, 200),
    "sampled": st.integers(1, 300),
    "message_bytes": st.floats(1e3, 1e9),
}
#: Forms of a host, or of what a message waits for: no FLOPs, and no bytes through HBM or over the link besides those
#: that the all-reduce itself has.
WAITING = ("host_layers", "host_sequences", "large_messages")
FITS = {
    name: st.sampled_from(known.choices) if known.choices else st.floats(known.low, known.high)
    for name, known in PARAMETERS.items()
}
DRAWS = st.fixed_dictionaries({**SHAPES, **FITS})


def filled(form: str, drawn: Point) -> Point:
    """The parameters of a form: what was drawn, and what follows from it."""
    tile_rows, packed = drawn["kernel"]
    window, chunk, prefix = drawn["window"], drawn["chunk"], drawn["prefix"]
    if window is None:
        reach = math.inf
    else:
        reach = sum(min(prefix + i, window) for i in range(1, chunk + 1)) / chunk
        prefix = min(prefix, window - 1)
    ring = 2 * (drawn["tp"] - 1) / drawn["tp"]
    attends = form in ("prefill_fa2", "prefill_fa3", "mixed")
    known = {
        **drawn,
        "reach": reach,
        "prefix": prefix,
        "heads": drawn["kv_heads"] * drawn["group"],
        "context": drawn["batch"] * drawn["length"],
        "experts": max(drawn["experts"], math.ceil(drawn["top_k"] / drawn["ranks"])),
        "sent": ring,
        "packed": packed,
        **({"tile_rows": tile_rows} if attends else {}),
        **FORMS[form].constants,
    }
    formula = FORMS[form].formula
    return {name: known[name] for name in formula.parameters if name not in formula.constants}


def attention_of_chunks(p: Point) -> tuple[float, float]:
    own = (p["chunk"] + 1) / 2
    seen = p["chunk"] * min(p["prefix"] + own, p["reach"])
    width = p["qk_dim"] + p["v_dim"]
    cached = (p["chunk"] + p["prefix"]) * p["kv_heads"] * p["kv_dtype_bytes"]
    moved = p["chunk"] * p["heads"] * p["dtype_bytes"] + cached
    return 2 * p["sequences"] * p["heads"] * width * seen, p["sequences"] * width * moved


def attention_of_decodes(p: Point, width: int) -> tuple[float, float]:
    """``width``: of a query and a value together."""
    moved = p["batch"] * p["heads"] * p["dtype_bytes"] + p["context"] * p["kv_heads"] * p["kv_dtype_bytes"]
    return 2 * p["heads"] * width * p["context"], width * moved


def least(form: str, p: Point) -> tuple[float, float]:
    """Useful FLOPs and fewest bytes: through HBM, or on the link of a collective."""
    if form in WAITING:
        return 0.0, 0.0
    if form in ("tiled_gemm", "quantised_gemm"):
        m, n, k = p["m"], p["n"], p["k"]
        moved = n * k * p["weight_dtype_bytes"] + m * k * p["dtype_bytes"] + m * n * p["dtype_bytes"]
        return 2 * m * n * k, moved
    if form in ("prefill_fa2", "prefill_fa3"):
        return attention_of_chunks(p)
    if form in ("decode_fa2", "decode_fa3"):
        return attention_of_decodes(p, 2 * p["head_dim"])
    if form == "mixed":
        chunks, decodes = attention_of_chunks(p), attention_of_decodes(p, p["qk_dim"] + p["v_dim"])
        return chunks[0] + decodes[0], chunks[1] + decodes[1]
    if form == "latent_decode":
        latents = p["context"] * (p["kv_rank"] + p["rope_dim"]) * p["kv_dtype_bytes"]
        width = 2 * p["kv_rank"] + p["rope_dim"]
        moved = latents + p["batch"] * p["heads"] * width * p["dtype_bytes"]
        return 2 * p["heads"] * width * p["context"], moved
    if form == "experts":
        rows, each = p["tokens"] * p["top_k"] / p["ranks"], p["hidden"] * p["width"] * p["matrices"]
        weights = p["top_k"] / p["ranks"] * each * p["weight_dtype_bytes"]
        # a row is read and written by both products; two of the first side by side are 2 f wide
        return 2 * rows * each, weights + rows * (2 * p["hidden"] + 3 * p["width"]) * p["dtype_bytes"]
    if form == "streaming":
        return 0.0, max(0.0, p["bytes_moved"] - p["l2_bytes"])
    if form in ("collective", "custom_all_reduce"):
        return 0.0, ring_bytes_sent(p["tp"], 5040) / 5040 * p["bytes_moved"]
    return p.get("flop", 0.0), p.get("bytes_moved", 0.0)


@pytest.mark.parametrize("form", FORMS)
@given(drawn=DRAWS)
@settings(max_examples=40)
def test_no_time_is_below_its_bound(form: str, drawn: Point) -> None:
    point = filled(form, drawn)
    flop, moved = least(form, point)
    bandwidth = drawn["link_bytes_per_s" if "link_bytes_per_s" in point else "memory_bytes_per_s"]
    bound = max(flop / drawn["peak_flop_per_s"], moved / bandwidth)
    assert FORMS[form].formula(**point) >= bound * (1 - 1e-12)


GROWS = {
    "tiled_gemm": ("m", "n", "k"),
    "quantised_gemm": ("m", "n", "k"),
    "prefill_fa2": ("sequences", "chunk", "prefix", "group"),
    "prefill_fa3": ("sequences", "chunk", "prefix", "group"),
    "decode_fa2": ("length", "batch", "group"),
    "decode_fa3": ("length", "batch", "group"),
    "mixed": ("sequences", "chunk", "prefix", "batch", "length"),
    "latent_prefill": ("flop", "bytes_moved"),
    "latent_decode": ("batch", "length", "group"),
    "plain": ("flop", "bytes_moved"),
    "module": ("tokens",),
    "experts": ("tokens", "hidden", "top_k"),
    "streaming": ("bytes_moved",),
    "collective": ("bytes_moved", "tp"),
    "custom_all_reduce": ("bytes_moved",),
    "host_layers": ("layers",),
    "host_sequences": ("sampled",),
    "large_messages": ("message_bytes",),
}


def test_growth_is_asked_of_every_form() -> None:
    assert set(GROWS) == set(FORMS)


@pytest.mark.parametrize(("form", "name"), [(form, name) for form in GROWS for name in GROWS[form]])
@given(drawn=DRAWS, more=st.sampled_from((1, 2, 63, 1000)))
@settings(max_examples=30)
def test_more_work_takes_no_less_time(form: str, name: str, drawn: Point, more: int) -> None:
    """Where it may: each exception is one of the cases below."""
    grown = {**drawn, name: drawn[name] + more}
    allowed = 0.0
    if form.startswith("decode"):
        allowed = drawn["pass_latency"]  # blocks that fill the processors save a pass
    if form == "decode_fa2" and drawn["group"] == 1 and name == "group":
        return  # a cache that no group shares is not split
    if form == "streaming":
        drawn["cached_share"] = grown["cached_share"] = 1 + drawn["cached_share"]  # L2 is no slower than HBM
    if form == "custom_all_reduce":
        small = max(drawn["bytes_moved"], grown["bytes_moved"]) * drawn["tp"] < 2_097_152
        large = drawn["bytes_moved"] * drawn["tp"] >= 2_097_152
        if not small and not large:
            return  # two shots send less than one
    if form == "experts":
        drawn["experts"] = grown["experts"] = max(drawn["experts"], grown["top_k"])
        if drawn["tokens"] * drawn["top_k"] < drawn["ranks"]:
            return  # with fewer rows than GPUs, the busiest has one row throughout
    before, after = (FORMS[form].formula(**filled(form, point)) for point in (drawn, grown))
    assert after >= before * (1 - 1e-9) - allowed


def test_a_wider_expert_may_be_aligned() -> None:
    narrow, wide = (moe.misaligned(width) * math.ceil(width / 64) * 64 for width in (31, 32))
    assert (narrow, wide) == (96, 64)


def test_two_shots_send_less_than_one() -> None:
    own: dict[str, Any] = {"link_bytes_per_s": 1.0, "bandwidth_share": 1.0, "latency": 0.0, "ramp_bytes": 0.0}
    one, two = (
        operators.custom_all_reduce_time(size, tp=8, step_latency=1.0, one_shot_bytes=800, **own)
        for size in (99, 100)
    )
    assert (one, two) == (99 * 7 + 1, 175 + 2)


# --- one value by three roads -----------------------------------------------------------------------------


@cache
def compiled(formula: Formula) -> Any:
    symbols = formula.symbols()
    traced = formula.expression()
    wanted = [symbols[name] for name in formula.parameters if name not in formula.constants]
    return sympy.lambdify(wanted, traced, "numpy")


@pytest.mark.parametrize("form", FORMS)
@given(draws=st.lists(DRAWS, min_size=2, max_size=3))
@settings(max_examples=15)
def test_numbers_arrays_and_symbols_agree(form: str, draws: list[Point]) -> None:
    formula = FORMS[form].formula
    points = [filled(form, drawn) for drawn in draws]
    numbers = [formula(**point) for point in points]
    arrays = {name: numpy.array([point[name] for point in points]) for name in points[0]}
    numpy.testing.assert_allclose(formula(**arrays), numbers, rtol=1e-12)
    traced = [float(compiled(formula)(*map(float, point.values()))) for point in points]
    numpy.testing.assert_allclose(traced, numbers, rtol=1e-9)


def test_every_time_of_the_modules_is_a_form() -> None:
    modules = decode, gemm, latent, mixed, moe, operators, prefill, whole
    times = {
        made.name
        for module in modules
        for made in vars(module).values()
        if isinstance(made, Formula) and made.__module__ == module.__name__ and made.unit == "second"
    }
    # what a client of a closed loop sees, and a step that waits for the host, are no operators
    of_steps = {"host_bound_time", "closed_loop_ttft", "closed_loop_tpot", "closed_loop_wait"}
    parts = {"overlapped_time", "all_reduce_bound"}
    assert times - {form.formula.name for form in FORMS.values()} == parts | of_steps
