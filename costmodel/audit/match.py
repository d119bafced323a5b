"""Two results against each other: only where their conditions match, and the one that is compared alone differs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..errors import InputError
from ..families.named import model_named
from ..inputs.hardware import packaged_name
from ..records import Figure, Record, Stated
from ..records.conditions import condition_named
from .runs import OF_FIGURES, Run, runs_of

#: What a figure depends on in any case: each by the conditions that may state it. Both results must state it.
DECISIVE: dict[str, tuple[str, ...]] = {
    "model": ("model",),
    "hardware": ("hardware", "prefill_hardware", "decode_hardware"),
    "load": ("concurrency", "arrival_rate", "batch", "burst"),
    "input length": ("input_tokens", "input_length", "workload"),
    "output length": ("output_tokens", "output_length", "workload"),
    "engine": ("engine",),
    "engine version": ("engine_version", "engine_build"),
}
#: Conditions that name a run without changing it.
_NAMES = ("seed", "slo", "slo_ttft", "slo_tpot")
#: Relative difference up to which two numbers are the same as written.
_SAME = 1e-6


@dataclass(frozen=True)
class Condition:
    """A condition of two results, as stated; None: not stated."""

    name: str
    a: Stated | None
    b: Stated | None


@dataclass(frozen=True)
class Ratio:
    """A figure of both results, in the SI unit of ``dimension``, and b over a; None with the ``reason``."""

    metric: str
    statistic: str | None
    dimension: str | None
    a: float
    b: float
    ratio: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Matched:
    """Two results: ``comparable`` where all that decides matches but for what is ``varying``; ``reasons``: why not.

    ``absent``: conditions that one of them states or neither; those that decide are ``reasons``, too.
    """

    a: str
    b: str
    varying: tuple[Condition, ...]
    matching: tuple[Condition, ...]
    mismatching: tuple[Condition, ...]
    absent: tuple[Condition, ...]
    comparable: bool
    reasons: tuple[str, ...]
    ratios: tuple[Ratio, ...]
    ratios_reason: str | None = None


def compare(
    a: Run | Record, b: Run | Record, varying: Collection[str] = (), given: Mapping[str, Stated] | None = None
) -> Matched:
    """Compare two results. ``varying``: conditions that differ by intent; ``given``: what the user states of both.

    Raises InputError for a name that is no condition, and for a record of several runs.
    """
    left, right = _run(a), _run(b)
    varied = [_known(name) for name in varying]
    ours, theirs = ({**run.conditions, **(given or {})} for run in (left, right))
    names = [n for n in dict.fromkeys((*ours, *theirs)) if n not in (*OF_FIGURES, *_NAMES)]
    sides = [Condition(name, ours.get(name), theirs.get(name)) for name in names]
    open_ = [c for c in sides if c.name not in varied]
    both = [c for c in open_ if c.a is not None and c.b is not None]
    mismatching = tuple(c for c in both if not _alike(c))
    lacking = [c for c in open_ if c.a is None or c.b is None] + _unstated(ours, theirs, varied)
    reasons = (
        *_no_variation(varied, ours, theirs),
        *(f"{c.name} differs: {c.a} against {c.b}" for c in mismatching),
        *_undecided(ours, theirs, varied),
    )
    found = tuple(_ratio(figure, right, reasons) for figure in left.figures if _beside(figure, right))
    return Matched(
        a=left.name,
        b=right.name,
        varying=tuple(c for c in sides if c.name in varied),
        matching=tuple(c for c in both if _alike(c)),
        mismatching=mismatching,
        absent=tuple(lacking),
        comparable=not reasons,
        reasons=reasons,
        ratios=found,
        ratios_reason=None if found else "no figure of one metric and statistic stands in both",
    )


def _run(result: Run | Record) -> Run:
    if isinstance(result, Run):
        return result
    runs = runs_of(result)
    if len(runs) != 1:
        named = "; ".join(run.name for run in runs[:5])
        raise InputError(
            f"{result.name} holds {len(runs)} runs ({named}): name one of them", where=result.where
        )
    return runs[0]


def _known(name: str) -> str:
    found = condition_named(name)
    if found is None:
        raise InputError(f"--varying {name}: no condition is called so (costmodel show conditions)")
    return found


def _alike(condition: Condition) -> bool:
    """Whether two stated values mean the same: numbers as written, models by their layers, GPUs by their name."""
    a, b = condition.a, condition.b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=_SAME)
    if condition.name == "model":
        return _model(str(a)) == _model(str(b))
    if condition.name.endswith("hardware"):
        return (packaged_name(str(a)) or _folded(a)) == (packaged_name(str(b)) or _folded(b))
    return _folded(a) == _folded(b)


def _folded(value: object) -> str:
    return re.sub(r"[\s_-]+", " ", str(value).strip().lower())


def _model(text: str) -> object:
    try:
        return model_named(text).name
    except InputError:
        return _folded(text.rpartition("/")[2])


def _stating(conditions: Mapping[str, Stated], keys: Collection[str]) -> bool:
    return any(key in conditions for key in keys)


def _unstated(ours: Mapping[str, Stated], theirs: Mapping[str, Stated], varied: list[str]) -> list[Condition]:
    """What decides and neither states."""
    return [
        Condition(what, None, None)
        for what, keys in DECISIVE.items()
        if not set(keys) & set(varied) and not _stating(ours, keys) and not _stating(theirs, keys)
    ]


def _undecided(ours: Mapping[str, Stated], theirs: Mapping[str, Stated], varied: list[str]) -> list[str]:
    """Why what decides is not known to match: it is stated by neither, by one alone, or in different words."""
    reasons = []
    for what, keys in DECISIVE.items():
        if set(keys) & set(varied):
            continue
        a, b = _stating(ours, keys), _stating(theirs, keys)
        shared = any(key in ours and key in theirs for key in keys)
        if not a and not b:
            reasons.append(f"{what} is stated by neither")
        elif not (a and b):
            reasons.append(f"{what} is not stated by {'the second' if a else 'the first'}")
        elif not shared:
            reasons.append(f"{what} is stated in different terms, which cannot be compared")
    return reasons


def _no_variation(varied: list[str], ours: Mapping[str, Stated], theirs: Mapping[str, Stated]) -> list[str]:
    """Conditions that are to differ, where one result does not state them."""
    return [
        f"{n}, which is to vary, is not stated by both" for n in varied if n not in ours or n not in theirs
    ]


def _beside(figure: Figure, other: Run) -> Figure | None:
    same = [
        f for f in other.all(figure.metric) if f.statistic == figure.statistic and f.per_gpu == figure.per_gpu
    ]
    return same[0] if same else None


def _ratio(figure: Figure, other: Run, reasons: tuple[str, ...]) -> Ratio:
    beside = _beside(figure, other)
    assert beside is not None
    made = (figure.metric, figure.statistic, figure.dimension, figure.value, beside.value)
    if reasons:
        return Ratio(*made, None, "conditions do not match")
    apart = [
        f"{key} differs: {figure.conditions.get(key, 'not stated')} against {beside.conditions.get(key, 'not stated')}"
        for key in dict.fromkeys((*figure.conditions, *beside.conditions))
        if key in OF_FIGURES
        and not _alike(Condition(key, figure.conditions.get(key), beside.conditions.get(key)))
    ]
    if figure.dimension is None or apart:
        return Ratio(*made, None, "; ".join(apart) or "what it measures is not known")
    if not figure.value > 0:
        return Ratio(*made, None, "the first is not above 0")
    return Ratio(*made, beside.value / figure.value)
