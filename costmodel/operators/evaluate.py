"""Time of an operator: the form that a fit names, of the work, the hardware and the fitted parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..ops import maximum
from .catalogue import FORMS
from .work import Work

#: What an operator kind is fitted with: the name of a form and its parameters.
Fitted = tuple[str, Mapping[str, float]]


def arguments(form: str, own: Mapping[str, Any], fit_of: Callable[[str], Fitted]) -> dict[str, Any]:
    """Return the parameters of a form: its kernel's constants, its own, and what it inherits of other kinds.

    ``fit_of`` returns the fit of another kind on the same GPU.
    """
    found: dict[str, Any] = {}
    for kind in reversed(FORMS[form].inherits):
        other, parameters = fit_of(kind)
        found |= {**FORMS[other].constants, **parameters}
    return {**found, **FORMS[form].constants, **own}


def operator_time(form: str, parameters: Mapping[str, Any], work: Work, hardware: Mapping[str, Any]) -> Any:
    """Return the time of one run, in seconds: a number, or an array where the work is one.

    ``parameters``: as :func:`arguments` returns them. ``hardware`` holds what the form asks for of
    ``peak_flop_per_s``, ``memory_bytes_per_s``, ``sm_count``, ``l2_bytes``, ``link_bytes_per_s`` and ``tp``.
    """
    formula = FORMS[form].formula
    known = {**parameters, **hardware, "flop": work.flop, "bytes_moved": work.bytes_moved, **work.shape}
    given = [known[name] for name in formula.parameters if name not in formula.constants]
    return formula(*given)


def kernel_time(
    form: str,
    own: Mapping[str, Any],
    work: Work,
    hardware: Mapping[str, Any],
    fit_of: Callable[[str], Fitted],
) -> Any:
    """Return the time of one run under a form and its own parameters; the rest is of the fits of other kinds.

    A kernel that does the work of others, too, takes at least as long as each of them alone.
    """
    found = operator_time(form, arguments(form, own, fit_of), work, hardware)
    for kind in FORMS[form].at_least:
        other, parameters = fit_of(kind)
        alone = operator_time(other, arguments(other, parameters, fit_of), work, hardware)
        found = maximum(found, alone)
    return found
