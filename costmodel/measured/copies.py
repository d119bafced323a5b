"""Tables of KV copies: series of sizes and times over one link and software, one parameter set each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..formulas.transfer import wire_time
from ..inputs.link import load_connector
from .errors import ErrorRow, summary
from .points import Skipped
from .table import Array, Table

COLUMNS = ("group", "bytes")
PEAK, DESCRIPTORS = "theoretical_GBps", "n_descriptors"
KIND = "kv_transfer"
#: What tells machines of one group apart: each is a series of its own.
MACHINE = ("hardware", "link", "software")


class _Packaged(NamedTuple):
    """The connector whose parameters are those of a series, and the sizes in bytes that they were fitted to."""

    connector: str
    fitted_sizes: tuple[float, ...]


#: Series of packaged connectors.
CONNECTORS = {
    "mooncake_vllm_pd": _Packaged("mooncake-vllm", (21233664, 77856768, 304349184, 1210318848, 4834197504)),
    "mooncake_sglang_pd": _Packaged("mooncake-sglang", (49e6, 197e6, 789e6, 3150e6, 12620e6)),
}
#: Sizes that a series needs for parameters of its own: two are fitted to half of them.
FEWEST = 6
GB = 1e9


@dataclass(frozen=True)
class CopySeries:
    """Errors of the series of a table, and rows that are in none."""

    rows: tuple[ErrorRow, ...]
    skipped: tuple[Skipped, ...]


class _Fit(NamedTuple):
    """Latency in seconds, bytes per second, seconds a descriptor, and whose they are."""

    latency: float
    bytes_per_s: float
    per_descriptor: float
    origin: str


def compare_series(table: Table) -> CopySeries:
    """Return the errors of each series: every second size is held out.

    A series of a packaged connector is predicted by it; any other one by latency and bandwidth that are fitted here
    to the sizes that are not held out.
    """
    used, skipped = table.in_order().filled("bytes", table.time_column()), []
    if len(used) < len(table):
        skipped.append(Skipped(table.where, len(table) - len(used), "states no bytes or no time"))
    rows: list[ErrorRow] = []
    machines = [used.texts(name, default="") for name in MACHINE]
    for (group, *_), keep in used.groups(used.texts("group"), *machines):
        part = used.where_true(keep)
        sizes = part.numbers("bytes", above=True)
        if len(set(sizes.tolist())) < FEWEST and group not in CONNECTORS:
            skipped.append(Skipped(table.where, len(part), f"{group}: fewer than {FEWEST} sizes"))
        elif group in CONNECTORS and not _peak(part):
            skipped.append(
                Skipped(table.where, len(part), f"{group}: states no {PEAK}, which its fit is a share of")
            )
        else:
            rows += _errors(group, part, sizes)
    return CopySeries(tuple(rows), tuple(skipped))


def _errors(group: str, part: Table, sizes: Array) -> list[ErrorRow]:
    seconds = part.seconds()
    packaged = CONNECTORS.get(group)
    seen = np.isin(sizes, packaged.fitted_sizes if packaged else np.unique(sizes)[::2])
    peak = _peak(part)
    fit = _packaged(group, peak) if group in CONNECTORS else fitted(sizes[seen], seconds[seen], peak)
    predicted = wire_time(sizes, fit.bytes_per_s, fit.latency, fit.per_descriptor, _descriptors(part), 1.0)
    errors = predicted / seconds - 1
    below = predicted < sizes / peak * (1 - 1e-9) if peak else np.zeros(len(sizes), dtype=bool)
    hardware = part.texts("hardware", default="not stated")[0]
    found = []
    for split, chosen in (("fitted", seen), ("held_out", ~seen)):
        if chosen.any():
            found.append(
                _row(group, str(hardware), split, errors[chosen], int(below[chosen].sum()), fit.origin)
            )
    return found


def _row(group: str, gpu: str, split: str, errors: Array, below: int, origin: str) -> ErrorRow:
    return ErrorRow(
        kind=KIND,
        gpu=gpu,
        stack=group,
        split=split,
        regime="all",
        n=len(errors),
        measured_rows=len(errors),
        below_bound=below,
        measured_below_bound=None,
        fit=origin,
        **summary(errors),
    )


def _peak(part: Table) -> float:
    """Bytes per second of the link as stated; 0 where it is not."""
    stated = part.filled(PEAK) if PEAK in part else ()
    return float(stated.numbers(PEAK, above=True)[0]) * GB if stated else 0.0


def _descriptors(part: Table) -> Array:
    found = np.zeros(len(part))
    stated = part.texts(DESCRIPTORS, default="") != ""
    if stated.any():
        found[stated] = part.where_true(stated).counts(DESCRIPTORS, low=0)
    return found


def _packaged(group: str, peak: float) -> _Fit:
    connector = load_connector(CONNECTORS[group].connector)
    share = connector.bandwidth_share
    return _Fit(connector.latency_s, share * peak, connector.per_descriptor_s or 0.0, connector.name)


def fitted(sizes: Array, seconds: Array, peak: float) -> _Fit:
    """Return latency and bandwidth with the least squares of relative errors; neither is negative or above peak."""
    weights = 1 / seconds
    columns = np.stack([np.ones_like(sizes), sizes], axis=1) * weights[:, None]
    (latency, per_byte), *_ = np.linalg.lstsq(columns, np.ones_like(sizes), rcond=None)
    if latency < 0:
        latency, per_byte = 0.0, _through(sizes * weights)
    least = 1 / peak if peak else 1e-18
    if per_byte < least:
        per_byte = least
        latency = max(0.0, float(np.sum((1 - sizes * weights * least) * weights) / np.sum(weights**2)))
    return _Fit(float(latency), 1 / float(per_byte), 0.0, "fitted here")


def _through(ratios: Array) -> float:
    """Slope through the origin of 1 over ratios, least squares."""
    return float(np.sum(ratios) / np.sum(ratios**2))
