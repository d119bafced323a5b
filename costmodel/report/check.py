"""The page of ``costmodel check``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from ..audit.absent import Absent
from ..audit.comparable import Counterpart
from ..audit.finding import GRADES, HOLDS, NOT_COMPUTABLE, Finding, Inversion
from ..questions.check import CheckAnswer
from . import check_predict as predicted
from .page import Block, Heading, Page, Table, shown

#: Inversions before the rest is only counted.
MOST = 12
#: Readings of words before the rest is only counted.
READINGS = 12
WIDTH = 116


def page(answer: CheckAnswer, detail: bool) -> Page:
    """Return the page: what is absent, findings worst first, what compares, what would explain the figures."""
    told = _told(answer, detail)
    chosen = _chosen(answer, detail)
    blocks: list[Block] = [
        _opening(answer), *_understood(answer),
        Heading("Absent"), *_absent(answer),
        Heading("Physics"), *_findings(answer, told),
        Heading("May be compared with"), _counterparts(answer.comparable_with),
        Heading("May not be compared with"), _counterparts(answer.not_comparable_with),
        Heading("What would explain the figures"), *_inversions(answer, chosen),
        *predicted.blocks(answer),
    ]  # fmt: skip
    return Page(
        _title(answer), tuple(blocks), answer.about, screen=None if detail else _screen(answer, told, chosen)
    )


def _title(answer: CheckAnswer) -> str:
    return f"Check of {', '.join(dict.fromkeys(record.name for record in answer.records))}"


def _opening(answer: CheckAnswer) -> str:
    grades = Counter(finding.grade for finding in answer.findings)
    told = ", ".join(f"{grades[grade]} {grade.replace('_', ' ')}" for grade in GRADES if grades[grade])
    figures = sum(len(record.figures) for record in answer.records)
    return (
        f"{figures} figures; {answer.conditions_absent} of {answer.conditions_asked} conditions are absent; "
        f"checks: {told or 'none apply'}"
    )


def _understood(answer: CheckAnswer) -> list[str]:
    """How words for models, GPUs and links were read, as far as a line holds it."""
    said = list(dict.fromkeys(text for record in answer.records for text in record.understood))
    more = [f"and {len(said) - READINGS} more readings"] if len(said) > READINGS else []
    return [f"understood: {'; '.join(said[:READINGS] + more)}"] if said else []


def _told(answer: CheckAnswer, detail: bool) -> list[Finding]:
    return [f for f in answer.findings if detail or f.grade not in (HOLDS, NOT_COMPUTABLE)]


def _chosen(answer: CheckAnswer, detail: bool) -> list[Inversion]:
    """Of figures that do not hold first, then of whole series; all of them under --detail."""
    if detail:
        return list(answer.inversions)
    bad = {name for f in answer.findings if f.grade not in (HOLDS, NOT_COMPUTABLE) for name in f.of}
    found = [i for i in answer.inversions if i.value is not None and (bad & set(i.of) or len(i.of) > 2)]
    return (found or [i for i in answer.inversions if i.value is not None])[:MOST]


# Markdown, and the plain form of --detail.


def _absent(answer: CheckAnswer) -> Iterable[Block]:
    if not answer.absent:
        return ["(nothing)"]
    rows = tuple((_condition(answer, each), each.reason, each.recovered_by) for each in answer.absent)
    return [Table(("condition", "why", "recovered by"), rows, (False,) * 3)]


def _condition(answer: CheckAnswer, each: Absent) -> str:
    of = f" ({each.record})" if len(answer.records) > 1 else ""
    return f"{each.condition}{'' if each.asked else ' (asked besides the seven)'}{of}"


def _findings(answer: CheckAnswer, told: Sequence[Finding]) -> Iterable[Block]:
    rows = tuple((f.grade.replace("_", " "), f.id, f.said, f.arithmetic or f.reason or "-") for f in told)
    blocks: list[Block] = (
        [Table(("grade", "check", "finding", "arithmetic"), rows, (False,) * 4)] if rows else []
    )
    return [*blocks, *_rest(answer, told)] or ["(no check applies to these figures)"]


def _rest(answer: CheckAnswer, told: Sequence[Finding]) -> Iterator[str]:
    """What was checked and is not told one by one."""
    known = set(map(id, told))
    left = [f for f in answer.findings if id(f) not in known]
    holds = Counter(f.id for f in left if f.grade == HOLDS)
    if holds:
        yield "holds: " + ", ".join(f"{name} ({n})" for name, n in holds.items())
    reasons = Counter(f.reason for f in left if f.grade == NOT_COMPUTABLE)
    if reasons:
        yield "not computable: " + "; ".join(f"{reason} ({n})" for reason, n in reasons.items())


def _counterparts(found: Sequence[Counterpart]) -> Block:
    rows = tuple(dict.fromkeys((c.what, "; ".join(c.reasons)) for c in found))
    return Table(("figures", "why"), rows, (False, False)) if rows else "(nothing)"


def _inversions(answer: CheckAnswer, chosen: Sequence[Inversion]) -> Iterable[Block]:
    if not chosen:
        return ["(nothing can be inverted)"]
    rows = tuple(
        (
            _names(i.of),
            i.quantity,
            shown(i.quantity, i.value),
            _plausible(i),
            i.said or i.reason or "",
            i.arithmetic or "-",
        )
        for i in chosen
    )
    headers = ("of", "quantity", "value", "plausible", "meaning", "arithmetic")
    blocks: list[Block] = [Table(headers, rows, (False, False, True, False, False, False))]
    return [*blocks, *_more(answer, chosen)]


def _more(answer: CheckAnswer, chosen: Sequence[Inversion]) -> list[str]:
    left = len(answer.inversions) - len(chosen)
    return [f"and {left} more: with --detail"] if left else []


def _names(of: Sequence[str]) -> str:
    return ", ".join(of[:2]) + (f" and {len(of) - 2} more" if len(of) > 2 else "")


def _plausible(inversion: Inversion) -> str:
    return {True: "yes", False: "no", None: "-"}[inversion.plausible]


# A terminal's screen: no wide tables.


def _screen(answer: CheckAnswer, told: Sequence[Finding], chosen: Sequence[Inversion]) -> str:
    lines = [_title(answer), _opening(answer)]
    lines += [line for text in _understood(answer) for line in wrap(text, WIDTH, subsequent_indent="  ")]
    lines += [line for text in answer.about.warnings for line in _item(f"warning: {text}", "")]
    lines += ["", "ABSENT"]
    for each in answer.absent:
        lines += _item(f"{_condition(answer, each)}: {each.reason}", f"recovered by {each.recovered_by}")
    lines += [] if answer.absent else ["  nothing"]
    lines += ["", "PHYSICS"]
    for finding in told:
        title = (
            f"{finding.grade.upper().replace('_', ' ')} {finding.id} ({_names(finding.of)}): {finding.said}"
        )
        lines += _item(title, finding.arithmetic or "")
    lines += [line for text in _rest(answer, told) for line in _item(text, "")]
    for heading, found in (
        ("COMPARES WITH", answer.comparable_with),
        ("DOES NOT COMPARE WITH", answer.not_comparable_with),
    ):
        lines += ["", heading, *(_grouped(found) or ["  nothing"])]
    lines += ["", "WHAT WOULD EXPLAIN THE FIGURES"]
    for inversion in chosen:
        mark = " (not plausible)" if inversion.plausible is False else ""
        value = f"{inversion.quantity} {shown(inversion.quantity, inversion.value)}{mark}"
        lines += _item(f"{_names(inversion.of)}: {value}: {inversion.said}", inversion.arithmetic or "")
    lines += [f"  {text}" for text in _more(answer, chosen)] or (
        [] if chosen else ["  nothing can be inverted"]
    )
    lines += [*predicted.lines(answer), ""]
    lines += _item(f"assumed: {'; '.join(answer.about.assumptions)}", "sources and all checks: --detail")
    return "\n".join(lines)


def _item(title: str, below: str) -> list[str]:
    lines = wrap(title, WIDTH, initial_indent="  ", subsequent_indent="      ")
    return [
        *lines,
        *(wrap(below, WIDTH, initial_indent="      ", subsequent_indent="      ") if below else []),
    ]


def _grouped(found: Sequence[Counterpart]) -> list[str]:
    """Counterparts that share a reason stand together."""
    groups: dict[str, list[str]] = {}
    for each in found:
        whats = groups.setdefault("; ".join(each.reasons), [])
        whats += [] if each.what in whats else [each.what]
    return [line for why, whats in groups.items() for line in _item(f"{', '.join(whats)}: {why}", "")]
