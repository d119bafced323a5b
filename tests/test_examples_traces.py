"""The page of workloads and traces holds what its script computes: one row is computed again."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from costmodel.serving.strategies import DISAGGREGATED
from costmodel.workloads import load_workload, workload_names

EXAMPLES = Path(__file__).parent.parent / "examples"
PAGE = (EXAMPLES / "traces.md").read_text()


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("traces", EXAMPLES / "traces.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows() -> list[list[str]]:
    """The cells of the table, without its header and the marks of the least."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_a_row_computed_again(script: Any) -> None:
    found = script.cells(script.play(script.comparison(load_workload("hpld")), DISAGGREGATED))
    assert ["hpld", *found] in rows()


def test_every_load_meets_every_strategy() -> None:
    strategies: dict[str, list[str]] = {}
    for load, strategy, *_ in rows():
        strategies.setdefault(load, []).append(strategy.split(":")[0])
    assert {*workload_names(), "conv x1", "conv x4", "code x1", "code x6"} <= strategies.keys()
    for found in strategies.values():
        assert {"colocated", "chunked", "disaggregated", "deflected"} == {*found} and len(found) >= 5


def test_the_ledger_adds_up_and_what_is_said_stands_in_the_table(script: Any) -> None:
    start = script.HEADER.index("mean delay, s")
    for row in rows():
        if row[start] != "-":
            delay, *parts = map(float, row[start : start + 5])
            assert sum(parts) == pytest.approx(delay, abs=0.003)
    figures = re.findall(r"\d+\.\d+|\d+%", script.READING)
    assert {*figures} <= {cell for row in rows() for cell in row}


def test_the_page_begins_and_ends_as_the_script_says(script: Any) -> None:
    assert PAGE.startswith(script.INTRO) and PAGE.endswith(script.READING)
