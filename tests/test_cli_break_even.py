"""``costmodel break-even``: the worked example by hand, every unknown, and one formula behind it all."""

from __future__ import annotations

import json
import math

import pytest
from cli_runner import asked, run

from costmodel.decision.breakeven import UNKNOWNS
from costmodel.formulas import threshold

LITE, A100 = "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb"
EXAMPLE = (
    "break-even", LITE, "--prefill-per-token", "44.7us", "--prefill-fixed", "0", "--decode-step", "12ms",
    "--batch", "14", "--chunk", "2048", "--piggyback", "0", "--piggyback-fixed", "0", "--bandwidth", "25GB/s",
    "--control", "100ms",
)  # fmt: skip
SYSTEM = (
    "break-even",
    LITE,
    "--hardware",
    A100,
    "--topology",
    "2P2D",
    "--link",
    "ib-hdr",
    "--workload",
    "hphd",
)
KEYS = {
    "schema", "unknown", "unit", "value", "at", "selfish", "system", "closed_form", "regime", "valid_from",
    "valid_to", "numeric_root", "settings", "at_observed_load", "self_consistent", "continuous", "distance",
    "assumptions", "sources", "not_modelled", "warnings",
}  # fmt: skip


@pytest.mark.parametrize(("wait", "tokens", "continuous"), [("0", 141, 159), ("0.78s", 1390, 1396)])
def test_the_worked_example(wait: str, tokens: int, continuous: int) -> None:
    answer = asked(*EXAMPLE, "--wait", wait)
    assert answer.keys() >= KEYS and answer["schema"] == "costmodel.break-even/1"
    # one chunk: (W + 0.1 - 0.012) / (44.7e-6 x 14 - 31104 / 25e9); continuous chunks: (W + 0.1) / (... + 0.012 / 2048)
    seconds = float(wait.rstrip("s"))
    slope = 44.7e-6 * 14 - 31_104 / 25e9
    assert answer["value"] == pytest.approx((seconds + 0.088) / slope, rel=1e-12)
    assert answer["continuous"] == pytest.approx((seconds + 0.1) / (slope + 0.012 / 2048), rel=1e-12)
    assert (round(answer["value"]), round(answer["continuous"])) == (tokens, continuous)
    assert (answer["regime"], answer["valid_from"], answer["valid_to"]) == ("n = 1 chunk", 0, 2048)
    assert answer["numeric_root"] == pytest.approx(answer["value"], rel=1e-9)
    assert answer["distance"] == pytest.approx(0, abs=1e-6)
    assert answer["continuous_distance"] == pytest.approx(answer["continuous"] - answer["value"])
    assert answer["selfish"] == answer["system"] == pytest.approx(answer["value"], rel=1e-9)
    assert answer["unit"] == "tokens" and answer["at"] is None and answer["at_reason"]
    assert answer["self_consistent"] is None and answer["self_consistent_reason"]
    assert answer["settings"]["dynamo"] == f"eff_isl_threshold={tokens}"


def test_the_models_bytes_stand_in_and_what_is_not_given_is_said() -> None:
    answer = asked(*EXAMPLE)
    values = {value["name"]: value for value in answer["parameters"]}
    assert values["kv_bytes_per_token"]["value"] == 27 * 576 * 2
    assert values["wait"]["origin"] == "not given" and values["batch"]["origin"] == "given"
    assert any("--wait 0" in text and "--queued-prefill 0" in text for text in answer["assumptions"])
    assert asked(*EXAMPLE, "--handover", "100ms")["value"] == answer["value"]


def test_two_kv_heads_on_eight_gpus_cross_the_wire_more_often() -> None:
    # Qwen3-8B: 8 KV heads, 36 layers x 2 x 8 x 128 x 2 bytes; TP16 holds each twice
    arguments = ("break-even", "Qwen3-8B", *EXAMPLE[2:])
    one = {v["name"]: v["value"] for v in asked(*arguments)["parameters"]}["kv_bytes_per_token"]
    two = {v["name"]: v["value"] for v in asked(*arguments, "--tp", "16")["parameters"]}["kv_bytes_per_token"]
    assert one == 36 * 2 * 8 * 128 * 2 and two == 2 * one


#: For a prompt of 1,000 tokens without wait: prefill 44.7 ms, copy 1.244 ms.
BY_HAND = {
    # 14 x 44.7 + 12 = 100 + s u / BW
    "bandwidth": 31_104 * 1000 / (0.012 + 14 * 0.0447 - 0.1),
    "batch": (0.1 + 31_104 * 1000 / 25e9 - 0.012) / 0.0447,
    "wait": 0.012 + 14 * 0.0447 - 0.1 - 31_104 * 1000 / 25e9,
}


@pytest.mark.parametrize("solve", BY_HAND)
def test_other_unknowns_by_hand(solve: str) -> None:
    answer = asked(*EXAMPLE, "--uncached", "1000", "--solve", solve)
    assert answer["value"] == pytest.approx(BY_HAND[solve], rel=1e-9)
    assert answer["numeric_root"] == pytest.approx(BY_HAND[solve], rel=1e-9)
    assert (
        answer["unit"] == UNKNOWNS[solve][1] and answer["continuous"] is None and answer["continuous_reason"]
    )
    assert answer["at"] == {"bandwidth": 25e9, "batch": 14, "wait": 0}[solve]


def test_the_chunk_has_no_piece_to_freeze() -> None:
    # one decode, 4,000 tokens: n x 12 ms + 178.8 ms = 300 + 4.98 ms, hence n = 10.5 chunks
    arguments = [*EXAMPLE, "--uncached", "4000", "--solve", "chunk", "--control", "300ms"]
    arguments[arguments.index("--batch") + 1] = "1"
    answer = asked(*arguments)
    smooth = 4000 * 0.012 / (0.3 + 31_104 * 4000 / 25e9 - 4000 * 44.7e-6)
    assert answer["closed_form_value"] == pytest.approx(smooth, rel=1e-9)
    # remote pays with 11 chunks and more: at and above 400 tokens there are 10
    assert answer["value"] == answer["numeric_root"] == pytest.approx(400, rel=1e-9)
    assert answer["distance"] == pytest.approx(smooth - 400) and answer["at"] == 2048


def test_no_root_is_an_answer_with_its_reason() -> None:
    answer = asked(*EXAMPLE, "--uncached", "1000", "--solve", "wait", "--control", "5s")
    assert answer["value"] is None and "local prefill is cheaper throughout" in answer["reason"]
    result = run(*EXAMPLE, "--uncached", "1000", "--solve", "wait", "--control", "5s")
    assert result.exit_code == 0 and "no break-even in wait" in result.stdout


def test_symbol_and_number_agree_at_the_load_of_a_system() -> None:
    answer = asked(*SYSTEM)
    assert answer["at"] > 0 and answer["selfish"] < answer["system"] == answer["at_observed_load"]
    assert answer["closed_form_value"] == pytest.approx(answer["numeric_root"], rel=1e-9)
    assert answer["valid_from"] < answer["value"] <= answer["valid_to"]
    assert answer["self_consistent"] > 0 and answer["settings"]["vllm"] == "--max-num-batched-tokens 2048"
    values = {value["name"]: value["value"] for value in answer["parameters"]}
    values["uncached"] = answer["value"]
    assert threshold.remote_advantage(**values) == pytest.approx(0, abs=1e-9)


def test_single_values_of_a_system_are_overridden() -> None:
    answer = asked(*SYSTEM, "--batch", "14", "--wait", "0.5", "--decode-step", "12ms")
    values = {value["name"]: value for value in answer["parameters"]}
    assert [values[name]["value"] for name in ("batch", "wait", "decode_step")] == [14, 0.5, 0.012]
    assert values["batch"]["origin"] == "given" and values["prefill_per_token"]["origin"] != "given"


@pytest.mark.parametrize("solve", ["tokens", "bandwidth"])
def test_one_formula_moves_number_text_and_latex(monkeypatch: pytest.MonkeyPatch, solve: str) -> None:
    arguments = (*EXAMPLE, "--uncached", "1000", "--wait", "0.2", "--solve", solve)
    before = asked(*arguments)
    body = threshold.local_cost.function
    monkeypatch.setattr(threshold.local_cost, "function", lambda *args: 3 * body(*args))
    after = asked(*arguments)
    for key in ("value", "numeric_root", "selfish", "closed_form", "closed_form_latex"):
        assert before[key] != after[key], key
    assert after["value"] == pytest.approx(after["numeric_root"], rel=1e-9)
    local = 3 * 15 * 44.7e-6  # 14 decodes and the prompt itself, three times
    by_hand = {
        "tokens": (0.3 - 3 * 0.012) / (local - 44.7e-6 - 31_104 / 25e9),
        "bandwidth": 31_104 * 1000 / (3 * 0.012 + 1000 * (local - 44.7e-6) - 0.3),
    }
    assert after["value"] == pytest.approx(by_hand[solve], rel=1e-9)


def test_pages_show_the_form() -> None:
    plain = run(*EXAMPLE, "--wait", "0.78")
    assert plain.exit_code == 0 and "1,389.8 tokens" in plain.stdout and "1,395.9 tokens" in plain.stdout
    assert "set: vllm --max-num-batched-tokens 2048 | dynamo eff_isl_threshold=1390" in plain.stdout
    markdown = run(*EXAMPLE, "-f", "markdown", "--explain")
    assert markdown.stdout.startswith("# ") and r"$$" in markdown.stdout and r"\Delta =" in markdown.stdout
    assert r"u = \frac{" in run(*EXAMPLE, "--detail").stdout


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (
        ("break-even", LITE),
        "needs --chunk, --prefill-per-token, --decode-step, --batch, --bandwidth; or pass",
    ),
    ((*EXAMPLE, "--solve", "wait"), "also needs --uncached"),
    ((*EXAMPLE, "--workload", "hphd"), "a workload needs --hardware"),
    (("break-even", LITE, "--hardware", A100), "no workload"),
    ((*EXAMPLE, "--handover", "50ms"), "the same time"),
    ((*EXAMPLE, "--bandwidth", "25Gb"), "write '25 Gb/s' (bits) or '25 GB/s' (bytes)"),
    ((*EXAMPLE, "--wait", "0,78s"), "decimal comma"),
    ((*EXAMPLE, "--latency", "-1"), "negative"),
    ((*EXAMPLE, "--decode-step", "nan"), "not a finite number"),
    ((*EXAMPLE, "--engine", "trtllm"), "no effect without --hardware"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_message_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("error: ") and message in result.stderr


def test_a_link_gives_bandwidth_and_latency() -> None:
    arguments = [part for part in EXAMPLE if part not in ("--bandwidth", "25GB/s")]
    values = {v["name"]: v for v in asked(*arguments, "--link", "ib-hdr", "--nics", "2")["parameters"]}
    # two ports of 25 GB/s, 74.1 % of them reached, 399 us
    assert math.isclose(values["link_bytes_per_s"]["value"], 2 * 25e9 * 0.741)
    assert math.isclose(values["latency"]["value"], 0.399e-3)


def test_a_model_that_does_not_fit_is_bad_usage() -> None:
    arguments = ("break-even", "Llama-3.1-70B", "--hardware", "a100-sxm-80gb", "--workload", "hphd")
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == "" and "does not fit on a100-sxm-80gb" in result.stderr
    refused = run(*arguments, "-f", "json")
    assert refused.exit_code == 2 and json.loads(refused.stdout)["schema"] == "costmodel.break-even/1"
