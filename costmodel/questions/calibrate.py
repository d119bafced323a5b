"""From tables of measured operators to efficiency files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as calendar
from pathlib import Path

from ..answer import About
from ..errors import InputError
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu, load_gpu
from ..measured.calibrate import Calibrated, calibrate, fittable, sensible
from ..measured.compare import FitsFor
from ..measured.errors import ErrorRow
from ..measured.points import Given, Points, Read, Skipped
from ..measured.table import read_table
from ..measured.tables import files_of, kind_of
from ..measured.write import as_toml, file_name, write_whole
from ..results import is_metrics
from .validate_operators import compare_all, error_rows, read_operators

SCHEMA = "costmodel.calibrate/1"
#: What a user who means a file may write.
OTHER_SUFFIXES = (".csv", ".gz", ".json", ".tml", ".txt", ".yaml", ".yml")
SUFFIX = ".toml"


@dataclass(frozen=True)
class Fitted:
    """A fit of an operator: the form, its parameters (SI), how many rows it saw and was tried on, and its errors."""

    gpu: str
    stack: str
    operator: str
    form: str
    parameters: dict[str, float]
    points: int
    held_out_points: int
    fitted_mape: float
    held_out_mape: float
    held_out_bias: float | None
    carried_mape: float | None
    carried_to: str | None
    split: str
    source: str


@dataclass(frozen=True)
class CalibrateAnswer:
    """Fits, their errors as ``validate`` would print them, and the files that were written."""

    schema: str
    date: str
    fits: tuple[Fitted, ...]
    rows: tuple[ErrorRow, ...]
    files: tuple[str, ...]
    left_out: tuple[Skipped, ...]
    about: About


def ask_calibrate(
    files: Sequence[str | Path],
    *,
    hardware: Gpu | str | Path | None = None,
    stack: str | None = None,
    source: str | None = None,
    output: str | Path | None = None,
    date: str | None = None,
) -> CalibrateAnswer:
    """Fit the operators of tables and, with ``output``, write an efficiency file for each GPU and stack.

    ``hardware`` and ``stack``: of tables that do not say. ``source``: where they are from. ``date``: today.

    Raises InputError for tables that cannot be read, too few rows, a missing scipy, or an ``output`` that cannot
    hold what there is.
    """
    given = Given(load_gpu(hardware) if isinstance(hardware, str | Path) else hardware, stack)
    read = Read()
    _no_metrics(files)
    for path, named in files_of(files):
        table = read_table(path)
        if named or kind_of(table) is not None:
            read.extend(read_operators(table, given))
    points, few = fittable(read.points)
    left_out = (*read.skipped, *few)
    if not points:
        why = [f"{left.where}: {left.rows:,} rows: {left.why}" for left in left_out]
        raise InputError(["nothing to fit", *why])
    pairs = sorted({(part.gpu.name, part.stack) for part in points})
    paths = {} if output is None else _paths(Path(output), pairs)
    replaced: list[Path] = []
    found, nonsense = sensible(calibrate(points, source))
    left_out += tuple(nonsense)
    if not found:
        raise InputError(
            ["nothing that a form describes", *(f"{left.where}: {left.why}" for left in nonsense)]
        )
    pairs = sorted({(one.gpu, one.stack) for one in found})
    day = date or calendar.today().isoformat()
    efficiencies = _efficiencies(pairs, found, day)
    if output is not None:
        make_folder(Path(output))
        paths = {pair: path for pair, path in paths.items() if pair in pairs}
        replaced = [path for path in paths.values() if os.path.exists(path)]
        write_whole({paths[file.gpu, file.stack]: as_toml(file).encode() for file in efficiencies})
    return CalibrateAnswer(
        schema=SCHEMA,
        date=day,
        fits=tuple(_fitted(one) for one in found),
        rows=tuple(_errors(points, efficiencies)),
        files=tuple(map(str, paths.values())),
        left_out=left_out,
        about=About(
            assumptions=(
                "parameters minimise the soft-L1 of the logarithm of predicted over measured times",
                "every second of the sorted shapes, models or sizes is held out: only their errors are to be trusted",
            ),
            sources=tuple(dict.fromkeys(one.fit.source for one in found)),
            warnings=(*(f"{path} was there and is replaced" for path in replaced), *_edges(found)),
        ),
    )


def _no_metrics(files: Sequence[str | Path]) -> None:
    """Raise InputError for what a server counted, which looks like no table at all."""
    for file in files:
        if is_metrics(file):
            raise InputError(
                "holds /metrics of a server: sums and buckets since its start, at loads that nobody knows. calibrate "
                "needs times of single requests or means of closed loops; costmodel check reads this file",
                where=str(file),
            )


def _edges(found: Sequence[Calibrated]) -> list[str]:
    """Say which shares of a peak ended where their range does: no kernel is so good or so bad."""
    return [
        f"{one.fit.kind} of {one.gpu}, {one.stack}: {name} is at the edge of its range ({value:.3g})"
        for one in found
        for name, value in one.fit.parameters.items()
        if name.endswith("_share") and name != "cached_share" and not 0.011 < value < 0.999
    ]


def _fitted(one: Calibrated) -> Fitted:
    fit = one.fit
    return Fitted(
        one.gpu, one.stack, fit.kind, fit.form, dict(fit.parameters), fit.points, fit.held_out_points,
        fit.fitted_mape, fit.held_out_mape, fit.held_out_bias, fit.carried_mape, fit.carried_to, fit.split,
        fit.source,
    )  # fmt: skip


def _errors(points: Sequence[Points], efficiencies: Sequence[Efficiency]) -> list[ErrorRow]:
    """The errors that ``validate`` finds with each of the files."""
    compared = []
    for file in efficiencies:
        own = Read([part for part in points if (part.gpu.name, part.stack) == (file.gpu, file.stack)])
        compared += compare_all(own, FitsFor((file,)))[0]
    return error_rows(compared)


def _efficiencies(
    pairs: Sequence[tuple[str, str]], found: Sequence[Calibrated], day: str
) -> list[Efficiency]:
    return [
        Efficiency(gpu, stack, day, {c.fit.kind: c.fit for c in found if (c.gpu, c.stack) == (gpu, stack)})
        for gpu, stack in pairs
    ]


def _paths(output: Path, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Path]:
    """Return where the file of each GPU and stack goes."""
    if output.suffix == SUFFIX:
        if len(pairs) > 1:
            several = "; ".join(f"{gpu}, {stack}" for gpu, stack in pairs)
            raise InputError(
                f"--output {output}: the tables hold several GPUs and stacks ({several}); pass a folder"
            )
        return {pairs[0]: output}
    if output.suffix in OTHER_SUFFIXES:
        raise InputError(
            f"--output {output}: an efficiency file ends in {SUFFIX}; a folder takes one for each stack"
        )
    found = {pair: output / file_name(*pair) for pair in pairs}
    if len(set(found.values())) < len(found):
        same = "; ".join(f"{gpu}, {stack}" for gpu, stack in pairs)
        raise InputError(f"--output {output}: stacks whose files would be called the same: {same}")
    return found


def make_folder(path: Path) -> None:
    """Make the folder that ``--output`` names, unless it names a file. Raises InputError where it cannot be made."""
    if path.suffix == SUFFIX:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", where=str(path)) from error
