"""The closed form against kept replays: a part of docs/validation/queueing.csv, and what queueing.md says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import queueing
import queueing_replays as replays

FOLDER = Path(__file__).parent.parent / "docs" / "validation"
ROWS = replays.read()
#: Every ninth row: models, strategies and laws of all kinds in a few seconds.
PART = ROWS[::9]


@pytest.fixture(scope="module")
def found() -> list[queueing.Found]:
    return [queueing.judge(row) for row in PART]


def test_where_it_answers_it_is_near(found: list[queueing.Found]) -> None:
    """The aim: within 10 % in nine cases of ten, within 20 % in 98 of 100; of 30 cases, all but one."""
    errors = sorted(f.error for f in found if f.why is None and f.error is not None)
    assert len(errors) > 20 and errors[int(0.9 * len(errors))] < 0.10 and errors[-2] < 0.20


def test_it_answers_most_of_what_it_has_right(found: list[queueing.Found]) -> None:
    right = [f for f in found if f.right]
    assert sum(f.why is None for f in right) >= 0.6 * len(right)


def test_percentiles_are_in_order_and_means_near(found: list[queueing.Found]) -> None:
    off = []
    for f in found:
        if f.why is None:
            gpus = replays.deployment(f.row.case)
            form = queueing.AtOnce(
                gpus, replays.workload(f.row.case, f.row.rate), queueing.step_times(gpus.kinds)
            )
            way = replays.strategy(f.row.case)
            p50, p95, p99 = (form.ttft(way).quantile(share) for share in (0.5, 0.95, 0.99))
            assert 0 < p50 <= p95 <= p99
            off.append(abs((form.means(way).ttft_s or 0.0) / f.row.mean - 1))
    assert sorted(off)[len(off) // 2] < 0.05


def test_the_page_holds_what_was_aimed_at() -> None:
    text = (FOLDER / "queueing.md").read_text()
    line = next(line for line in text.splitlines() if line.startswith("| both: held out"))
    within10, within20, answered = (int(n) for n in re.findall(r"(\d+)% \(", line))
    assert within10 >= 90 and within20 >= 98 and answered >= 60


def test_cases_are_those_of_their_generator() -> None:
    """The file can be made again: each row is the case that its set yields under its number."""
    for name, cases in replays.SETS.items():
        rows = [row for row in ROWS if row.case.set == name]
        made = list(cases(96 if name == "pools" else 1 + max(row.case.number for row in rows)))
        for row in rows:
            assert row.case == made[row.case.number], row.case.key
    assert all(row.requests > 900_000 for row in ROWS if row.case.set == "pools")
