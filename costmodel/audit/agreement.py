"""What two results state of what their figures depend on, and whether it is the same."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from ..errors import InputError
from ..families.named import model_named
from ..inputs.hardware import packaged_name
from ..records import Stated
from ..records.conditions import condition_named, told
from .runs import OF_FIGURES, Run

#: What a figure depends on in any case: each by the conditions that may state it.
DECISIVE: dict[str, tuple[str, ...]] = {
    "model": ("model",),
    "hardware": ("hardware", "prefill_hardware", "decode_hardware"),
    "load": ("concurrency", "arrival_rate", "batch", "burst"),
    "input length": ("input_tokens", "input_length", "workload"),
    "output length": ("output_tokens", "output_length", "workload"),
    "engine": ("engine",),
    "engine version": ("engine_version", "engine_build"),
}
#: Lengths as numbers, and the conditions that tell the same otherwise.
LENGTHS = {
    "input_tokens": ("input_length", "mean_input_tokens"),
    "output_tokens": ("output_length", "mean_output_tokens"),
}
#: Conditions that name a run, or say how much of it was measured, without changing it.
NAMES = ("seed", "requests", "slo", "slo_ttft", "slo_tpot")
_ALL_AT_ONCE = "all at once"
#: Relative difference up to which two numbers are the same as written, and up to which mean lengths are.
_SAME, _SAME_LENGTH = 1e-6, 0.03


@dataclass(frozen=True)
class Condition:
    """A condition of two results, as stated; None: not stated. Lengths are means of tokens, where they are known."""

    name: str
    a: Stated | None
    b: Stated | None

    @property
    def said(self) -> str:
        """The condition with both values, in words."""
        return f"{self.name} ({in_words(self.name, self.a)} and {in_words(self.name, self.b)})"


def in_words(name: str, value: Stated | None) -> str:
    """Return a value as people read it."""
    if value is None:
        return "not stated"
    if name in LENGTHS and isinstance(value, int | float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return told(name, value)


def known(name: str) -> str:
    """Return the condition that ``--varying`` names. Raises InputError where it names none."""
    found = condition_named(name)
    if found is None:
        raise InputError(f"--varying {name}: no condition is called so (costmodel show conditions)")
    return next((tokens for tokens, others in LENGTHS.items() if found in others), found)


def stated_by(run: Run, given: Mapping[str, Stated]) -> dict[str, Stated]:
    """Return what a run states, and what is ``given`` where it does not; lengths by their mean where it is known.

    Of requests that come all at once the number is the load.
    """
    found = {**given, **run.conditions}
    if found.get("arrival_process") == _ALL_AT_ONCE and "requests" in found:
        found.setdefault("burst", found["requests"])
    for tokens, others in LENGTHS.items():
        mean = _mean(run, tokens, others[1])
        if mean is not None:
            found[tokens] = mean
        if tokens in found:
            found = {key: value for key, value in found.items() if key not in others}
    return found


def _mean(run: Run, tokens: str, mean: str) -> float | None:
    stated = run.conditions.get(tokens, run.conditions.get(mean))
    figure = run.get(tokens, "mean")
    return (
        float(stated) if isinstance(stated, int | float) else None if figure is None else float(figure.value)
    )


def beside(ours: Mapping[str, Stated], theirs: Mapping[str, Stated]) -> list[Condition]:
    """Return the conditions of a run that either states."""
    names = (name for name in dict.fromkeys((*ours, *theirs)) if name not in (*OF_FIGURES, *NAMES))
    return [Condition(name, ours.get(name), theirs.get(name)) for name in names]


def alike(condition: Condition) -> bool:
    """Whether two values mean the same: numbers as written, lengths about, models by their layers, GPUs by name."""
    a, b = condition.a, condition.b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return math.isclose(a, b, rel_tol=_SAME_LENGTH if condition.name in LENGTHS else _SAME)
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


def _open(varied: Collection[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What decides and is not to vary."""
    return ((what, keys) for what, keys in DECISIVE.items() if not set(keys) & set(varied))


def unstated(ours: Mapping[str, Stated], theirs: Mapping[str, Stated], varied: Collection[str]) -> list[str]:
    """Return what decides and neither states."""
    return [what for what, keys in _open(varied) if not set(keys) & (ours.keys() | theirs.keys())]


def undecided(ours: Mapping[str, Stated], theirs: Mapping[str, Stated], varied: Collection[str]) -> list[str]:
    """Say why what decides is not known to match: one alone states it, or each in terms of its own."""
    reasons = []
    for what, keys in _open(varied):
        a, b = set(keys) & ours.keys(), set(keys) & theirs.keys()
        if bool(a) != bool(b):
            reasons.append(f"{what} is not stated by {'the second' if a else 'the first'}")
        elif a and not a & b:
            reasons.append(f"{what} is stated in different terms, which cannot be compared")
    return reasons


def caveats(runs: tuple[Run, Run], neither: Collection[str], constant: Collection[Condition]) -> list[str]:
    """Say what a reader must know of two results that compare: what is taken for the same, and what did not vary."""
    said = [f"{what} is stated by neither: they compare only if it was the same" for what in neither]
    said += [f"{c.name}, which is to vary, is {in_words(c.name, c.a)} in both" for c in constant]
    for tokens in LENGTHS:
        if sum(tokens in run.conditions for run in runs) == 1 and all(run.get(tokens) for run in runs):
            said.append(f"{tokens}: one length in one of them, a mean in the other: how they vary may differ")
    return said
