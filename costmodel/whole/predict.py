"""Predictions of whole runs, each with its band: operators composed into steps, steps into a closed loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.efficiency import Efficiency, efficiency_names
from ..inputs.stack import StackFit
from ..memory.parallelism import Parallelism
from ..serving.band import edges, moves, spread
from ..serving.bound import step_bound
from ..serving.closed_loop import Loop, closed_loop
from ..serving.instance import InstanceKind, make_instance
from ..serving.step import seconds_by_kind
from ..serving.work import Chunk
from .runs import Setting, Shape, Whole

#: The factor on an engine's constant in TTFT.
REQUEST = "request"


@dataclass(frozen=True)
class Predicted:
    """Seconds of one measure: best, the band around it, and what physics allows."""

    best: float
    low: float
    high: float
    bound: float


class Instances:
    """Instance kinds of settings under a stack, each made once."""

    def __init__(self, efficiency: Efficiency | None = None) -> None:
        self._efficiency = efficiency
        self._known: dict[tuple[Any, ...], InstanceKind] = {}

    def of(self, setting: Setting, stack: Any = None, gpu_stack: str | None = None) -> InstanceKind:
        """Return the instance kind of a setting. Raises InputError where it cannot be priced.

        ``stack``: a :class:`Stack`, or None; ``gpu_stack``: the software whose packaged efficiencies come first.
        """
        key = (setting.model.name, setting.gpu.name, setting.tp, setting.ep, setting.dtype, setting.kv_dtype,
               stack.name if stack else None, gpu_stack)  # fmt: skip
        if key not in self._known:
            chosen = self._efficiency or _efficiency_of(setting.gpu.name, gpu_stack)
            self._known[key] = make_instance(
                setting.model,
                setting.gpu,
                Parallelism(tp=setting.tp, ep=setting.ep),
                dtype=setting.dtype,
                kv_dtype=setting.kv_dtype or _cache(setting),
                efficiency=chosen,
                stack=stack,
            )
        return self._known[key]


def _efficiency_of(gpu: str, stack: str | None) -> str | None:
    """The packaged efficiencies of a GPU under a named software, where there are any."""
    name = f"{gpu}--{stack}" if stack else None
    return name if name in efficiency_names() else None


def _cache(setting: Setting) -> str | None:
    """The dtype of a cache of which nothing is stated: as wide as activations, the default of engines."""
    wide = setting.model.wide_dtype or setting.model.weight_dtype
    return None if setting.model.kv_dtype else wide


def predict(run: Whole, kind: InstanceKind) -> dict[str, Predicted]:
    """Return what is predicted of each measure of a run."""
    if isinstance(run.what, Shape):
        return {measure: _step(kind, run.what, measure) for measure in run.seconds}
    assert isinstance(run.what, Loop)
    return {name: found for name, found in _loop(kind, run.what).items() if name in run.seconds}


def _request_latency(kind: InstanceKind) -> float:
    return kind.stack.parameters.request_latency if kind.stack else 0.0


def _step(kind: InstanceKind, shape: Shape, measure: str) -> Predicted:
    ending = len(shape.chunks)
    parts = seconds_by_kind(kind, shape.chunks, ending, shape.batch, shape.context)
    if measure == "prefill" and _request_latency(kind):
        parts[REQUEST] = _request_latency(kind)
    bound = step_bound(kind, shape.chunks, ending, shape.batch, shape.context).time_s
    names = [name for name in parts if name != REQUEST]
    times = _moved(parts, edges(kind, names, measure))
    return banded(times, bound)


def _moved(parts: dict[str, float], off: dict[str, float]) -> Any:
    """The sum of parts: as it is, then with each that may be off longer by so much."""
    return sum(parts.values()) + np.array([0.0, *moves(parts, off)])


def _loop(kind: InstanceKind, loop: Loop) -> dict[str, Predicted]:
    clients = loop.concurrency
    decode = seconds_by_kind(kind, (), 0, clients, clients * loop.context)
    prefill = seconds_by_kind(kind, (Chunk(loop.isl),), 1, 0, 0.0)
    bounds = (
        step_bound(kind, (), 0, clients, clients * loop.context).time_s,
        step_bound(kind, (Chunk(loop.isl),), 1, 0, 0.0).time_s,
    )
    names = dict.fromkeys((*decode, *prefill), 0.0)
    found = {}
    for measure, least in (("ttft", bounds[1]), ("tpot", bounds[0])):
        off = edges(kind, names, measure)
        # One pass: every element is the whole answer under another perturbed kind.
        steps = [_moved(names | parts, off) for parts in (decode, prefill)]
        constant = _moved({REQUEST: _request_latency(kind)}, off)
        seen = closed_loop(loop, steps[0], steps[1], constant)
        found[measure] = banded(getattr(seen, measure), least)
    return found


def banded(times: Sequence[float], bound: float) -> Predicted:
    """Return the first of these times with the band that the others, each moved alone, make; never below a bound."""
    best, *moved = (float(t) for t in times)
    factor = spread(best, moved)
    return Predicted(best, max(best / factor, bound), best * factor, bound)


def checked(run: Whole, made: dict[str, Predicted]) -> None:
    """Raise InputError where a measured time is below what physics allows of what the table says."""
    for measure, found in made.items():
        if run.seconds[measure] < found.bound:
            raise InputError(f"{measure} is faster than physics allows of what the row states")


def of_stack(fit: StackFit | None) -> str:
    """Name the stack behind a prediction."""
    return "no stack" if fit is None else f"{fit.stack}, {fit.gpu}"
