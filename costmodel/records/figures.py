"""Reading one figure: the metric meant by a name, the statistic in it, and the value in the metric's SI unit."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

from ..errors import nearest, shorten
from ..units import UNITS
from .vocabulary import METRICS

#: Units of figures beside those of :data:`..units.UNITS`: (dimension, factor to SI).
_MORE: dict[str, tuple[str, float]] = {
    "%": ("1", 0.01), "percent": ("1", 0.01), "x": ("1", 1.0), "fraction": ("1", 1.0), "": ("1", 1.0),
    "share": ("1", 1.0), "ratio": ("1", 1.0), "requests": ("1", 1.0), "1": ("1", 1.0),
    "tok/s": ("token/second", 1.0), "tokens/s": ("token/second", 1.0), "token/s": ("token/second", 1.0),
    "ktok/s": ("token/second", 1e3), "tps": ("token/second", 1.0), "tok/s/user": ("token/second", 1.0),
    "requests/s": ("1/second", 1.0), "rps": ("1/second", 1.0), "qps": ("1/second", 1.0), "r/s": ("1/second", 1.0),
    "req/s": ("1/second", 1.0), "blocks": ("token", 1.0), "tok": ("token", 1.0),
    "sec": ("second", 1.0), "seconds": ("second", 1.0), "µs": ("second", 1e-6), "ms/token": ("second", 1e-3),
    "s/token": ("second", 1.0), "ms/tok": ("second", 1e-3), "hours": ("second", 3600.0), "minutes": ("second", 60.0),
    "KB": ("byte", 1e3), "KB/s": ("byte/second", 1e3), "bytes": ("byte", 1.0),
    "Gbps": ("byte/second", 0.125e9), "Mbps": ("byte/second", 0.125e6), "GBps": ("byte/second", 1e9),
    "MBps": ("byte/second", 1e6), "TBps": ("byte/second", 1e12),
    "TFLOPS": ("flop/second", 1e12), "TFLOPs": ("flop/second", 1e12), "TFLOP/s": ("flop/second", 1e12),
    "PFLOPS": ("flop/second", 1e15), "TFLOPS/s": ("flop/second", 1e12), "TFLOPs/s": ("flop/second", 1e12),
    "TOPS": ("flop/second", 1e12),
}  # fmt: skip

_STATISTIC = r"mean|avg|average|median|std|min|max|p\d{1,2}(?:[._]\d+)?"
_SUFFIXES = (("_ms", "ms"), ("_us", "us"), ("_s", "s"), ("_seconds", "s"), ("_gbps", "GB/s"), ("_gib", "GiB"))
_NAMES = {name: name for name in METRICS} | {
    alias: name for name, metric in METRICS.items() for alias in metric.aliases
}
_WORDS = {"avg": "mean", "average": "mean", "p50": "p50", "median": "p50"}


class Meant(NamedTuple):
    """A metric's name as known (or as written), its dimension (None: not known), statistic and unit in the name."""

    metric: str
    dimension: str | None
    statistic: str | None
    unit: str | None


def per_gpu(unit: str) -> tuple[str, bool]:
    """Return a unit without "/GPU" or "per GPU" at its end, and whether that stood there."""
    bare = re.sub(r"(?i)\s*(?:/|per)\s*(?:gpu|chip)$", "", unit.strip())
    return bare, bare != unit.strip()


@lru_cache(maxsize=4096)
def meant(written: str) -> Meant:
    """Return what a metric's name means: ``p95_ttft_ms`` is the p95 of TTFT, in ms."""
    name, unit, statistic = re.sub(r"[\s\-]+", "_", written.strip().lower()), None, None
    if name not in _NAMES:
        for suffix, known in _SUFFIXES:
            if name.endswith(suffix):
                name, unit = name.removesuffix(suffix), known
                break
        found = re.fullmatch(rf"({_STATISTIC})_(.+)|(.+?)_({_STATISTIC})", name)
        if found:
            statistic = statistic_of(found[1] or found[4])
            name = found[2] or found[3]
    if name in _NAMES:
        known_name = _NAMES[name]
        return Meant(known_name, METRICS[known_name].dimension, statistic, unit)
    if "share" in name or name.endswith(("_fraction", "_rate_share")):
        return Meant(name, "1", statistic, unit)
    return Meant(name, None, statistic, unit)


def statistic_of(text: str | None) -> str | None:
    """Return a statistic in small letters, the median as p50 and an average as mean; None for none."""
    if text is None or not text.strip():
        return None
    folded = (
        text.strip().lower().replace("percentile", "").replace("th", "")
        if text[:1].isdigit()
        else text.strip().lower()
    )
    digits = re.fullmatch(r"p?(\d{1,2}(?:[._]\d+)?)\s*", folded)
    if digits:
        return "p" + digits[1].replace("_", ".")
    return _WORDS.get(folded, folded)


def in_si(value: float, unit: str, dimension: str | None) -> tuple[float, str | None]:
    """Return a value in SI with the dimension of its unit; the dimension is None where the unit is not known."""
    if dimension == "token" and unit in ("k", "K", "M"):
        return value * (1e3 if unit in "kK" else 1e6), "token"
    if unit in _MORE:
        own, factor = _MORE[unit]
        return value * factor, own
    if unit in UNITS:
        found = UNITS[unit]
        exact = (
            float(f"{value!r}e{found.exponent}") if "e" not in repr(value) else value * 10.0**found.exponent
        )
        return exact * found.multiplier, found.dimension
    return value, None


def fitting(own: str | None, wanted: str | None) -> bool:
    """Whether a unit of dimension ``own`` measures what a metric of dimension ``wanted`` is."""
    return wanted is None or own == wanted or {own, wanted} <= {"1", "token"}


def unit_problem(where: str, unit: str, metric: str, wanted: str) -> str:
    """Say that a unit does not measure a metric, with the nearest that does."""
    known = [u for u, (d, _) in _MORE.items() if d == wanted] + [
        u for u, d in UNITS.items() if d.dimension == wanted
    ]
    match = nearest(unit, known) if unit else None
    hint = f"; did you mean {match!r}?" if match else ""
    return f"{where}: unit {shorten(unit)!r} does not measure {metric} ({wanted}){hint}"


def number_of(value: object) -> tuple[float, float | None] | None:
    """Return a finite number and None, or both ends of a range written as a list of two; None for anything else."""
    if isinstance(value, list) and len(value) == 2:
        ends = [number_of(each) for each in value]
        if all(end is not None and end[1] is None for end in ends):
            low, high = sorted(end[0] for end in ends if end is not None)
            return low, high
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value), None
