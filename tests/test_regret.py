"""The page of regrets holds what its script computes: one row is computed again."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from costmodel.decision.comparison import Comparison, Options
from costmodel.serving.scenario import Scenario
from costmodel.workloads import load_workload, workload_names

EXAMPLES = Path(__file__).parent.parent / "examples"
PAGE = (EXAMPLES / "regret.md").read_text()


def script() -> Any:
    spec = importlib.util.spec_from_file_location("regret", EXAMPLES / "regret.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(workload: str) -> dict[str, list[str]]:
    """Rule -> the cells of its row."""
    section = PAGE.split(f"## {workload}\n")[1].split("## ")[0]
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in section.splitlines() if "|" in line]
    return {row[0]: row[1:] for row in cells[2:]}


@pytest.mark.parametrize("workload", workload_names())
def test_every_rule_has_a_regret_and_the_best_has_none(workload: str) -> None:
    found = rows(workload)
    assert {"Kairos, as printed", "Kairos, transfer-aware"} <= found.keys()
    assert {f"constant {n}" for n in (8, 512, 2048, 4096)} <= found.keys()
    regrets = [float(row[0].replace(",", "")) for row in found.values()]
    assert min(regrets) == 0 and regrets == sorted(regrets)
    assert any(re.match("system", rule) for rule in found)


def test_a_row_computed_again() -> None:
    regret = script()
    deployment = Scenario("deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb").deployment()
    compare = Comparison(deployment, load_workload("lpld"), Options(requests=regret.REQUESTS))
    total, p95, local = regret._evaluate(compare, regret.constant(512))
    row = rows("lpld")["constant 512"]
    assert row[1:] == [f"{total / regret.REQUESTS:.3f}", f"{p95:.2f}", f"{local:.0%}"]
