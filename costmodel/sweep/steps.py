"""Sweeps of step times: one instance kind a combination, everything else in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..answer import About
from ..errors import CostmodelError, InputError, unknown
from ..questions.inputs import as_instance
from ..questions.step import PHASES, ask_step
from .asked import Answers, Columns, Refused, by_halves, none_of, put, refusal, shared
from .axes import AxisKind
from .kinds import (
    DTYPE,
    EFFICIENCY,
    EP,
    HARDWARE,
    KV_DTYPE,
    MODEL,
    MOST_REQUESTS,
    SKEW,
    STACK,
    TP,
    known_gpu,
    known_model,
    written,
)
from .step_arrays import Shapes, StepArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FIGURES = ("time_s", "bound_s")
#: phase -> what it needs, and what it may have besides.
_TAKES = {
    "prefill": (("isl",), ("cached",)),
    "decode": (("context",), ("batch",)),
    "mixed": (("context", "chunk"), ("isl", "cached", "batch")),
}
_SHAPE = ("isl", "cached", "chunk", "batch", "context")
_INSTANCE = ("model", "hardware", "tp", "ep", "dtype", "kv_dtype", "efficiency", "stack", "expert_skew")
#: Instance kinds whose traces are kept.
_KEPT = 16


def _phase(name: str) -> None:
    if name not in PHASES:
        raise InputError(unknown("phase", name, PHASES, remedy=f"(one of {', '.join(PHASES)})"))


class Steps:
    """``costmodel step`` over a grid."""

    name = "step"
    figures = FIGURES
    outer = (
        MODEL, HARDWARE, TP, EP, DTYPE, KV_DTYPE, EFFICIENCY, STACK, SKEW,
        AxisKind("--phase", "phase", "What steps hold: prefill, decode or mixed.", check=_phase),
    )  # fmt: skip
    inner = (
        AxisKind("--isl", "isl", "Prompt tokens, cached ones included.", "token", 1),
        AxisKind("--cached", "cached", "Prompt tokens in the cache already.", "token"),
        AxisKind("--chunk", "chunk", "Prefill tokens of a mixed step.", "token", 1),
        AxisKind("--batch", "batch", "Running decodes; default 1.", "count", 1, MOST_REQUESTS),
        AxisKind("--context", "context", "Tokens of each running sequence.", "token", 1),
    )

    def problems(self, axes: Mapping[str, Any]) -> list[str]:
        """Say what is missing, or means nothing in the phase."""
        found = [f"a sweep of steps needs {option}" for option, column in _NEEDED if column not in axes]
        for phase in axes["phase"].values if "phase" in axes else ():
            needed, more = _TAKES[phase]
            found += [f"a {phase} step needs --{name}" for name in needed if name not in axes]
            unused = [name for name in _SHAPE if name in axes and name not in needed + more]
            found += [f"--{name} means nothing in a {phase} step" for name in unused]
        return found

    def answers(self, outer: Mapping[str, Any], inner: Columns, points: int) -> Answers:
        """Return time and bound of steps of one instance kind."""
        arrays = _arrays(tuple(outer.get(name) for name in _INSTANCE), written(outer.values()))
        if isinstance(arrays, Refused):
            return none_of(FIGURES, points, arrays.reason)
        phase, zero, one = outer["phase"], shared(0, points), shared(1, points)
        prefix = inner.get("cached", zero)
        tokens = {
            "prefill": inner.get("isl", zero) - prefix,
            "decode": zero,
            "mixed": inner.get("chunk", zero),
        }[phase]
        last = one if phase == "prefill" else zero
        if phase == "mixed" and "isl" in inner:
            last = (inner["isl"] == prefix + tokens).astype(zero.dtype)
        batch = zero if phase == "prefill" else inner.get("batch", one)
        shapes = Shapes(tokens, prefix, last, batch, inner.get("context", zero))
        bad, why = _wrong(phase, inner, prefix, tokens)
        if bad is None:
            return _of(arrays, phase, shapes)
        found = none_of(FIGURES, points, why)
        return put(found, ~bad, _of(arrays, phase, shapes.of(~bad)))

    def about(self, row: Mapping[str, Any]) -> About:
        """Return what the figures of a step rest on."""
        given = {name: row[name] for name in (*_INSTANCE, *_SHAPE) if row.get(name) is not None}
        given |= {"chunk": (given["chunk"],)} if "chunk" in given else {}
        return ask_step(given.pop("model"), given.pop("hardware"), row["phase"], **given).about


_NEEDED = (("MODEL", "model"), ("--hardware", "hardware"), ("--phase", "phase"))


@lru_cache(maxsize=_KEPT)
def _arrays(instance: tuple[Any, ...], when: tuple[int, ...]) -> StepArrays | Refused:
    """The step times of a combination, traced once in a process; or why it has none."""
    del when
    given = {name: value for name, value in zip(_INSTANCE, instance) if value is not None}
    try:
        model, gpu = known_model(given.pop("model")), known_gpu(given.pop("hardware"))
        return StepArrays(as_instance(model, gpu, **given))
    except CostmodelError as error:
        return refusal(error)


def _wrong(phase: str, inner: Columns, prefix: Array, tokens: Array) -> tuple[Array | None, str]:
    """Points whose lengths contradict each other, and the sentence; None: there are none."""
    if phase == "decode" or "isl" not in inner:
        return None, ""
    if phase == "prefill":
        bad, why = prefix >= inner["isl"], "--cached leaves nothing of --isl, which includes it"
    else:
        bad, why = prefix + tokens > inner["isl"], "--cached and --chunk exceed --isl"
    return (bad if bad.any() else None), why


def _of(arrays: StepArrays, phase: str, shapes: Shapes) -> Answers:
    """Figures of points; a kernel that was not measured is needed by some of them alone."""

    def ask(part: slice) -> Answers:
        return Answers(dict(zip(FIGURES, arrays.figures(phase, shapes.of(part)))))

    return by_halves(FIGURES, slice(0, len(shapes.tokens)), ask)


QUESTION = Steps()
