"""Forms that were tried for an operator: that of the book, changes of it, and others.

A change replaces a constant or a formula of the book, fixes a parameter, or alters what a measured run is said to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from costmodel.formulas import gemm, mixed, moe, prefill
from costmodel.measured.points import Points
from costmodel.measured.predict import Fits, beside, fitted_of, hardware_of, time_of
from costmodel.measured.table import Array
from costmodel.operators.work import Heads, Work, latent_prefill

Values = Mapping[str, float]
#: Seconds of every run under these parameters, beside the fits of the same GPU and stack.
Time = Callable[[Points, Values, Fits], Array]


@dataclass(frozen=True)
class Form:
    """A form to try. Without ``time`` it is the book's (of ``forms``, else those of the operator) with changes.

    ``unknowns``: parameters that ``time`` needs, of the catalogue. ``fixed``: parameters that are not fitted.
    ``changed``: module, name and what stands there instead. ``shared``: one fit for all operators of a column.
    """

    name: str
    time: Time | None = None
    unknowns: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    fixed: Values = field(default_factory=dict)
    changed: tuple[tuple[ModuleType, str, Any], ...] = ()
    change: Callable[[Points], Points] | None = None
    shared: bool = False


@dataclass(frozen=True)
class Topic:
    """Forms of one kind of operator, and which runs they are tried on."""

    title: str
    chosen: Callable[[Points], bool]
    rivals: tuple[Form, ...]


def peaks(points: Points) -> tuple[float, float]:
    """FLOP/s and bytes/s of the GPU, as its data sheet says."""
    found = hardware_of(points.gpu, points.dtype)
    return found["peak_flop_per_s"], found["memory_bytes_per_s"]


def fewest(points: Points, values: Values) -> tuple[Array, Array]:
    """Seconds of the useful FLOPs and of the fewest bytes at fitted shares of the peaks, 1 where none is fitted."""
    flop_per_s, bytes_per_s = peaks(points)
    shares = values.get("compute_share", 1.0), values.get("bandwidth_share", 1.0)
    arithmetic = points.work.flop / (shares[0] * flop_per_s)
    return np.asarray(arithmetic), np.asarray(points.work.bytes_moved / (shares[1] * bytes_per_s))


def roofline(points: Points, _: Values, fits: Fits) -> Array:
    """The larger of arithmetic and bytes at the peaks."""
    return np.maximum(*fewest(points, {}))


def additive(points: Points, values: Values, fits: Fits) -> Array:
    """F / ec + B / eb + t0."""
    arithmetic, streaming = fewest(points, values)
    return np.asarray(arithmetic + streaming + values["latency"])


def whole_rows(points: Points, values: Values, fits: Fits) -> Array:
    """max(F / ec, B / eb) + t0 with rows rounded up to 128."""
    arithmetic, streaming = fewest(points, values)
    m = points.work.shape["m"]
    return np.asarray(np.maximum(arithmetic * np.ceil(m / 128) * 128 / m, streaming) + values["latency"])


def flops_only(points: Points, values: Values, fits: Fits) -> Array:
    """F / ec + t0."""
    return np.asarray(fewest(points, values)[0] + values["latency"])


def reread(points: Points, values: Values, fits: Fits) -> Array:
    """F / ec + B / eb + t0 where each tile of query rows reads the keys and values before it from HBM."""
    s = points.work.shape
    tiles = np.ceil(s["chunk"] / values["tile_rows"])
    seen = s["prefix"] + (s["chunk"] + 1) / 2
    width = s["qk_dim"] + s["v_dim"]
    own = s["chunk"] * s["heads"] * s["dtype_bytes"]
    moved = s["sequences"] * width * (own + tiles * seen * s["kv_heads"] * s["kv_dtype_bytes"])
    streaming = moved / (values["bandwidth_share"] * peaks(points)[1])
    return np.asarray(fewest(points, values)[0] + streaming + values["latency"])


def filled_waves(points: Points, values: Values, fits: Fits) -> Array:
    """F / ec stretched to whole waves of tiles, B / eb, t0."""
    s, processors = points.work.shape, points.gpu.get("sm_count")
    tiles = s["sequences"] * s["heads"] * np.ceil(s["chunk"] / values["tile_rows"])
    arithmetic, streaming = fewest(points, values)
    stretched = arithmetic * np.ceil(tiles / processors) * processors / tiles
    return np.asarray(stretched + streaming + values["latency"])


def per_sequence_head(points: Points, values: Values, fits: Fits) -> Array:
    """max(F / P, B / eb) + t0 and a time for each sequence and KV head."""
    s = points.work.shape
    longer = np.maximum(*fewest(points, values))
    return np.asarray(longer + values["latency"] + values["per_token"] * s["batch"] * s["kv_heads"])


def summed(points: Points, _: Values, fits: Fits) -> Array:
    """The chunk's and the decodes' own times, one after the other."""
    chunk, decodes = _apart(points, fits)
    return chunk + decodes


def root_sum_square(points: Points, _: Values, fits: Fits) -> Array:
    """The chunk's and the decodes' own times as sides of a triangle."""
    return np.hypot(*_apart(points, fits))


def _apart(points: Points, fits: Fits) -> tuple[Array, Array]:
    chunk, decodes = (fitted_of(fits, f"attention_{kind}") for kind in ("prefill", "decode"))
    return (
        time_of(points.work, points, points.dtype, *chunk, fits),
        time_of(points.work, points, points.dtype, *decodes, fits),
    )


def per_sequence(points: Points, values: Values, fits: Fits) -> Array:
    """max(F / ec, B / eb) + t0 and a time for each sequence, beside the module's products."""
    longer = np.maximum(*fewest(points, values))
    own = longer + values["latency"] + values["per_token"] * points.work.shape["batch"]
    return np.asarray(own + beside(points, fits, points.joint))


def uniform_experts(points: Points, values: Values, fits: Fits) -> Array:
    """F / ec + B / eb + t0 with whole tiles of 64 rows, all experts equally likely."""
    s = points.work.shape
    distinct = s["experts"] * (1 - (1 - s["top_k"] / (s["experts"] * s["ranks"])) ** s["tokens"])
    rows = np.ceil(s["tokens"] * s["top_k"] / s["ranks"] / distinct / 64) * 64 * distinct
    sizes = s["hidden"], s["width"]
    flop = moe.experts_flop(rows, 1, *sizes, s["matrices"])
    moved = moe.expert_weight_bytes(distinct, *sizes, s["matrices"], s["weight_dtype_bytes"])
    moved = moved + moe.expert_activation_bytes(s["tokens"], s["top_k"], *sizes, s["dtype_bytes"])
    flop_per_s, bytes_per_s = peaks(points)
    arithmetic = flop / (values["compute_share"] * flop_per_s)
    return np.asarray(arithmetic + moved / (values["bandwidth_share"] * bytes_per_s) + values["latency"])


def ring(points: Points, values: Values, fits: Fits) -> Array:
    """t0 + 2 (n - 1) / n S / BW (1 + sqrt(S0 / S))."""
    size = points.work.bytes_moved
    at_size = points.work.shape["sent"] * size / (values["bandwidth_share"] * _link(points))
    return np.asarray(values["latency"] + at_size * (1 + np.sqrt(values["ramp_bytes"] / size)))


def line(points: Points, values: Values, fits: Fits) -> Array:
    """t0 + S / BW."""
    return np.asarray(
        values["latency"] + points.work.bytes_moved / (values["bandwidth_share"] * _link(points))
    )


def ring_bound(points: Points, _: Values, fits: Fits) -> Array:
    """2 (n - 1) / n S at the link's peak."""
    return np.asarray(points.work.shape["sent"] * points.work.bytes_moved / _link(points))


def _link(points: Points) -> float:
    return points.gpu.get("nvlink_bandwidth")


def streamed(points: Points, values: Values, fits: Fits) -> Array:
    """B / eb + t0."""
    return np.asarray(fewest(points, values)[1] + values["latency"])


def streamed_triangle(points: Points, values: Values, fits: Fits) -> Array:
    """The root of (B / eb) ** 2 + t0 ** 2."""
    return np.hypot(fewest(points, values)[1], values["latency"])


def no_tail(
    tiles: Any, sm_count: Any, chunk: Any, prefix: Any, reach: Any, overhead: Any, packed: Any
) -> Any:
    """Whole waves of tiles that all see what they see on average."""
    each = np.minimum(prefix + prefill.own_tokens(chunk), reach) + overhead
    return np.ceil(tiles / sm_count) * each


def one_tile(tokens: Any, rows: Any, distinct: Any, experts: Any, tile_rows: Any) -> Any:
    """Rows filled up to tiles of one size, however few tokens there are."""
    return np.maximum(rows + distinct * (tile_rows - 1) / 2, distinct * tile_rows)


def without_skew(points: Points) -> Points:
    """Experts that are all chosen equally often."""
    return _shaped(points, skew=0.0 * points.seconds)


def all_experts(points: Points) -> Points:
    """Balanced rows of 256 experts that reach all of them, where the reader says half."""
    shape = points.work.shape
    halved = np.char.endswith(points.keys, "/256") & (shape["skew"] == 0)
    return _shaped(points, experts=np.where(halved, 2, 1) * shape["experts"])


def _shaped(points: Points, **changed: Array) -> Points:
    done = points.work
    return replace(points, work=Work(done.flop, done.bytes_moved, {**done.shape, **changed}))


def expanded(points: Points) -> Points:
    """Prompts of any length with keys and values expanded, and the product that expands them."""
    s = points.work.shape
    heads = Heads(*(s[name] for name in Heads._fields))
    work = latent_prefill(heads, s["chunk"], s["prefix"], sequences=s["sequences"])
    *products, expand, absorb, rest = points.beside
    beside = (*products, replace(expand, runs=1.0), replace(absorb, runs=0.0), rest)
    return replace(points, work=work, beside=beside)


def of(*operators: str, alone: bool = True) -> Callable[[Points], bool]:
    """Choose runs of these operators, measured alone or with others beside them."""
    return lambda points: points.operator in operators and alone != bool(points.beside)


def all_reduces(*engines: str) -> Callable[[Points], bool]:
    """Choose all-reduces of NCCL in these engines."""
    return lambda points: points.operator == "all_reduce" and points.stack.startswith(engines)


BOOK = Form("**the book's**")
BARE = Form("roofline at the peaks", roofline)
SHARES = ("compute_share", "bandwidth_share", "latency")
PRODUCTS = (
    BARE,
    Form("max(F / ec, B / eb) + t0, rows rounded up to 128", whole_rows, SHARES),
    Form("no waves", changed=((gemm, "WAVE_LOSS", 0.0),)),
    Form("whole waves", changed=((gemm, "WAVE_LOSS", 1.0),)),
    Form("tiles of 128 x 128 only", changed=((gemm, "TILES", ((128, 128),) * 3),), fixed={"tile_edge": 0.0}),
    Form("plain max of arithmetic and bytes", changed=((gemm, "EXPOSED", 0.0),)),
    Form("no time to fill a tile's pipeline", changed=((gemm, "PIPELINE", 0.0),)),
)
#: Neighbours of the constants of matrix products, one changed at a time.
CONSTANTS = (
    Form("as in the book"),
    *(
        Form(f"{name} {value:g}", changed=((gemm, name, value),))
        for name, values in (("WAVE_LOSS", (0.3, 0.5)), ("PIPELINE", (64, 128)), ("EXPOSED", (0.15, 0.35)))
        for value in values
    ),
)
RINGS = (
    Form("one latency for any number of GPUs", fixed={"step_latency": 0.0}),
    Form("2 (n - 1) / n S at the link's peak", ring_bound),
    Form("t0 + 2 (n - 1) / n S / BW (1 + sqrt(S0 / S))", ring, ("bandwidth_share", "latency", "ramp_bytes")),
    Form("t0 + S / BW", line, ("bandwidth_share", "latency")),
)
STREAMING = ("norm", "rope", "activation", "add", "embedding")
TOPICS = (
    Topic("Matrix product", of("gemm"), (BOOK, *PRODUCTS, Form("small tiles cost no more", fixed={"tile_edge": 0.0}))),
    Topic(
        "Matrix product in fp8",
        of("gemm_fp8"),
        (BOOK, *PRODUCTS, Form("no quantising pass", fixed={"quantise_share": math.inf})),
    ),
    Topic(
        "Prefill attention and chunks over a prefix",
        of("attention_prefill", "mla_prefill"),
        (
            BOOK,
            BARE,
            Form("F / ec + B / eb + t0", additive, SHARES),
            Form("F / ec + t0", flops_only, ("compute_share", "latency")),
            Form("F / ec + B / eb + t0, KV read by each tile of rows", reread, (*SHARES, "tile_rows")),
            Form("F / ec in whole waves, B / eb, t0", filled_waves, (*SHARES, "tile_rows")),
            Form("tiles of FlashAttention 2 everywhere", forms=("prefill_fa2",)),
            Form("tiles of FlashAttention 3 everywhere", forms=("prefill_fa3",)),
            Form("no tail after the last wave", changed=((prefill, "walked_tokens", no_tail),)),
            Form("no floor of half a block of keys", changed=((prefill, "BLOCK_TOKENS", 0),)),
        ),
    ),
    Topic(
        "Decode attention",
        of("attention_decode"),
        (
            BOOK,
            BARE,
            Form(
                "max(F / P, B / eb) + t0 + c * batch * KV heads",
                per_sequence_head,
                ("bandwidth_share", "latency", "per_token"),
            ),
            Form("no passes", fixed={"pass_latency": 0.0}),
            Form("no time a block", fixed={"block_time": 0.0}),
            Form("splits of FlashAttention 2 everywhere", forms=("decode_fa2",)),
            Form("splits of FlashAttention 3 everywhere", forms=("decode_fa3",)),
        ),
    ),
    Topic(
        "Chunks and decodes in one call",
        of("attention_mixed"),
        (
            BOOK,
            Form("sum of the two forms", summed),
            Form("root of the sum of their squares", root_sum_square),
            Form("no empty tiles", fixed={"empty_tile_tokens": 0.0}),
            Form(
                "a group's cache read from HBM once",
                changed=((mixed, "group_reads", lambda *_: 1.0),),
            ),
        ),
    ),
    Topic(
        "MLA module, prompts",
        of("mla_prefill", alone=False),
        (BOOK, Form("expanded at all lengths", change=expanded)),
    ),
    Topic(
        "MLA module, decodes",
        of("mla_decode", alone=False),
        (BOOK, Form("max(F / ec, B / eb) + t0 + c * batch", per_sequence, (*SHARES, "per_token"))),
    ),
    Topic(
        "Experts",
        of("moe", "moe_fp8"),
        (
            BOOK,
            Form("F / ec + B / eb + t0, tiles of 64, uniform choice", uniform_experts, SHARES),
            Form("no activation traffic", changed=((moe, "expert_activation_bytes", lambda *_: 0.0),)),
            Form("no skew", change=without_skew),
            Form("no factor on widths off 16", changed=((moe, "misaligned", lambda _: 1.0),)),
            Form("one tile size for any tokens", changed=((moe, "padded_rows", one_tile),)),
            Form("balanced rows of 256 experts reach all", change=all_experts),
        ),
    ),
    Topic("All-reduce, NCCL alone", all_reduces("nccl", "vidur"), (BOOK, *RINGS)),
    Topic("All-reduce, NCCL in vLLM (from 8 MiB)", all_reduces("vllm"), (BOOK, *RINGS)),
    Topic(
        "All-reduce, vLLM's own kernels",
        of("custom_all_reduce"),
        (BOOK, *RINGS, Form("the form of NCCL", forms=("collective",))),
    ),
    Topic(
        "Element-wise",
        of(*STREAMING),
        (
            BOOK,
            Form("B / eb + t0, all kinds together", streamed, ("bandwidth_share", "latency"), shared=True),
            Form("B / eb + t0", streamed, ("bandwidth_share", "latency")),
            Form("root of (B / eb)^2 + t0^2", streamed_triangle, ("bandwidth_share", "latency")),
        ),
    ),
)  # fmt: skip
