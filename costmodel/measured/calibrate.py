"""From measured runs to fits: parameters on one part, errors on both, and what carrying them to another GPU costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..errors import InputError
from ..inputs.efficiency import OperatorFit, same_line
from ..operators.catalogue import FORMS, KINDS, forms_of
from .compare import FitsFor
from .errors import summary
from .fit import Found, Unknown, Values, fit
from .points import Points, Skipped
from .predict import beside, time_of
from .split import ALTERNATE, alternate, fitted_keys, in_fit, works
from .table import Array, Mask

#: Fewest runs that a fit needs, and fewest of them that it may see: it has four parameters.
FEWEST, FEWEST_SEEN = 8, 4
#: Held-out error beyond which a form does not describe what was measured.
NONSENSE = 0.5
#: Decimals of the errors that a file states.
DECIMALS = 6

Fits = dict[str, OperatorFit]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A fit of one operator of a GPU and stack, with the runs it rests on and the fits it leans on."""

    gpu: str
    stack: str
    fit: OperatorFit
    points: tuple[Points, ...]
    others: Mapping[str, OperatorFit]


def calibrate(points: Sequence[Points], source: str | None = None) -> list[Calibrated]:
    """Return a fit for each operator of each GPU and stack.

    Products are fitted first: what times include besides their operator, and parameters that a form inherits, are
    taken from those fits, else from packaged ones. Raises InputError where there is no scipy.
    """
    order = {kind: place for place, kind in enumerate(KINDS)}
    known: dict[tuple[str, str], Fits] = {}
    found: list[Calibrated] = []
    for (gpu, stack, operator), parts in sorted(
        _groups(points).items(), key=lambda g: (order[g[0][2]], g[0])
    ):
        fits = known.setdefault((gpu, stack), _packaged(parts[0]))
        for made in _fits(operator, parts, fits, source):
            fits[made.kind] = made
            found.append(Calibrated(gpu, stack, made, tuple(parts), fits))
    return [replace(one, fit=_carried(one, found)) for one in found]


def _groups(points: Iterable[Points]) -> dict[tuple[str, str, str], list[Points]]:
    """Return the runs of each GPU, stack and operator that a fit may see."""
    groups: dict[tuple[str, str, str], list[Points]] = {}
    for part in (part for part in points if not part.only_compared):
        groups.setdefault((part.gpu.name, part.stack, part.operator), []).append(part)
    return groups


def fittable(points: Sequence[Points]) -> tuple[list[Points], list[Skipped]]:
    """Return the runs that can be fitted, and those that cannot with the reason."""
    good: list[Points] = []
    why = "runs of another kernel than the form is fitted to, which are only compared"
    left = [
        Skipped(part.where, len(part), f"{part.operator}: {why}") for part in points if part.only_compared
    ]
    for (gpu, stack, operator), parts in _groups(points).items():
        joint = {part.joint for part in parts}
        whole = [part for part in parts if len(joint) == 1 or part.joint]
        counted = sum(map(len, whole)), sum(int(mask.sum()) for mask in _split(whole)[2])
        name = f"{operator} of {gpu}, {stack}"
        why = f"{name}: attention alone beside whole modules, which are fitted"
        left += [Skipped(part.where, len(part), why) for part in parts if part not in whole]
        different = sum(works(part)[0] for part in whole)
        if min(counted[0], different) >= FEWEST and counted[1] >= FEWEST_SEEN:
            good += whole
            continue
        why = f"{name}: {counted[0]} rows of {different} different runs, {counted[1]} of them not held out"
        why += f"; a fit needs at least {FEWEST} different ones and {FEWEST_SEEN}"
        left += [Skipped(part.where, len(part), why) for part in whole]
    return good, left


def sensible(found: Iterable[Calibrated]) -> tuple[list[Calibrated], list[Skipped]]:
    """Return the fits that describe their runs, and runs of the others with what is wrong."""
    good, left = [], []
    for one in found:
        if one.fit.held_out_mape <= NONSENSE:
            good.append(one)
            continue
        rows = sum(map(len, one.points))
        below = sum(int((part.seconds < part.bound_s).sum()) for part in one.points)
        why = f"{one.fit.kind} of {one.gpu}, {one.stack}: the form is off by {one.fit.held_out_mape:.0%} on what it was"
        why += f" not fitted to, so it describes something else; {below:,} of {rows:,} times beat physics."
        why += (
            " Is the unit of the times the one that their column says, and is each column what its name says?"
        )
        left.append(Skipped(one.points[0].where, rows, why))
    return good, left


def _split(parts: Sequence[Points]) -> tuple[tuple[str, ...], str, list[Mask]]:
    """Return the fitted keys of some runs, how they are split, and which of them a fit may see."""
    keys = fitted_keys(parts)
    seen = [in_fit(part, keys) for part in parts]
    if all(mask.all() for mask in seen):
        return keys, ALTERNATE, [alternate(part) for part in parts]
    return keys, parts[0].split, seen


def _packaged(points: Points) -> Fits:
    try:
        return dict(FitsFor().of(points.gpu, points.stack).operators)
    except InputError:
        return {}


@dataclass(frozen=True, eq=False)
class _Runs:
    """The runs of one fit: which of them it may see, and seconds that are no part of it."""

    parts: Sequence[Points]
    seen: Sequence[Mask]
    rest: Sequence[Array]
    fits: Mapping[str, OperatorFit]
    joint: str | None

    def times(self, forms: Mapping[str, str], values: Values) -> list[Array]:
        """Seconds of every run under these forms (by kind) and parameters."""
        found = []
        for part, rest in zip(self.parts, self.rest):
            own = forms[part.operator], _of_kind(part.operator, values)
            total = rest + time_of(part.work, part, part.dtype, *own, self.fits)
            if self.joint:
                (other,) = (each for each in part.beside if each.operator == self.joint)
                its = forms[self.joint], _of_kind(self.joint, values)
                total = total + other.runs * time_of(other.work, part, other.dtype, *its, self.fits)
            found.append(total)
        return found

    def residual(self, forms: Mapping[str, str], values: Values) -> Array:
        """Log errors of the runs that the fit may see."""
        times = self.times(forms, values)
        parts = [np.log(t[keep] / p.seconds[keep]) for t, p, keep in zip(times, self.parts, self.seen)]
        return np.concatenate(parts)


def _fits(
    operator: str, parts: Sequence[Points], fits: Mapping[str, OperatorFit], source: str | None
) -> list[OperatorFit]:
    """Return the fit of an operator, and that of the one fitted together with it, if any."""
    joint = parts[0].joint
    keys, split, seen = _split(parts)
    rest = [beside(part, fits, joint) for part in parts]
    runs = _Runs(parts, seen, rest, fits, joint)
    best: tuple[Found, dict[str, str]] | None = None
    for form in parts[0].forms or forms_of(operator, parts[0].gpu.generation):
        forms = {operator: form} | ({joint: KINDS[joint].forms[0]} if joint else {})
        unknowns: list[Unknown] = [(kind, name) for kind, f in forms.items() for name in FORMS[f].fitted]
        found = fit(partial(runs.residual, forms), unknowns)
        if best is None or found.cost < best[0].cost:
            best = found, forms
    assert best is not None
    forms, values = best[1], {key: rounded(value) for key, value in best[0].values.items()}
    errors = np.concatenate([t / p.seconds - 1 for t, p in zip(runs.times(forms, values), parts)])
    mask = np.concatenate(list(seen))
    inside, outside = summary(errors[mask]), summary(errors[~mask])
    return [
        OperatorFit(
            kind=kind,
            form=form,
            parameters=_of_kind(kind, values)
            | {name: max(part.stated.get(name, 0.0) for part in parts) for name in FORMS[form].stated},
            source=source or ", ".join(dict.fromkeys(part.where for part in parts)),
            points=int(mask.sum()),
            held_out_points=int((~mask).sum()),
            split=split,
            fitted_mape=round(inside["mape"], DECIMALS),
            held_out_mape=round(outside["mape"], DECIMALS),
            held_out_bias=round(outside["bias"], DECIMALS),
            fitted_on=keys,
        )
        for kind, form in forms.items()
    ]


def _of_kind(kind: str, values: Values) -> dict[str, float]:
    return {name: value for (of, name), value in values.items() if of == kind}


def rounded(value: float) -> float:
    """Return a parameter to four digits, as a file states it: errors are those of what is written."""
    return float(f"{value:.4g}") if value > 1e-13 else 0.0


def _carried(one: Calibrated, all_of_them: Iterable[Calibrated]) -> OperatorFit:
    """Return a fit with its error on other GPUs of its line under the same engine, where the run has any: the worst."""
    worst: tuple[float, str] | None = None
    for other in all_of_them:
        if comparable(one, other):
            worst = max(worst or (0.0, ""), (carried_error(one, other), other.gpu))
    if worst is None:
        return one.fit
    return replace(one.fit, carried_mape=round(worst[0], DECIMALS), carried_to=worst[1])


def carried_error(one: Calibrated, other: Calibrated) -> float:
    """Return the mean size of the errors of a fit on the runs of another one, as a fraction."""
    fits = {**other.others, one.fit.kind: one.fit}
    own = one.fit.form, one.fit.parameters
    times = [time_of(part.work, part, part.dtype, *own, fits) for part in other.points]
    return summary(np.concatenate([t / part.seconds - 1 for t, part in zip(times, other.points)]))["mape"]


def comparable(one: Calibrated, other: Calibrated) -> bool:
    """Whether a fit can be tried on another GPU's runs: the same operator alone, engine and line of generations."""
    if other.fit.kind != one.fit.kind or other.gpu == one.gpu:
        return False
    if any(part.beside for part in (*one.points, *other.points)):
        return False
    engines = {stack.partition("-")[0] for stack in (one.stack, other.stack)}
    eager = {"eager" in stack for stack in (one.stack, other.stack)}
    return len(engines) == len(eager) == 1 and same_line(one.points[0].gpu, other.points[0].gpu)
