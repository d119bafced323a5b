"""Measured loads and recomputes of prefixes: a line and a parabola fitted to half of them, and where they meet."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .reuse_times import NEEDS_GPU, Times

COLUMNS = ("tokens", "load_s", "recompute_s")
_FEWEST = 4
#: Lengths from which on recompute gets a fixed part, too: half of them are then as many as its coefficients.
_WITH_FIXED = 5
#: Mean relative error of held-out lengths beyond which fits are not believed.
MOST_ERROR = 0.25
#: Growth of loads over all lengths, as a share of the longest, below which it is rounding.
_LEAST_GROWTH = 1e-6
#: Share of every fitted value below which a coefficient is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class MeasuredRow:
    """A measured prefix beside both fits and, where a GPU is named, step times of its prefill.

    ``pays``: as measured, loading took less than computing.
    """

    tokens: int
    fitted: bool
    pays: bool
    load_s: float
    load_fit_s: float
    recompute_s: float
    recompute_fit_s: float
    predicted_s: float | None
    predicted_reason: str | None


@dataclass(frozen=True)
class Measured:
    """load = ``load_fixed_s`` + ``load_per_token_s`` n; recompute the same with ``recompute_growth_s`` n^2 besides.

    Four lengths leave ``recompute_fixed_s`` at 0. Every second length is fitted, by least relative squares; errors
    are mean relative ones of the others. ``load_bytes_per_s``: KV of a token over its time; where loads grow by less
    than the error of their fit they count as constant. ``paying``: lengths at which loading took less, as measured.
    ``break_even_tokens``: from there to the longest length loading pays by both fits, and nothing measured says
    otherwise by more than their errors. ``predicted_bias``: mean of step times / measured - 1.
    """

    path: str
    rows: tuple[MeasuredRow, ...]
    load_fixed_s: float
    load_per_token_s: float | None
    load_per_token_reason: str | None
    load_bytes_per_s: float | None
    load_bytes_per_s_reason: str | None
    recompute_fixed_s: float
    recompute_per_token_s: float
    recompute_growth_s: float
    load_mape: float
    recompute_mape: float
    paying: int
    predicted_bias: float | None
    predicted_bias_reason: str | None
    break_even_tokens: float | None
    break_even_reason: str | None
    break_even_regime: str

    def warnings(self) -> tuple[str, ...]:
        """Say which fit misses the lengths that were held out."""
        fits = (("loads", self.load_mape), ("recompute", self.recompute_mape))
        return tuple(
            f"{self.path}: the fit of {name} misses the lengths held out by {error:.0%} on average: it is not told"
            " where loading begins to pay"
            for name, error in fits
            if error > MOST_ERROR
        )


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
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise InputError(f"has more than one column {', '.join(twice)}", where=where)
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
    held = points[1::2]
    line, why = _load_fit(points)
    curve = _recompute_fit(points)
    load_mape = _error([(_at(line, n), load) for n, load, _ in held])
    recompute_mape = _error([(_at(curve, n), computed) for n, _, computed in held])
    predicted = [times.prefill_s(tokens) for tokens in lengths]
    known = [(seconds, point[2]) for seconds, point in zip(predicted, points) if seconds is not None]
    no_steps = None if known else NEEDS_GPU
    errors = f"the fits miss held-out lengths by {load_mape:.0%} (loads) and {recompute_mape:.0%} (recompute)"
    root, regime = (
        (None, errors)
        if max(load_mape, recompute_mape) > MOST_ERROR
        else _meeting(points, line, curve, load_mape + recompute_mape)
    )
    return Measured(
        path=str(path),
        rows=tuple(
            MeasuredRow(
                n,
                i % 2 == 0,
                load < computed,
                load,
                _at(line, n),
                computed,
                _at(curve, n),
                predicted[i],
                no_steps,
            )
            for i, (n, load, computed) in enumerate(points)
        ),
        load_fixed_s=line[0],
        load_per_token_s=None if why else line[1],
        load_per_token_reason=why,
        load_bytes_per_s=None if why else bytes_per_token / line[1],
        load_bytes_per_s_reason=why,
        recompute_fixed_s=curve[0],
        recompute_per_token_s=curve[1],
        recompute_growth_s=curve[2],
        load_mape=load_mape,
        recompute_mape=recompute_mape,
        paying=sum(load < computed for _, load, computed in points),
        predicted_bias=sum(a / b - 1 for a, b in known) / len(known) if known else None,
        predicted_bias_reason=no_steps,
        break_even_tokens=root,
        break_even_reason=regime if root is None else None,
        break_even_regime=regime,
    )


def _at(curve: Sequence[float], tokens: float) -> float:
    """Value of a polynomial, lowest order first."""
    return sum(each * tokens**power for power, each in enumerate(curve))


def _load_fit(points: Sequence[tuple[int, float, float]]) -> tuple[tuple[float, float], str | None]:
    """Return a line through every second load, or a constant and why no slope is told."""
    taken, held = points[::2], points[1::2]
    loads = [load for _, load, _ in taken]
    fixed, slope = relative_fit([(1.0, n) for n, _, _ in taken], loads)
    error = _error([(fixed + slope * n, load) for n, load, _ in held])
    growth = slope * (points[-1][0] - points[0][0])
    if growth > max(error, _LEAST_GROWTH) * _at((fixed, slope), points[-1][0]):
        return (fixed, slope), None
    (constant,) = relative_fit([(1.0,) for _ in taken], loads)
    return (
        constant,
        0.0,
    ), "loads grow with their length by no more than the fit's error: no slope is determined"


def _recompute_fit(points: Sequence[tuple[int, float, float]]) -> tuple[float, float, float]:
    """Return the parabola through every second recompute, without a fixed part where lengths are few."""
    taken = points[::2]
    seconds = [computed for _, _, computed in taken]
    if len(points) < _WITH_FIXED:
        linear, growth = relative_fit([(n, n**2) for n, _, _ in taken], seconds)
        return 0.0, linear, growth
    start, linear, growth = relative_fit([(1.0, n, n**2) for n, _, _ in taken], seconds)
    return start, linear, growth


def relative_fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[float, ...]:
    """Return the coefficients with the least squares of relative errors; 0 for what is rounding alone."""
    import numpy

    weighed = numpy.array(rows, dtype=float) / numpy.array(values, dtype=float)[:, None]
    widths = numpy.linalg.norm(weighed, axis=0)
    found, *_ = numpy.linalg.lstsq(weighed / widths, numpy.ones(len(values)), rcond=None)
    weights = numpy.abs(weighed).max(axis=0) * numpy.abs(found / widths)
    return tuple(float(each) for each in numpy.where(weights > _ROUNDING, found / widths, 0.0))


def _error(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(abs(fit / true - 1) for fit, true in pairs) / len(pairs)


def _meeting(
    points: Sequence[tuple[int, float, float]], line: Sequence[float], curve: Sequence[float], error: float
) -> tuple[float | None, str]:
    """Return from where to the longest length loading pays by the fits, and what is so; None where it is unclear.

    A measured length speaks against the fits where its times differ by more than ``error``, as a share.
    """
    low, high = points[0][0], points[-1][0]
    pays = [n for n, load, computed in points if load < computed]
    told = f"loading took less at {len(pays)} of {len(points)} measured lengths"

    def gained(tokens: float) -> float:
        return _at(curve, tokens) - _at(line, tokens)

    if gained(high) <= 0:
        side = "pays at none of the measured lengths" if not pays else f"does not pay at the longest; {told}"
        return None, f"loading {side}"
    roots = [root for root in _roots(curve[0] - line[0], curve[1] - line[1], curve[2]) if low < root < high]
    start = max(roots, default=None)
    for n, load, computed in points:
        if (start is None or n > start) and load > computed * (1 + error):
            return None, f"by the fits loading pays at {n:,} tokens, as measured it does not: {told}"
    if start is None:
        if len(pays) < len(points):
            return None, f"below {low:,} tokens, the shortest that was measured, by the fits; {told}"
        return None, f"below {low:,} tokens, the shortest that was measured: loading pays at all of them"
    shorter = any(n < start for n in pays) or gained(low) > 0
    return (
        start,
        f"loading pays from here to {high:,} tokens{', and for some shorter prefixes' if shorter else ''}",
    )


def _roots(fixed: float, linear: float, growth: float) -> list[float]:
    """Real roots of a parabola, or of a line."""
    if not growth:
        return [-fixed / linear] if linear else []
    spread = linear**2 - 4 * growth * fixed
    if spread < 0:
        return []
    far = -(linear + math.copysign(math.sqrt(spread), linear)) / 2  # without the difference of near numbers
    return [far / growth, *([fixed / far] if far else [])]
