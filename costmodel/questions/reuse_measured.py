"""Measured loads and recomputes of prefixes: a line and a parabola fitted to half of them, and where they meet."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .reuse_times import Times

COLUMNS = ("tokens", "load_s", "recompute_s")
_FEWEST = 4
#: Lengths from which on recompute gets a fixed part, too: half of them are then as many as its coefficients.
_WITH_FIXED = 5


@dataclass(frozen=True)
class MeasuredRow:
    """A measured prefix beside both fits and, where a GPU is named, step times of its prefill."""

    tokens: int
    fitted: bool
    load_s: float
    load_fit_s: float
    recompute_s: float
    recompute_fit_s: float
    predicted_s: float | None


@dataclass(frozen=True)
class Measured:
    """load = ``load_fixed_s`` + ``load_per_token_s`` n; recompute the same with ``recompute_growth_s`` n^2 besides.

    Four lengths leave ``recompute_fixed_s`` at 0. Every second length is fitted, by least relative squares; errors
    are mean relative ones of the others. ``load_bytes_per_s``: KV of a token over its time. ``predicted_bias``: mean
    of step times / measured - 1.
    """

    path: str
    rows: tuple[MeasuredRow, ...]
    load_fixed_s: float
    load_per_token_s: float
    load_bytes_per_s: float | None
    load_bytes_per_s_reason: str | None
    recompute_fixed_s: float
    recompute_per_token_s: float
    recompute_growth_s: float
    load_mape: float
    recompute_mape: float
    predicted_bias: float | None
    predicted_bias_reason: str | None
    break_even_tokens: float | None
    break_even_reason: str | None


def read_measured(path: str | Path) -> tuple[tuple[int, float, float], ...]:
    """Return (tokens, load, recompute) of a CSV file, by length. Raises InputError naming line and column."""
    where = str(path)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
    except FileNotFoundError:
        raise InputError("no such file", where=where) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot be read as CSV: {error}", where=where) from None
    header = [name.strip() for name in rows[0]] if rows else []
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise InputError(f"has no column {', '.join(missing)}; expected {','.join(COLUMNS)}", where=where)
    places = [header.index(name) for name in COLUMNS]
    found, problems = [], []
    for number, cells in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in cells):
            continue
        try:
            tokens, load, computed = (float(cells[place]) for place in places)
            good = tokens.is_integer() and all(0 < each < math.inf for each in (tokens, load, computed))
        except (ValueError, IndexError):
            good = False
        if good:
            found.append((int(tokens), load, computed))
        else:
            problems.append(f"line {number}: expected whole tokens and positive seconds")
    if len(found) < _FEWEST and not problems:
        problems.append(f"{len(found)} lengths: half are fitted and half held out, so at least {_FEWEST}")
    if len({tokens for tokens, _, _ in found}) < len(found):
        problems.append("a length stands there twice: give the mean of its times")
    if problems:
        raise InputError(problems, where=where)
    return tuple(sorted(found))


def measured_of(path: str | Path, bytes_per_token: float, times: Times) -> Measured:
    """Return both fits of a file of measurements, and where they meet."""
    points = read_measured(path)
    lengths = [tokens for tokens, _, _ in points]
    taken, held = points[::2], points[1::2]
    fixed, slope = relative_fit([(1.0, n) for n, _, _ in taken], [load for _, load, _ in taken])
    seconds = [computed for _, _, computed in taken]
    start, linear, growth = 0.0, 0.0, 0.0
    if len(points) < _WITH_FIXED:
        linear, growth = relative_fit([(n, n**2) for n, _, _ in taken], seconds)
    else:
        start, linear, growth = relative_fit([(1.0, n, n**2) for n, _, _ in taken], seconds)

    def load_at(tokens: float) -> float:
        return fixed + slope * tokens

    def computed_at(tokens: float) -> float:
        return start + linear * tokens + growth * tokens**2

    predicted = [times.prefill_s(tokens) for tokens in lengths]
    known = [(seconds, point[2]) for seconds, point in zip(predicted, points) if seconds is not None]
    root, reason = _meeting(lengths, load_at, computed_at)
    return Measured(
        path=str(path),
        rows=tuple(
            MeasuredRow(n, i % 2 == 0, load, load_at(n), computed, computed_at(n), predicted[i])
            for i, (n, load, computed) in enumerate(points)
        ),
        load_fixed_s=fixed,
        load_per_token_s=slope,
        load_bytes_per_s=bytes_per_token / slope if slope > 0 else None,
        load_bytes_per_s_reason=None if slope > 0 else "loads do not grow with their length",
        recompute_fixed_s=start,
        recompute_per_token_s=linear,
        recompute_growth_s=growth,
        load_mape=_error([(load_at(n), load) for n, load, _ in held]),
        recompute_mape=_error([(computed_at(n), computed) for n, _, computed in held]),
        predicted_bias=sum(a / b - 1 for a, b in known) / len(known) if known else None,
        predicted_bias_reason=None if known else "needs step times: pass --hardware",
        break_even_tokens=root,
        break_even_reason=reason,
    )


def relative_fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients with the least squares of relative errors."""
    import numpy

    weighed = numpy.array(rows, dtype=float) / numpy.array(values, dtype=float)[:, None]
    widths = numpy.linalg.norm(weighed, axis=0)
    found, *_ = numpy.linalg.lstsq(weighed / widths, numpy.ones(len(values)), rcond=None)
    return tuple(float(each) for each in found / widths)


def _error(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(abs(fit / true - 1) for fit, true in pairs) / len(pairs)


def _meeting(
    lengths: Sequence[int], load_at: Callable[[float], float], computed_at: Callable[[float], float]
) -> tuple[float | None, str | None]:
    """Return where loading begins to pay, inside the measured lengths; else None and why."""
    low, high = float(lengths[0]), float(lengths[-1])
    first, last = computed_at(low) > load_at(low), computed_at(high) > load_at(high)
    if first and last:
        return None, f"below {low:,.0f} tokens, the shortest that was measured: loading pays at all of them"
    if not last:
        side = "only up to some length" if first else "at none of the measured lengths"
        return None, f"loading pays {side}"
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if computed_at(middle) > load_at(middle) else (middle, high)
    return high, None
