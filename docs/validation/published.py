"""Packaged records against physics and predictions: python docs/validation/published.py > docs/validation/published.md.

Longer than a test should take; the tests check the same functions record by record.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from costmodel.audit.finding import GRADES, HOLDS, NOT_COMPUTABLE
from costmodel.diagnosis.predict import Prediction, Row
from costmodel.questions.check import CheckAnswer, ask_check
from costmodel.questions.check_options import CheckOptions
from costmodel.records.packaged import record_names
from costmodel.serving.scenario import Scenario

#: What a report does not say and a prediction needs, by record: said here, never in the record.
SAID: dict[str, tuple[Scenario, tuple[str, ...], str]] = {
    "splitwise": (
        Scenario("", "", stack="splitwise-2023"), ("stack",),
        "--stack splitwise-2023, fitted to half of its configurations",
    ),
    "mooncake-vllm": (
        Scenario("", "", link="eth-200", nics=8, connector="mooncake-vllm"), ("link", "nics", "connector"),
        "--link eth-200 --nics 8 (the page divides by 200 GB/s) --connector mooncake-vllm, fitted to every second size",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Recheck:
    """A record checked anew: findings by grade, and its times beside their predictions."""

    name: str
    answer: CheckAnswer
    rows: tuple[Row, ...] = field(default=())

    @property
    def below_bound(self) -> list[Row]:
        """Predictions faster than physics: there must be none."""
        return [
            row
            for row in self.rows
            if row.predicted_s is not None and row.bound_s and row.predicted_s < row.bound_s
        ]

    @property
    def inside(self) -> tuple[int, int]:
        """Figures whose band holds them, of those with a band."""
        told = [row for row in self.rows if row.inside is not None]
        return sum(bool(row.inside) for row in told), len(told)


def recheck(name: str) -> Recheck:
    """Check a packaged record and predict what can be predicted of it."""
    scenario, passed, _ = SAID.get(name, (Scenario("", ""), (), ""))
    answer = ask_check([name], CheckOptions(scenario=scenario, passed=frozenset(passed), wanted=True))
    return Recheck(name, answer, tuple(row for found in answer.predictions for row in _rows(found)))


def _rows(found: Prediction) -> list[Row]:
    return [row for row in (*found.rows, *found.stages) if row.predicted_s is not None]


def page() -> str:
    """The page in markdown."""
    checks = [recheck(name) for name in record_names()]
    parts = [
        "# Published figures checked again",
        "",
        INTRODUCTION,
        "",
        "## Physics",
        "",
        findings(checks),
        "",
    ]
    parts += ["## Predictions", "", predictions(checks)]
    for check in checks:
        if check.rows:
            parts += ["", f"### {check.name}", "", *_said(check.name), times(check)]
    return "\n".join(parts) + "\n"


INTRODUCTION = (
    "Each packaged record (`costmodel show records`) is examined as any other is, and its times are set beside "
    "the model's predictions. The tests check that no prediction is faster than physics and that as many figures "
    "lie inside their bands as this page says. What a prediction needs and a report does not state is said below; "
    "it is not in the record."
)


def findings(checks: list[Recheck]) -> str:
    """Findings of each record by grade, and those that do not hold."""
    lines = [
        "| record | " + " | ".join(grade.replace("_", " ") for grade in GRADES) + " |",
        "| --- |" + " --- |" * len(GRADES),
    ]
    for check in checks:
        count = Counter(f.grade for f in check.answer.findings)
        lines.append(f"| {check.name} | " + " | ".join(str(count[grade]) for grade in GRADES) + " |")
    lines.append("")
    for check in checks:
        for found in check.answer.findings:
            if found.grade not in (HOLDS, NOT_COMPUTABLE):
                lines.append(
                    f"* {check.name}, `{found.id}`, {found.grade}: {found.said} ({found.arithmetic})"
                )
    return "\n".join(lines)


def predictions(checks: list[Recheck]) -> str:
    """Errors and coverage of each record."""
    lines = [
        "| record | figures | median error | largest | inside the band |",
        "| --- | --- | --- | --- | --- |",
    ]
    for check in checks:
        errors = [row.ratio - 1 for row in check.rows if row.ratio is not None]
        if errors:
            held, told = check.inside
            middle, largest = f"{median(map(abs, errors)):.0%}", f"{max(errors, key=abs):+.0%}"
            lines.append(f"| {check.name} | {len(errors)} | {middle} | {largest} | {held} of {told} |")
    return "\n".join(lines)


def _said(name: str) -> list[str]:
    told = SAID.get(name)
    return [f"With {told[2]}.", ""] if told else []


def times(check: Recheck) -> str:
    """The times of a record, measured and predicted."""
    lines = [
        "| figure | measured, ms | predicted, ms | band, ms | bound, ms | inside |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in check.rows:
        band = (
            "-"
            if row.low_s is None or row.high_s is None
            else f"{row.low_s * 1e3:.4g}-{row.high_s * 1e3:.4g}"
        )
        bound = "-" if row.bound_s is None else f"{row.bound_s * 1e3:.3g}"
        inside = {True: "yes", False: "no", None: "-"}[row.inside]
        measured, predicted = f"{row.measured_s * 1e3:.4g}", f"{(row.predicted_s or 0) * 1e3:.4g}"
        lines.append(f"| {row.figure} | {measured} | {predicted} | {band} | {bound} | {inside} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
