"""Measured runs against predictions: which fits predict them, their errors, and which rows a fit has seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..inputs.efficiency import (
    COVER,
    Efficiency,
    OperatorFit,
    efficiency_for,
    efficiency_names,
    files_of,
    load_efficiency,
    packaged,
)
from ..inputs.hardware import Gpu
from .errors import ErrorRow, by_regime, summary
from .points import Points
from .predict import predicted
from .split import seen
from .table import Array, Mask

FITTED, HELD_OUT = "fitted", "held_out"
#: A prediction counts as below its bound where it is so by more than rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Compared:
    """Runs with their prediction: seconds, errors as fractions, which of them the fit has seen, whose fit it is."""

    points: Points
    predicted_s: Array
    errors: Array
    seen: Mask
    fit: OperatorFit
    origin: str


def same_stack(one: str, other: str) -> bool:
    """Say whether two stacks are one: vllm-0.24 and vllm-0.24.0 are."""
    return _plain(one) == _plain(other)


def _plain(stack: str) -> str:
    found = stack.strip().lower()
    while found.endswith(".0"):
        found = found.removesuffix(".0")
    return found


class FitsFor:
    """The fits that predict measurements of a GPU and stack: the user's, then packaged ones, nearest first."""

    def __init__(self, own: Sequence[str | Path | Efficiency] = ()) -> None:
        self.own = [e if isinstance(e, Efficiency) else load_efficiency(e) for e in own]
        self._known: dict[tuple[Gpu, str], Efficiency] = {}

    def of(self, gpu: Gpu, stack: str) -> Efficiency:
        """Return a complete set of fits: the user's first, then packaged ones of the GPU, then those of lenders.

        Of several, those of the same stack come first, then those of the same engine, then what a step uses.

        Raises InputError where nothing was measured on the GPU or one near it.
        """
        if (gpu, stack) not in self._known:
            self._known[gpu, stack] = self._complete(gpu, stack)
        return self._known[gpu, stack]

    def _complete(self, gpu: Gpu, stack: str) -> Efficiency:
        fits: dict[str, OperatorFit] = {}
        for efficiency in self._ranked(gpu, stack):
            for kind in efficiency.operators.keys() - fits.keys():
                fits[kind] = _as_of(gpu, efficiency, kind)
        try:
            rest = efficiency_for(gpu).operators
        except InputError:
            if not fits:
                raise
            rest = {}
        return Efficiency(gpu.name, stack, "", {**rest, **fits})

    def predicting(self, points: Points) -> Efficiency:
        """Return the fits that predict some runs; their operator's has a form that suits them, where one is known.

        Raises InputError as :meth:`of` does.
        """
        found = self.of(points.gpu, points.stack)
        own = found.operators.get(points.operator)
        if own is None or not points.forms or own.form in points.forms:
            return found
        lenders = [packaged(name) for name in efficiency_names()]
        for efficiency in (*self._ranked(points.gpu, points.stack), *lenders):
            fit = efficiency.operators.get(points.operator)
            if fit is not None and fit.form in points.forms:
                suited = {points.operator: _as_of(points.gpu, efficiency, points.operator)}
                return replace(found, operators={**found.operators, **suited})
        return found

    def _ranked(self, gpu: Gpu, stack: str) -> list[Efficiency]:
        """The user's files, those of the GPU first, then the packaged ones of the GPU."""
        engine = _plain(stack).partition("-")[0]

        def distance(efficiency: Efficiency) -> tuple[bool, bool, bool]:
            other = _plain(efficiency.stack).partition("-")[0] != engine
            return efficiency.gpu != gpu.name, not same_stack(efficiency.stack, stack), other

        names = sorted(files_of(gpu.name), key=lambda name: name != gpu.efficiency)
        return sorted(self.own, key=distance) + sorted(map(packaged, names), key=distance)


def _as_of(gpu: Gpu, efficiency: Efficiency, kind: str) -> OperatorFit:
    """Return a fit of a file as it stands for ``gpu``: with its stack, and borrowed where it is another's."""
    fit = efficiency.operators[kind]
    lender = None if efficiency.gpu == gpu.name else efficiency.gpu
    return replace(fit, stack=fit.stack or efficiency.stack, borrowed=fit.borrowed or lender)


def compare(points: Points, efficiency: Efficiency) -> Compared:
    """Return runs with their predictions. Raises InputError where no fit of the operator is known."""
    needed = (points.operator, *(other.operator for other in points.beside))
    missing = [name for name in needed if name not in efficiency.operators]
    if missing:
        raise InputError(f"no fit of {missing[0]} for {points.gpu.name}, {points.stack}")
    fit = efficiency.operators[points.operator]
    found = predicted(points, efficiency.operators)
    own = fit.borrowed is None and same_stack(fit.stack or efficiency.stack, points.stack)
    known = seen(points, fit) if own else np.zeros(len(points), dtype=bool)
    origin = f"{fit.borrowed or points.gpu.name}, {fit.stack or efficiency.stack}"
    return Compared(points, found, found / points.seconds - 1, known, fit, origin)


def rows_of(compared: Sequence[Compared]) -> Iterable[ErrorRow]:
    """Return the errors of runs of one kind, GPU and stack together: by split, then by regime."""
    first = compared[0].points
    errors = np.concatenate([part.errors for part in compared])
    seen = np.concatenate([part.seen for part in compared])
    times = np.concatenate([part.predicted_s for part in compared])
    bounds = np.concatenate([part.points.bound_s for part in compared])
    names = dict.fromkeys(name for part in compared for name in part.points.regimes)
    none = {id(part): np.zeros(len(part.points), dtype=bool) for part in compared}
    regimes = {
        name: np.concatenate([part.points.regimes.get(name, none[id(part)]) for part in compared])
        for name in names
    }
    every = np.ones(len(errors), dtype=bool)
    below = times < bounds * (1 - ROUNDING)
    faster = np.concatenate([part.points.seconds for part in compared]) < bounds * (1 - ROUNDING)
    edges = np.concatenate([np.full(len(part.points), COVER * part.fit.error) for part in compared])
    inside = np.abs(np.log1p(errors)) <= np.log1p(edges)
    origins = "; ".join(dict.fromkeys(part.origin for part in compared))
    for split, chosen in ((FITTED, seen), (HELD_OUT, ~seen)):
        for regime, found in by_regime(errors, chosen, regimes):
            members = chosen & regimes.get(regime, every)
            yield ErrorRow(
                kind=first.kind,
                gpu=first.gpu.name,
                stack=first.stack,
                split=split,
                regime=regime,
                n=len(found),
                measured_rows=len(found),
                below_bound=int(np.sum(below & members)),
                measured_below_bound=int(np.sum(faster & members)),
                covered=float(np.mean(inside[members])),
                width=float(np.median(1 + edges[members])),
                fit=origins,
                **summary(found),
            )


def grouped(compared: Iterable[Compared]) -> list[list[Compared]]:
    """Return runs of one kind, GPU and stack together, in order."""
    found: dict[tuple[str, str, str], list[Compared]] = {}
    for part in compared:
        key = part.points.kind, part.points.gpu.name, part.points.stack
        found.setdefault(key, []).append(part)
    return [found[key] for key in sorted(found)]
