"""``costmodel check`` from its command line: records, results, options, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cli_runner
import pytest
from click.testing import Result

from costmodel import CheckOptions, Scenario, ask_check

SAMPLES = Path(__file__).parent / "samples" / "results"
VLLM = str(SAMPLES / "vllm-0.33.0-detailed.json")
ON_H100 = ("--model", "Qwen3-8B", "--hardware", "h100-sxm", "--topology", "1")


def run(*arguments: str) -> Result:
    return cli_runner.run("check", *arguments)


def answer(*arguments: str) -> dict[str, Any]:
    return cli_runner.asked("check", *arguments)


def test_the_contracts_keys() -> None:
    found = answer("kairos")
    assert found["schema"] == "costmodel.check/1"
    assert all({"condition", "recovered_by"} <= each.keys() for each in found["absent"])
    assert all({"id", "grade", "arithmetic"} <= each.keys() for each in found["findings"])
    for key in (
        "comparable_with",
        "not_comparable_with",
        "inversions",
        "assumptions",
        "sources",
        "not_modelled",
    ):
        assert key in found
    assert (found["conditions_absent"], found["conditions_asked"]) == (4, 7)


def test_what_cannot_be_computed_is_null_with_a_reason() -> None:
    found = answer("kairos")
    for each in found["findings"]:
        assert (each["arithmetic"] is None) == (each["grade"] == "not_computable") == bool(each["reason"])
    assert all(each["value"] is not None or each["reason"] for each in found["inversions"])


@pytest.mark.parametrize("form", ["table", "markdown", "json"])
@pytest.mark.parametrize("detail", [(), ("--detail",)])
@pytest.mark.parametrize("arguments", [("kairos",), (VLLM, *ON_H100)])
def test_every_form(arguments: tuple[str, ...], form: str, detail: tuple[str, ...]) -> None:
    result = run(*arguments, "-f", form, *detail)
    assert result.exit_code == 0 and "Traceback" not in result.output
    assert len(result.stdout.splitlines()) > 30


def test_the_screen_fits_a_terminal_but_for_tables() -> None:
    lines = run("kairos").stdout.splitlines()
    assert max(map(len, lines)) <= 120


def test_a_record_is_only_predicted_where_that_is_asked() -> None:
    assert answer("splitwise-transfer")["predictions"] == []
    assert answer("mooncake-engine", "--predict")["predictions"]


def test_a_result_is_set_beside_its_prediction_and_diagnosed() -> None:
    found = answer(VLLM, *ON_H100)
    (prediction,), (diagnosis,) = found["predictions"], found["diagnoses"]
    rows = {(row["measure"], row["statistic"]): row for row in prediction["rows"]}
    assert {("ttft", "mean"), ("ttft", "p99"), ("tpot", "mean")} <= rows.keys()
    for row in rows.values():
        assert row["predicted_s"] is not None or row["reason"]
        if row["predicted_s"] is not None and row["bound_s"]:
            assert row["predicted_s"] >= row["bound_s"]
    assert {figure["measure"] for figure in diagnosis["figures"]} >= {"ttft", "tpot"}
    assert all(figure["sureness"] and figure["said"] for figure in diagnosis["figures"])


def test_what_the_user_says_stays_absent_from_the_record() -> None:
    found = answer(VLLM, *ON_H100)
    assert "hardware" in {each["condition"] for each in found["absent"]}
    assert "hardware" not in found["records"][0]["conditions"]
    assert any(text.startswith("given by the user: hardware") for text in found["assumptions"])


def test_without_a_gpu_nothing_is_predicted_and_it_is_said_why() -> None:
    (prediction,) = answer(VLLM)["predictions"]
    assert prediction["strategy"] is None and "--hardware" in prediction["reason"]


def _changed(tmp_path: Path, name: str, **fields: object) -> str:
    result = json.loads(Path(VLLM).read_text())
    path = tmp_path / name
    path.write_text(json.dumps(result | fields))
    return str(path)


def test_two_results_compare_only_where_their_conditions_match(tmp_path: Path) -> None:
    other = _changed(tmp_path, "other.json", max_concurrency=64)
    (found,) = answer(VLLM, other)["comparisons"]
    assert not found["comparable"] and any("concurrency" in reason for reason in found["reasons"])
    assert all(ratio["ratio"] is None for ratio in found["ratios"])


def test_a_start_up_log_says_what_a_result_does_not(tmp_path: Path) -> None:
    log = str(SAMPLES / "start-vllm-0.33.0.log")
    stated = answer(log)["records"][0]["conditions"]
    mine = _changed(tmp_path, "mine.json", model_id="Qwen/Qwen3-0.6B", tokenizer_id="Qwen/Qwen3-0.6B")
    alone, beside = answer(mine)["records"][0], answer(mine, log)["records"][0]
    assert stated["memory_utilization"] == 0.8 and "memory_utilization" not in alone["conditions"]
    assert beside["conditions"]["memory_utilization"] == 0.8
    refused = run(VLLM, log)
    assert refused.exit_code == 2 and "tiny-fake" in refused.stderr


def test_ratios_have_an_interval_where_requests_are_listed(tmp_path: Path) -> None:
    other = _changed(tmp_path, "other.json", date="20261130-120000")
    (found,) = answer(VLLM, other)["comparisons"]
    assert found["comparable"] and found["a"] != found["b"]
    ratios = {(ratio["metric"], ratio["statistic"]): ratio for ratio in found["ratios"]}
    assert ratios["ttft", "mean"]["ratio"] == 1.0 and ratios["ttft", "mean"]["verdict"] == "within noise"


def test_varying_is_of_results_and_of_conditions(tmp_path: Path) -> None:
    assert run("kairos", "--varying", "concurrency").exit_code == 2
    other = _changed(tmp_path, "other.json", max_concurrency=64)
    result = run(VLLM, other, "--varying", "mood")
    assert result.exit_code == 2 and "mood" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kairso",), "kairos"),
        (("missing.toml",), "no such file"),
        (("missing.json",), "missing.json"),
        ((VLLM, "--hardware", "h100-sxn"), "h100-sxm"),
        ((VLLM, "--model", "Qwen3-8", "--hardware", "h100-sxm"), "Qwen3-8"),
        ((VLLM, "--hardware", "h100-sxm", "--link", "nvlink9"), "nvlink"),
        ((VLLM, "--select", "model=other"), "--select"),
        ((str(SAMPLES),), "results"),
    ],
)
def test_bad_usage_names_what_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and said in result.stderr and "Traceback" not in result.output


def test_one_run_of_a_log_is_selected(tmp_path: Path) -> None:
    rows = ["gpu,model,tp,arrival_s,prompt_tokens,output_tokens,ttft_s,e2e_s"]
    rows += [
        f"H100,Qwen/Qwen3-{b}B,1,{n},512,64,{0.1 + n / 100},{1.5 + n / 100}"
        for b in (4, 8)
        for n in range(20)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    assert len(answer(str(path))["records"]) == 2
    (record,) = answer(str(path), "--select", "model=Qwen/Qwen3-8B")["records"]
    assert record["conditions"]["model"] == "Qwen/Qwen3-8B"


def test_the_library_asks_the_same_question() -> None:
    found = ask_check(["kairos"])
    assert found.conditions_absent == 4 and found.predictions == ()
    options = CheckOptions(
        scenario=Scenario("Qwen3-8B", "h100-sxm", topology="1"), passed=frozenset(("topology",))
    )
    (prediction,) = ask_check([VLLM], options).predictions
    assert prediction.topology == "1" and prediction.rows
