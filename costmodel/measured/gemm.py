"""Tables of dense matrix products: m, n, k, gemm_dtype and a time."""

from __future__ import annotations

import numpy as np

from ..inputs.hardware import Gpu
from ..operators.work import gemm
from .points import BYTES, Given, Points, Read, bands, by_gpu_and_stack, dtype_of, labels
from .table import Table

COLUMNS = ("m", "n", "k")
SPLIT = "every second (n, k) shape held out"
#: Bytes of a weight of products whose weights alone are narrow: they run in 16 bits.
WEIGHT_ONLY = {"int8_wo": 1.0, "int4_wo": 0.5, "w8a16": 1.0, "w4a16": 0.5}
EDGES = (16, 128, 1024)


def read(table: Table, given: Given) -> Read:
    """Return the products of a table by GPU, stack and dtype. An 8-bit one includes quantising its input."""
    found = Read()

    def make(rows: Table, gpu: Gpu, stack: str) -> None:
        for (word,), keep in rows.groups(rows.texts("gemm_dtype", "dtype", default="bfloat16")):
            each = WEIGHT_ONLY.get(word.lower())
            dtype = dtype_of(word) if each is None else "bf16"
            if dtype is None or f"peak_{dtype}" not in gpu.values:
                why = "is not modelled" if dtype is None else f"has no peak on {gpu.name}"
                found.skip(rows, int(keep.sum()), f"gemm_dtype {word!r} {why}")
            else:
                found.points.append(_points(rows.where_true(keep), gpu, stack, dtype, each or BYTES[dtype]))

    by_gpu_and_stack(table, given, found, make)
    return found


def _points(rows: Table, gpu: Gpu, stack: str, dtype: str, each: float) -> Points:
    m, n, k = (rows.counts(name) for name in COLUMNS)
    narrow = BYTES[dtype] == 1
    # What is read and written at least once: weights, the wide input, the result.
    least = k * n * each + 2 * m * (k + n)
    bound = np.maximum(2 * m * n * k / gpu.peak_flop_per_s(dtype), least / gpu.memory_bytes_per_s)
    return Points(
        kind="gemm",
        operator="gemm_fp8" if narrow else "gemm",
        gpu=gpu,
        stack=stack,
        where=rows.where,
        work=gemm(m, n, k, each, 2.0),
        seconds=rows.seconds(),
        keys=labels(n, k),
        bound_s=bound,
        lines=rows.lines,
        dtype=dtype,
        regimes={_regime(narrow, each): np.ones(len(rows), dtype=bool), **bands(m, "m", EDGES)},
        split=SPLIT,
    )


def _regime(narrow: bool, each: float) -> str:
    if narrow:
        return "fp8"
    return "bf16" if each == 2 else f"{8 * each:.0f}-bit weights"
