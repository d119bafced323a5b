"""Two results against each other: which conditions decide, what may differ by intent, and what no ratio is told of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.audit.match import compare
from costmodel.audit.runs import Run
from costmodel.errors import InputError
from costmodel.records import Figure, Record

STATED = {
    "model": "meta-llama/Llama-3.1-8B",
    "hardware": "H100 SXM",
    "concurrency": 8,
    "input_tokens": 1024,
    "output_tokens": 128,
    "engine": "vLLM",
    "engine_version": "0.19.0",
}


def figure(metric: str, value: float, statistic: str | None = "mean", **conditions: str) -> Figure:
    return Figure(
        f"{metric} {statistic}", metric, value, "second", f"{value} s", "s", statistic, None, conditions
    )


A = Run("a", STATED, (figure("ttft", 0.2), figure("tpot", 0.01, "p99")))
B = Run("b", {**STATED, "hardware": "h100-sxm"}, (figure("ttft", 0.3), figure("tpot", 0.02, "p95")))


def test_the_same_conditions_compare_and_ratios_are_of_one_statistic() -> None:
    found = compare(A, B)
    assert found.comparable and not found.mismatching
    assert [(r.metric, r.statistic) for r in found.ratios] == [("ttft", "mean")]
    assert found.ratios[0].ratio == pytest.approx(1.5)  # 0.3 / 0.2


def test_a_mismatch_names_both_values_and_no_ratio_is_told() -> None:
    found = compare(A, replace(B, conditions={**STATED, "concurrency": 16}))
    assert not found.comparable
    assert [(c.name, c.a, c.b) for c in found.mismatching] == [("concurrency", 8, 16)]
    assert found.ratios[0].ratio is None and found.ratios[0].reason


def test_what_differs_by_intent_does_not_count() -> None:
    found = compare(A, replace(B, conditions={**STATED, "concurrency": 16}), varying=("concurrency",))
    assert found.comparable
    assert [(c.name, c.a, c.b) for c in found.varying] == [("concurrency", 8, 16)]
    assert found.ratios[0].ratio == pytest.approx(1.5)


def test_what_is_to_vary_must_be_stated() -> None:
    found = compare(A, B, varying=("strategy",))
    assert not found.comparable and "strategy" in found.reasons[0]


@pytest.mark.parametrize("missing", ["hardware", "engine_version", "concurrency", "input_tokens"])
def test_an_absent_condition_that_decides_is_said_and_blocks(missing: str) -> None:
    less = {key: value for key, value in STATED.items() if key != missing}
    one, neither = (
        compare(A, replace(B, conditions=less)),
        compare(*(replace(r, conditions=less) for r in (A, B))),
    )
    assert not one.comparable and any("not stated by the second" in reason for reason in one.reasons)
    assert not neither.comparable and any("by neither" in reason for reason in neither.reasons)
    assert missing in [c.name for c in one.absent] and neither.absent


def test_what_the_user_states_of_both_fills_the_gap() -> None:
    less = {key: value for key, value in STATED.items() if key != "hardware"}
    runs = [replace(r, conditions=less) for r in (A, B)]
    assert compare(*runs, given={"hardware": "h100-sxm"}).comparable


def test_definitions_of_a_figure_must_agree() -> None:
    ours = replace(A, figures=(figure("ttft", 0.2, ttft_from="arrival"),))
    found = compare(ours, replace(B, figures=(figure("ttft", 0.3, ttft_from="scheduling"),)))
    assert found.comparable and found.ratios[0].ratio is None
    assert "ttft_from" in str(found.ratios[0].reason)


def test_names_that_are_no_condition_and_records_of_several_runs_are_refused() -> None:
    with pytest.raises(InputError, match="no condition"):
        compare(A, B, varying=("colour",))
    several = [replace(figure("ttft", 0.2), conditions={"concurrency": n}) for n in (1, 2)]
    with pytest.raises(InputError, match="2 runs"):
        compare(Record("r", "r.toml", "toml", tuple(several)), B)
