"""A record of published figures, or a measured result, examined: what is absent, what physics says, what compares."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..answer import About
from ..audit.absent import Absent, absent_of, counted
from ..audit.case import Case
from ..audit.comparable import Counterpart, compared
from ..audit.examine import examine, invert
from ..audit.finding import Finding, Inversion
from ..audit.match import Matched, compare
from ..audit.understood import understood
from ..data import is_path
from ..errors import InputError
from ..records import Figure, Record, Stated
from ..records.packaged import load_records, record_names
from ..records.read import is_record, read_records
from ..results import merged, read_results
from ..results.startup import FORM as STARTUP
from .check_options import CheckOptions

if TYPE_CHECKING:
    from ..diagnosis.answer import Diagnosis
    from ..diagnosis.predict import Prediction
    from .check_predict import Predicted

SCHEMA = "costmodel.check/1"


@dataclass(frozen=True)
class CheckedRecord:
    """A record as it was understood."""

    name: str
    where: str
    form: str
    source: str | None
    confidence: str | None
    conditions: dict[str, Stated]
    understood: tuple[str, ...]
    figures: tuple[Figure, ...]
    unread: dict[str, object]


@dataclass(frozen=True)
class CheckAnswer:
    """Records examined. Every list holds entries of all records; each says of which.

    ``absent``: conditions that are not stated, with the artifact that would recover them (``asked``: one of the
    ``conditions_asked``, seven where a request ran, of which ``conditions_absent`` are stated of no figure).
    ``findings``: checks by grade, the worst first. ``inversions``: what would explain a figure. ``predictions`` and
    ``diagnoses``: of the runs of results. ``comparisons``: of several results, each with the first.
    """

    schema: str
    records: tuple[CheckedRecord, ...]
    conditions_absent: int
    conditions_asked: int
    absent: tuple[Absent, ...]
    findings: tuple[Finding, ...]
    comparable_with: tuple[Counterpart, ...]
    not_comparable_with: tuple[Counterpart, ...]
    inversions: tuple[Inversion, ...]
    predictions: tuple[Prediction, ...]
    diagnoses: tuple[Diagnosis, ...]
    comparisons: tuple[Matched, ...]
    about: About


def ask_check(
    names: Sequence[str | Path], asked: CheckOptions | None = None, *, varying: Collection[str] = ()
) -> CheckAnswer:
    """Examine record files, results of benchmarks, or packaged records by name.

    ``asked``: what the user says of them: conditions to compute with, which stay absent from the record, and the
    deployment to predict results with. ``varying``: conditions in which two results differ by intent.

    Raises InputError for files that cannot be read, with all their problems, and for bad names and values.
    """
    told = asked or CheckOptions()
    told.check()
    read = [(name, record) for name in names for record in _selected(name, told.select)]
    completed = merged([record for _, record in read])
    cases = [(Case(record, told.given), name) for (name, _), record in zip(read, completed)]
    absent = tuple(each for case, _ in cases for each in absent_of(case.record))
    findings, inversions = list[Finding](), list[Inversion]()
    yes, no = list[Counterpart](), list[Counterpart]()
    for case, _ in cases:
        found = examine(case)
        comparable, not_comparable = compared(case, found)
        findings += found
        yes += comparable
        no += not_comparable
        inversions += invert(case)
    beside = _predicted(cases, told)
    missing, conditions = counted(absent, [case.record for case, _ in cases])
    return CheckAnswer(
        schema=SCHEMA,
        records=tuple(_understood(case) for case, _ in cases),
        conditions_absent=missing,
        conditions_asked=conditions,
        absent=absent,
        findings=tuple(findings),
        comparable_with=tuple(yes),
        not_comparable_with=tuple(no),
        inversions=tuple(inversions),
        predictions=beside.predictions if beside else (),
        diagnoses=beside.diagnoses if beside else (),
        comparisons=_against_each_other(cases, told, varying),
        about=_about([case for case, _ in cases], told, beside.warnings if beside else ()),
    )


def _predicted(cases: Sequence[tuple[Case, str | Path]], asked: CheckOptions) -> Predicted | None:
    """Results beside their predictions, records where that is wanted; replays are loaded only for these."""
    results = [(case, path) for case, path in cases if case.record.form != STARTUP]
    chosen = [(case, path) for case, path in results if asked.wanted or case.record.form != "record"]
    if not chosen:
        return None
    from .check_predict import predicted

    return predicted(chosen, asked)


def _against_each_other(
    cases: Sequence[tuple[Case, str | Path]], asked: CheckOptions, varying: Collection[str]
) -> tuple[Matched, ...]:
    """Every later result against the first, where each holds one run; start-up logs say of them what they do not."""
    results = [(case, path) for case, path in cases if case.record.form != STARTUP]
    if len(results) < 2 or any(case.record.form == "record" or len(case.runs) != 1 for case, _ in results):
        if varying:
            raise InputError("--varying is of two results of one run each")
        return ()
    from .check_predict import intervals

    first, *others = results
    return tuple(
        compare(first[0].record, case.record, varying, asked.given, between)
        for (case, _), between in zip(others, intervals(first, others))
    )


def _selected(name: str | Path, select: Mapping[str, str] | None) -> tuple[Record, ...]:
    """The records of a file, or those whose requests are the ones selected. Raises InputError where none is."""
    found = _read(name)
    wanted = dict(select or {})
    chosen = tuple(record for record in found if wanted.items() <= record.rows.items())
    if not chosen:
        known = "; ".join(
            ", ".join(f"{k}={v}" for k, v in record.rows.items()) for record in found if record.rows
        )
        raise InputError(
            f"--select fits no run; there are {known or 'no runs to select from'}", where=str(name)
        )
    return chosen


def _read(name: str | Path) -> tuple[Record, ...]:
    if isinstance(name, str) and not Path(name).is_file() and not is_path(name):
        if "." in name and name not in record_names():
            raise InputError("no such file, and no packaged record (costmodel show records)", where=name)
        return load_records(name)
    return read_records(name) if is_record(name) or not Path(name).is_file() else read_results(name)


def _understood(case: Case) -> CheckedRecord:
    record = case.record
    return CheckedRecord(
        record.name, record.where, record.form, record.source, record.confidence, dict(record.conditions),
        understood(case), record.figures, dict(record.unread),
    )  # fmt: skip


def _about(cases: Sequence[Case], asked: CheckOptions, more: Sequence[str]) -> About:
    assumptions = [f"given by the user: {key} {value}" for key, value in asked.given.items()]
    assumptions += [
        "bounds count weights, cached tokens and products once, at peak rates, spread evenly over the GPUs"
    ]
    sources = [case.record.source or case.record.where for case in cases]
    warnings = [f"{case.record.name}: {text}" for case in cases for text in case.record.warnings]
    return About(tuple(assumptions), tuple(dict.fromkeys(sources)), (), (*warnings, *more))
