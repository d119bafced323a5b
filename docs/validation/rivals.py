"""The forms that lost, beside those of the book: python docs/validation/rivals.py FOLDER

FOLDER holds the published tables (packaged_fits.py names them). Every form is fitted as ``costmodel calibrate`` fits
the book's: to the same runs, by the same loss; then again with the two halves swapped. Prints the tables of rivals.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from packaged_fits import points_of
from rivals_forms import BOOK, CONSTANTS, TOPICS, Form, Time, Topic, Values

from costmodel.inputs.efficiency import OperatorFit
from costmodel.measured.calibrate import calibrate, carried_error, comparable, rounded
from costmodel.measured.compare import FitsFor
from costmodel.measured.errors import summary
from costmodel.measured.fit import Found, fit
from costmodel.measured.fit import Values as Keyed
from costmodel.measured.points import Points
from costmodel.measured.predict import Fits, beside, time_of
from costmodel.measured.split import alternate, fitted_keys, in_fit
from costmodel.measured.table import Array, Mask
from costmodel.operators.catalogue import FORMS, KINDS

Column = tuple[str, str, str]
#: By how many points of mean error a rival must be better for it to be said.
CLEARLY = 0.1


@dataclass(frozen=True)
class Half:
    """What a fit sees: the half of the packaged fits, or the other one; and the book's fits to it so far."""

    swapped: bool
    fits: dict[tuple[str, str], dict[str, OperatorFit]]

    def seen(self, parts: Sequence[Points]) -> list[Mask]:
        """Which runs of one operator a fit sees: every second key, or row where there is one key only."""
        keys = fitted_keys(parts)
        found = [in_fit(part, keys) for part in parts]
        if all(mask.all() for mask in found):
            found = [alternate(part) for part in parts]
        return [mask != self.swapped for mask in found]

    def fits_of(self, part: Points) -> dict[str, OperatorFit]:
        """The fits of a GPU and stack: packaged ones where no earlier topic has replaced them."""
        at = part.gpu.name, part.stack
        if at not in self.fits:
            self.fits[at] = dict(FitsFor().of(part.gpu, part.stack).operators)
        return self.fits[at]


class Tried(NamedTuple):
    """A fitted form: its parameters, their number, the cost, and errors on what the fit saw and on the rest."""

    form: str
    values: Values
    unknowns: int
    cost: float
    inside: Array
    outside: Array


def book_time(form: str, points: Points, values: Values, fits: Fits) -> Array:
    """Seconds of every run under a form of the book, with what the measured time includes besides."""
    found = time_of(points.work, points, points.dtype, form, values, fits)
    found = found + beside(points, fits, points.joint)
    for other in points.beside:
        if other.operator == points.joint:
            own = time_of(other.work, points, other.dtype, _joint_form(points), values, fits)
            found = found + other.runs * own
    return found


def _joint_form(points: Points) -> str:
    assert points.joint is not None
    return KINDS[points.joint].forms[0]


def candidates(form: Form, points: Points) -> Iterator[tuple[str, tuple[str, ...], Time]]:
    """Name, parameters and function of what a form stands for; several kernels of the book may be meant."""
    if form.time is not None:
        yield form.name, form.unknowns, form.time
        return
    for name in form.forms or points.forms or KINDS[points.operator].forms:
        unknowns = FORMS[name].fitted + (FORMS[_joint_form(points)].fitted if points.joint else ())
        free = tuple(unknown for unknown in unknowns if unknown not in form.fixed)
        yield name, free, partial(book_time, name)


def attempt(form: Form, parts: Sequence[Points], seen: Sequence[Mask], fits: Fits) -> Tried:
    """Fit a form to what is seen of some runs; of several kernels the one with the least cost counts."""
    parts = [form.change(part) if form.change else part for part in parts]
    best: Tried | None = None
    with ExitStack() as stack:
        for module, name, value in form.changed:
            stack.enter_context(patch.object(module, name, value))
        for name, unknowns, time in candidates(form, parts[0]):

            def times(values: Values, time: Time = time) -> list[Array]:
                return [time(part, {**values, **form.fixed}, fits) for part in parts]

            def residual(keyed: Keyed) -> Array:
                found = times({key[1]: value for key, value in keyed.items()})
                logs = (np.log(t[m] / p.seconds[m]) for t, m, p in zip(found, seen, parts))
                return np.concatenate(list(logs))

            found = fit(residual, [("", unknown) for unknown in unknowns]) if unknowns else Found(0.0, {})
            values = {key[1]: rounded(value) for key, value in found.values.items()}
            errors = np.concatenate([t / p.seconds - 1 for t, p in zip(times(values), parts)])
            mask = np.concatenate(list(seen))
            if best is None or found.cost < best.cost:
                best = Tried(name, values, len(unknowns), found.cost, errors[mask], errors[~mask])
    assert best is not None
    return best


def column_errors(form: Form, groups: Sequence[Sequence[Points]], half: Half) -> Tried:
    """Fit each operator of a column by itself, or all together where the form shares its parameters."""
    seen = [half.seen(parts) for parts in groups]
    fits = half.fits_of(groups[0][0])
    if form.shared:
        together = [part for parts in groups for part in parts]
        return attempt(form, together, [mask for masks in seen for mask in masks], fits)
    tried = [attempt(form, parts, masks, fits) for parts, masks in zip(groups, seen)]
    if form is BOOK:
        for parts, one in zip(groups, tried):
            for kind in filter(None, (parts[0].operator, parts[0].joint)):
                name = one.form if kind == parts[0].operator else _joint_form(parts[0])
                own = {key: one.values[key] for key in FORMS[name].fitted}
                fits[kind] = replace(fits[kind], form=name, parameters=own)
    inside = np.concatenate([one.inside for one in tried])
    outside = np.concatenate([one.outside for one in tried])
    counts, costs = sum(one.unknowns for one in tried), sum(one.cost for one in tried)
    return Tried(form.name, {}, counts, costs, inside, outside)


def columns_of(topic: Topic, points: Iterable[Points]) -> dict[Column, list[list[Points]]]:
    """The runs of a topic: a column for each GPU, stack and width of products, in it a group for each operator."""
    found: dict[Column, dict[str, list[Points]]] = {}
    for part in points:
        if topic.chosen(part):
            word = {"moe_fp8": "fp8", "mla_prefill": "MLA alone"}.get(part.operator, "")
            column = (part.gpu.name, part.stack, "" if part.beside else word)
            found.setdefault(column, {}).setdefault(part.operator, []).append(part)
    return {column: list(found[column].values()) for column in sorted(found)}


def mape(errors: Array) -> float:
    """Mean size of errors, in percent."""
    return 100 * summary(errors)["mape"]


def print_topic(topic: Topic, points: Sequence[Points], halves: Sequence[Half]) -> None:
    """Print the errors of a topic's forms, a row a form, and where one beats the book's."""
    columns = columns_of(topic, points)
    names = [", ".join(filter(None, column)) for column in columns]
    sizes = [sum(len(part) for parts in groups for part in parts) for groups in columns.values()]
    print(f"\n### {topic.title}\n")
    print_header("form", "parameters", *(f"{name} ({size:,})" for name, size in zip(names, sizes)))
    held_out: dict[str, list[tuple[float, float]]] = {}
    for form in topic.rivals:
        tried = [[column_errors(form, groups, half) for half in halves] for groups in columns.values()]
        held_out[form.name] = [(mape(first.outside), mape(second.outside)) for first, second in tried]
        counts = sorted({first.unknowns for first, _ in tried})
        fitted = [mape(first.inside) for first, _ in tried]
        cells = [f"{a:.1f} / {b:.1f} / {c:.1f}" for a, (b, c) in zip(fitted, held_out[form.name])]
        print(f"| {form.name} | {' or '.join(map(str, counts))} |", " | ".join(cells), "|")
    book = held_out.pop(BOOK.name)
    for rival, found in held_out.items():
        where = [
            name
            for name, mine, theirs in zip(names, book, found)
            if max(their - my for my, their in zip(mine, theirs)) <= -CLEARLY
        ]
        if where:
            print(f"\nBetter than the book's in both halves: {rival} ({'; '.join(where)}).")


def print_header(*heads: str) -> None:
    """Print the head of a table."""
    print("|", " | ".join(heads), "|")
    print("|" + " --- |" * len(heads))


def print_constants(points: Sequence[Points], half: Half) -> None:
    """Print what each choice of the constants of matrix products costs, every column counting alike."""
    columns = [groups for topic in TOPICS[:2] for groups in columns_of(topic, points).values()]
    print("\n### Constants of the matrix product\n")
    print_header("constants", "cost of a run, 1e-3", "fitted", "held out")
    for form in CONSTANTS:
        tried = [column_errors(form, groups, half) for groups in columns]
        cost = 1e3 * float(np.mean([one.cost / len(one.inside) for one in tried]))
        fitted = float(np.mean([mape(one.inside) for one in tried]))
        held_out = float(np.mean([mape(one.outside) for one in tried]))
        print(f"| {form.name} | {cost:.3f} | {fitted:.2f} | {held_out:.2f} |")


def print_carried(points: Sequence[Points]) -> None:
    """Print what each fit costs on every other GPU of its line, against its own held-out error."""
    found = calibrate(points)
    print("\n### Fits carried to another GPU\n")
    print_header("operator", "fit of", "runs of", "held out at home", "own fit there", "carried", "times")
    worst: dict[tuple[str, str, str], float] = {}
    for one in found:
        for other in (other for other in found if comparable(one, other)):
            carried, home = carried_error(one, other), one.fit.held_out_mape
            key = one.fit.kind, one.gpu, one.stack
            worst[key] = max(worst.get(key, 0.0), carried / home)
            print(
                f"| {one.fit.kind} | {one.gpu}, {one.stack} | {other.gpu}, {other.stack} | {100 * home:.1f} "
                f"| {100 * other.fit.held_out_mape:.1f} | {100 * carried:.1f} | {carried / home:.1f} |"
            )
    graphs = [ratio for (_, _, stack), ratio in worst.items() if "eager" not in stack]
    means = [math.exp(float(np.mean(np.log(ratios)))) for ratios in (list(worst.values()), graphs)]
    print(
        f"\nGeometric mean of the worst of each of the {len(worst)} fits: {means[0]:.1f} times; without eager"
    )
    print(f"all-reduces, of {len(graphs)}: {means[1]:.1f} times.")


def main() -> None:
    """Print every table."""
    points = [part for part in points_of(Path(sys.argv[1])) if not part.only_compared]
    halves = Half(False, {}), Half(True, {})
    for topic in TOPICS:
        print_topic(topic, points, halves)
    print_constants(points, halves[0])
    print_carried(points)


if __name__ == "__main__":
    main()
