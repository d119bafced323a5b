"""Forms and measured points behind the first efficiency files, one `Case` per operator and candidate form.

Every time is in seconds, every size in bytes. A share multiplies a peak and lies in (0, 1], every other
parameter is a time or a size >= 0, so no form can predict less than its own roofline.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = list[dict[str, str]]

US = 1e-6


@dataclass(frozen=True)
class Gpu:
    """Data-sheet peaks of one GPU: dense FLOP/s, HBM bytes/s, SMs, NVLink bytes/s in one direction."""

    name: str
    table: str
    vidur: str
    bf16: float
    fp8: float
    hbm: float
    sms: int
    nvlink: float


A100 = Gpu("a100-sxm-80gb", "a100_sxm", "a100", 312e12, 0.0, 2039e9, 108, 300e9)
H100 = Gpu("h100-sxm", "h100_sxm", "h100", 989e12, 1979e12, 3350e9, 132, 450e9)


@dataclass(frozen=True)
class Case:
    """One operator on one GPU in one candidate form.

    predict takes the parameters in `names` order and returns one time per point. `units` are the typical
    sizes of the parameters (1 for a share); `nuisance` names parameters that describe the benchmark and not
    the operator. Points outside `fitted` and `held` are used by `checks` alone.
    """

    gpu: str
    operator: str
    form: str
    names: tuple[str, ...]
    units: tuple[float, ...]
    starts: tuple[tuple[float, ...], ...]
    predict: Callable[[Array], Array]
    measured: Array
    fitted: Mask
    held: Mask
    chosen: bool = False
    nuisance: tuple[str, ...] = ()
    checks: dict[str, Mask] = field(default_factory=dict)
    groups: NDArray[np.int64] | None = None


def rows(folder: Path, name: str) -> Rows:
    """Rows of one CSV file of the measured folder."""
    with (folder / name).open(newline="") as handle:
        return list(csv.DictReader(handle))


def columns(table: Rows, *names: str) -> list[Array]:
    """Columns as float arrays; milliseconds (`*_ms`) become seconds."""
    return [np.array([float(r[n]) for r in table]) * (1e-3 if n.endswith("_ms") else 1.0) for n in names]


def every_second(keys: Sequence[Hashable]) -> Mask:
    """True where a key is the first, third, ... of the sorted distinct keys: the fitted part."""
    kept = set(sorted(set(keys))[::2])  # type: ignore[type-var]
    return np.array([k in kept for k in keys], dtype=bool)


def gemm_time(m: Array, n: Array, k: Array, p: Array, peak: float, hbm: float, width: float = 2.0) -> Array:
    """Tile roofline: M rounded up to 128 rows; weights of `width` bytes, activations of 2."""
    flop = 2 * np.ceil(m / 128) * 128 * n * k
    size = k * n * width + (m * k + m * n) * 2
    return np.asarray(np.maximum(flop / (p[0] * peak), size / (p[1] * hbm)) + p[2])


def fill(tiles: Array, sms: int) -> Array:
    """How much longer whole waves of tiles take than the tiles' share of the SMs."""
    return np.ceil(tiles / sms) * sms / tiles


def prefill_cases(
    gpu: Gpu,
    operator: str,
    flop: Array,
    size: Array,
    tiles: Callable[[int], Array],
    t: Array,
    fitted: Mask,
    chosen: str,
    checks: dict[str, Mask],
) -> list[Case]:
    """Additive, with SM fill over tiles of 64 and of 128 query rows, and max."""

    def case(form: str, tile: int, combine: Callable[[Array, Array], Array]) -> Case:
        work = flop * fill(tiles(tile), gpu.sms) if tile else flop

        def predict(p: Array) -> Array:
            return np.asarray(combine(work / (p[0] * gpu.bf16), size / (p[1] * gpu.hbm)) + p[2])

        return Case(
            gpu.name,
            operator,
            form,
            ("compute_share", "bandwidth_share", "latency"),
            (1, 1, US),
            ((0.6, 0.4, 10),),
            predict,
            t,
            fitted,
            ~fitted,
            form == chosen,
            checks=checks,
        )

    return [
        case("additive", 0, np.add),
        case("additive tile 64", 64, np.add),
        case("additive tile 128", 128, np.add),
        case("max", 0, np.maximum),
    ]
