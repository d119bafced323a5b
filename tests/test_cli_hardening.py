"""Hostile input: whatever is typed, an answer or one message; nothing that was typed is passed over in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_runner import run

from costmodel.errors import InputError
from costmodel.families import packaged_models, parse_config, read_model
from costmodel.inputs.traces import read_trace, trace_workload
from costmodel.inputs.workload import Request, Slo
from costmodel.questions.break_even import ask_break_even
from costmodel.serving.deployment import MOST_SPLITS, Topology, parse_topology
from costmodel.serving.scenario import Scenario
from costmodel.serving.strategies import parse_rule

LITE, A100, DENSE = "deepseek-ai/DeepSeek-V2-Lite", "a100-sxm-80gb", "Qwen3-8B"
GIVEN = (
    "break-even", LITE, "--prefill-per-token", "44.7us", "--decode-step", "12ms", "--batch", "14",
    "--control", "100ms",
)  # fmt: skip
WIRED = (*GIVEN, "--chunk", "2048", "--bandwidth", "25GB/s")
STEP = ("step", DENSE, "--hardware", A100, "--phase")
COPY = ("transfer", DENSE, "--link", "eth-200")
SERVED = ("--hardware", A100, "--isl", "1000", "--osl", "100", "--rate", "1")
MAIN = ("recommend", DENSE, *SERVED, "--method", "closed")


def refused(*arguments: str) -> str:
    """The one message of a refusal."""
    result = run(*arguments)
    assert result.exit_code == 2 and result.stdout == "", result.output
    assert result.stderr.startswith("error: ") and result.stderr.count("error: ") == 1
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--topology", "nope"), "--topology: no effect without --hardware"),
        (("--topology", "2P2D"), "--topology: no effect without --hardware"),
        (("--dtype", "zzz"), "--dtype: no effect without"),
        (("--efficiency", "/x"), "--efficiency: no effect without"),
        (("--first-token", "recompute"), "--first-token: no effect without"),
        (("--overlap", "layerwise"), "--overlap: no effect without"),
        (("--max-seqs", "4"), "--max-seqs: no effect without"),
        (("--gpu-memory-utilization", "0.5"), "--gpu-memory-utilization: no effect without"),
        (("--prefill-tp", "2"), "--prefill-tp: no effect without"),
        (("--attainment", "7"), "--attainment: a workload needs --hardware"),
        (("--no-slo",), "--no-slo: a workload needs --hardware"),
        (("--cv", "2", "--cached", "9"), "--cached, --cv: a workload needs --hardware"),
        (("--connector", "bogus"), "--connector: no effect without --link"),
        (("--nics", "2"), "--nics: no effect without --link"),
        (("--link", "ib-hdr", "--nics", "2"), "--nics: no effect beside --bandwidth"),
        (("--link", "ib-hdr", "--latency", "1ms"), "--link: no effect beside --bandwidth and --latency"),
        (("--link", "ib-hdr", "--connector", "bogus"), "'bogus'"),
        (("--link", "bogus"), "'bogus'"),
        (("--token-budget", "9"), "--token-budget: no effect beside --chunk"),
        (("--kv-bytes-per-token", "9kB", "--tp", "2"), "--tp: no effect beside --kv-bytes-per-token"),
        (("--tp", "2", "--decode-tp", "4"), "--tp: no effect beside --decode-tp"),
        (("--kv-dtype", "zzz"), "'zzz'"),
        (("--tp", "-1"), "--tp: '-1' is not a whole number from 1"),
        (("--tp", "3"), "16 query heads"),
        (("--nics", "0"), "--nics: '0' is not a whole number from 1"),
        (("--topology", "x", "--nics", "2"), "2 problems"),
    ],
)
def test_break_even_takes_no_option_in_vain(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*WIRED, *arguments)


def test_one_ends_tp_is_not_the_others() -> None:
    path: dict[str, object] = {"tp": 16, "decode_tp": 8}
    given = dict.fromkeys(("chunk", "prefill_per_token", "decode_step", "batch", "link_bytes_per_s"), 10.0)
    values = {value.name: value.value for value in ask_break_even(DENSE, given, path=path).parameters}
    # 8 KV heads on 8 GPUs of the decode end: each byte crosses once, 36 layers x 2 x 8 x 128 x 2 bytes
    assert values["kv_bytes_per_token"] == 36 * 2 * 8 * 128 * 2


@pytest.mark.parametrize("option", ["--tp", "--prefill-tp", "--decode-tp", "--nics", "--max-seqs"])
def test_zero_is_not_the_default(option: str) -> None:
    assert f"{option}: '0' is not a whole number from 1" in refused(*MAIN, option, "0")


@pytest.mark.parametrize("field", ["tp", "prefill_tp", "decode_tp"])
def test_zero_is_not_the_default_in_the_library_either(field: str) -> None:
    with pytest.raises(InputError, match="tp must be a whole number of at least 1, not 0"):
        Scenario(DENSE, A100, **{field: 0}).deployment()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    ["--dtype", "--kv-dtype", "--hardware", "--prefill-hardware", "--decode-hardware", "--rule", "--link",
     "--connector", "--topology", "--efficiency", "--trace", "--workload", "--isl", "--tp", "--rate"],
)  # fmt: skip
def test_empty_is_not_left_out(option: str) -> None:
    said = refused(*MAIN, option, "")
    assert said.startswith(f"error: {option}: ") and ("empty" in said or "''" in said)


def test_empty_is_not_left_out_of_other_commands_and_the_library() -> None:
    assert "--dtype: empty" in refused("kv", DENSE, "--tokens", "5", "--dtype", "")
    assert "MODEL: empty" in refused("kv", "", "--tokens", "5")
    assert "KIND: empty" in refused("show", "")
    for field in ("dtype", "kv_dtype", "prefill_hardware", "decode_hardware"):
        with pytest.raises(InputError, match="''"):
            Scenario(DENSE, A100, **{field: ""}).deployment()  # type: ignore[arg-type]
    with pytest.raises(InputError, match="unknown rule ''"):
        parse_rule("")


def test_shares_end_at_one_and_a_difference_may_be_negative() -> None:
    for option in ("--piggyback", "--piggyback-fixed"):
        assert f"{option}: '1.5' is too large; at most 1" in refused(*WIRED, option, "1.5")
        assert run(*WIRED, option, "1").exit_code == 0
    result = run(*WIRED, "--wait", "-20ms", "-f", "json")
    # one chunk: (W + 0.1 - 0.012) / (44.7e-6 x 14 - 31104 / 25e9)
    expected = (-0.02 + 0.1 - 0.012) / (44.7e-6 * 14 - 31_104 / 25e9)
    assert json.loads(result.stdout)["value"] == pytest.approx(expected, rel=1e-9)
    assert "negative" in refused(*WIRED, "--queued-prefill", "-1")


@pytest.mark.parametrize("text", ["1_000", "+5", "٣", "５", "1.0", "1e3", " 5", "-1", "99999", "9" * 5000])
def test_whole_numbers_are_plain_digits(text: str) -> None:
    said = refused(*COPY, "--tokens", "5", "--nics", text)
    assert "--nics: " in said and "a whole number from 1 to 4,096, in digits alone" in said
    assert len(said) < 200


HUGE = ("1e308", "9" * 400, "1e300", "1e18")
PLACES: list[tuple[str, ...]] = [
    (*STEP, "prefill", "--isl"),
    (*STEP, "decode", "--context"),
    (*STEP, "decode", "--context", "5", "--batch"),
    (*STEP, "prefill", "--isl", "9", "--cached"),
    (*COPY, "--tokens"),
    (*COPY, "--tokens", "9", "--control"),
    *((*MAIN, option) for option in (
        "--isl", "--osl", "--token-budget", "--chunk", "--control", "--cv", "--max-seqs", "--rate", "--alpha",
        "--requests", "--probe", "--slo-ttft", "--tp",
    )),
    *((*WIRED, option) for option in (
        "--uncached", "--batch", "--chunk", "--wait", "--prefill-per-token", "--decode-weight", "--isl",
        "--queued-decode",
    )),
    *((*GIVEN, *SERVED, option) for option in ("--isl", "--osl", "--batch", "--chunk", "--token-budget", "--cv")),
    (*WIRED, "--kv-bytes-per-token"),
]  # fmt: skip


@pytest.mark.parametrize("text", HUGE)
@pytest.mark.parametrize("arguments", PLACES, ids=lambda a: f"{a[0]} {a[-1]}")
def test_numbers_beyond_any_system_are_one_short_message(arguments: tuple[str, ...], text: str) -> None:
    value = text + "B" if arguments[-1] == "--kv-bytes-per-token" else text
    if value == "1e18B":
        return
    said = refused(*arguments, value)
    assert said.startswith(f"error: {arguments[-1]}: ") and len(said) < 250


def test_numbers_of_no_size_are_refused() -> None:
    assert "too small" in refused(*MAIN, "--rate", "1e-300")
    assert "too small" in refused(*WIRED, "--batch", "1e-300")


def test_prompts_beyond_ten_million_tokens_are_not_followed(tmp_path: Path) -> None:
    assert "prompts of 20,000,000 tokens: at most 10,000,000" in refused(*MAIN, "--isl", "20000000")
    assert "outputs of 20,000,000 tokens: at most 10,000,000" in refused(*MAIN, "--osl", "20000000")
    cached = ("--workload", "hphd", "--cached", "100000000")
    assert "prompts of 100," in refused("recommend", DENSE, "--hardware", A100, *cached)
    path = tmp_path / "long.csv"
    path.write_text(HEAD + "0,5,1\n1,10000001,1\n")
    said = refused("recommend", DENSE, "--hardware", A100, "--trace", str(path))
    assert (
        "line 3: prompt_tokens '10000001' is not a whole number of at least 1 and at most 10,000,000" in said
    )


@pytest.mark.parametrize("text", ["100000P1D", "4096P1D", "1P" + "9" * 5000 + "D", "٢P2D", "2P2D2P", "0P1D"])
def test_topologies_are_limited(text: str) -> None:
    said = refused(*MAIN, "--topology", text)
    assert "--topology '" in said and len(said) < 250


def test_splits_of_many_instances_are_the_nearest() -> None:
    few = Scenario(DENSE, A100, topology="2P2D").deployment()
    assert few.splits() == [Topology(1, 3), Topology(3, 1)]
    many = Scenario(DENSE, A100, topology="4000P96D").deployment()
    assert parse_topology("4000p96d") == many.topology
    found = [split.prefill for split in many.splits()]
    assert len(found) == MOST_SPLITS and found == sorted(found)
    assert {abs(prefill - 4000) for prefill in found} == set(range(1, 9)) and 4000 not in found


# --- output ------------------------------------------------------------------------------------------------

PRINTS = [["kv", DENSE, "--tokens", "5"], ["--help"], ["--version"], ["kv", "--help"], ["completion", "bash"]]
COSTMODEL = f"{sys.executable} -P -m costmodel"


def in_a_shell(arguments: list[str], redirection: str) -> subprocess.CompletedProcess[str]:
    command = f"{COSTMODEL} {' '.join(arguments)} {redirection}"
    return subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True, timeout=60)


@pytest.mark.parametrize("arguments", PRINTS, ids=" ".join)
def test_closed_output_is_one_message(arguments: list[str]) -> None:
    result = in_a_shell(arguments, ">&-")
    assert result.returncode == 1
    assert result.stderr == "error: the answer cannot be written: standard output is closed\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("arguments", PRINTS, ids=" ".join)
def test_full_output_is_one_message(arguments: list[str]) -> None:
    result = in_a_shell(arguments, ">/dev/full")
    assert result.returncode == 1
    assert result.stderr == "error: the answer cannot be written: No space left on device\n"


def test_a_mistake_is_said_also_where_nothing_can_be_printed() -> None:
    result = in_a_shell(["kv", "nope", "--tokens", "5"], ">&-")
    assert result.returncode == 2 and result.stderr.startswith("error: unknown model 'nope'")


# --- traces and configurations -----------------------------------------------------------------------------

HEAD = "arrival_s,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "0," + "5" * 200_000 + ",1\n", "field larger than field limit"),
        (HEAD + "0," + "5" * 5000 + ",1\n", "prompt_tokens '555"),
        (HEAD + "0," + "x" * 5000 + ",1\n", "prompt_tokens 'xxx"),
        (HEAD + "x" * 5000 + ",5,1\n", "arrival_s 'xxx"),
        (HEAD + "0,٣,1\n", "prompt_tokens '٣'"),
        (HEAD + "1_0,5,1\n", "arrival_s '1_0' is not a time from 0 s to 1e+10 s"),
        (HEAD + "0,5,1\n1e308,5,1\n", "line 3: arrival_s '1e308'"),
        (HEAD + "0,5,1\n1e-300,5,1\n", "at least two requests at different times"),
        ("arrival_s," + HEAD + "0,0,5,1\n", "column 'arrival_s' stands 2 times"),
    ],
)
def test_bad_traces_are_one_short_message(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        trace_workload(path, Slo())
    assert said in str(error.value) and len(error.value.problems[0]) < 250


def test_a_path_that_is_too_long_is_one_message() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(read_trace("x" * 5000))


def test_a_byte_order_mark_is_no_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEAD + "0,5,1\n", encoding="utf-8-sig")
    assert list(read_trace(path)) == [Request(0.0, 5, 0, 1)]


def test_a_burst_late_on_the_clock_ends(tmp_path: Path) -> None:
    # 300 mean gaps are less than the spacing of floats at 1e10 s (1.9e-6 s): on that clock, time would stand
    path = tmp_path / "t.csv"
    path.write_text(HEAD + "9999999999,5,1\n" * 999 + "9999999999.000002,5,1\n")
    assert trace_workload(path, Slo()).bursty


@pytest.mark.parametrize("bad", [-1, 0, "16", 1.5, True, [16]])
def test_latent_attention_checks_kv_heads_it_does_not_use(bad: Any) -> None:
    from costmodel.data import package_files

    name = next(name for name in packaged_models() if name.endswith("V2-Lite"))
    stored = package_files("costmodel._models").joinpath(name.replace("/", "--") + ".json").read_text()
    data = json.loads(stored)
    with pytest.raises(InputError, match=r"num_key_value_heads is .*; expected a whole number from 1"):
        parse_config(data | {"num_key_value_heads": bad}, "config.json", "lite")
    del data["num_key_value_heads"]
    assert parse_config(data, "config.json", "lite").layers == read_model(LITE).layers


def test_long_names_are_cut_in_messages(tmp_path: Path) -> None:
    for arguments in (
        ("kv", "x" * 5000, "--tokens", "5"),
        ("kv", DENSE, "--tokens", "5", "--dtype", "y" * 5000),
    ):
        assert len(refused(*arguments)) < 400
    assert len(refused("kv", DENSE, "--tokens", "5" + "z" * 5000)) < 250


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Qwen/Qwen3-8", "did you mean 'Qwen/Qwen3-8B' or 'Qwen/Qwen3-8B-FP8'?"),
        (
            "deepseek-ai/DeepSeek-V3.",
            "did you mean 'deepseek-ai/DeepSeek-V3.1' or 'deepseek-ai/DeepSeek-V3.2'?",
        ),
        ("google/gemma-3-1", "did you mean 'google/gemma-3-12b-it' or 'google/gemma-3-1b-it'?"),
    ],
)
def test_a_name_cut_short_is_answered_with_those_that_start_so(name: str, said: str) -> None:
    assert said in refused("kv", name, "--tokens", "10")
