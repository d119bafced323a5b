"""Reading one measurement: its metric, its value in SI, and what its words leave open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any, NamedTuple

from ..errors import nearest, shorten
from .amounts import Amount, amount_of, apart, example_of, fitting, in_si, spelt, unit_problem
from .conditions import condition_named, unstated
from .figures import Meant, meant, statistic_of
from .machine import machine_of
from .record import Figure, Stated
from .vocabulary import METRICS

#: How like a known name must be for a hint: a wrong one misleads more than none.
CLOSE = 0.75
_KINDS = (
    ("total_throughput", r"total|both|all|\band\b|\+"),
    ("output_throughput", r"output|generat|decod"),
    ("input_throughput", r"input|prompt|prefill"),
)
_COUNTING = re.compile(r"(?i)(input|prompt|output|generated|total)\s+(?=tok)")


class Notes(NamedTuple):
    """What is wrong with a file, and what a reader must know of its reading."""

    problems: list[str]
    warnings: list[str]


class _Read(NamedTuple):
    """A metric with its unit apart: ``bare`` without what it is divided by, ``each``."""

    metric: str
    dimension: str | None
    bare: str
    each: str | None


def figure_of(
    row: Mapping[str, Any],
    label: str,
    own: Mapping[str, Stated],
    common: Mapping[str, Stated],
    notes: Notes,
) -> Figure | None:
    """Return the figure of a measurement with its own conditions; None where it states none, or cannot be read.

    ``common``: conditions of the record. A value such as "n/a" states nothing, which is warned of.
    """
    written = row.get("metric")
    if not isinstance(written, str) or not written.strip():
        notes.problems.append(_no_metric(row, label))
        return None
    if "value" in row and unstated(row["value"]):
        notes.warnings.append(f"{label}: no value is stated ({row['value']!r}): it is no figure")
        return None
    amount = amount_of(row.get("value"))
    if amount is None:
        notes.problems.append(
            f"{label}: value {shorten(repr(row.get('value')))} is not a finite number, or two of a range"
        )
        return None
    found = meant(written)
    unit = _unit(row, label, found, amount, notes.problems)
    if unit is None:
        return None
    read = _resolved(found, unit, {**common, **own})
    figure = _in_si(row, label, amount, found, read, own, notes.problems)
    if figure is None:
        return None
    _warn(figure, written, row, label, amount, found, notes.warnings)
    return _of_gpu(figure, read, {**common, **own}, notes.warnings)


def text_of(table: Mapping[str, Any], key: str) -> str | None:
    """Return a text of a table, or a date as one; None where there is none."""
    value = table.get(key)
    if isinstance(value, date):
        return value.isoformat()
    return value.strip() if isinstance(value, str) and value.strip() else None


def _no_metric(row: Mapping[str, Any], label: str) -> str:
    match = nearest("metric", [key for key in row if key not in ("id", "source")])
    hint = f"; nearest present: {match!r}" if match else ""
    return f"{label}: no metric{hint}; expected a name such as ttft"


def _unit(
    row: Mapping[str, Any], label: str, found: Meant, amount: Amount, problems: list[str]
) -> str | None:
    """The unit by its key, with the value, or in the metric's name; where several say it, they must agree."""
    given = row.get("unit")
    if isinstance(given, str) and given.strip() in ("-", "n/a", "none"):
        given = ""
    if given is not None and not isinstance(given, str):
        problems.append(f"{label}: unit {given!r} is not a text")
        return None
    said = [unit.strip() for unit in (given, amount.unit, found.unit) if unit and unit.strip()]
    apart_said = {in_si(1.0, apart(unit)[0], found.dimension) for unit in said}
    if len(apart_said) > 1:
        quoted = " and ".join(repr(unit) for unit in dict.fromkeys(said))
        problems.append(f"{label}: {row['metric']} has two units, {quoted}; expected one")
        return None
    if said:
        return next((unit for unit in said if apart(unit)[1]), said[0])
    if given is not None or found.dimension in ("1", "token", None):
        return given or ""
    problems.append(
        f"{label}: {row['metric']} has no unit; expected one of {found.dimension}, "
        f"such as {example_of(found.dimension)}"
    )
    return None


def _resolved(found: Meant, unit: str, stated: Mapping[str, Stated]) -> _Read:
    """The metric, where its unit or conditions say more than its name: which tokens, whose rate."""
    bare, each = apart(unit)
    each = each or found.each
    counting = _COUNTING.match(bare)
    bare = spelt(_COUNTING.sub("", bare))
    metric = found.metric
    if metric == "throughput" and in_si(1.0, bare, None)[1] == "1/second":
        metric = "request_throughput"
    elif each == "user" and metric in ("throughput", "output_throughput"):
        metric = "user_throughput"
    elif metric == "throughput":
        words = counting[1] if counting else str(stated.get("throughput_counts", ""))
        metric = next((name for name, kind in _KINDS if re.search(kind, words.lower())), metric)
    return _Read(metric, METRICS[metric].dimension if metric in METRICS else found.dimension, bare, each)


def _in_si(
    row: Mapping[str, Any],
    label: str,
    amount: Amount,
    found: Meant,
    read: _Read,
    own: Mapping[str, Stated],
    problems: list[str],
) -> Figure | None:
    value, dimension = in_si(amount.low, read.bare, read.dimension)
    unit = f"{read.bare}/{read.each.replace('gpu', 'GPU')}" if read.each else read.bare
    if (dimension is None and read.dimension is not None) or not fitting(dimension, read.dimension):
        problems.append(unit_problem(label, unit, read.metric, str(read.dimension)))
        return None
    if value < 0 and read.metric in METRICS and read.dimension != "1":
        problems.append(f"{label}: {row['metric']} {amount.low:g} {unit} is negative")
        return None
    return Figure(
        name=label,
        metric=read.metric,
        value=value,
        dimension=read.dimension or dimension,
        text=f"{amount.low:.10g}{'' if amount.high is None else f' to {amount.high:.10g}'} {unit}".strip(),
        unit=unit,
        statistic=statistic_of(text_of(row, "statistic")) or found.statistic,
        high=None if amount.high is None else in_si(amount.high, read.bare, read.dimension)[0],
        conditions=own,
        note=text_of(row, "note"),
        per_gpu=read.each == "gpu",
    )


def _warn(
    figure: Figure,
    written: str,
    row: Mapping[str, Any],
    label: str,
    amount: Amount,
    found: Meant,
    warnings: list[str],
) -> None:
    if amount.hedge:
        warnings.append(
            f"{label}: {shorten(repr(row['value']))} is read as {figure.text}: {amount.hedge!r} is left out"
        )
    if figure.metric in METRICS or found.checked:
        return
    condition = condition_named(written)
    if condition:
        hint = f": {condition} is a condition"
    else:
        match = nearest(figure.metric, METRICS, cutoff=CLOSE)
        hint = f"; did you mean {match!r}?" if match else " (costmodel show metrics)"
    warnings.append(f"no check knows metric {shorten(written)!r}{hint}")


def _of_gpu(figure: Figure, read: _Read, stated: Mapping[str, Stated], warnings: list[str]) -> Figure:
    """A rate of a node as one of each of its GPUs; a metric of its own where nothing relates it to GPUs."""
    if read.each in (None, "gpu") or read.metric == "user_throughput":
        return figure
    size = _gpus_of_node(stated) if read.each == "node" else None
    if size:
        high = None if figure.high is None else figure.high / size
        return replace(figure, value=figure.value / size, high=high, per_gpu=True)
    why = ", and gpus_per_node is not stated" if read.each == "node" else ""
    warnings.append(f"{figure.name}: {figure.text} is of a {read.each}{why}: no check uses it")
    return replace(figure, metric=f"{figure.metric}_per_{read.each}")


def _gpus_of_node(stated: Mapping[str, Stated]) -> int | None:
    told = stated.get("gpus_per_node")
    if isinstance(told, int) and told > 0:
        return told
    counts = re.findall(r"(?i)(?<![\w.])(\d{1,4})\s*(?:x\s*)?nodes?\b", str(stated.get("hardware", "")))
    nodes = stated.get("nodes") or (int(counts[0]) if len(counts) == 1 else None)
    gpus = machine_of(stated).gpus
    return gpus // nodes if gpus and isinstance(nodes, int) and nodes and gpus % nodes == 0 else None
