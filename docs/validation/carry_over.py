"""What a fit costs on another GPU: python carry_over.py MEASURED_FOLDER.

Applies the A100's and the H100's packaged fits to each other's measured operators and prints both errors:
the reason for the doubled band of a borrowed fit. Every row of a table counts, fitted and held out.
"""

from __future__ import annotations

import argparse
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from first_fit_points import Array, columns, rows

from costmodel.formulas import chunking, operators, work
from costmodel.inputs.efficiency import OperatorFit, load_efficiency
from costmodel.inputs.hardware import Gpu, load_gpu

TABLES = {"a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm"}
ATTENTION = ("num_heads", "num_key_value_heads", "head_dim", "latency_ms")
OPERATORS = ("gemm", "attention_prefill", "attention_decode")
WIDTH = 2  # bytes of a bf16 element
NONE = np.zeros(0)


class Points(NamedTuple):
    """Measured runs of one operator on one GPU: their work, and their times in seconds.

    ``rows``: tokens of a matrix product or of one prompt, for whole tiles; the rest where attention needs it.
    """

    gpu: Gpu
    flop: Array
    bytes_moved: Array
    measured: Array
    rows: Array = NONE
    sequences: Array = NONE
    heads: Array = NONE
    kv_heads: Array = NONE


def gemm(folder: Path, gpu: Gpu) -> Points:
    """Dense matrix products."""
    table = rows(folder, f"aiconfigurator/gemm_bf16_{TABLES[gpu.name]}.csv")
    m, n, k, t = columns(table, "m", "n", "k", "latency_ms")
    return Points(gpu, work.gemm_flop(m, n, k), work.gemm_bytes(m, n, k, WIDTH, WIDTH), t, rows=m)


def attention_prefill(folder: Path, gpu: Gpu) -> Points:
    """Causal attention of whole prompts, no cached prefix."""
    table = rows(folder, f"aiconfigurator/context_attention_{TABLES[gpu.name]}.csv")
    batch, isl, heads, kv_heads, dim, t = columns(table, "batch_size", "isl", *ATTENTION)
    flop = batch * work.attention_flop(heads, dim, dim, work.causal_pairs(isl, 0.0))
    moved = work.prefill_attention_bytes(isl, 0.0, heads, kv_heads, dim, dim, WIDTH, WIDTH)
    return Points(gpu, flop, batch * moved, t, isl, batch, heads)


def attention_decode(folder: Path, gpu: Gpu) -> Points:
    """Attention of decode steps."""
    table = rows(folder, f"aiconfigurator/generation_attention_{TABLES[gpu.name]}.csv")
    batch, context, heads, kv_heads, dim, t = columns(table, "batch_size", "kv_len", *ATTENTION)
    flop = work.attention_flop(heads, dim, dim, batch * context)
    moved = work.decode_attention_bytes(batch * context, batch, heads, kv_heads, dim, WIDTH, WIDTH)
    return Points(gpu, flop, moved, t, sequences=batch, kv_heads=kv_heads)


def predicted(fit: OperatorFit, at: Points) -> Array:
    """Times of the points under a fit, at the peaks of the GPU they were measured on."""
    p, peak, memory = fit.parameters, at.gpu.peak_flop_per_s("bf16"), at.gpu.memory_bytes_per_s
    if fit.form == "decode_attention":
        own = p["bandwidth_share"], p["latency"], p["per_sequence_head"]
        return np.asarray(
            operators.decode_attention_time(
                at.flop, at.bytes_moved, peak, memory, *own, at.sequences, at.kv_heads
            )
        )
    own = p["compute_share"], p["bandwidth_share"], p["latency"]
    if fit.form == "tile_roofline":
        fill = chunking.tile_fill(at.rows, p["tile_rows"])
        return np.asarray(operators.tile_roofline_time(at.flop, at.bytes_moved, fill, peak, memory, *own))
    assert fit.form == "additive"
    waves: Any = 1.0
    if "tile_rows" in p:
        tiles = at.sequences * at.heads * np.ceil(at.rows / p["tile_rows"])
        waves = chunking.sm_fill(tiles, at.gpu.sm_count)
    return np.asarray(operators.additive_time(at.flop, at.bytes_moved, waves, peak, memory, *own))


def mape(fit: OperatorFit, at: Points) -> float:
    """Mean of |predicted / measured - 1|."""
    return float(np.mean(abs(predicted(fit, at) / at.measured - 1)))


def carried(folder: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """(GPU, operator) -> error of the GPU's own fit and of the other GPU's, as fractions."""
    read = {"gemm": gemm, "attention_prefill": attention_prefill, "attention_decode": attention_decode}
    found = {}
    for name in TABLES:
        gpu = load_gpu(name)
        other = next(n for n in TABLES if n != name)
        for operator in OPERATORS:
            points = read[operator](folder, gpu)
            own, borrowed = (load_efficiency(n).operators[operator] for n in (name, other))
            found[name, operator] = mape(own, points), mape(borrowed, points)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, help="folder that holds aiconfigurator/")
    errors = carried(parser.parse_args().measured)
    for (gpu, operator), (own, borrowed) in errors.items():
        print(
            f"{gpu:14s} {operator:18s} own fit {100 * own:5.1f} %   borrowed {100 * borrowed:5.1f} %"
            f"   {borrowed / own:.2f} times"
        )
    ratios = [borrowed / own for own, borrowed in errors.values()]
    print(f"geometric mean of the {len(ratios)} ratios: {prod(ratios) ** (1 / len(ratios)):.2f}")


if __name__ == "__main__":
    main()
