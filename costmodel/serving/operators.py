"""Time of an operator: its work in the form of the book that the fit of its kind names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..formula import Formula
from ..formulas import operators as streams
from ..formulas import roofline
from ..operators.catalogue import COLLECTIVES, FORMS, KINDS, STREAMS
from ..operators.evaluate import Fitted, arguments
from ..ops import maximum
from .instance import InstanceKind, fit_of
from .work import Load

#: Quantities of a GPU that forms ask for.
_OF_GPU = ("sm_count", "link_bytes_per_s", "l2_bytes")


def peak(kind: InstanceKind, operator: str) -> float:
    """Return the peak rate at which an operator kind runs, flop/s."""
    eight_bit = operator in KINDS and KINDS[operator].eight_bit
    return kind.product_peak if eight_bit else kind.activation_peak


@lru_cache(maxsize=1024)
def _prepared(kind: InstanceKind, operator: str) -> tuple[Formula, list[Any], list[tuple[int, str]], float]:
    """Return the formula of an operator kind, its arguments, which of them each load fills in, and a factor."""

    def fitted(other: str) -> Fitted:
        found = fit_of(kind, other)
        return found.form, found.parameters

    form, parameters = fitted(operator)
    known = arguments(form, parameters, fitted)
    formula = FORMS[form].formula
    given: list[Any] = [0.0] * sum(name not in formula.constants for name in formula.parameters)
    from_load = []
    for place, name in enumerate(formula.parameters[: len(given)]):
        if name in known:
            given[place] = known[name]
        elif name in ("peak_flop_per_s", "memory_bytes_per_s", "tp", *_OF_GPU):
            given[place] = _of_hardware(kind, operator, name)
        else:
            from_load.append((place, name))
    return formula, given, from_load, fit_of(kind, operator).factor


def _of_hardware(kind: InstanceKind, operator: str, name: str) -> float:
    if name == "peak_flop_per_s":
        return peak(kind, operator)
    if name == "memory_bytes_per_s":
        return kind.memory_peak
    if name == "tp":
        return float(kind.tp)
    if name == "sm_count":
        return kind.gpu.get(name)
    return kind.gpu.l2_bytes if name == "l2_bytes" else kind.gpu.link_bytes_per_s


def load_time(kind: InstanceKind, load: Load) -> Any:
    """Return the time of one run of an operator, in seconds: at least that of each whose work it does, too."""
    found = _time_as(kind, load, load.kind)
    for other in _at_least(kind, load.kind):
        found = maximum(found, _time_as(kind, load, other))
    return found


@lru_cache(maxsize=1024)
def _at_least(kind: InstanceKind, operator: str) -> tuple[str, ...]:
    return FORMS[fit_of(kind, operator).form].at_least


def _time_as(kind: InstanceKind, load: Load, operator: str) -> Any:
    formula, prepared, from_load, factor = _prepared(kind, operator)
    given, work = prepared.copy(), load.work
    for place, name in from_load:
        if name == "flop":
            given[place] = work.flop
        elif name == "bytes_moved":
            given[place] = work.bytes_moved
        else:
            given[place] = work.shape[name]
    time = formula.function(*given)
    return time if factor == 1.0 else factor * time


def hbm_bytes(kind: InstanceKind, load: Load) -> Any:
    """Return the fewest bytes that one run moves through HBM.

    What an element-wise operator finds in L2, where the one before it left it, does not.
    """
    if load.kind in STREAMS:
        return streams.uncached_bytes(load.work.bytes_moved, kind.gpu.l2_bytes)
    return load.work.bytes_moved


def load_bound(kind: InstanceKind, load: Load) -> float:
    """Return the least time of one run of an operator on its own: its roofline, or its bytes on the link."""
    if load.kind in COLLECTIVES:
        return float(streams.all_reduce_bound(load.bytes_moved, kind.tp, kind.gpu.link_bytes_per_s))
    moved = hbm_bytes(kind, load)
    return float(roofline.roofline_time(load.flop, moved, peak(kind, load.kind), kind.memory_peak))
