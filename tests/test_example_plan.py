"""The page of plans for a recorded service: its GPUs and dollars are those of its instances and today's prices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costmodel.inputs.prices import prices_for

PAGE = (Path(__file__).parent.parent / "examples" / "plan_azure.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "TP" in line
]


def test_every_row_is_priced_by_its_instances() -> None:
    prices = prices_for(("a100-sxm-80gb", "h100-sxm"))
    assert len(ROWS) >= 9
    for plan, gpus, usd, *_ in ROWS:
        pools = re.findall(r"(\d+) x ([\w-]+) TP(\d+)", plan)
        counts = [(int(count) * int(tp), name) for count, name, tp in pools]
        assert sum(count for count, _ in counts) == int(gpus)
        assert sum(count * prices[name].usd_per_hour for count, name in counts) == pytest.approx(
            float(usd), abs=0.006
        )


def test_plans_that_hold_come_first_and_attain_the_target() -> None:
    for section in PAGE.split("## ")[1:]:
        rows = [row for row in ROWS if "|".join(row[:1]) in section]
        holds = [row[-1] == "yes" for row in rows]
        assert holds[0] and len(rows) > 1
    for row in ROWS:
        if row[-1] == "yes":
            assert float(row[5].removesuffix(" %")) >= 90
        else:
            assert "short" in row[-1] or "down" in row[-1] or "capacity" in row[-1]
