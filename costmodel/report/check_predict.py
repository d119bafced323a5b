"""Predictions, diagnoses and comparisons of ``costmodel check``, as blocks of a page and as lines of a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from ..audit.match import Matched, Ratio
from ..questions.check import CheckAnswer
from .page import Block, Heading, Table, banded, shown
from .render import plain_block

if TYPE_CHECKING:
    from ..diagnosis.answer import Diagnosed, Diagnosis
    from ..diagnosis.levers import Lever
    from ..diagnosis.predict import Prediction, RateRow, Row

HEADERS = ("figure", "measured", "predicted (band)", "ratio", "inside")
MOVED = ("moved", "by", "effect on it", "", "on the others", "set")
#: Levers of a figure that are told.
MOST = 4


def blocks(answer: CheckAnswer) -> Iterator[Block]:
    """Yield headings, tables and sentences on what was predicted, what hurts, and what compares."""
    if answer.predictions:
        yield Heading("Predicted beside measured")
        for prediction in answer.predictions:
            yield _ran(prediction)
            if rows := _rows(prediction):
                yield Table(
                    ("figure", "measured", "predicted (band)", "ratio", "inside"),
                    rows,
                    (False, True, True, True, False),
                )
            yield from _reasons(prediction)
    if answer.diagnoses:
        yield Heading("What hurts")
        for each in answer.diagnoses:
            yield from _diagnosis(each)
    if answer.comparisons:
        yield Heading("Against each other")
        for found in answer.comparisons:
            yield from _comparison(found)


def _ran(prediction: Prediction) -> str:
    """What ran and how requests came; what that rests on and nobody stated."""
    told = [f"{prediction.run}:"]
    if prediction.strategy:
        gpus = f"{prediction.gpus} GPU{'s' if prediction.gpus != 1 else ''}"
        split = f" ({prediction.topology})" if "P" in str(prediction.topology) else ""
        told.append(f"{prediction.strategy} on {gpus}{split}")
    if prediction.load:
        told.append(f"- {prediction.load}")
    assumed = [
        f"{each.name} {each.value} ({each.note})" for each in prediction.taken if each.basis == "assumed"
    ]
    return " ".join(told) + (f". Assumed: {'; '.join(assumed)}" if assumed else "")


def _rows(prediction: Prediction) -> tuple[tuple[str, ...], ...]:
    times = [_time(row) for row in (*prediction.rows, *prediction.stages) if row.predicted_s is not None]
    rates = [_rate(row) for row in prediction.rates if row.predicted_per_s is not None]
    return (*times, *rates)


def _time(row: Row) -> tuple[str, ...]:
    assert row.predicted_s is not None
    measured = shown("_s", row.measured_s)
    if row.measured_low_s is not None and row.measured_high_s is not None:
        measured = banded("_s", row.measured_s, row.measured_low_s, row.measured_high_s)
    predicted = shown("_s", row.predicted_s)
    if row.low_s is not None and row.high_s is not None:
        predicted = banded("_s", row.predicted_s, row.low_s, row.high_s)
    named = _named(row.measure, row.statistic) + (f" from {row.ttft_from}" if row.ttft_from else "")
    inside = "with a front end" if row.inside_with_front_end and not row.inside else _inside(row.inside)
    return named, measured, predicted, _ratio(row.ratio), inside


def _rate(row: RateRow) -> tuple[str, ...]:
    assert row.predicted_per_s is not None
    predicted = f"{row.predicted_per_s:,.4g}/s"
    if row.low_per_s is not None and row.high_per_s is not None:
        predicted = f"{row.predicted_per_s:,.4g} ({row.low_per_s:,.4g}-{row.high_per_s:,.4g})/s"
    return row.measure, f"{row.measured_per_s:,.4g}/s", predicted, _ratio(row.ratio), _inside(row.inside)


def _named(measure: str, statistic: str | None) -> str:
    return f"{measure} {statistic}" if statistic else measure


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _inside(inside: bool | None) -> str:
    return {True: "yes", False: "no", None: "-"}[inside]


def _reasons(prediction: Prediction) -> Iterator[str]:
    """Why figures have no prediction, each reason once."""
    rows: tuple[Row | RateRow, ...] = (*prediction.rows, *prediction.stages, *prediction.rates)
    found = Counter(row.reason for row in rows if row.reason)
    for reason in (prediction.reason, prediction.load_reason):
        if reason and reason not in found:
            found[reason] = 0
    if found:
        yield "not predicted: " + "; ".join(
            f"{reason}{f' ({n})' if n else ''}" for reason, n in found.items()
        )


def _diagnosis(diagnosis: Diagnosis) -> Iterator[Block]:
    if diagnosis.reason:
        yield f"nothing can be said: {diagnosis.reason}"
    for figure in diagnosis.figures:
        yield figure.said
        yield from _sureness(figure)
        if told := _levers(figure):
            yield Table(MOVED, told, (False, False, True, False, False, False))
    if diagnosis.reconciliation is not None:
        yield f"what would make the prediction fit: {diagnosis.reconciliation.said}"


def _sureness(figure: Diagnosed) -> Iterator[str]:
    """How sure that is, what it cannot be, and what to set; nothing is said twice."""
    sure = figure.sureness or ""
    yield f"how sure: {figure.grade}{f', {sure}' if sure not in figure.said else ''}"
    yield from (f"not {each.what}: {each.said}" for each in figure.ruled_out)
    if figure.setting is not None or (figure.setting_reason and sure not in figure.setting_reason):
        yield _setting(figure)


def _setting(figure: Diagnosed) -> str:
    """The setting that moves the figure most, or why there is none."""
    best = figure.setting
    if best is None:
        return f"no setting: {figure.setting_reason}"
    flags = ", ".join(f"{engine} {text}" for engine, text in best.settings.items())
    return (
        f"moves it most: {best.name} {best.step}, {best.change or 0.0:+.0%}{f' ({flags})' if flags else ''}"
    )


def _levers(figure: Diagnosed) -> tuple[tuple[str, ...], ...]:
    helpful = [lever for lever in figure.levers if lever.change is not None]
    return tuple(_lever(lever) for lever in helpful[:MOST])


def _lever(lever: Lever) -> tuple[str, ...]:
    settings = ", ".join(f"{engine} {text}" for engine, text in lever.settings.items())
    change = f"{lever.change or 0.0:+.0%} +-{lever.noise or 0.0:.0%}"
    others = ", ".join(f"{name} {moved:+.0%}" for name, moved in lever.others.items() if moved is not None)
    return lever.name, lever.step, change, f"{lever.effect} ({lever.kind})", others or "-", settings or "-"


def _comparison(found: Matched) -> Iterator[Block]:
    named = f"{found.b} against {found.a}"
    if found.varying:
        named += ", which differ in " + ", ".join(each.said for each in found.varying)
    if not found.comparable:
        yield f"{named}: not comparable: {'; '.join(found.reasons)}"
        return
    yield f"{named}: comparable, {len(found.matching)} conditions match"
    yield from found.caveats
    rows = tuple(_of_both(ratio) for ratio in found.ratios)
    headers = ("figure (SI)", "first", "second", "second / first", "95 %", "")
    yield Table(headers, rows, (False, True, True, True, True, False))


def _of_both(ratio: Ratio) -> tuple[str, ...]:
    between = f"{ratio.low:.2f}-{ratio.high:.2f}" if ratio.low is not None and ratio.high is not None else "-"
    named = _named(ratio.metric, ratio.statistic)
    return named, f"{ratio.a:.4g}", f"{ratio.b:.4g}", _ratio(ratio.ratio), between, ratio.verdict or ""


def lines(answer: CheckAnswer) -> Sequence[str]:
    """Return the same as lines of a screen."""
    found: list[str] = []
    for block in blocks(answer):
        if isinstance(block, Heading):
            found += ["", block.text.upper()]
        elif isinstance(block, str):
            found += wrap(block, 116, initial_indent="  ", subsequent_indent="      ")
        else:
            found += [f"    {line}" for line in plain_block(block).splitlines()]
    return found
