"""Tables of the operators of a dense layer by model: a column an operator (wide), or a row an operator (long)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..inputs.hardware import Gpu
from ..operators.work import Work, gemm, streaming
from .dims import Dims, dims_of
from .points import Given, Points, Read, bands, by_gpu_and_stack
from .table import Array, Mask, Table, Texts, scale

SPLIT = "every second model held out"
WIDE_STACK = "vidur"
EDGES = (16, 128, 1024)

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
        known, unknown = _known(rows)
        for why, keep in unknown.items():
            found.skip(rows, int(keep.sum()), why)
        everything = np.logical_or.reduce([*unknown.values(), np.zeros(len(rows), dtype=bool)])
        runs = _long(rows.where_true(~everything)) if "layer" in rows else _wide(rows.where_true(~everything))
        products = [run for run in runs if run.name in PRODUCTS]
        if products:
            found.points.append(_products(products, known, gpu, stack, rows.where))
        for kind in dict.fromkeys(STREAMS[run.name][0] for run in runs if run.name in STREAMS):
            chosen = [run for run in runs if STREAMS.get(run.name, ("",))[0] == kind]
            found.points.append(_streams(kind, chosen, known, gpu, stack, rows.where))
        left = [run for run in runs if run.name not in PRODUCTS and run.name not in STREAMS]
        for run in left:
            found.skip(rows, len(run.seconds), f"{run.name} is not modelled")

    by_gpu_and_stack(table, given, found, make, "not stated" if "layer" in table else WIDE_STACK)
    return found


def _known(rows: Table) -> tuple[dict[str, Dims], dict[str, Mask]]:
    known: dict[str, Dims] = {}
    unknown: dict[str, Mask] = {}
    models = rows.texts("model")
    for model in sorted(set(models)):
        try:
            known[str(model)] = dims_of(str(model), rows)
        except InputError as error:
            unknown[str(error)] = models == model
    return known, unknown


def _wide(rows: Table) -> list[_Runs]:
    tp, tokens = rows.counts("tp"), rows.counts("num_tokens", "tokens")
    runs = []
    for column in rows.columns:
        name = column.rpartition("_")[0]
        if column in SUMS or name not in (*PRODUCTS, *STREAMS):
            continue
        part = rows.where_true(rows.texts(column) != "")
        if not len(part):
            continue
        seconds = part.numbers(column) * scale(column)
        keep = seconds > 0  # a time below the resolution is stated as 0
        own = rows.texts(column) != ""
        runs.append(
            _Runs(
                name, part.texts("model")[keep], tp[own][keep], tokens[own][keep], seconds[keep],
                part.lines[keep],
            )
        )  # fmt: skip
    return runs


def _long(rows: Table) -> list[_Runs]:
    runs = []
    for (name,), keep in rows.groups(rows.texts("layer")):
        part = rows.where_true(keep)
        by = "sequences" if "tokens" not in part or "" in part.texts("tokens") else "tokens"
        part = part.filled(by)
        if len(part):
            runs.append(
                _Runs(
                    name, part.texts("model"), part.counts("tp"), part.counts(by), part.seconds(), part.lines
                )
            )
    return runs


def _sizes(run: _Runs, known: dict[str, Dims], of: Callable[[Dims, int], float]) -> Array:
    found = {(m, t): of(known[m], int(t)) for m, t in set(zip(run.model.tolist(), run.tp.tolist()))}
    return np.array([found[key] for key in zip(run.model.tolist(), run.tp.tolist())], dtype=float)


def _products(runs: list[_Runs], known: dict[str, Dims], gpu: Gpu, stack: str, where: str) -> Points:
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
    kind: str, runs: list[_Runs], known: dict[str, Dims], gpu: Gpu, stack: str, where: str
) -> Points:
    width = np.concatenate([_sizes(run, known, STREAMS[run.name][1]) for run in runs])
    tokens = np.concatenate([run.tokens for run in runs])
    # What fits into L2 need not pass through HBM: the operator before has just written it.
    bound = np.maximum(2 * tokens * width - gpu.get("l2_cache"), 0) / gpu.memory_bytes_per_s
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
        keys=np.concatenate([run.model for run in runs]),
        bound_s=bound,
        lines=np.concatenate([run.lines for run in runs]),
        regimes=regimes,
        split=SPLIT,
    )
