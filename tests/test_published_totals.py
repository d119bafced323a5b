"""Parameter counts against published ones: every line of published_totals.csv, and a line for every model."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from costmodel.families import read_model
from costmodel.inputs.parameters import count_parameters

with (Path(__file__).parent / "published_totals.csv").open(newline="") as lines:
    PUBLISHED = list(csv.DictReader(lines))


@pytest.mark.parametrize("row", PUBLISHED, ids=[f"{row['model']}={row['total']}" for row in PUBLISHED])
def test_total_is_the_published_one(row: dict[str, str]) -> None:
    counted = count_parameters(read_model(row["model"]))
    extras = [counted.extras[name] for name in row["extras"].split("+") if name]
    assert int(row["total"]) - counted.total_parameters - sum(extras) == int(row["difference"])


def test_every_difference_has_a_reason_and_every_row_a_source() -> None:
    assert all(row["source"].strip() for row in PUBLISHED)
    assert all(bool(row["reason"].strip()) == (row["difference"] != "0") for row in PUBLISHED)
