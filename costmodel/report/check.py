"""The page of ``costmodel check``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ..audit.finding import GRADES, HOLDS, NOT_COMPUTABLE
from ..questions.check import CheckAnswer
from .page import Block, Heading, Page, Table, shown

#: Rows of a table before the rest is only counted.
MOST = 12


def page(answer: CheckAnswer, detail: bool) -> Page:
    """Return the page: what is absent, findings worst first, comparisons, inversions."""
    blocks: list[Block] = [_opening(answer), Heading("Absent"), *_absent(answer)]
    blocks += [Heading("Physics"), *_findings(answer, detail)]
    blocks += [Heading("May be compared with"), _counterparts(answer.comparable_with)]
    blocks += [Heading("May not be compared with"), _counterparts(answer.not_comparable_with)]
    blocks += [Heading("What would explain the figures"), *_inversions(answer, detail)]
    names = ", ".join(dict.fromkeys(record.name for record in answer.records))
    return Page(f"Check of {names}", tuple(blocks), answer.about)


def _opening(answer: CheckAnswer) -> str:
    grades = Counter(finding.grade for finding in answer.findings)
    told = ", ".join(f"{grades[grade]} {grade.replace('_', ' ')}" for grade in GRADES if grades[grade])
    figures = sum(len(record.figures) for record in answer.records)
    return (
        f"{figures} figures; {answer.conditions_absent} of {answer.conditions_asked} conditions are absent; "
        f"checks: {told or 'none apply'}"
    )


def _absent(answer: CheckAnswer) -> Iterable[Block]:
    if not answer.absent:
        return ["(nothing)"]
    several = len(answer.records) > 1
    headers = ("condition", "why", "recovered by")
    rows = tuple(
        (
            each.condition + ("" if each.asked else " *") + (f" ({each.record})" if several else ""),
            each.reason,
            each.recovered_by,
        )
        for each in answer.absent
    )
    return [
        Table(headers, rows, (False,) * 3),
        "\\* asked besides the seven" if any(not a.asked for a in answer.absent) else "",
    ]


def _findings(answer: CheckAnswer, detail: bool) -> Iterable[Block]:
    told = [f for f in answer.findings if detail or f.grade not in (HOLDS, NOT_COMPUTABLE)]
    rows = tuple((f.grade, f.id, f.said, f.arithmetic or f.reason or "-") for f in told)
    blocks: list[Block] = (
        [Table(("grade", "check", "finding", "arithmetic"), rows, (False,) * 4)] if rows else []
    )
    rest = Counter(f.grade for f in answer.findings if f not in told)
    if rest:
        counted = ", ".join(f"{n} {grade.replace('_', ' ')}" for grade, n in rest.items())
        blocks.append(f"and {counted}: with --detail")
    reasons = Counter(f.reason for f in answer.findings if f.grade == NOT_COMPUTABLE and not detail)
    if reasons:
        blocks.append("not computable: " + "; ".join(f"{reason} ({n})" for reason, n in reasons.items()))
    return blocks or ["(no check applies to these figures)"]


def _counterparts(found: Iterable[object]) -> Block:
    rows = tuple((str(c.what), "; ".join(c.reasons)) for c in found)  # type: ignore[attr-defined]
    return Table(("figures", "why"), tuple(dict.fromkeys(rows)), (False, False)) if rows else "(nothing)"


def _inversions(answer: CheckAnswer, detail: bool) -> Iterable[Block]:
    told = answer.inversions if detail else answer.inversions[:MOST]
    rows = tuple(
        (", ".join(i.of[:2]) + (", ..." if len(i.of) > 2 else ""), i.quantity, shown(i.quantity, i.value),
         {True: "yes", False: "no", None: "-"}[i.plausible], i.said or i.reason or "", i.arithmetic or "-")
        for i in told
    )  # fmt: skip
    if not rows:
        return ["(nothing can be inverted)"]
    blocks: list[Block] = [
        Table(
            ("of", "quantity", "value", "plausible", "meaning", "arithmetic"),
            rows,
            (False, False, True, False, False, False),
        )
    ]
    left = len(answer.inversions) - len(told)
    return [*blocks, f"and {left} more: with --detail"] if left else blocks
