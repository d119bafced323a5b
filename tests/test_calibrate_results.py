"""``calibrate`` on results as tools write them: a start-up log beside a log, copies, closed loops without requests."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from cli_runner import asked, run
from written_logs import BUDGET, SEATS, arrivals, serve, write_csv, write_json

from costmodel.inputs.link import load_connector
from costmodel.whole.engines import engine_of
from costmodel.whole.logs import Asked

SAMPLES = Path(__file__).parent / "samples" / "results"
GIVEN = ("--hardware", "a100-sxm-80gb")
#: The start of the engine that written_logs plays.
START = f"""\
INFO [api_server.py:1] vLLM API server version 0.19.0
INFO [utils.py:1] non-default args: {{'model': 'Qwen/Qwen3-0.6B', 'max_num_seqs': {SEATS}}}
INFO [scheduler.py:1] Chunked prefill is enabled with max_num_batched_tokens={BUDGET}.
INFO [core.py:1] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen/Qwen3-0.6B', dtype=torch.bfloat16, \
max_seq_len=4096, tensor_parallel_size=1, pipeline_parallel_size=1, served_model_name=small, enable_prefix_caching=False
INFO [kv_cache_utils.py:1] GPU KV cache size: 500,000 tokens
"""


def refused(*arguments: str) -> str:
    """What a command that fails says."""
    result = run("calibrate", *arguments)
    assert result.exit_code == 2, result.output
    return result.output


# --- a start-up log beside a log of requests ---------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pair")
    start = folder / "startup.log"
    start.write_text(START)
    return write_json(folder / "result.json", serve(arrivals(60))), start


def test_a_start_up_log_says_what_options_would(pair: tuple[Path, Path]) -> None:
    pytest.importorskip("scipy")
    result, start = map(str, pair)
    by_log = asked("calibrate", result, start, *GIVEN)
    options = ("--model", "Qwen/Qwen3-0.6B", "--tp", "1", "--token-budget", str(BUDGET), "--max-seqs", str(SEATS),
               "--kv-tokens", "500000", "--stack", "vllm-0.19.0")  # fmt: skip
    by_options = asked("calibrate", result, *GIVEN, *options)
    assert by_log["runs"] == by_options["runs"]
    (found,) = by_log["runs"]
    assert (found["token_budget"], found["max_seqs"], found["stack"]) == (BUDGET, SEATS, "vllm-0.19.0")
    assert not any("taken for granted" in warning for warning in by_log["warnings"])


@pytest.mark.parametrize("engine", ["vllm", "vLLM", "VLLM"])
def test_metadata_of_a_result_names_the_stack(pair: tuple[Path, Path], tmp_path: Path, engine: str) -> None:
    path = tmp_path / "told.json"
    path.write_text(json.dumps(json.loads(pair[0].read_text()) | {"engine": engine, "version": "0.19.0"}))
    assert engine_of(path, [{}], None).fill(Asked()).stack == "vllm-0.19.0"


@pytest.mark.parametrize(
    ("engine", "stack"),
    [("TensorRT-LLM", "trtllm-1.0.0"), ("trtllm", "trtllm-1.0.0"), ("SGLang", "sglang-1.0.0")],
)
def test_engines_by_their_names(pair: tuple[Path, Path], tmp_path: Path, engine: str, stack: str) -> None:
    path = tmp_path / "told.json"
    path.write_text(json.dumps(json.loads(pair[0].read_text()) | {"engine": engine, "version": "1.0.0"}))
    assert engine_of(path, [{}], None).fill(Asked()).stack == stack


def test_a_log_without_arrivals_says_what_to_do(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path, result = tmp_path / "late.json", json.loads(pair[0].read_text())
    del result["start_times"]
    path.write_text(json.dumps(result))
    text = refused(str(path), *GIVEN)
    assert "has no times of arrival: step times are fitted by replaying" in text and "--rate" not in text
    path.write_text(json.dumps(result | {"total_output_tokens_retokenized": 1}))
    assert "has no times of arrival, which SGLang's client never saves" in refused(str(path), *GIVEN)
    path.write_text(json.dumps(result | {"ttfts": ["x"] * len(result["ttfts"])}))
    assert "'x'" in refused(str(path), *GIVEN)  # what is wrong besides comes first


def test_metrics_of_a_server_are_no_table() -> None:
    text = refused(str(SAMPLES / "vllm.prom"), *GIVEN[:2])
    assert "holds /metrics of a server" in text and "costmodel check reads this file" in text


def test_options_win_over_a_start_up_log(pair: tuple[Path, Path]) -> None:
    result, start = pair
    told = engine_of(result, [{}], start)
    filled = told.fill(Asked(max_seqs=99, kv_tokens=7, model="other"))
    assert (filled.model, filled.max_seqs, filled.kv_tokens) == ("other", 99, 7)
    assert (filled.token_budget, filled.tp, filled.stack) == (BUDGET, 1, "vllm-0.19.0")


def test_the_model_of_a_result_is_taken_where_nothing_else_says_it(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "named.json"
    path.write_text(json.dumps(json.loads(pair[0].read_text()) | {"model_id": "Qwen/Qwen3-0.6B", "tp": "2"}))
    filled = engine_of(path, [{}], None).fill(Asked())
    assert (filled.model, filled.tp, filled.kv_tokens) == ("Qwen/Qwen3-0.6B", 2, None)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({"model_id": "Qwen/Qwen3-8B"}, "is of model 'Qwen/Qwen3-8B', but"),
        ({"model_id": "elsewhere/qwen3-0.6b", "tp": "4"}, "is of tp '4', but"),
        ({"model_id": "small", "version": "0.9.0"}, "is of engine_version '0.9.0', but"),
    ],
)
def test_logs_of_two_engines(
    pair: tuple[Path, Path], tmp_path: Path, named: dict[str, str], told: str
) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(json.loads(pair[0].read_text()) | named))
    text = refused(str(path), str(pair[1]), *GIVEN)
    assert told in text and "pass the start-up log of the engine that served these requests" in text


def test_a_table_and_a_start_up_log_that_disagree(pair: tuple[Path, Path], tmp_path: Path) -> None:
    table = write_csv(tmp_path / "log.csv", serve(arrivals(60)))  # of vLLM 0.0.0
    assert "is of engine_version '0.0.0', but" in refused(str(table), str(pair[1]))


def test_names_under_which_a_model_is_served_are_its_own(pair: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "served.json"
    path.write_text(json.dumps(json.loads(pair[0].read_text()) | {"model_id": "small"}))
    assert engine_of(path, [{}], pair[1]).fill(Asked()).model == "Qwen/Qwen3-0.6B"


def test_engines_that_step_times_do_not_model(pair: tuple[Path, Path], tmp_path: Path) -> None:
    start = tmp_path / "start.log"
    start.write_text(
        START.replace("pipeline_parallel_size=1", "pipeline_parallel_size=2, data_parallel_size=3")
    )
    text = refused(str(pair[0]), str(start), *GIVEN)
    assert "pp is 2" in text and "instances is 3" in text
    start.write_text(START.replace("torch.bfloat16", "torch.bfloat16, quantization=fp8"))
    (warning,) = engine_of(pair[0], [{}], start).warnings
    assert "dtype is fp8" in warning


def test_a_pool_told_in_blocks_only() -> None:
    # 61,012 blocks of 16 tokens
    filled = engine_of(SAMPLES / "vllm-0.33.0-detailed.json", [{"run": "9"}], None).fill(Asked())
    assert filled.kv_tokens is None
    start = SAMPLES / "start-vllm-0.5.4.log"
    engine = engine_of(SAMPLES / "stages-vllm-v0.jsonl", [{}], start)
    assert engine.kv_tokens == 61012 * 16 and engine.fill(Asked()).stack == "vllm-0.5.4"


def test_start_up_logs_that_stand_alone_or_twice(pair: tuple[Path, Path]) -> None:
    result, start = map(str, pair)
    assert "pass one, beside a log of requests" in refused(start)
    assert "pass one, beside a log of requests" in refused(result, start, start)
    assert "is no log of requests" in refused(start, str(SAMPLES / "copies-simple.csv"))


# --- copies -------------------------------------------------------------------------------------------------


def test_copies_become_a_connector(tmp_path: Path) -> None:
    output = tmp_path / "mine.toml"
    answer = asked("calibrate", str(SAMPLES / "copies-simple.csv"), "--link", "ib-ndr", "-o", str(output))
    (series,) = answer["series"]
    # the file is 16 us and 68 us a MiB, rounded to a us
    assert series["latency_s"] == pytest.approx(16e-6, rel=0.05)
    assert series["bandwidth_bytes_per_s"] == pytest.approx(2**20 / 68e-6, rel=0.05)
    assert series["sizes"] == 8 and series["held_out_mape"] < 0.03
    assert series["bandwidth_share"] == pytest.approx(series["bandwidth_bytes_per_s"] / 50e9)
    connector = load_connector(output)
    assert connector.latency_s == pytest.approx(series["latency_s"], rel=1e-3)
    assert connector.bandwidth_share == pytest.approx(series["bandwidth_share"], rel=1e-3)
    assert connector.held_out_mape == pytest.approx(series["held_out_mape"], abs=1e-4)
    copied = asked("transfer", "Qwen3-8B", "--tokens", "64", "--link", "ib-ndr", "--connector", str(output))
    # 64 tokens of 147,456 B are 9 MiB: 16 us and 9 x 68 us
    assert copied["wire_s"] == pytest.approx(16e-6 + 9 * 68e-6, rel=0.05)
    page = run("calibrate", str(SAMPLES / "copies-simple.csv"), "--detail")
    assert page.exit_code == 0 and "held-out error" in page.output and "nothing written" in page.output


def test_copies_of_several_series_go_to_a_folder(tmp_path: Path) -> None:
    table = tmp_path / "copies.csv"
    rows = ["group,bytes,time_ms,theoretical_GBps"]
    for group, latency, rate in (("a", 1.0, 10.0), ("b", 0.1, 20.0)):
        rows += [f"{group},{size * 10**6},{latency + size / rate},25" for size in (1, 2, 4, 8, 16, 32)]
    table.write_text("\n".join([*rows, "c,5,1,25"]))
    answer = asked("calibrate", str(table), "-o", str(tmp_path / "out"))
    a, b = answer["series"]
    assert (a["latency_s"], b["latency_s"]) == (pytest.approx(1e-3), pytest.approx(1e-4))
    assert (a["bandwidth_share"], b["bandwidth_share"]) == (pytest.approx(0.4), pytest.approx(0.8))
    assert load_connector(tmp_path / "out" / "a.toml").latency_s == pytest.approx(1e-3)
    (left,) = answer["left_out"]
    assert "c: 1 sizes; expected 6 at least" in left["why"]
    assert "hold several series (a; b); pass a folder" in refused(
        str(table), "-o", str(tmp_path / "one.toml")
    )


def test_copies_that_cannot_be_written_or_fitted(tmp_path: Path) -> None:
    simple = str(SAMPLES / "copies-simple.csv")
    assert "states no theoretical_GBps: pass --link" in refused(simple, "-o", str(tmp_path / "x.toml"))
    assert "a connector's file ends in .toml" in refused(
        simple, "--link", "ib-ndr", "-o", str(tmp_path / "x.csv")
    )
    assert "nothing to fit" in refused(str(SAMPLES / "copies.csv"))
    assert "--hardware: not for a table of copies" in refused(simple, *GIVEN)
    assert "--tp: only for a log of requests" in refused(simple, "--tp", "2")
    assert "--link: only for a table of copies" in refused(
        str(SAMPLES / "aiperf-0.13.0-requests.jsonl"), "--link", "x"
    )
    instant = tmp_path / "instant.csv"
    instant.write_text("bytes,time_ms\n" + "".join(f"{n},0\n" for n in range(1, 8)))
    assert "line 2, 1 B: a copy that takes no time" in refused(str(instant))
    noise = tmp_path / "noise.csv"
    noise.write_text("bytes,time_ms\n" + "".join(f"{n}000,{1 + 9 * (n % 2)}\n" for n in range(1, 13)))
    (warning,) = asked("calibrate", str(noise))["warnings"]
    assert "a latency and a bandwidth do not describe these copies" in warning


# --- closed loops -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured() -> list[dict[str, Any]]:
    """Loops about as fast as the tool's own steps, with 30 ms before each request."""
    rows = []
    for tp in (1, 2, 4):
        for clients in (1, 4):
            kind = ("Llama-3.1-8B", "--hardware", "h100-sxm", "--tp", str(tp))
            decode = asked("step", *kind, "--phase", "decode", "--batch", str(clients), "--context", "1088")[
                "time_s"
            ]
            prompt = asked("step", *kind, "--phase", "prefill", "--isl", "1024")["time_s"]
            rows.append({"tp": tp, "conc": clients, "ttft": 0.03 + 1.5 * decode + prompt,
                         "tpot": decode + (clients - 1) / 128 * prompt})  # fmt: skip
    return rows


def as_csv(path: Path, rows: list[dict[str, Any]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        lengths, times = ["isl", "osl", "concurrency"], ["ttft_s", "tpot_s"]
        writer.writerow(["model", "gpu", "framework", "version", "precision", "tp", *lengths, *times])
        for row in rows:
            start = ["Llama-3.1-8B", "h100-sxm", "vllm", "", "bf16", row["tp"], 1024, 128]
            writer.writerow([*start, row["conc"], row["ttft"], row["tpot"]])
    return str(path)


def as_inferencex(path: Path, rows: list[dict[str, Any]]) -> str:
    made = [
        {"hw": "h100-sxm", "model": "Llama-3.1-8B", "framework": "vllm", "precision": "bf16", "tp": row["tp"],
         "isl": 1024, "osl": 128, "conc": row["conc"], "tput_per_gpu": 1.0, "mean_ttft": row["ttft"],
         "mean_tpot": row["tpot"]}
        for row in rows
    ]  # fmt: skip
    apart = made[0] | {"disagg": True, "prefill_tp": 1, "decode_tp": 1, "conc": 2}
    guessed = made[0] | {"spec_decoding": "mtp", "conc": 8}
    path.write_text(json.dumps([*made, apart, guessed]))
    return str(path)


def test_rows_of_inferencex_calibrate_a_stack(measured: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    by_table = asked("calibrate", as_csv(tmp_path / "loops.csv", measured))
    by_rows = asked("calibrate", as_inferencex(tmp_path / "agg.json", measured))
    assert by_rows["schema"] == "costmodel.calibrate-stack/1"
    one, other = (answer["stacks"][0]["fits"][0]["parameters"] for answer in (by_table, by_rows))
    assert one == pytest.approx(other) and one["request_latency"] == pytest.approx(0.03, rel=0.1)
    left = sorted(entry["why"] for entry in by_rows["left_out"])
    assert left == [
        "decoding was speculative, which step times do not model",
        "prefill and decode run apart: a stack is of one engine",
    ]
    assert any("isl and osl are the lengths asked for" in warning for warning in by_rows["warnings"])


def client(row: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What ``vllm bench serve`` saves of a loop without single requests."""
    return {
        "model_id": "Llama-3.1-8B", "num_prompts": 10, "completed": 10, "request_rate": "inf", "tp": str(row["tp"]),
        "max_concurrency": row["conc"], "total_input_tokens": 10240, "total_output_tokens": 1280, "duration": 9.0,
        "request_throughput": 1.0, "mean_ttft_ms": row["ttft"] * 1e3, "mean_tpot_ms": row["tpot"] * 1e3, **more,
    }  # fmt: skip


def test_results_of_a_client_calibrate_a_stack(measured: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    paths = []
    for place, row in enumerate(measured):
        paths.append(tmp_path / f"{place}.json")
        paths[-1].write_text(json.dumps(client(row)))
    given = ("--hardware", "h100-sxm", "--stack", "vllm-0.24.0")
    by_results = asked("calibrate", *map(str, paths), *given)
    by_table = asked("calibrate", as_csv(tmp_path / "loops.csv", measured))
    one, other = (answer["stacks"][0]["fits"][0]["parameters"] for answer in (by_table, by_results))
    assert one == pytest.approx(other)
    assert any("their means stand for all requests" in warning for warning in by_results["warnings"])


def test_loops_that_do_not_say_enough(measured: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    bare = {key: value for key, value in client(measured[0]).items() if key not in ("tp", "model_id")}
    path.write_text(json.dumps(bare))
    text = refused(str(path), "--hardware", "h100-sxm")
    assert (
        "states no model: save it with the result (--metadata model=NAME), or write the loops as a CSV"
        in text
    )
    assert "states no tp: save it with the result (--metadata tp=8), or write the loops as a CSV" in text
    path.write_text(json.dumps(client(measured[0])))
    assert "no column says the GPU (gpu or system); name it with --hardware" in refused(str(path))
    assert "a stack needs two configurations" in refused(str(path), "--hardware", "h100-sxm")
    table = as_csv(tmp_path / "loops.csv", measured)
    text = refused(str(path), table, "--hardware", "h100-sxm")
    assert f"{table} does not: calibrate them apart" in text
    path.write_text(json.dumps(client(measured[0]) | {"request_rate": 3.0}))
    assert "save the result with --save-detailed" in refused(str(path), "--hardware", "h100-sxm")
