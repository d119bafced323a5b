"""Figures that a model or simulator predicted, beside the measured ones of the same report."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from ...records import Figure, Stated
from ..case import Case
from ..finding import HOLDS, SUSPICIOUS, Finding, Inversion

CHECK = "errors_cancel"
_PARTS, _WHOLE = ("ttft", "tpot", "itl"), "e2e"
#: Errors of parts that count as large, and how much smaller that of the whole then is.
_LARGE, _SMALLER = 0.25, 0.5


def pairs(case: Case) -> list[tuple[str, Figure, Figure]]:
    """Return (who predicted, predicted, measured) figures of one metric, statistic and conditions."""
    record, found = case.record, []
    for figure in record.figures:
        who = record.conditions_of(figure).get("predicted_by")
        if who is None:
            continue
        for other in record.figures:
            same = (other.metric, other.statistic) == (figure.metric, figure.statistic)
            if (
                same
                and other.value
                and _rest(case, other) == _rest(case, figure)
                and not _predicted(case, other)
            ):
                found.append((str(who), figure, other))
    return found


def _predicted(case: Case, figure: Figure) -> bool:
    return "predicted_by" in case.record.conditions_of(figure)


def _rest(case: Case, figure: Figure) -> dict[str, Stated]:
    stated = case.record.conditions_of(figure)
    return {key: value for key, value in stated.items() if key not in ("predicted_by", "engine_version")}


def invert_predictions(case: Case) -> Iterator[Inversion]:
    """Say the error of each predicted figure."""
    for who, predicted, measured in pairs(case):
        error = predicted.value / measured.value - 1
        yield Inversion("prediction_error", error, (predicted.name, measured.name),
                        f"{predicted.text} / {measured.text} - 1", None,
                        f"{who} is {error:+.1%} off in {predicted.metric}")  # fmt: skip


def check_predictions(case: Case) -> Iterator[Finding]:
    """An E2E that comes out well of parts that are off both ways is no sign of a good prediction."""
    for who, group in groupby(pairs(case), key=lambda pair: pair[0]):
        errors = {p.metric: (p.value / m.value - 1, p, m) for _, p, m in group}
        whole = errors.get(_WHOLE)
        parts = [errors[metric] for metric in _PARTS if metric in errors]
        if whole is None or len(parts) < 2:
            continue
        of = tuple(figure.name for _, p, m in (*parts, whole) for figure in (p, m))
        told = ", ".join(f"{metric} {error:+.1%}" for metric, (error, _, _) in errors.items())
        largest = max(abs(error) for error, _, _ in parts)
        both = min(error for error, _, _ in parts) < 0 < max(error for error, _, _ in parts)
        if both and largest > _LARGE and abs(whole[0]) < _SMALLER * largest:
            said = f"errors of {who} cancel: E2E is {whole[0]:+.0%} off, its parts up to {largest:.0%}"
            yield Finding(CHECK, SUSPICIOUS, of, said, told)
        else:
            yield Finding(CHECK, HOLDS, of, f"errors of {who} in E2E are those of its parts", told)
