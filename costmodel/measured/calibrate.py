"""From measured runs to fits: parameters on one part, errors on both, and what carrying them to another GPU costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..errors import InputError
from ..inputs.efficiency import OperatorFit, same_line
from ..operators.catalogue import FORMS, KINDS
from .compare import FitsFor
from .errors import summary
from .fit import Found, Unknown, Values, fit
from .points import Points
from .predict import beside, time_of
from .split import fitted_keys, in_fit
from .table import Array, Mask

#: Fewest runs that a fit needs.
FEWEST = 8
ALTERNATE = "every second row held out, as there is one shape, model or size only"

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
    taken from those fits, else from packaged ones. Raises InputError where there are too few runs or no scipy.
    """
    groups: dict[tuple[str, str, str], list[Points]] = {}
    for part in points:
        groups.setdefault((part.gpu.name, part.stack, part.operator), []).append(part)
    order = {kind: place for place, kind in enumerate(KINDS)}
    known: dict[tuple[str, str], Fits] = {}
    found: list[Calibrated] = []
    for (gpu, stack, operator), parts in sorted(groups.items(), key=lambda g: (order[g[0][2]], g[0])):
        if sum(map(len, parts)) < FEWEST:
            count = sum(map(len, parts))
            raise InputError(f"{operator} of {gpu}, {stack}: {count} rows; a fit needs at least {FEWEST}")
        fits = known.setdefault((gpu, stack), _packaged(parts[0]))
        for made in _fits(operator, parts, fits, source):
            fits[made.kind] = made
            found.append(Calibrated(gpu, stack, made, tuple(parts), fits))
    return [replace(one, fit=_carried(one, found)) for one in found]


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
            total = rest + self._of(part.operator, part, 1.0, forms, values)
            if self.joint:
                total = total + self._of(self.joint, part, 0.0, forms, values)
            found.append(total)
        return found

    def _of(self, kind: str, part: Points, own: float, forms: Mapping[str, str], values: Values) -> Array:
        parameters = {name: value for (of, name), value in values.items() if of == kind}
        if own:
            return time_of(part.work, part, part.dtype, forms[kind], parameters, self.fits)
        (other,) = (beside for beside in part.beside if beside.operator == kind)
        return np.asarray(
            other.runs * time_of(other.work, part, other.dtype, forms[kind], parameters, self.fits)
        )

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
    keys = fitted_keys(parts)
    split, seen = parts[0].split, [in_fit(part, keys) for part in parts]
    if all(mask.all() for mask in seen):
        split, seen = ALTERNATE, [_alternate(part) for part in parts]
    rest = [beside(part, fits, joint) for part in parts]
    runs = _Runs(parts, seen, rest, fits, joint)
    best: tuple[Found, dict[str, str]] | None = None
    for form in parts[0].forms or KINDS[operator].forms:
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
            parameters={name: value for (of, name), value in values.items() if of == kind}
            | {name: parts[0].stated[name] for name in FORMS[form].stated},
            source=source or ", ".join(dict.fromkeys(part.where for part in parts)),
            points=int(mask.sum()),
            held_out_points=int((~mask).sum()),
            split=split,
            fitted_mape=inside["mape"],
            held_out_mape=outside["mape"],
            held_out_bias=outside["bias"],
            fitted_on=keys,
        )
        for kind, form in forms.items()
    ]


def rounded(value: float) -> float:
    """Return a parameter to four digits, as a file states it: errors are those of what is written."""
    return float(f"{value:.4g}") if value > 1e-13 else 0.0


def _alternate(part: Points) -> Mask:
    order = np.argsort(part.lines, kind="stable")
    found = np.zeros(len(part), dtype=bool)
    found[order[::2]] = True
    return found


def _carried(one: Calibrated, all_of_them: Iterable[Calibrated]) -> OperatorFit:
    """Return a fit with its error on other GPUs of its line under the same engine, where the run has any: the worst."""
    worst: tuple[float, str] | None = None
    for other in all_of_them:
        if not _comparable(one, other):
            continue
        fits = {**other.others, one.fit.kind: one.fit}
        own = one.fit.form, one.fit.parameters
        times = [time_of(part.work, part, part.dtype, *own, fits) for part in other.points]
        errors = np.concatenate([t / part.seconds - 1 for t, part in zip(times, other.points)])
        worst = max(worst or (0.0, ""), (summary(errors)["mape"], other.gpu))
    return one.fit if worst is None else replace(one.fit, carried_mape=worst[0], carried_to=worst[1])


def _comparable(one: Calibrated, other: Calibrated) -> bool:
    """Whether a fit can be tried on another GPU's runs: the same operator alone, engine and line of generations."""
    if other.fit.kind != one.fit.kind or other.gpu == one.gpu:
        return False
    if any(part.beside for part in (*one.points, *other.points)):
        return False
    engines = {stack.partition("-")[0] for stack in (one.stack, other.stack)}
    eager = {"eager" in stack for stack in (one.stack, other.stack)}
    return len(engines) == len(eager) == 1 and same_line(one.points[0].gpu, other.points[0].gpu)
