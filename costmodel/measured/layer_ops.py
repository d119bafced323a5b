"""Tables of the operators of a dense layer by model: a column an operator (wide), or a row an operator (long)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..inputs.hardware import Gpu
from ..operators.work import Work, gemm, streaming
from .dims import Dims, sized, tensor_parallel
from .points import NOT_STATED, Given, Points, Read, as_keys, bands, by_gpu_and_stack
from .table import Array, Mask, Table, Texts, scale

SPLIT = "every second model held out"
WIDE_STACK = "vidur"
EDGES = (16, 128, 1024)
#: Columns of how much an operator works on: new tokens, or sequences where it sees the last token of each.
TOKENS, SEQUENCES = ("tokens", "num_tokens"), "sequences"

Shape = Callable[[Dims, int], tuple[float, float]]
Width = Callable[[Dims, int], float]


def _qkv(d: Dims, tp: int) -> tuple[float, float]:
    return (d.heads_on(tp) + 2 * d.kv_heads_on(tp)) * d.head_dim, d.hidden


def _out(d: Dims, tp: int) -> tuple[float, float]:
    return d.hidden, d.heads_on(tp) * d.head_dim


def _up(d: Dims, tp: int) -> tuple[float, float]:
    return (d.matrices - 1) * d.width / tp, d.hidden


def _down(d: Dims, tp: int) -> tuple[float, float]:
    return d.hidden, d.width / tp


def _head(d: Dims, tp: int) -> tuple[float, float]:
    return d.vocab / tp, d.hidden


def _rotated(d: Dims, tp: int) -> float:
    return (d.heads_on(tp) + d.kv_heads_on(tp)) * d.head_dim


#: Products: outputs and inner size of a model under TP.
PRODUCTS: dict[str, Shape] = {
    "attn_pre_proj": _qkv, "attn_post_proj": _out, "mlp_up_proj": _up, "mlp_down_proj": _down,
    "qkv_proj": _qkv, "o_proj": _out, "gate_up_proj": _up, "down_proj": _down, "lm_head": _head,
}  # fmt: skip
#: Element-wise operators: their kind, and elements a token that are read or written in all.
STREAMS: dict[str, tuple[str, Width]] = {
    "input_layernorm": ("norm", lambda d, tp: 2 * d.hidden),
    "post_attention_layernorm": ("norm", lambda d, tp: 2 * d.hidden),
    "layernorm": ("norm", lambda d, tp: 4 * d.hidden),  # fused with the residual sum
    "final_layernorm": ("norm", lambda d, tp: 4 * d.hidden),
    "add": ("add", lambda d, tp: 3 * d.hidden),
    "emb": ("embedding", lambda d, tp: 2 * d.hidden),
    "embedding": ("embedding", lambda d, tp: 2 * d.hidden),
    "mlp_act": ("activation", lambda d, tp: d.matrices * d.width / tp),
    "act_fn": ("activation", lambda d, tp: d.matrices * d.width / tp),
    "attn_rope": ("rope", lambda d, tp: 2 * _rotated(d, tp)),
    "rotary_emb": ("rope", lambda d, tp: 2 * _rotated(d, tp)),
}
#: Columns that are sums of others, or are no operator of a layer.
SUMS = ("linear_ms", "nonattn_layer_ms")


class _Runs(NamedTuple):
    """Measured runs of one operator, all models and degrees together."""

    name: str
    model: Texts
    tp: Array
    tokens: Array
    seconds: Array
    lines: Any


def read(table: Table, given: Given) -> Read:
    """Return products (kind ``layer_ops``) and element-wise operators (``elementwise``) by GPU and stack."""
    found = Read()

    def make(rows: Table, gpu: Gpu, stack: str) -> None:
        rows, known = sized(rows, found)
        runs = _long(rows) if "layer" in rows else _wide(rows)
        products = [run for run in runs if run.name in PRODUCTS]
        if products:
            found.points.append(_products(products, known, gpu, stack, rows.where))
        for kind in dict.fromkeys(STREAMS[run.name][0] for run in runs if run.name in STREAMS):
            chosen = [run for run in runs if STREAMS.get(run.name, ("",))[0] == kind]
            found.points.append(_streams(kind, chosen, known, gpu, stack, rows.where))
        for run in runs:
            if run.name not in PRODUCTS and run.name not in STREAMS:
                found.skip(rows, len(run.seconds), f"{run.name} is not modelled")

    by_gpu_and_stack(table, given, found, make, NOT_STATED if "layer" in table else WIDE_STACK)
    return found


def _wide(rows: Table) -> list[_Runs]:
    runs = []
    for column in rows.columns:
        if column in SUMS or not scale(column):
            continue
        part = rows.filled(column)
        seconds = part.seconds(column, zero=True)
        part, seconds = part.where_true(seconds > 0), seconds[seconds > 0]
        if len(part):
            tokens = part.counts("num_tokens", "tokens")
            name = column.rpartition("_")[0]
            runs.append(_Runs(name, part.texts("model"), tensor_parallel(part), tokens, seconds, part.lines))
    return runs


def _long(rows: Table) -> list[_Runs]:
    runs = []
    for (name,), keep in rows.groups(rows.texts("layer")):
        part = rows.where_true(keep)
        by = next((column for column in TOKENS if column in part and "" not in part.texts(column)), SEQUENCES)
        part = part.filled(by)
        if len(part):
            degrees, seconds = tensor_parallel(part), part.seconds()
            runs.append(_Runs(name, part.texts("model"), degrees, part.counts(by), seconds, part.lines))
    return runs


def _sizes(run: _Runs, known: Mapping[str, Dims], of: Callable[[Dims, int], float]) -> Array:
    found = {(m, t): of(known[m], int(t)) for m, t in set(zip(run.model.tolist(), run.tp.tolist()))}
    return np.array([found[key] for key in zip(run.model.tolist(), run.tp.tolist())], dtype=float)


def _products(runs: list[_Runs], known: Mapping[str, Dims], gpu: Gpu, stack: str, where: str) -> Points:
    shapes = [
        (_sizes(run, known, _part(PRODUCTS[run.name], 0)), _sizes(run, known, _part(PRODUCTS[run.name], 1)))
        for run in runs
    ]
    n, k = (np.concatenate(sizes) for sizes in zip(*shapes))
    m = np.concatenate([run.tokens for run in runs])
    bound = np.maximum(
        2 * m * n * k / gpu.peak_flop_per_s("bf16"), 2 * (m * k + n * k + m * n) / gpu.memory_bytes_per_s
    )
    regimes = {**bands(m, "m", EDGES), **_by_name(runs)}
    return _joined("layer_ops", "gemm", gemm(m, n, k, 2.0, 2.0), runs, (gpu, stack), where, bound, regimes)


def _part(shape: Shape, place: int) -> Width:
    return lambda d, tp: shape(d, tp)[place]


def _streams(
    kind: str, runs: list[_Runs], known: Mapping[str, Dims], gpu: Gpu, stack: str, where: str
) -> Points:
    width = np.concatenate([_sizes(run, known, STREAMS[run.name][1]) for run in runs])
    tokens = np.concatenate([run.tokens for run in runs])
    # What fits into L2 need not pass through HBM: the operator before has just written it.
    cache = gpu.get("l2_cache") if "l2_cache" in gpu.values else np.inf
    bound = np.maximum(2 * tokens * width - cache, 0) / gpu.memory_bytes_per_s
    regimes = {kind: np.ones(len(tokens), dtype=bool), **_by_name(runs)}
    done = streaming(tokens, width, 1, 2.0)
    return _joined("elementwise", kind, done, runs, (gpu, stack), where, bound, regimes)


def _by_name(runs: list[_Runs]) -> dict[str, Mask]:
    names = np.concatenate([np.full(len(run.seconds), run.name) for run in runs])
    return {name: names == name for name in sorted(set(names.tolist()))}


def _joined(
    kind: str, operator: str, work: Work, runs: list[_Runs], at: tuple[Gpu, str], where: str,
    bound: Array, regimes: dict[str, Mask],
) -> Points:  # fmt: skip
    return Points(
        kind=kind,
        operator=operator,
        gpu=at[0],
        stack=at[1],
        where=where,
        work=work,
        seconds=np.concatenate([run.seconds for run in runs]),
        keys=as_keys(np.concatenate([run.model for run in runs])),
        bound_s=bound,
        lines=np.concatenate([run.lines for run in runs]),
        regimes=regimes,
        split=SPLIT,
    )
