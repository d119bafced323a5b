"""How far a step time may be off: one factor per operator kind, from its held-out error, and one for the whole step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ..errors import InputError
from ..families import read_model
from ..inputs.efficiency import COVER
from ..inputs.model import Model
from ..inputs.stack import ANY, StackFit
from ..operators.catalogue import HOST
from ..units import format_si
from .instance import InstanceKind, fit_of
from .mixing import mixing_loads
from .work import Chunk, token_loads

#: Of the errors of its operators, what is left once a stack is fitted to whole steps on the very GPU: those steps'
#: error has the rest.
LEFT = 0.5
#: Log error that the kinds' own errors leave to the decode steps of engines of 2025 and 2026 where no stack is given,
#: of dense models and of those with experts: chosen so that bands hold four in five of one half of the configurations
#: of docs/validation/accuracy.md.
ALONE_DENSE, ALONE_EXPERTS = 0.02, 0.16
#: The factor that all operators of a step share: what is left of it once a stack is fitted.
WHOLE = "whole_step"
#: Steps in which every kind of operator of an instance runs: a chunk alone, beside a decode, and a decode alone.
_STEPS = (((Chunk(64, 0),), 0, 0.0), ((Chunk(64, 0),), 1, 64.0), ((), 1, 64.0))


def used_kinds(kind: InstanceKind) -> list[str]:
    """Return the operator kinds that steps of this instance kind run."""
    found = set()
    for chunks, batch, context in _STEPS:
        loads = token_loads(kind, batch + sum(chunk.tokens for chunk in chunks), batch + len(chunks))
        found |= {load.kind for load in loads + mixing_loads(kind, chunks, batch, context)}
    return sorted(found)


def edges(kind: InstanceKind, names: Iterable[str], measure: str | None = None) -> dict[str, float]:
    """Return how far each of these operator kinds may be off, as a fraction, and the whole step, or the ``measure``.

    Without a stack the whole step may be off by what operators alone were off. A stack that was fitted to whole steps
    on this very GPU and model has made up for fits that are borrowed: their own held-out errors count then, by half,
    and that of the stack's steps besides, which holds the host's time, too.
    """
    stack = kind.stack
    judged = stack is not None and _judged(stack, measure)
    own = stack is not None and judged and stack.gpu == kind.gpu.name and not stack.elsewhere
    own = own and stack is not None and _saw(stack, kind.model)
    found = {}
    for name in names:
        if name not in HOST:
            fit = fit_of(kind, name)
            found[name] = COVER * (LEFT * fit.held_out_mape if own else fit.error)
    log = 0.0 if judged else _alone(kind.model)
    if stack is not None:
        log = max(log, math.log1p(stack.error(measure, _saw(stack, kind.model))))
    return found | ({WHOLE: math.expm1(COVER * log)} if log else {})


def _judged(stack: StackFit, measure: str | None) -> bool:
    """Say whether a stack was tried on such steps: loops show decodes in TPOT, and prompts only as a part of TTFT."""
    return measure != "prefill" or "prefill" in stack.errors


def _alone(model: Model) -> float:
    return ALONE_EXPERTS if model.has_experts else ALONE_DENSE


def _saw(stack: StackFit, model: Model) -> bool:
    """Say whether a stack was fitted to a model: to one of the same layers, whatever it is called."""
    return stack.saw(model.name) or any(same_layers(name, model) for name in stack.models)


def same_layers(name: str, model: Model) -> bool:
    """Say whether the packaged model of a name has the layers of another."""
    return _layers(name) == model.layers


@lru_cache(maxsize=64)
def _layers(name: str) -> object:
    """The layers of a packaged model; None where none is called so."""
    try:
        return read_model(name).layers
    except InputError:
        return None


def told_of(kind: InstanceKind) -> str:
    """Say what the stack of an instance was fitted to, and how far it is off on its model; "" without one."""
    stack = kind.stack
    if stack is None:
        return ""
    seen, latency = _saw(stack, kind.model), stack.parameters.request_latency
    where = "other GPUs" if stack.gpu == ANY else stack.gpu
    where += "" if seen else " and other models"
    constant = f"; {format_si(latency, 'second')} of TTFT before and after steps" if latency else ""
    return f"stack {stack.stack}, fitted on {where}: steps within {stack.error(seen=seen):.0%} on average{constant}"


def factors(kind: InstanceKind, name: str, edge: float) -> dict[str, float]:
    """Return the factors on step times of an error: on one operator kind, or on all of them."""
    return dict.fromkeys(kind.efficiency.operators if name == WHOLE else (name,), 1 + edge)


def moves(parts: dict[str, float], off: dict[str, float]) -> list[float]:
    """Return by how much the sum of parts grows where each that may be off is: a kind, or the whole."""
    total = sum(parts.values())
    return [edge * (total if name == WHOLE else parts.get(name, 0.0)) for name, edge in off.items()]


def spread(nominal: float, moved: Sequence[float]) -> float:
    """Return the factor of a band: best / factor .. best x factor, by root-sum-square of logarithms."""
    return math.exp(math.sqrt(sum(math.log(value / nominal) ** 2 for value in moved)))
