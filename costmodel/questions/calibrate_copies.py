"""From tables of KV copies to connectors: latency and bandwidth of each series, and how well they predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date as calendar
from pathlib import Path

import numpy as np

from ..answer import About
from ..errors import InputError
from ..formulas.transfer import wire_time
from ..inputs.link import load_link
from ..measured.copies import FEWEST, fitted
from ..measured.points import Skipped
from ..measured.table import Array
from ..measured.write import plain_name, write_whole
from ..measured.write_connector import BLOCK_RULE, BLOCK_TOKENS, CopyFit, connector_toml
from ..records import Record
from ..results import is_copies, read_results
from .calibrate import OTHER_SUFFIXES, SUFFIX, make_folder

SCHEMA = "costmodel.calibrate-copies/1"
#: Held-out errors above this are warned of: a line through sizes does not describe these copies.
POOR = 0.2


@dataclass(frozen=True)
class CalibrateCopiesAnswer:
    """Fits of each series with their errors, the files that were written, and series that were left out."""

    schema: str
    date: str
    series: tuple[CopyFit, ...]
    files: tuple[str, ...]
    left_out: tuple[Skipped, ...]
    about: About


def copy_tables(files: Sequence[str | Path]) -> bool:
    """Say whether all of these files are tables of copies."""
    return bool(files) and all(is_copies(file) for file in files)


def ask_calibrate_copies(
    files: str | Path | Sequence[str | Path],
    *,
    link: str | Path | None = None,
    source: str | None = None,
    output: str | Path | None = None,
    date: str | None = None,
) -> CalibrateCopiesAnswer:
    """Fit latency and bandwidth to every second size of each series, and predict the others; ``output`` writes them.

    ``link``: name or file of the link that the copies went over, where a table does not state its peak
    (theoretical_GBps). ``source``: where they are from, by default the files' names. ``date``: today.

    Raises InputError for tables that cannot be read, series of fewer than six sizes, a peak that is neither stated nor
    given though a connector is to be written, or an ``output`` that cannot hold what there is.
    """
    files = [files] if isinstance(files, str | Path) else list(files)
    day, told = date or calendar.today().isoformat(), source or ", ".join(Path(file).name for file in files)
    peak = load_link(link).bandwidth_bytes_per_s if link is not None else None
    found, left_out, warnings = list[CopyFit](), list[Skipped](), list[str]()
    for record in (record for file in files for record in read_results(file)):
        warnings += [f"{record.title}: {warning}" for warning in record.warnings]
        sizes = {float(figure.conditions["payload"]) for figure in record.figures}
        if len(sizes) < FEWEST:
            why = f"{record.title}: {len(sizes)} sizes; expected {FEWEST} at least, every second one to fit"
            left_out.append(Skipped(record.where, len(record.figures), why))
        else:
            found.append(_fit(record, peak))
    if not found:
        raise InputError(["nothing to fit", *(f"{left.where}: {left.why}" for left in left_out)])
    paths = {} if output is None else _paths(Path(output), found)
    warnings += _poor(found)
    if output is not None:
        make_folder(Path(output))
        warnings += [f"{path} was there and is replaced" for path in paths if path.exists()]
        texts = {path: connector_toml(fit, _share(fit), path.stem, told, day) for path, fit in paths.items()}
        write_whole({path: text.encode() for path, text in texts.items()})
    return CalibrateCopiesAnswer(
        schema=SCHEMA,
        date=day,
        series=tuple(found),
        files=tuple(map(str, paths)),
        left_out=tuple(left_out),
        about=About(
            assumptions=(
                "a copy takes a latency and its bytes over a bandwidth; both minimise the squares of relative errors",
                "every second size is held out: only their errors are to be trusted",
                f"blocks of {BLOCK_TOKENS} tokens, rounded up ({BLOCK_RULE}): a table of copies does not say",
            ),
            sources=(told,),
            not_modelled=(
                "separate regions of a copy (descriptors), which tables of one layout cannot tell apart",
            ),
            warnings=tuple(warnings),
        ),
    )


def _fit(record: Record, given: float | None) -> CopyFit:
    sizes = np.array([figure.conditions["payload"] for figure in record.figures], dtype=np.float64)
    seconds = np.array([figure.value for figure in record.figures])
    if not (seconds > 0).all():
        line = record.figures[int(np.flatnonzero(seconds <= 0)[0])].name
        raise InputError(f"{line}: a copy that takes no time; expected a time above 0", where=record.where)
    stated = record.conditions.get("link_bandwidth")
    peak = float(stated) if isinstance(stated, int | float) else given
    distinct = np.unique(sizes)
    seen = np.isin(sizes, distinct[::2])
    fit = fitted(sizes[seen], seconds[seen], peak or 0.0)
    errors = np.abs(_predicted(sizes, fit.latency, fit.bytes_per_s) / seconds - 1)
    return CopyFit(
        series=record.title or record.name,
        latency_s=fit.latency,
        bandwidth_bytes_per_s=fit.bytes_per_s,
        peak_bytes_per_s=peak,
        bandwidth_share=min(1.0, fit.bytes_per_s / peak) if peak else None,
        copies=len(sizes),
        sizes=len(distinct),
        smallest_bytes=float(distinct[0]),
        largest_bytes=float(distinct[-1]),
        fitted_mape=float(np.mean(errors[seen])),
        held_out_mape=float(np.mean(errors[~seen])),
        held_out_worst=float(np.max(errors[~seen])),
    )


def _predicted(sizes: Array, latency: float, bytes_per_s: float) -> Array:
    found: Array = np.asarray(wire_time(sizes, bytes_per_s, latency, 0.0, np.zeros(len(sizes)), 1.0))
    return found


def _share(fit: CopyFit) -> float:
    if fit.bandwidth_share is None:
        raise InputError(
            f"{fit.series}: a connector has a share of its link's bandwidth, and the table states no theoretical_GBps: "
            "pass --link, the link that the copies went over"
        )
    return fit.bandwidth_share


def _poor(found: Sequence[CopyFit]) -> list[str]:
    said = [
        f"{fit.series}: held out, {fit.held_out_mape:.0%} off: a latency and a bandwidth do not describe these copies"
        for fit in found
        if fit.held_out_mape > POOR
    ]
    at_peak = [fit for fit in found if fit.bandwidth_share == 1]
    return said + [
        f"{fit.series}: as fast as the stated peak of its link: is that of all its ports?" for fit in at_peak
    ]


def _paths(output: Path, found: Sequence[CopyFit]) -> dict[Path, CopyFit]:
    """Return where each connector goes. Raises InputError where they cannot go there, before anything is written."""
    for fit in found:
        _share(fit)
    if output.suffix == SUFFIX:
        if len(found) > 1:
            names = "; ".join(fit.series for fit in found)
            raise InputError(f"--output {output}: the tables hold several series ({names}); pass a folder")
        return {output: found[0]}
    if output.suffix in OTHER_SUFFIXES:
        raise InputError(
            f"--output {output}: a connector's file ends in {SUFFIX}; a folder takes one for each"
        )
    paths = {output / f"{plain_name(fit.series).strip('.-') or 'connector'}{SUFFIX}": fit for fit in found}
    if len(paths) < len(found):
        raise InputError(f"--output {output}: several series would be written to one file; name their group")
    return paths
