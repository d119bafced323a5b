"""Runs of a record or a result beside their predictions, and what hurts them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..audit.case import Case
from ..audit.runs import Run
from ..audit.subject import Subject, Unknown
from ..diagnosis.answer import Diagnosis
from ..diagnosis.detail import requests_of
from ..diagnosis.diagnose import diagnose
from ..diagnosis.noise import ratio_intervals
from ..diagnosis.predict import Basis, Prediction, predict, prepare
from ..errors import InputError
from ..inputs.hardware import gpu_names
from ..records import Figure
from .check_options import CheckOptions

#: Runs of all files that are predicted, and those whose settings are moved: each takes a replay, or a dozen.
MOST_PREDICTED, MOST_DIAGNOSED = 64, 3


@dataclass(frozen=True)
class Predicted:
    """Predictions and diagnoses, one of each a run, and what was left out."""

    predictions: tuple[Prediction, ...]
    diagnoses: tuple[Diagnosis, ...]
    warnings: tuple[str, ...]


def predicted(cases: Collection[tuple[Case, str | Path]], asked: CheckOptions) -> Predicted:
    """Return the runs of cases beside their predictions."""
    chosen = [(case, path, run) for case, path in cases for run in case.runs]
    warnings = []
    if len(chosen) > MOST_PREDICTED:
        warnings.append(f"{len(chosen)} runs: the first {MOST_PREDICTED} are predicted")
    diagnosed = len(chosen) <= MOST_DIAGNOSED
    if not diagnosed:
        warnings.append(
            f"{len(chosen)} runs: what hurts them is told of {MOST_DIAGNOSED} at most; keep those in a file"
        )
    predictions, diagnoses = [], []
    for case, path, run in chosen[:MOST_PREDICTED]:
        basis = _basis(case, run, path, asked, alone=len(chosen) == 1)
        found = predict(basis)
        predictions.append(found)
        warnings += [f"{case.record.name}: {text}" for text in found.warnings]
        if diagnosed:
            diagnoses.append(diagnose(basis, found, reconciling=asked.reconcile))
    return Predicted(tuple(predictions), tuple(diagnoses), tuple(warnings))


def intervals(
    first: tuple[Case, str | Path], others: Sequence[tuple[Case, str | Path]]
) -> list[Callable[[Figure], tuple[float, float] | str] | None]:
    """How far ratios of each result to the first would move in other runs; None where either lists no requests."""
    base, *details = (requests_of(path, case.record.rows)[0] for case, path in (first, *others))
    return [ratio_intervals(base, detail) if base and detail else None for detail in details]


def _basis(case: Case, run: Run, path: str | Path, asked: CheckOptions, *, alone: bool) -> Basis:
    """What a run is predicted from; nothing, with the reason, where its model or GPU is neither stated nor passed.

    Of a run that is ``alone``, options that contradict it are an error; of several, a reason for those that they do
    not fit.
    """
    subject, scenario = case.subject(run), asked.scenario
    run = replace(run, conditions={**run.conditions, **asked.engine})
    detail, lost = (
        requests_of(path, case.record.rows) if len(case.runs) == 1 and Path(path).is_file() else (None, None)
    )
    model, hardware, lacking = scenario.model, scenario.hardware, []
    try:
        model = model or subject.model.name
    except Unknown as why:
        lacking.append(f"{why}: pass --model")
    try:
        hardware = hardware or _packaged(subject)
    except Unknown as why:
        lacking.append(f"{why}: pass --hardware")
    if lacking:
        return Basis(run, asked.given, detail, None, None, "; ".join(lacking), None)
    try:
        return prepare(
            run, replace(scenario, model=model, hardware=hardware), passed=asked.passed, given=asked.given,
            strategy=asked.strategy, detail=detail, tables=asked.tables, warnings=[lost] if lost else [],
        )  # fmt: skip
    except InputError as why:
        if alone and (asked.passed or asked.given or asked.strategy):
            raise
        return Basis(run, asked.given, detail, None, None, str(why), None)


def _packaged(subject: Subject) -> str:
    if subject.gpu.name not in gpu_names():
        raise Unknown(f"step times of {subject.gpu.name} are not known")
    return subject.gpu.name
