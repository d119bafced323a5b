"""``costmodel recommend``: the contract's keys, sums that hold, the first screen, and a newcomer's mistakes."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_runner import asked, run

from costmodel.cli.progress import Progress
from costmodel.decision.comparison import Options
from costmodel.decision.results import Recommendation
from costmodel.formula import BOOK, Formula
from costmodel.questions.recommend import ask_recommend
from costmodel.questions.workload import Changes, choose_workload
from costmodel.report.recommend import TOPICS
from costmodel.report.render import render, to_json
from costmodel.report.strategies import short
from costmodel.serving.scenario import Scenario
from costmodel.workloads import load_workload, workload_names

LITE, A100 = "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"
SYSTEM = ("recommend", LITE, "--hardware", A100, "--topology", "2P2D", "--link", "ib-hdr")
CLOSED = ("--workload", "hphd", "--method", "closed")
FIXED = ("--isl", "4096", "--osl", "64", "--rate", "2")
PACKAGED = Path(__file__).parent.parent / "hardware"

TOP = {
    "schema", "verdict", "objective", "margin", "margin_low", "margin_high", "strategies", "splits",
    "deflectable_tokens_per_s", "break_even", "elasticities", "assumptions", "sources", "not_modelled",
    "warnings",
}  # fmt: skip
STRATEGY = {
    "name", "stable", "utilisation", "goodput_per_gpu_per_s", "attainment", "ttft_p50_s", "ttft_p95_s",
    "ttft_p99_s", "ttft_p95_stages", "tpot_p50_s", "tpot_p99_s", "ledger", "copy_s", "interference_s",
    "stranding_s", "sharing_s", "splitting_s", "stage_scale", "kv_held_byte_s", "gpu_s",
}  # fmt: skip


@pytest.fixture(scope="module")
def recommendation() -> Recommendation:
    return ask_recommend(Scenario(LITE, A100), load_workload("hphd"), Options(requests=300, probe=200))


@pytest.fixture(scope="module")
def answer(recommendation: Recommendation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(to_json(recommendation))
    return found


def test_the_contracts_keys(answer: dict[str, Any]) -> None:
    assert answer.keys() >= TOP and answer["schema"] == "costmodel.recommend/1" and "about" not in answer
    names = [strategy["name"] for strategy in answer["strategies"]]
    assert names == ["colocated", "chunked", "disaggregated", "deflected"]
    assert all(strategy.keys() >= STRATEGY for strategy in answer["strategies"])
    assert answer["verdict"] in {*names, "too_close_to_call"} and answer["objective"] == "goodput_per_gpu"
    assert answer["why"].keys() == {"copy_s", "splitting_s", "interference_s"}
    assert any("replay of 300 requests" in text for text in answer["assumptions"])


def test_what_adds_up(answer: dict[str, Any]) -> None:
    for strategy in answer["strategies"]:
        ledger = dict(strategy["ledger"])
        delay = ledger.pop("e2e_s") - ledger.pop("ideal_s")
        assert sum(ledger.values()) == pytest.approx(delay, abs=1e-9)
        groups = ("copy_s", "interference_s", "stranding_s", "sharing_s")
        folded = sum(strategy[key] for key in groups) + ledger["recompute_s"]
        assert folded == pytest.approx(delay, abs=1e-9)
        assert sum(strategy["ttft_p95_stages"].values()) == pytest.approx(strategy["ttft_p95_s"], abs=1e-9)
        assert strategy["ttft_p50_s"] <= strategy["ttft_p95_s"] <= strategy["ttft_p99_s"]


def test_margins_and_bands(answer: dict[str, Any]) -> None:
    ranked = sorted((s["goodput_per_gpu_per_s"] for s in answer["strategies"] if s["stable"]), reverse=True)
    assert answer["margin"] >= 1 and answer["margin"] in [pytest.approx(ranked[0] / g) for g in ranked[1:]]
    assert answer["margin_low"] <= answer["margin"] <= answer["margin_high"]


def test_kv_held_is_the_rate_times_the_byte_seconds(answer: dict[str, Any]) -> None:
    split = answer["strategies"][2]
    assert (
        split["kv_held_bytes"] == pytest.approx(3.7 * split["kv_held_byte_s"]) and split["kv_held_bytes"] > 0
    )
    # four A100s: 0.9 x 79.25 GiB less 31.4 GB of weights and the GiB or so that the engine keeps
    most = 0.9 * 79.25 * 2**30 - 15_706_484_224 * 2
    assert 4 * (most - 1.5 * 2**30) < split["kv_pool_bytes"] < 4 * most
    assert answer["strategies"][0]["kv_held_byte_s"] == 0


def test_the_first_screen_fits_a_terminal(recommendation: Recommendation) -> None:
    lines = render(recommendation, "table").splitlines()
    assert len(lines) <= 38 and max(map(len, lines)) <= 118
    text = " ".join(" ".join(lines).split())
    for word in ("Why: the copy costs", "set: vllm ", "cold cache", "control not stated: 0 s", "not modelled:",
                 "> SLO", "flips at", "moves P95 TTFT", "other splits", "decode pool can absorb", "25 GB/s",
                 "-f markdown"):  # fmt: skip
        assert word in text
    assert recommendation.settings
    assert all(f"{engine} {line}" in text for engine, line in recommendation.settings.items())


def row(answer: Recommendation, label: str) -> list[str]:
    """The cells of the table of strategies in the row that starts with a label."""
    line = next(line for line in render(answer, "table").splitlines() if line.startswith(label))
    return re.split(r"  +", line)[1:]


def test_attainment_and_the_slo_that_ends_goodput_are_shown(recommendation: Recommendation) -> None:
    results = recommendation.strategies
    shares = row(recommendation, "attainment at this rate")
    assert shares == [f"{100 * (r.attainment or 0):.3g} %" for r in results]
    ends = [r.goodput_binding for r in results]
    assert any(ends)
    for cell, end in zip(row(recommendation, "goodput/GPU"), ends):
        assert cell.endswith(f") {end}" if end else ")")


def test_the_rule_stands_under_the_head_of_deflected(recommendation: Recommendation) -> None:
    *others, deflected = row(recommendation, "load/capacity")
    assert recommendation.strategies[3].rule and deflected.endswith(f" {recommendation.strategies[3].rule}")
    assert all(re.fullmatch(r"\.\d\d", cell) for cell in others)


def test_a_p95_ttft_beyond_its_slo_is_marked(recommendation: Recommendation) -> None:
    second = sorted(r.ttft_p95_s or 0.0 for r in recommendation.strategies)[1]
    tight = replace(recommendation, slo_ttft_s=second)  # two reach it, two do not
    marks = [cell.endswith(" > SLO") for cell in row(tight, "P95 TTFT, s")]
    assert marks == [(r.ttft_p95_s or 0.0) > second for r in tight.strategies] and sum(marks) == 2
    assert all(cell.endswith(" > SLO") != ("+-" in cell) for cell in row(tight, "P95 TTFT, s"))
    none = replace(recommendation, slo_ttft_s=None)
    assert not any("SLO" in cell for cell in row(none, "P95 TTFT, s"))
    assert max(map(len, render(replace(tight, slo_ttft_s=1e-3), "table").splitlines())) <= 118


def test_the_stages_on_screen_add_up_to_the_p95_above_them(recommendation: Recommendation) -> None:
    lines = render(recommendation, "table").splitlines()
    quantiles, stages = (
        next(line for line in lines if word in line) for word in ("P95 TTFT, s", "queue|own")
    )
    for quantile, parts in zip(
        re.findall(r"  +(\d*\.\d+) \(", quantiles), re.findall(r"  +([\d.|-]+)", stages)
    ):
        assert sum(map(float, parts.split("|"))) == pytest.approx(float(quantile), abs=0.026)


def test_markdown_and_detail(recommendation: Recommendation) -> None:
    markdown = render(recommendation, "markdown", detail=True)
    assert markdown.startswith("# ") and "do not add up" in markdown and "|---" in markdown
    plain = render(recommendation, "table", detail=True)
    assert plain.startswith(render(recommendation, "table")) and "Ledger: mean seconds a request" in plain
    assert all(text in plain for text in recommendation.about.sources + recommendation.about.assumptions)


def test_explain_shows_the_inequality(recommendation: Recommendation) -> None:
    text = render(recommendation, "table", explain=True)
    assert r"\left\lceil{\frac{u}{c}}\right\rceil" in text and "gigc_wait" in text
    assert all(source in text for source in recommendation.about.sources)


def test_the_topics_hold_every_formula_that_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[str] = set()
    call = Formula.__call__

    def noted(self: Formula, *args: Any, **kwargs: Any) -> Any:
        used.add(self.__module__.rsplit(".", 1)[-1])
        return call(self, *args, **kwargs)

    monkeypatch.setattr(Formula, "__call__", noted)
    assert run(*SYSTEM, *CLOSED).exit_code == 0
    assert used and used <= set(TOPICS) <= {made.__module__.rsplit(".", 1)[-1] for made in BOOK.values()}


def test_closed_form_says_what_it_lacks() -> None:
    found = asked(*SYSTEM, *CLOSED)
    assert found["method"] == "closed" and found["objective"] == "mean_delay" and found["margin"] >= 1
    for strategy in found["strategies"]:
        assert (
            strategy["goodput_per_gpu_per_s"] is strategy["tpot_p99_s"] is strategy["ttft_p95_stages"] is None
        )
        assert "--method replay" in strategy["goodput_reason"]
        assert (strategy["ttft_p95_s"] is None) == (strategy["ttft_reason"] is not None)
        ledger = dict(strategy["ledger"])
        delay = ledger.pop("e2e_s") - ledger.pop("ideal_s")
        assert sum(ledger.values()) == pytest.approx(delay, abs=1e-9)


def test_closed_form_gives_ttft_where_it_can_vouch_for_it() -> None:
    kairos = (*SYSTEM, *CLOSED, "--rule", "kairos", "-q")
    found = {s["name"]: s for s in asked(*kairos)["strategies"]}
    for name in ("colocated", "chunked", "disaggregated"):
        one = found[name]
        assert one["ttft_reason"] is None and one["ttft_p50_s"] < one["ttft_p95_s"] < one["ttft_p99_s"]
        assert one["ttft_p95_low_s"] < one["ttft_p95_s"] < one["ttft_p95_high_s"]
    assert "kairos decides by the state" in found["deflected"]["ttft_reason"]
    shown = run(*kairos).stdout
    assert "P95 TTFT, s" in shown and "no P95 TTFT of deflected: kairos decides" in shown


def test_auto_takes_the_closed_form_where_it_answers_everything() -> None:
    plain = (*SYSTEM, *FIXED, "-q")
    rule, few = ("--rule", "threshold:1000"), ("--requests", "60")
    whole = asked(*plain, *rule)
    assert whole["method"] == "closed" and all(s["ttft_p95_s"] for s in whole["strategies"])
    for options, why in (
        ((), "kairos decides"),
        ((*rule, *few, "--slo-ttft", "2s"), "--requests asks"),
        ((*rule, "--slo-ttft", "2s"), "goodput needs the SLOs"),
    ):
        other = asked(*plain, *options, "--probe", "60")
        assert other["method"] == "replay" and why in other["assumptions"][-1]


@pytest.mark.parametrize("name", workload_names())
def test_every_packaged_workload_has_a_screen(name: str) -> None:
    result = run(*SYSTEM, "--workload", name, "--method", "closed")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and len(lines) <= 36 and max(map(len, lines)) <= 118
    assert "nan" not in result.stdout and "None" not in result.stdout


def test_nothing_stable_is_exit_code_1_with_the_whole_answer() -> None:
    result = run(*SYSTEM, *CLOSED, "--rate", "100")
    assert result.exit_code == 1 and result.stdout.startswith(
        "UNSTABLE colocated: the shared pool is offered"
    )
    assert "more instances needed" in result.stdout and "NONE STABLE" in result.stdout
    # nothing to paste, and one line in place of a table of unknowns
    assert "set:" not in result.stdout and "flips at" not in result.stdout
    assert result.stdout.count("what flips the verdict is unknown: no strategy is stable here") == 1
    markdown = run(*SYSTEM, *CLOSED, "--rate", "100", "-f", "markdown").stdout
    assert "## Settings" not in markdown and "## What flips" not in markdown
    as_json = run(*SYSTEM, *CLOSED, "--rate", "100", "-f", "json")
    found = json.loads(as_json.stdout)
    assert as_json.exit_code == 1 and found["verdict"] == "none_stable" and found["margin"] is None
    assert found["margin_reason"]
    for strategy in found["strategies"]:
        assert not strategy["stable"] and strategy["ttft_p95_s"] is None and strategy["reason"]
        assert max(pool["missing_instances"] for pool in strategy["pools"]) > 0


def test_an_unstable_pool_is_said_first() -> None:
    result = run(*SYSTEM, *CLOSED, "--rate", "5.5")
    assert result.exit_code == 0 and result.stdout.startswith("UNSTABLE disaggregated: the prefill pool")
    assert "missing_instances" not in result.stdout and "1.21 UNSTABLE" in result.stdout


def test_figures_that_are_missing_are_no_tie() -> None:
    text = run(*SYSTEM, "--workload", "bursty", "--method", "closed").stdout
    assert text.startswith("NOT RANKED: the load varies over time") and "TOO CLOSE" not in text
    assert text.count("set:") == text.count("flips at") == 0 and "By mean delay: no margin.\n" in text
    assert asked(*SYSTEM, "--workload", "bursty", "--method", "closed")["verdict"] == "too_close_to_call"


def test_fixed_lengths_are_a_workload_of_their_own() -> None:
    found = asked(*SYSTEM, *FIXED, "--cached", "96", "--method", "closed")
    assert found["workload"] == "custom" and found["slo_ttft_s"] is found["slo_tpot_s"] is None
    assert found["deflectable_tokens_per_s"] is None and found["deflectable_reason"]
    assert any("fixed lengths, as given: ISL 4096, OSL 64, cached 96" in text for text in found["sources"])
    (prompt,) = {flip["at"] for flip in found["flips"] if flip["name"] == "uncached prompt"}
    assert prompt == 4000


def test_values_of_a_workload_are_replaced() -> None:
    changes = Changes(rate=5.0, cv=2.0, cached=100, slo_ttft=9.0, attainment=0.95)
    own, moved = load_workload("hphd"), choose_workload("hphd", changes=changes)
    assert (moved.rate, moved.arrivals.cv, moved.cached_tokens) == (5.0, 2.0, 100)
    assert (moved.slo.ttft_s, moved.slo.tpot_s, moved.slo.attainment) == (9.0, own.slo.tpot_s, 0.95)
    assert moved.uncached == own.uncached and "changed: " in moved.chosen and own.chosen in moved.chosen
    assert choose_workload("HPHD") == own
    assert not choose_workload("hphd", changes=Changes(no_slo=True)).slo.given
    fixed = choose_workload("hphd", changes=Changes(isl=1000, cached=300, osl=7)).typical(2)
    assert {(r.uncached_tokens, r.cached_tokens, r.output_tokens) for r in fixed} == {(700, 300, 7)}


def test_a_trace_keeps_its_lengths(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    rows = [f"{0.5 * i},{1000 + i % 7},{20 + i % 3},x" for i in range(1200)]
    trace.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens,user", *rows]))
    found = asked(*SYSTEM, "--trace", str(trace), "--method", "closed")
    assert found["workload"] == "trace.csv" and found["rate_per_s"] == pytest.approx(2.0)
    faster = asked(*SYSTEM, "--trace", str(trace), "--method", "closed", "--rate", "3")
    assert faster["rate_per_s"] == 3 and any("gaps scaled to 3 /s" in text for text in faster["sources"])
    assert any("columns not read: user" in text for text in found["sources"])
    said = f"trace: all of 1,200 requests of {trace}; columns not read: user"
    assert f"{said}; means over an even pick" in found["assumptions"]
    counts = ("--requests", "60", "--probe", "20")
    replayed = run(*SYSTEM, "--trace", str(trace), *counts).stdout
    assert f"{said}; 60 evaluated" in " ".join(replayed.split())


def test_settings_reach_the_answer() -> None:
    more = ("--token-budget", "1024", "--max-seqs", "77", "--first-token", "prefill", "--rule", "threshold:640",
            "--control", "20ms", "--nics", "2", "--overlap", "layerwise", "--memory-utilization", "0.8")  # fmt: skip
    found = asked(*SYSTEM, *CLOSED, *more)
    text = "; ".join(found["assumptions"])
    for word in ("token budget 1024", "at most 77 sequences", "token 1 from the prefill side", "threshold 640",
                 "control 20 ms", "layerwise copy", "50 GB/s", "80% of GPU memory"):  # fmt: skip
        assert word in text
    assert found["settings"]["vllm"] == "--max-num-batched-tokens 1024"
    beta = asked(*SYSTEM, *CLOSED, "--beta", "0.5", "--alpha", "2")
    assert any("kairos, alpha 2, beta 0.5" in text for text in beta["assumptions"])


def test_pools_of_different_gpus() -> None:
    arguments = ("recommend", LITE, "--prefill-hardware", "h100-sxm", "--decode-hardware", A100)
    found = asked(*arguments, "--topology", "1P2D", *FIXED, "--method", "closed")
    assert found["hardware"] == f"1 x h100-sxm + 2 x {A100}" and found["gpus"] == 3


def test_replay_follows_every_request() -> None:
    small = ("--isl", "256", "--osl", "4", "--rate", "5", "--requests", "40", "--probe", "20")
    found = asked(*SYSTEM, *small, "--method", "replay")
    assert any("replay of 40 requests" in text for text in found["assumptions"])
    assert found["objective"] == "mean_delay" and found["strategies"][0]["requests"] == 40


def test_a_control_time_is_on_the_first_screen() -> None:
    assert "control 20 ms a hand-over;" in " ".join(run(*SYSTEM, *CLOSED, "--control", "20ms").stdout.split())


@pytest.mark.parametrize(
    ("option", "number"),
    [("--slo-tpot", "5"), ("--slo-tpot", " 50 "), ("--slo-ttft", "3e2"), ("--slo-ttft", "4000.")],
)
def test_a_bare_objective_that_must_be_milliseconds_is_refused(option: str, number: str) -> None:
    result = run(*SYSTEM, *CLOSED, option, number)
    assert result.exit_code == 2 and f"bare numbers are seconds; write {number.strip()}ms" in result.stderr


def test_objectives_in_seconds_are_taken() -> None:
    for option, text, key, value in (
        ("--slo-tpot", "0.05", "slo_tpot_s", 0.05),
        ("--slo-tpot", "6s", "slo_tpot_s", 6.0),
        ("--slo-tpot", "4.9", "slo_tpot_s", 4.9),
        ("--slo-ttft", "299", "slo_ttft_s", 299.0),
        ("--slo-ttft", "4000 ms", "slo_ttft_s", 4.0),
    ):
        assert asked(*SYSTEM, *CLOSED, option, text)[key] == value


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    ((*SYSTEM, "--method", "closed"), "no workload: pass --workload (bursty, hphd, hpld, lphd, lpld"),
    ((*SYSTEM, "--isl", "5"), "missing: --osl, --rate"),
    ((*SYSTEM, "--workload", "hpphd"), "did you mean 'hphd'"),
    ((*SYSTEM, *CLOSED, "--rate", "-1"), "--rate: '-1' is negative"),
    ((*SYSTEM, *CLOSED, "--rate", "nan"), "not a finite number"),
    ((*SYSTEM, *CLOSED, "--rate", "2,5"), "decimal comma"),
    ((*SYSTEM, *CLOSED, "--topology", "2P0D"), "at least one prefill and one decode instance"),
    ((*SYSTEM, *CLOSED, "--topology", "4"), "one pool of instances serves colocated and chunked alone"),
    ((*SYSTEM, *CLOSED, "--link", "zero.toml"), "'0 GB/s' is zero"),
    ((*SYSTEM, *CLOSED, "--tp", "3"), "16 query heads"),
    ((*SYSTEM, *CLOSED, "--attainment", "1.5"), "--attainment"),
    ((*SYSTEM, *CLOSED, "--gpu-memory-utilization", "1.5"), "--gpu-memory-utilization"),
    ((*SYSTEM, *CLOSED, "--rule", "kairo"), "did you mean 'kairos'"),
    ((*SYSTEM, *CLOSED, "--rule", "threshold:9", "--alpha", "2"), "settings of Kairos"),
    ((*SYSTEM, *CLOSED, "--chunk", "512", "--token-budget", "1024"), "pass one"),
    ((*SYSTEM, *CLOSED, "--no-slo", "--slo-ttft", "1s"), "not both"),
    ((*SYSTEM, *CLOSED, "--trace", "empty.csv"), "pass --workload or --trace"),
    ((*SYSTEM, *CLOSED, "--isl", "5", "--cached", "5"), "leaves no uncached token"),
    ((*SYSTEM, *CLOSED, "--requests", "0"), "--requests"),
    ((*SYSTEM, *CLOSED, "--probe", "2000"), "--probe"),
    ((*SYSTEM, "--trace", "empty.csv"), "is empty"),
    ((*SYSTEM, "--trace", "header.csv"), "has a header but no request"),
    ((*SYSTEM, "--trace", "unsorted.csv"), "sort the trace by arrival"),
    ((*SYSTEM, "--trace", "."), "is a folder"),
    ((*SYSTEM, "--trace", "none.csv"), "no such trace file"),
    ((*SYSTEM, "--trace", "unsorted.csv", "--cv", "2"), "--cv: a trace has its own"),
    (("recommend", LITE, *CLOSED), "no GPU: pass --hardware"),
    (("recommend", "DeepSeek-V3-Lite", "--hardware", A100, *CLOSED), "did you mean 'DeepSeek-V2-Lite'"),
    ((*SYSTEM, *CLOSED, "--pp", "2"), "--pp 2: step times of pipeline stages"),
    ((*SYSTEM, *CLOSED, "--ep", "8"), "expert parallelism"),
    ((*SYSTEM, *CLOSED, "--dp-attention", "2"), "data-parallel attention"),
    ((*SYSTEM, *CLOSED, "--concurrency", "64"), "closed loops are not modelled yet"),
    ((*SYSTEM, *CLOSED, "--offload", "dram-pcie"), "did you mean 'dram-pcie"),
    ((*SYSTEM, *CLOSED, "--reuse", "store-object,capacity=1TB,write=1GB/s,shared=yes"), "drop shared"),
    ((*SYSTEM, *CLOSED, "--hit-rate", "0.5"), "no prompt has cached tokens"),
    ((*SYSTEM, *CLOSED, "--prefix-held", "store"), "there is no store"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = (PACKAGED / "links" / "eth-200.toml").read_text()
    (tmp_path / "zero.toml").write_text(link.replace('"25 GB/s"', '"0 GB/s"'))
    header = "arrival_s,prompt_tokens,output_tokens"
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text(f"{header}\n")
    (tmp_path / "unsorted.csv").write_text(f"{header}\n1,9,9\n0.5,9,9\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("error: ") and result.stderr.count("error: ") == 1
    assert message in result.stderr


def test_options_that_change_nothing_are_accepted() -> None:
    assert run(*SYSTEM, *CLOSED, "--pp", "1", "--ep", "1", "--engine", "vllm").exit_code == 0


def test_a_model_that_does_not_fit_says_how_many_bytes_are_missing() -> None:
    result = run("recommend", "Llama-3.1-70B", "--hardware", A100, *CLOSED)
    # 70,553,706,496 x 2 bytes - 0.9 x 79.25 GiB, and what the engine keeps: a GiB or so.
    short = 70_553_706_496 * 2 - 0.9 * 79.25 * 2**30
    missing = int(re.findall(r"\((\d+) bytes\)", result.stderr)[0])
    assert result.exit_code == 2 and result.stdout == "" and short < missing < short + 2 * 2**30
    refused = run("recommend", "Llama-3.1-70B", "--hardware", A100, *CLOSED, "-f", "json")
    found = json.loads(refused.stdout)
    assert refused.exit_code == 2 and found.keys() == {"schema", "error", "reason"}
    assert refused.stderr == f"error: {found['reason']}\n" and f"{missing} bytes" in found["reason"]


def test_a_request_larger_than_the_pool_has_no_answer() -> None:
    big = ("--isl", "1600000", "--osl", "9", "--rate", "0.00001", "--requests", "20", "--probe", "20")
    result = run(*SYSTEM, *big)
    assert result.exit_code == 1 and "more than the whole pool" in result.stderr


def test_the_closed_form_imports_neither_sympy_nor_pint() -> None:
    code = (
        "import sys\nfrom costmodel.cli import main\n"
        f"try: main({[*SYSTEM, *CLOSED, '-q']!r})\n"
        "finally: print([m for m in ('sympy', 'pint') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout.splitlines()[-1] == "[]" and result.stderr == ""


def test_progress_waits_a_second_and_comes_every_two(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 0.5, 1.1, 2.0, 3.2])
    monkeypatch.setattr("costmodel.cli.progress.time.monotonic", lambda: next(clock))
    progress = Progress()
    for stage in ("a", "b", "c", "d"):
        progress(stage)
    progress.done()
    # a within the first second; c within two seconds of b
    assert capsys.readouterr().err == "1 s: b\n3 s: d\n"
    clock = iter([0.0, 9.0])
    quiet = Progress(silent=True)
    quiet("a")
    assert capsys.readouterr().err == ""


def test_a_library_call_is_what_the_command_prints() -> None:
    workload = load_workload("hphd")
    library = ask_recommend(Scenario(LITE, A100), workload, method="closed")
    assert json.loads(to_json(library)) == asked(*SYSTEM, *CLOSED)
    assert replace(library, verdict="none_stable").answered is False and library.answered


def test_short_numbers_lose_less_than_a_digit() -> None:
    for exponent in range(-2, 5):
        for digit in (1.0, 2.5, 9.994, 9.996):
            value = digit * 10.0**exponent
            assert math.isclose(float(short(value)), value, abs_tol=0.5, rel_tol=0.005) or value < 1
            assert len(short(value)) <= 4 or value >= 9999.5
