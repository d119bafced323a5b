"""Whole runs against predictions: errors and how often the truth lies inside the band, by measure and regime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..inputs.efficiency import Efficiency
from ..inputs.stack import Stack
from ..measured.compare import FITTED, HELD_OUT
from ..measured.errors import ErrorRow, summary
from ..measured.points import Skipped
from ..serving.closed_loop import Loop
from .calibrate import once
from .predict import Instances, Predicted, checked, of_stack, predict
from .runs import Log, Whole, most_clients
from .stacks import saw, stack_for

ALL = "all"


@dataclass(frozen=True)
class Pair:
    """One measured figure beside its prediction; ``seen``: the fit was made of its configuration."""

    run: Whole
    measure: str
    measured: float
    predicted: Predicted
    seen: bool
    fit: str

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.predicted.best / self.measured - 1

    @property
    def covered(self) -> bool:
        """Whether the truth lies inside the band."""
        return self.predicted.low <= self.measured <= self.predicted.high


def pairs_of(
    runs: Sequence[Whole], efficiency: Efficiency | None = None, own: Stack | None = None
) -> tuple[list[Pair], list[Skipped]]:
    """Return runs beside their predictions, and those without: what cannot be priced, what no physics allows.

    ``own``: a stack to take in place of the packaged ones.
    """
    instances, found, left = Instances(efficiency), list[Pair](), dict[tuple[str, str], int]()
    distinct, again = once(runs)
    if again:
        left[runs[0].where, "the same measurement again, under this or another name of the model"] = again
    for run in distinct:
        stack = own or stack_for(run.stack, run.setting.gpu, run.kind)
        try:
            kind = instances.of(run.setting, stack, run.software)
            made = predict(run, kind)
            checked(run, made)
        except InputError as error:
            left[run.where, str(error)] = left.get((run.where, str(error)), 0) + 1
            continue
        seen, fit = saw(run, stack), of_stack(kind.stack)
        found += [Pair(run, measure, run.seconds[measure], made[measure], seen, fit) for measure in made]
    return found, [Skipped(where, rows, why) for (where, why), rows in sorted(left.items())]


def dense(run: Whole) -> bool:
    """Whether the model of a run has no experts."""
    return not run.setting.model.has_experts


def regimes(pair: Pair) -> list[str]:
    """Return the regimes that a figure belongs to."""
    run, measure = pair.run, pair.measure
    found = [ALL, measure]
    if isinstance(run.what, Loop):
        most = most_clients(measure)
        few = f"{measure}, concurrency <= {most}"
        found += [few, f"{few}, {'dense' if dense(run) else 'MoE'}"] if run.what.concurrency <= most else []
    elif isinstance(run.what, Log):
        found.append(f"{measure}, open loop")
    else:
        found.append(f"{measure}, TP{run.setting.tp}")
    return found


def rows(pairs: Sequence[Pair]) -> list[ErrorRow]:
    """Return errors by GPU and software, and over all of them, by split and regime."""
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        kind = pair.run.kind
        groups.setdefault((kind, ALL, ALL), []).append(pair)
        groups.setdefault((kind, pair.run.setting.gpu.name, pair.run.stack), []).append(pair)
    return [row for key in sorted(groups) for row in _rows(key, groups[key])]


def _rows(key: tuple[str, str, str], pairs: Sequence[Pair]) -> Iterable[ErrorRow]:
    for split, seen in ((FITTED, True), (HELD_OUT, False)):
        chosen: dict[str, list[Pair]] = {}
        for pair in pairs:
            if pair.seen is seen:
                for regime in regimes(pair):
                    chosen.setdefault(regime, []).append(pair)
        for regime in sorted(chosen, key=lambda name: (name != ALL, name)):
            yield _row(key, split, regime, chosen[regime])


def _row(key: tuple[str, str, str], split: str, regime: str, pairs: Sequence[Pair]) -> ErrorRow:
    kind, gpu, stack = key
    return ErrorRow(
        kind=kind,
        gpu=gpu,
        stack=stack,
        split=split,
        regime=regime,
        n=len(pairs),
        measured_rows=len({(pair.run.stack, pair.run.line) for pair in pairs}),
        below_bound=sum(pair.predicted.best < pair.predicted.bound for pair in pairs),
        measured_below_bound=0,
        width=float(np.median([pair.predicted.high / pair.predicted.best for pair in pairs])),
        covered=sum(pair.covered for pair in pairs) / len(pairs),
        fit="; ".join(dict.fromkeys(pair.fit for pair in pairs)) if gpu != ALL else "",
        **summary(np.array([pair.error for pair in pairs])),
    )
