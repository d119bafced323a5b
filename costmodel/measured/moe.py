"""Tables of fused experts: tokens, sizes, experts, how they are spread over GPUs and how tokens choose them."""

from __future__ import annotations

import re

import numpy as np

from ..inputs.hardware import Gpu
from ..operators.work import experts
from .points import BYTES, Given, Points, Read, bands, by_gpu_and_stack, dtype_of, kept, labels
from .table import Array, Mask, Table, Texts

SPLIT = "every second (hidden, width, top k, experts) shape held out"
EDGES = (8, 256, 2048)
#: Matrices of a gated expert, and kernels whose time the form describes.
MATRICES = 3
KERNELS = re.compile("triton|fused_moe|^$", re.IGNORECASE)
#: Experts of DeepSeek-V3: a token keeps to 4 of 8 groups, and the times of balanced rows are those of reading half
#: of the experts (11.7 % mean error against 46.8 %), so all tokens seem to keep to the same groups.
GROUPED = 256
#: Share of the tokens that the collector lets one expert have at most, and the span of loads where there are few.
MOST_LOADED, FEW_SPAN = 0.8, 200.0


def read(table: Table, given: Given) -> Read:
    """Return experts by GPU, stack and dtype; kernels of other libraries are left out.

    The width is that of the whole expert: each of ``moe_tp_size`` GPUs has its part.
    """
    found = Read()

    def make(rows: Table, gpu: Gpu, stack: str) -> None:
        rows = kept(rows, found, _possible(rows), "experts, top k or width do not split over its GPUs")
        kernels = rows.texts("kernel_source", default="")
        for (word, kernel), keep in rows.groups(
            rows.texts("moe_dtype", "dtype", default="bfloat16"), kernels
        ):
            dtype = dtype_of(word)
            count = int(keep.sum())
            if dtype is None or f"peak_{dtype}" not in gpu.values:
                found.skip(rows, count, f"moe_dtype {word!r} is not modelled on {gpu.name}")
            elif not KERNELS.search(kernel) or "flashinfer" in kernel.lower() or (word == "fp8" and kernel):
                found.skip(rows, count, f"{word} experts of the kernel {kernel!r} are not modelled")
            else:
                found.points.append(_points(rows.where_true(keep), gpu, stack, dtype))

    by_gpu_and_stack(table, given, found, make)
    return found


def _possible(rows: Table) -> Mask:
    """Rows in which each GPU has equal parts, and each token as many experts as it asks for."""
    total = rows.counts("num_experts")
    whole = (rows.counts("inter_size") % _ranks(rows, "moe_tp_size") == 0) & (rows.counts("topk") <= total)
    return np.asarray(whole & (total % _ranks(rows, "moe_ep_size") == 0))


def _ranks(rows: Table, column: str) -> Array:
    return rows.counts(column) if column in rows else np.ones(len(rows))


def skew_of(tokens: Array, top_k: Array, total: Array, distribution: Texts) -> Array:
    """Variation of the experts' loads under a power law of exponent near 1: nearly log-uniform over its span."""
    balanced = np.array([word.lower() in ("balanced", "uniform", "") for word in distribution])
    span = np.log(np.where(tokens * top_k > total, np.maximum(MOST_LOADED * tokens, 1.0001), FEW_SPAN))
    law = np.sqrt(np.maximum(span / 2 / np.tanh(span / 2) - 1, 0))
    return np.asarray(np.where(balanced, 0.0, law))


def _points(rows: Table, gpu: Gpu, stack: str, dtype: str) -> Points:
    tokens, hidden = rows.counts("num_tokens"), rows.counts("hidden_size")
    whole, top_k, total = rows.counts("inter_size"), rows.counts("topk"), rows.counts("num_experts")
    tp, ranks = _ranks(rows, "moe_tp_size"), _ranks(rows, "moe_ep_size")
    distribution = rows.texts("distribution", default="balanced")
    skew, width = skew_of(tokens, top_k, total, distribution), whole / tp
    each = BYTES[dtype]
    reached = np.where((skew == 0) & (total == GROUPED), total / 2, total)
    done = experts(tokens, top_k, reached / ranks, hidden, width, MATRICES, each, 2.0, ranks=ranks, skew=skew)
    # Tokens may all choose the same experts: the GPU reads as few as its share of one token's choice.
    fewest = np.minimum(top_k, total) / ranks
    flop = 2 * MATRICES * hidden * width * tokens * top_k / ranks
    bound = np.maximum(
        flop / gpu.peak_flop_per_s(dtype), MATRICES * hidden * width * each * fewest / gpu.memory_bytes_per_s
    )
    name = "fp8" if each == 1 else "bf16"
    regimes = {f"{name}, {word}": distribution == word for word in sorted(set(distribution.tolist()))}
    regimes[f"{name}, skewed"] = skew > 0
    return Points(
        kind="moe",
        operator="moe_fp8" if each == 1 else "moe",
        gpu=gpu,
        stack=stack,
        where=rows.where,
        work=done,
        seconds=rows.seconds(),
        keys=labels(hidden, whole, top_k, total),
        bound_s=bound,
        lines=rows.lines,
        dtype=dtype,
        regimes={
            name: np.ones(len(rows), dtype=bool),
            **regimes,
            **bands(tokens, "tokens", EDGES),
            "experts on one GPU": ranks == 1,
            "experts spread over GPUs": ranks > 1,
        },
        split=SPLIT,
    )
