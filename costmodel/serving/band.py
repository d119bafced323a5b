"""How far a step time may be off: one factor per operator kind, from its held-out error, and one for the whole step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..inputs.efficiency import COVER
from .instance import InstanceKind, fit_of

#: Of the errors of its operators, what is left once a stack is fitted to whole steps on the very GPU: those steps'
#: error has the rest.
LEFT = 0.5
#: Log error that the kinds' own errors leave to the decode steps of engines of 2025 and 2026 where no stack is given:
#: chosen so that bands hold four in five of one half of the configurations of docs/validation/accuracy.md.
OPERATORS_ALONE = 0.07
#: The factor that all operators of a step share: what is left of it once a stack is fitted.
WHOLE = "whole_step"


def edges(kind: InstanceKind, names: Iterable[str], measure: str | None = None) -> dict[str, float]:
    """Return how far each of these operator kinds may be off, as a fraction, and the whole step, or the ``measure``.

    Without a stack the whole step may be off by what operators alone were off.

    A stack that was fitted to whole steps on this very GPU has made up for fits that are borrowed: their own held-out
    errors count then, and that of the stack's steps besides.
    """
    stack, model = kind.stack, kind.model.name
    own = stack is not None and stack.gpu == kind.gpu.name and not stack.elsewhere and stack.saw(model)
    found = {}
    for name in names:
        fit = fit_of(kind, name)
        found[name] = COVER * (LEFT * fit.held_out_mape if own else fit.error)
    if stack is None:
        found[WHOLE] = math.expm1(COVER * OPERATORS_ALONE)
    elif stack.error(measure, model):
        found[WHOLE] = (1 + stack.error(measure, model)) ** COVER - 1
    return found


def spread(nominal: float, moved: Sequence[float]) -> float:
    """Return the factor of a band: best / factor .. best x factor, by root-sum-square of logarithms."""
    return math.exp(math.sqrt(sum(math.log(value / nominal) ** 2 for value in moved)))
