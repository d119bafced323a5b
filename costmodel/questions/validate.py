"""How far predictions stand from measurements: errors by kind, GPU, stack, split and regime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import as_file
from pathlib import Path

from ..answer import About
from ..data import HARDWARE, is_path, package_files
from ..errors import InputError
from ..inputs.hardware import Gpu, load_gpu
from ..inputs.stack import Stack, load_stack, stack_names
from ..measured import copies
from ..measured.compare import FITTED, HELD_OUT, FitsFor
from ..measured.errors import ErrorRow
from ..measured.points import NOT_STATED, Given, Points, Read, Skipped
from ..measured.table import Table, read_table
from ..measured.tables import files_of
from ..whole.compare import Pair, pairs_of
from ..whole.compare import rows as whole_rows
from ..whole.logs import Asked
from ..whole.read import KINDS as WHOLE_KINDS
from ..whole.read import is_log, read_whole
from ..whole.requests import pairs_of_log
from ..whole.runs import END_TO_END, Whole
from .validate_memory import MemoryRow
from .validate_memory_file import MemoryComparison, compare_memory
from .validate_operators import (
    COPIES,
    MEMORY,
    FitUsed,
    compare_all,
    error_rows,
    fits_used,
    kind_named,
    kinds_of,
    read_operators,
    unlike,
)

SCHEMA = "costmodel.validate/1"
#: Folder of the packaged tables: every so manyth row of the published ones.
PACKAGED = "measurements"


@dataclass(frozen=True)
class WholeRow:
    """A measured figure of a whole step or of requests beside its prediction and band, seconds."""

    where: str
    line: int
    gpu: str
    stack: str
    configuration: str
    what: str
    measure: str
    split: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    error: float
    fit: str


@dataclass(frozen=True)
class ValidateAnswer:
    """Errors (``rows``) of what was measured, and what they rest on.

    ``fits``: the parameters that predicted operators. ``whole``: every figure of whole steps and requests.
    ``compared`` and ``skipped``: rows of start-up logs, each with its prediction or why there is none. ``left_out``:
    other rows that could not be compared.
    """

    schema: str
    kind: str
    measurements: str
    rows: tuple[ErrorRow, ...]
    fits: tuple[FitUsed, ...]
    whole: tuple[WholeRow, ...]
    compared: tuple[MemoryRow, ...]
    skipped: tuple[MemoryRow, ...]
    left_out: tuple[Skipped, ...]
    about: About


def ask_validate(
    kind: str | None = None,
    *,
    measurements: str | Path | Sequence[str | Path] | None = None,
    hardware: Gpu | str | Path | None = None,
    stack: str | None = None,
    efficiency: str | Path | None = None,
    plot: str | Path | None = None,
) -> ValidateAnswer:
    """Compare predictions with measurements.

    ``kind`` None: every kind that the files hold. ``measurements``: tables, or folders of them; None: the packaged
    ones. ``hardware`` and ``stack``: of tables that do not say; a stack's name or file predicts whole runs in place of
    the packaged ones. ``efficiency``: a file whose fits come first.
    ``plot``: write a picture of predicted against measured times.

    Raises InputError for an unknown kind, a file that cannot be read or lacks a column, or none to compare.
    """
    kind = kind_named(kind)
    own = load_stack(stack) if stack is not None and (is_path(stack) or stack in stack_names()) else None
    label = stack if own is None else None
    given = Given(load_gpu(hardware) if isinstance(hardware, str | Path) else hardware, label)
    fits = FitsFor(() if efficiency is None else (efficiency,))
    if measurements is None:
        with as_file(package_files(HARDWARE).joinpath(PACKAGED)) as folder:
            return _answer(_sorted(files_of([folder]), kind, given, own), kind, "packaged", fits, plot, own)
    paths = [measurements] if isinstance(measurements, str | Path) else list(measurements)
    shown = ", ".join(map(str, paths))
    return _answer(_sorted(files_of(paths), kind, given, own), kind, shown, fits, plot, own)


@dataclass
class _Sorted:
    """What the files hold: points of operators, copies, start-up logs, whole steps and requests."""

    read: Read
    copies: list[Table]
    logs: list[Table]
    whole: list[Whole]
    requests: list[Pair]


def _sorted(files: Iterable[tuple[Path, bool]], kind: str | None, given: Given, own: Stack | None) -> _Sorted:
    """Read files; one that was named must be of the kind asked for, one of a folder is passed over."""
    found = _Sorted(Read(), [], [], [], [])
    for path, named in files:
        table = read_table(path)
        holds = kinds_of(table)
        if not named and (not holds or (kind is not None and kind not in holds)):
            if not holds:
                found.read.skip(table, len(table), "its columns are those of no kind of measurements")
        elif not holds:
            table.refuse(unlike(table, kind))
        elif kind is not None and kind not in holds:
            table.refuse(f"holds {holds[0]}, not {kind}")
        elif holds == (MEMORY,):
            found.logs.append(table)
        elif holds == (COPIES,):
            found.copies.append(table)
        elif holds[0] == END_TO_END and is_log(table):
            asked = Asked(hardware=None if given.gpu is None else given.gpu.name, stack=given.stack)
            found.requests += pairs_of_log(path, asked, own)
        elif holds[0] in WHOLE_KINDS:
            runs, read = read_whole(table, given)
            found.whole += runs
            found.read.skipped += read.skipped
        else:
            found.read.extend(read_operators(table, given, kind))
    return found


def _answer(
    held: _Sorted,
    kind: str | None,
    measurements: str,
    fits: FitsFor,
    plot: str | Path | None,
    own: Stack | None,
) -> ValidateAnswer:
    compared, left_out = compare_all(held.read, fits)
    series = [copies.compare_series(table) for table in held.copies]
    logs = [compare_memory(table) for table in held.logs]
    pairs, without = pairs_of(held.whole, fits.own[0] if fits.own else None, own)
    left_out += without
    pairs += held.requests
    rows = [
        *error_rows(compared),
        *whole_rows(pairs),
        *(row for part in series for row in part.rows),
        *(row for part in logs for row in part.rows),
    ]
    left_out += [skipped for part in series for skipped in part.skipped]
    if not rows:
        why = [f"{left.where}: {left.rows:,} rows: {left.why}" for left in left_out]
        why += [f"{row.model}: {row.skipped}" for part in logs for row in part.skipped]
        found = f"nothing of {kind or 'any kind'} could be compared in {measurements}"
        raise InputError([found, *why])
    if plot is not None:
        from .validate_plot import draw

        draw(compared, plot)
    return ValidateAnswer(
        schema=SCHEMA,
        kind=kind or "all",
        measurements=measurements,
        rows=tuple(rows),
        fits=fits_used(compared),
        whole=tuple(_whole_row(pair) for pair in pairs),
        compared=tuple(row for part in logs for row in part.compared),
        skipped=tuple(row for part in logs for row in part.skipped),
        left_out=tuple(left_out),
        about=_about([part.points for part in compared], logs, pairs),
    )


def _whole_row(pair: Pair) -> WholeRow:
    run, found = pair.run, pair.predicted
    return WholeRow(
        where=run.where,
        line=run.line,
        gpu=run.setting.gpu.name,
        stack=run.stack,
        configuration=run.setting.key,
        what=run.told,
        measure=pair.measure,
        split=FITTED if pair.seen else HELD_OUT,
        measured_s=pair.measured,
        predicted_s=found.best,
        low_s=found.low,
        high_s=found.high,
        error=pair.error,
        fit=pair.fit,
    )


def _about(points: Sequence[Points], logs: Sequence[MemoryComparison], pairs: Sequence[Pair] = ()) -> About:
    said = (
        "errors are predicted / measured - 1; in band: share of the truths that lie inside the band",
        "fitted: the fit of that GPU and stack saw the shape, model or size; held out: it did not",
        "a stack or GPU without a fit of its own is predicted by the nearest one, and counts as held out",
    )
    of_requests = (
        "closed loop: X = N / (TTFT + (OSL - 1) TPOT); TPOT is a decode step and (N - 1) / OSL prompts of the others",
        "caches are as wide as activations where a table does not say",
        "stacks see loops of up to 8 clients, and TTFT of up to 4: with more, prompts queue, and how is not stated",
    )
    parts = [part.about for part in logs]
    nameless = dict.fromkeys(part.where for part in points if part.stack == NOT_STATED)
    unknown = {pair.run.where: pair.fit for pair in pairs if pair.run.stack == NOT_STATED}
    loops = any(pair.run.kind == "end_to_end" for pair in pairs)
    return About(
        assumptions=(
            *(said if points or pairs else ()),
            *(of_requests if loops else ()),
            *(text for about in parts for text in about.assumptions),
        ),
        sources=tuple(text for about in parts for text in about.sources),
        warnings=(
            *(
                f"{where} does not say its stack: all of it counts as held out; pass --stack"
                for where in nameless
            ),
            *(
                f"{where} does not say its software: predicted by {fit}; pass --stack"
                for where, fit in unknown.items()
            ),
            *(text for about in parts for text in about.warnings),
        ),
    )
