"""Sweeps of verdicts give the figures of ``costmodel recommend --method closed``, point by point."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.decision.verdict import no_ratio, no_rival
from costmodel.errors import InputError
from costmodel.questions.recommend import ask_recommend
from costmodel.questions.sweep import ask_sweep
from costmodel.questions.workload import Changes, choose_workload
from costmodel.serving.deployment import Settings
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import Rule, RuleKind

NAMES = ("colocated", "chunked", "disaggregated", "deflected")
BASE: dict[str, object] = {"model": "Llama-3.1-8B", "hardware": "h100-sxm", "link": "ib-hdr"}


def rows(axes: dict[str, object]) -> list[dict[str, Any]]:
    found = []
    for block in ask_sweep("recommend", axes):
        columns = [column.tolist() for column in block.values()]
        found += [dict(zip(block, (None if v != v else v for v in row))) for row in zip(*columns)]
    return found


def scalar(row: dict[str, Any]) -> Any:
    """The answer of the command at a point, its threshold that of the point."""
    settings = {name: row[name] for name in ("token_budget", "max_seqs") if name in row}
    scenario = Scenario(
        model=row["model"], hardware=row["hardware"], topology=row["topology"], link=row["link"], tp=row["tp"],
        nics=row.get("nics", 1), control_s=row.get("control_s"), settings=Settings(**settings), stack=row.get("stack"),
    )  # fmt: skip
    changes = Changes(
        row.get("isl"), row.get("osl"), row.get("cached"), row.get("rate_per_s"), row.get("cv"), no_slo=True
    )
    workload = choose_workload(row.get("workload"), None, changes)
    rule = Rule(RuleKind.THRESHOLD, threshold=int(row["threshold_tokens"]))
    return ask_recommend(scenario, workload, method="closed", rule=rule)


def near(value: float | None) -> Any:
    return value if value is None else pytest.approx(value, rel=1e-9)


def compare(row: dict[str, Any], *, fixed: bool = True) -> None:
    """Hold a row to the command; of lengths that vary, the command tells utilisation from fewer quantiles."""
    found = scalar(row)
    assert [one.name for one in found.strategies] == list(NAMES)
    for one in found.strategies:
        assert row[f"{one.name}_utilisation"] == pytest.approx(one.utilisation, rel=1e-9 if fixed else 0.05)
        for figure in ("mean_delay_s", "ttft_mean_s", "tpot_mean_s"):
            assert row[f"{one.name}_{figure}"] == near(getattr(one, figure))
        assert bool(row[f"{one.name}_reason"]) == (one.mean_delay_s is None)
    delays = sorted(
        (row[f"{name}_mean_delay_s"], name) for name in NAMES if row[f"{name}_mean_delay_s"] is not None
    )
    if row["deflected_local_share"]:
        assert [row["best"], row["runner_up"]] == [name for _, name in delays[:2]]
        assert row["margin"] == near(delays[1][0] / delays[0][0])


@pytest.mark.parametrize(
    "axes",
    (
        {"isl": "4096", "osl": "64", "rate": "2,9", "cv": "2", "topology": "1P1D"},
        {
            "isl": 2048,
            "osl": 128,
            "rate": 6,
            "token_budget": "512,2048",
            "nics": "2",
            "control": "50ms",
            "cached": 500,
        },
        {
            "tp": 2,
            "isl": 1000,
            "osl": 300,
            "rate": 12,
            "topology": "1P2D",
            "stack": "vllm-2026",
            "max_seqs": 64,
        },
    ),
    ids=("lengths", "engine", "stack"),
)
def test_every_point_is_that_of_the_command(axes: dict[str, object]) -> None:
    for row in rows({**BASE, **axes}):
        assert not row["refused"]
        compare(row)


def test_a_workload_by_name_has_its_own_lengths() -> None:
    (row,) = rows({**BASE, "workload": "lpld", "rate": 5})
    compare(row, fixed=False)
    (own,) = rows({**BASE, "workload": "lpld"})
    assert "rate_per_s" not in own and own["refused"] in (True, False)


def test_points_without_a_verdict_say_why() -> None:
    axes = {**BASE, "hardware": "h100-sxm,l4", "isl": "4096", "osl": 256, "rate": "1,500", "cached": "0,4096"}
    found = rows({**axes, "model": "Llama-3.1-8B,Llama-3.1-70B", "tp": "1,3", "topology": "1P1D"})
    assert len(found) == 2 * 2 * 2 * 2 * 2
    for row in found:
        assert row["refused"] == bool(row["reason"]) and row["refused"] == (row["best"] in (None, ""))
        if row["tp"] == 3:
            assert "TP3 does not divide" in row["reason"]
        elif row["model"] == "Llama-3.1-70B":
            assert "70" in row["reason"] and "GiB" in row["reason"]
        elif row["cached"] == 4096 and row["hardware"] == "h100-sxm":
            assert row["reason"] == "--cached leaves nothing of --isl, which includes it"
        elif row["rate_per_s"] == 500 and row["hardware"] == "h100-sxm":
            assert "offered more than its capacity" in row["reason"]
        elif row["hardware"] == "h100-sxm":
            assert row["best"] in NAMES and row["margin"] >= 1


@pytest.mark.parametrize(
    "axes, said",
    (
        ({"isl": 5, "osl": 5}, "--rate is missing: pass it, or --workload"),
        ({"workload": "hphhd"}, "--workload: "),
        ({"isl": 5, "osl": 5, "rate": 1, "topology": "1P1D,4"}, "--topology: --topology 4: a sweep compares"),
        ({"isl": 5, "osl": 5, "rate": 1, "first_token": "decoder"}, "did you mean 'decode'"),
    ),
)
def test_what_is_missing_or_unknown_is_told(axes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as raised:
        ask_sweep("recommend", {**BASE, **axes})
    assert said in str(raised.value)


def test_a_sweep_needs_a_gpu() -> None:
    with pytest.raises(InputError, match="no GPU: pass --hardware"):
        ask_sweep("recommend", {"model": "Llama-3.1-8B", "isl": 5, "osl": 5, "rate": 1})


def test_what_is_not_given_is_as_in_the_command() -> None:
    (row,) = rows({"model": "Llama-3.1-8B", "hardware": "h100-sxm", "isl": 512, "osl": 64, "rate": 1})
    own = Scenario("Llama-3.1-8B", "h100-sxm")
    assert (row["link"], row["topology"], row["connector"]) == (own.link, own.topology, own.connector)


def test_what_figures_rest_on_is_told_of_the_grid() -> None:
    axes = {**BASE, "isl": 2000, "osl": 64, "rate": "1,2", "cached": 1000, "control": "20ms", "nics": 2}
    about = ask_sweep("recommend", axes).summary().about
    told = "; ".join(about.assumptions)
    for part in (
        "without SLOs",
        "never too_close_to_call",
        "2 x InfiniBand HDR",
        "the cached prefix lies on both sides",
        "KV pool of",
    ):
        assert part in told
    assert any("ib-hdr bandwidth" in text for text in about.sources) and about.not_modelled


@pytest.mark.parametrize(
    "lengths, rate, said",
    (
        # Prompts of 4,096 tokens at 18/s: the shared pool of whole prefills alone is not offered too much.
        ((4096, 64), 18.0, "only one strategy is stable at this rate"),
        # A request in 30 years waits for nobody: below a nanosecond, delays are rounding.
        ((512, 1), 1e-9, "the best delay is 0"),
        ((512, 64), 1.0, None),
    ),
)
def test_a_missing_margin_has_its_reason(lengths: tuple[int, int], rate: float, said: str | None) -> None:
    isl, osl = lengths
    (row,) = rows({**BASE, "isl": isl, "osl": osl, "rate": rate, "topology": "1P1D"})
    assert not row["refused"] and (row["margin"] is None) == (said is not None)
    assert (row["margin_reason"] or None) == said
    assert sum(row[f"{name}_utilisation"] < 1 for name in NAMES) > 1 or row["runner_up"] is None
    told = scalar(row)
    assert (told.margin is None) == (said is not None)
    assert said is None or told.margin_reason == said


def test_why_there_is_no_margin() -> None:
    """Each sentence is true of what it is said of."""
    assert no_rival(1, "mean_delay") == "only one strategy is stable at this rate"
    assert no_rival(3, "mean_delay") == "no other stable strategy has a mean delay"
    assert no_rival(2, "goodput_per_gpu") == "no other stable strategy has a goodput"
    assert no_ratio(-1e-15) == no_ratio(0.0) == no_ratio(5e-10) == "the best delay is 0"
    assert no_ratio(-2e-9) == "the best delay is less than 0"
