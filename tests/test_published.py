"""The packaged records, checked again: physics, predictions against their bands, and the page that says how it went."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
from published import Recheck, recheck

from costmodel.records.packaged import record_names

PAGE = (Path(__file__).resolve().parent.parent / "docs/validation/published.md").read_text()


@lru_cache
def checked(name: str) -> Recheck:
    return recheck(name)


@pytest.mark.parametrize("name", record_names())
def test_no_prediction_of_a_published_figure_is_faster_than_physics(name: str) -> None:
    assert not checked(name).below_bound


@pytest.mark.parametrize("name", record_names())
def test_the_page_says_how_many_figures_lie_inside_their_bands(name: str) -> None:
    row = re.search(rf"^\| {name} \|.*\| (\d+) of (\d+) \|$", PAGE, re.MULTILINE)
    assert checked(name).inside == ((int(row[1]), int(row[2])) if row else (0, 0))


@pytest.mark.parametrize("name", record_names())
def test_the_page_counts_the_findings_by_grade(name: str) -> None:
    row = re.search(rf"^\| {name} \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert row
    grades = ("impossible", "inconsistent", "suspicious", "not_computable", "holds")
    found = [finding.grade for finding in checked(name).answer.findings]
    assert {grade: found.count(grade) for grade in grades} == dict(zip(grades, map(int, row.groups())))


def test_the_first_record_contradicts_itself_and_physics_where_it_is_known_to() -> None:
    # 4205.4 / 6278.8 = 67 %, claimed 22 to 57 %; 59.2 + 191.4 + 4205.4 + 54.5 = 4510.5 ms of 6278.8; NVLink 3 has 300
    # GB/s one way, not 450; 15.9 MB cross 450 GB/s in 35 us, not 4.2 s; no round of MLPerf has 5 of 9.
    found = {(finding.id, finding.grade) for finding in checked("kairos").answer.findings}
    assert {
        ("claimed_share", "inconsistent"),
        ("percentiles_added", "inconsistent"),
        ("link_of_another_gpu", "impossible"),
        ("far_above_wire", "inconsistent"),
        ("counted_population", "inconsistent"),
    } <= found
    said = " ".join(finding.arithmetic or "" for finding in checked("kairos").answer.findings)
    assert "4.2054 s / 6.2788 s = 67.0%" in said and "35.4 us" in said and "300 GB/s" in said
