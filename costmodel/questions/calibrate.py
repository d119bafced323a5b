"""From tables of measured operators to efficiency files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as calendar
from pathlib import Path

from ..answer import About
from ..errors import InputError
from ..inputs.efficiency import Efficiency
from ..inputs.hardware import Gpu, load_gpu
from ..measured.calibrate import Calibrated, calibrate
from ..measured.compare import FitsFor
from ..measured.errors import ErrorRow
from ..measured.points import Given, Read, Skipped
from ..measured.table import read_table
from ..measured.tables import files_of, kind_of
from ..measured.write import as_toml, file_name, write_whole
from .validate_operators import compare_all, error_rows, read_operators

SCHEMA = "costmodel.calibrate/1"


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
    for path, named in files_of(files):
        table = read_table(path)
        if named or kind_of(table) is not None:
            read.extend(read_operators(table, given))
    if not read.points:
        why = [f"{left.where}: {left.rows:,} rows: {left.why}" for left in read.skipped]
        raise InputError(["nothing to fit", *why])
    found = calibrate(read.points, source)
    day = date or calendar.today().isoformat()
    pairs = sorted({(one.gpu, one.stack) for one in found})
    efficiencies = _efficiencies(pairs, found, day)
    written = [] if output is None else _write(Path(output), efficiencies)
    return CalibrateAnswer(
        schema=SCHEMA,
        date=day,
        fits=tuple(_fitted(one) for one in found),
        rows=tuple(error_rows(compare_all(read, FitsFor(efficiencies))[0])),
        files=tuple(map(str, written)),
        left_out=tuple(read.skipped),
        about=About(
            assumptions=(
                "parameters minimise the soft-L1 of the logarithm of predicted over measured times",
                "every second of the sorted shapes, models or sizes is held out: only their errors are to be trusted",
            ),
            sources=tuple(dict.fromkeys(one.fit.source for one in found)),
        ),
    )


def _fitted(one: Calibrated) -> Fitted:
    fit = one.fit
    return Fitted(
        one.gpu, one.stack, fit.kind, fit.form, dict(fit.parameters), fit.points, fit.held_out_points,
        fit.fitted_mape, fit.held_out_mape, fit.held_out_bias, fit.carried_mape, fit.carried_to, fit.split,
        fit.source,
    )  # fmt: skip


def _efficiencies(
    pairs: Sequence[tuple[str, str]], found: Sequence[Calibrated], day: str
) -> list[Efficiency]:
    return [
        Efficiency(gpu, stack, day, {c.fit.kind: c.fit for c in found if (c.gpu, c.stack) == (gpu, stack)})
        for gpu, stack in pairs
    ]


def _write(output: Path, files: Sequence[Efficiency]) -> list[Path]:
    one_file = output.suffix == ".toml"
    if one_file and len(files) > 1:
        several = "; ".join(f"{file.gpu}, {file.stack}" for file in files)
        raise InputError(
            f"--output {output}: the tables hold several GPUs and stacks ({several}); pass a folder"
        )
    if not one_file:
        _make_folder(output)
    written = []
    for file in files:
        path = output if one_file else output / file_name(file.gpu, file.stack)
        write_whole(path, as_toml(file))
        written.append(path)
    return written


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", where=str(path)) from error
