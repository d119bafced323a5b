"""From tables of whole steps or closed loops to the stacks of the engines that were measured."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as calendar
from pathlib import Path

from ..answer import About
from ..errors import InputError
from ..inputs.hardware import Gpu, load_gpu
from ..inputs.stack import Stack
from ..inputs.traces.files import opened
from ..measured.points import NOT_STATED, Given, Skipped
from ..measured.table import read_table
from ..measured.tables import files_of
from ..measured.write import plain_name, write_whole
from ..whole.calibrate import ALTERNATE, calibrate_stacks, once, possible
from ..whole.fit import at_edges
from ..whole.loops import is_loop_result, loop_table
from ..whole.predict import Instances
from ..whole.read import holds_whole, is_loops, is_steps, read_whole
from ..whole.runs import Whole
from ..whole.write import stack_toml
from .calibrate import OTHER_SUFFIXES, SUFFIX, make_folder
from .show_stack import StackEntry, entry_of

SCHEMA = "costmodel.calibrate-stack/1"
#: Log error, fitted or held out, above which a stack describes something else: half as long again.
POOR = 0.41


@dataclass(frozen=True)
class CalibrateStackAnswer:
    """Stacks with their errors, the files that were written, and rows that were left out."""

    schema: str
    date: str
    stacks: tuple[StackEntry, ...]
    files: tuple[str, ...]
    left_out: tuple[Skipped, ...]
    about: About


def whole_tables(files: Sequence[str | Path]) -> bool:
    """Say whether these files are tables of whole steps or closed loops: one that is named, or all of a folder; or
    results of closed loops without single requests.
    """
    if any(map(is_loop_result, files)):
        return True
    try:
        found = [(holds_whole(_header(path)), named) for path, named in files_of(files)]
    except InputError:
        return False
    return any(whole and named for whole, named in found) or (
        bool(found) and all(whole for whole, _ in found)
    )


def _header(path: Path) -> list[str]:
    """The columns of a file, none where it cannot be read."""
    try:
        with opened(path) as file:
            return [name.strip() for name in next(csv.reader([next(file, "")]), [])]
    except InputError:
        return []


def ask_calibrate_stack(
    files: str | Path | Sequence[str | Path],
    *,
    hardware: Gpu | str | Path | None = None,
    stack: str | None = None,
    source: str | None = None,
    output: str | Path | None = None,
    date: str | None = None,
) -> CalibrateStackAnswer:
    """Fit a stack to every second configuration of each engine, version and GPU, and try it on the others.

    ``hardware`` and ``stack``: of tables that do not say. ``source``: where they are from. ``output``: a file for
    one stack, or a folder.

    Raises InputError for tables that cannot be read or are of several kinds, fewer than two configurations (model,
    dtype and TP) of an engine on a GPU, a missing scipy, or an ``output`` that cannot hold what there is.
    """
    files = [files] if isinstance(files, str | Path) else list(files)
    given = Given(load_gpu(hardware) if isinstance(hardware, str | Path) else hardware, stack)
    runs, left_out, warnings = _read(files, given)
    instances = Instances()
    kept, why = possible(runs, instances)
    kept, again = once(kept)
    left_out += [Skipped("rows", rows, reason) for reason, rows in sorted(why.items())]
    left_out += [Skipped("rows", again, "the same measurement again")] if again else []
    day = date or calendar.today().isoformat()
    named = {NOT_STATED: "measured"}
    told = source or ", ".join(Path(file).name for file in files)
    found = calibrate_stacks(kept, instances, named, told, day, ALTERNATE)
    if not found:
        configurations = sorted({f"{run.setting.gpu.name}: {run.setting.key}" for run in kept})
        raise InputError(
            [
                "a stack needs two configurations (model, dtype, TP) of an engine on one GPU, one to fit and one to "
                f"try; the tables have {', '.join(configurations) or 'none that can be priced'}",
                *(f"{left.rows:,} rows: {left.why}" for left in left_out),
            ]
        )
    _sensible(found)
    paths = {} if output is None else _paths(Path(output), found)
    if output is not None:
        make_folder(Path(output))
        write_whole({path: stack_toml(one).encode() for path, one in paths.items()})
    return CalibrateStackAnswer(
        schema=SCHEMA,
        date=day,
        stacks=tuple(map(entry_of, found)),
        files=tuple(map(str, paths)),
        left_out=tuple(left_out),
        about=About(
            assumptions=(
                "parameters minimise the soft-L1 of the logarithm of predicted over measured times",
                "every second configuration is held out: only its errors are to be trusted",
            ),
            sources=(told,),
            warnings=(*warnings, *_edges(found)),
        ),
    )


def _sensible(found: Sequence[Stack]) -> None:
    """Raise InputError for stacks that describe something else, mostly for a wrong unit or column."""
    poor = [
        f"{stack.name} on {gpu}: {measure} is off by a factor of {math.exp(log):.2g} {where}; "
        "units, columns, model or GPU are not what they seem, so nothing is written"
        for stack in found
        for gpu, fit in stack.fits.items()
        for measure, error in fit.errors.items()
        for where, log in (
            ("where it was fitted", error.fitted_log),
            ("on what it was not fitted to", error.held_out_log),
        )
        if log is not None and log > POOR
    ]
    if poor:
        raise InputError(poor)


def _edges(found: Sequence[Stack]) -> tuple[str, ...]:
    """Say which parameters ended where their range does."""
    return tuple(
        f"{stack.name} on {gpu}: {name} is at the edge of its range"
        for stack in found
        for gpu, fit in stack.fits.items()
        for name in at_edges(fit.parameters)
    )


def _read(files: Sequence[str | Path], given: Given) -> tuple[list[Whole], list[Skipped], list[str]]:
    results = [file for file in files if is_loop_result(file)]
    if results:
        if len(results) < len(files):
            apart = next(file for file in files if file not in results)
            raise InputError(
                f"{results[0]} holds means of closed loops, and {apart} does not: calibrate them apart; a result with "
                "single requests, or at a rate, is a log of requests, one at a time"
            )
        table, left_out, warnings = loop_table(results)
        found, read = read_whole(table, given)
        return found, [*left_out, *read.skipped], warnings
    tables = [read_table(path) for path, _ in files_of(files)]
    other = [table.where for table in tables if not (is_steps(table) or is_loops(table))]
    if other:
        raise InputError(f"{other[0]} holds neither whole steps nor closed loops: calibrate it apart")
    if any(map(is_steps, tables)) and any(map(is_loops, tables)):
        raise InputError(
            "the tables hold whole steps and closed loops: a stack is fitted to one kind of them"
        )
    runs, left_out = list[Whole](), list[Skipped]()
    for table in tables:
        found, read = read_whole(table, given)
        runs += found
        left_out += read.skipped
    return runs, left_out, []


def _paths(output: Path, stacks: Sequence[Stack]) -> dict[Path, Stack]:
    """Return where each stack goes. Raises InputError where they cannot go there."""
    if output.suffix == SUFFIX:
        if len(stacks) > 1:
            names = ", ".join(stack.name for stack in stacks)
            raise InputError(f"--output {output}: the tables hold several stacks ({names}); pass a folder")
        return {output: stacks[0]}
    if output.suffix in OTHER_SUFFIXES:
        raise InputError(f"--output {output}: a stack's file ends in {SUFFIX}; a folder takes one for each")
    return {output / f"{plain_name(stack.name).lstrip('.') or 'stack'}{SUFFIX}": stack for stack in stacks}
