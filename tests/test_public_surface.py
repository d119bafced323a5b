"""The library's names: exactly these, each importable, none of them costing anything before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.metadata import files
from types import ModuleType

import pytest

import costmodel

PUBLIC = {
    "ask_plan", "PlanOptions",
    "ask_recommend", "ask_replay", "ask_break_even", "ask_step", "ask_kv", "ask_transfer", "ask_validate",
    "ask_sweep", "Sweep", "SweepAnswer", "ask_reuse", "ReuseOptions", "load_tier",
    "ask_check", "CheckOptions", "read_records", "load_records", "read_results",
    "ask_calibrate", "ask_calibrate_copies",
    "ask_calibrate_requests", "ask_calibrate_stack", "load_efficiency", "load_steps", "load_stack",
    "Loop", "closed_loop",
    "Scenario", "Settings", "Deployment", "Options", "Rule", "RuleKind", "recommend",
    "Workload", "Lengths", "Arrivals", "Slo", "Request", "load_workload", "read_trace", "trace_workload",
    "Load", "Reading",
    "read_model", "load_gpu", "load_link", "load_connector", "make_instance", "Parallelism",
    "kv_bytes", "kv_pool", "count_parameters", "analyse_step", "Chunk", "analyse_transfer", "Handover",
    "BOOK", "formula_named",
    "CostmodelError", "InputError", "NoAnswerError",
    "__version__",
}  # fmt: skip


def in_a_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout


def test_all_is_this_list() -> None:
    assert len(costmodel.__all__) == len(set(costmodel.__all__))
    assert set(costmodel.__all__) == PUBLIC
    assert set(costmodel.__all__) <= set(dir(costmodel))


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_name_is_importable_and_documented(name: str) -> None:
    found = getattr(costmodel, name)
    assert not isinstance(found, ModuleType)
    assert name in ("BOOK", "__version__") or found.__doc__


def test_star_import_brings_all() -> None:
    names: dict[str, object] = {}
    exec("from costmodel import *", names)
    assert names.keys() >= PUBLIC


def test_import_costs_next_to_nothing() -> None:
    code = "import sys, costmodel; print(sorted(m for m in sys.modules if m.startswith('costmodel')))"
    assert in_a_process(code) == "['costmodel']\n"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = costmodel.no_such_name


def test_the_package_says_it_is_typed() -> None:
    installed = [str(file) for file in files("llm-costmodel") or ()]
    editable = any("__editable__" in name for name in installed)
    assert editable or "costmodel/py.typed" in installed
    assert (import_module("importlib.resources").files("costmodel") / "py.typed").is_file()
