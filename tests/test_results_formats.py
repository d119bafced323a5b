"""Results of other tools, tables of copies, /metrics and logs of requests as records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.inputs.traces import Reading, read_log, read_trace
from costmodel.records import Figure, Record
from costmodel.results import read_results

SAMPLES = Path(__file__).parent / "samples" / "results"


def figure(record: Record, metric: str, statistic: str | None = None) -> Figure:
    """The one figure of a metric and statistic."""
    found = [f for f in record.figures if (f.metric, f.statistic) == (metric, statistic)]
    assert len(found) == 1, [(f.metric, f.statistic) for f in record.figures]
    return found[0]


def one(name: str) -> Record:
    """The only record of a sample."""
    (record,) = read_results(SAMPLES / name)
    return record


def said(tmp_path: Path, text: str) -> str:
    """What a bad file is told."""
    path = tmp_path / "result"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_results(path)
    assert str(caught.value).startswith(str(path))
    return str(caught.value)


def unpacked(name: str) -> Any:
    """The JSON of a sample."""
    data = (SAMPLES / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


# --- AIPerf and GenAI-Perf --------------------------------------------------------------------------------


def test_aiperf_summary_and_requests_tell_the_same() -> None:
    summary, requests = one("aiperf-0.13.0.json"), one("aiperf-0.13.0-requests.jsonl")
    assert summary.title == "AIPerf 0.13.0" and summary.conditions["concurrency"] == 2
    assert summary.conditions["model"] == "tiny-fake" and summary.conditions["output_tokens"] == 6
    for metric in ("ttft", "e2e", "tpot"):
        for statistic in ("mean", "p50", "p90", "p99"):
            told, counted = (
                figure(summary, metric, statistic).value,
                figure(requests, metric, statistic).value,
            )
            assert told == pytest.approx(counted, rel=1e-9), (metric, statistic)
    assert summary.conditions["input_length"] == requests.conditions["input_length"]
    assert figure(summary, "request_throughput").unit == "req/s"
    # 6 requests in 0.182 s are no 30.1 a second: rates are of the phase, which is longer than its requests
    assert not [f for f in summary.figures if f.metric == "duration"]
    assert "rates count over the whole phase" in str(figure(summary, "benchmark_duration").note)


def test_aiperf_at_a_rate(tmp_path: Path) -> None:
    raw = unpacked("aiperf-0.13.0.json")
    raw["input_config"]["phases"] = [{"kind": "profiling", "type": "gamma", "rate": 5.0, "concurrency": 9}]
    raw["error_request_count"] = {"unit": "requests", "avg": 2.0}
    path = tmp_path / "x.json"
    path.write_text(json.dumps(raw))
    (record,) = read_results(path)
    assert record.conditions["arrival_rate"] == 5 and record.conditions["requests"] == 6
    assert record.conditions["arrival_process"] == "gamma gaps, at most 9 at a time"
    assert "2 requests failed; figures are of the others" in record.warnings


def test_genai_perf() -> None:
    record = one("genai-perf.json")
    assert record.form == "GenAI-Perf"
    assert record.conditions == {
        "model": "Qwen/Qwen3-8B", "arrival_process": "closed loop", "concurrency": 4, "requests": 50,
        "input_length": "540 to 561 tokens, mean 550", "output_tokens": 128,
    }  # fmt: skip
    # what it calls inter-token latency is the mean gap of a request
    assert figure(record, "tpot", "p99").value == pytest.approx(0.013)
    assert figure(record, "user_throughput", "p50").value == 85.2


def test_units_that_are_not_known(tmp_path: Path) -> None:
    raw = unpacked("genai-perf.json") | {"time_to_first_token": {"unit": "fortnights", "avg": 1}}
    assert "time_to_first_token: unit 'fortnights'; expected ms" in said(tmp_path, json.dumps(raw))
    raw["time_to_first_token"] = {"unit": ["ms"], "avg": 1}
    assert "time_to_first_token: unit ['ms']; expected ms" in said(tmp_path, json.dumps(raw))
    raw["time_to_first_token"] = {"unit": "ms", "avg": -1}
    assert "time_to_first_token.avg: -1 is not a number from 0" in said(tmp_path, json.dumps(raw))
    raw["time_to_first_token"] = {"unit": "ms", "avg": "1"}
    assert "time_to_first_token.avg: '1' is not a number" in said(tmp_path, json.dumps(raw))


# --- GuideLLM ---------------------------------------------------------------------------------------------


def test_guidellm_of_two_schemas() -> None:
    new, old = one("guidellm-0.8.1-concurrent.json.gz"), one("guidellm-0.2.1-poisson.json.gz")
    assert new.title == "GuideLLM 0.8.1" and new.conditions["concurrency"] == 2
    assert new.conditions["requests"] == 5 and new.conditions["output_tokens"] == 6
    assert old.conditions["arrival_rate"] == 20 and old.conditions["arrival_process"] == "Poisson"
    assert old.conditions["model"] == new.conditions["model"] == "tiny-fake"
    assert old.conditions["input_tokens"] == 32
    raw = unpacked("guidellm-0.2.1-poisson.json.gz")["benchmarks"][0]["metrics"]
    ttft = raw["time_to_first_token_ms"]["successful"]
    assert figure(old, "ttft", "p50").value == pytest.approx(ttft["median"] / 1e3)
    assert figure(old, "ttft", "p99.9").value == pytest.approx(ttft["percentiles"]["p999"] / 1e3)
    assert figure(old, "ttft", "p1").value == pytest.approx(ttft["percentiles"]["p01"] / 1e3)
    # its time per output token divides by all tokens: not our TPOT
    assert not [f for f in old.figures if f.metric == "tpot"]


def test_guidellm_that_counts_prompts_twice_has_no_total_throughput(tmp_path: Path) -> None:
    old, new = one("guidellm-0.2.1-poisson.json.gz"), one("guidellm-0.8.1-poisson.json.gz")
    twice = figure(old, "tokens_per_second")
    # 5 requests of 2 x 32 prompt tokens and 6 - 1 output tokens, less the very last, in 0.1868 s
    assert twice.value == pytest.approx((5 * (2 * 32 + 5) - 1) / figure(old, "duration").value, rel=1e-4)
    assert twice.dimension is None and "twice" in str(twice.note)
    assert not [f for f in old.figures if f.metric == "total_throughput"]
    assert figure(new, "total_throughput").note is None
    raw = unpacked("guidellm-0.2.1-poisson.json.gz")  # 0.3 writes the same fields, and counts once
    raw["benchmarks"][0]["metrics"]["tokens_per_second"]["successful"]["mean"] = 26.767 * 38
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(raw))
    assert figure(read_results(path)[0], "total_throughput").value == pytest.approx(26.767 * 38)


def test_guidellm_of_several_loads(tmp_path: Path) -> None:
    raw = unpacked("guidellm-0.8.1-concurrent.json.gz")
    more = unpacked("guidellm-0.8.1-poisson.json.gz")["benchmarks"][0]
    more["metrics"]["request_totals"] = {"successful": 3, "errored": 1, "incomplete": 1, "total": 5}
    raw["benchmarks"].append(more)
    path = tmp_path / "benchmarks.json"
    path.write_text(json.dumps(raw))
    loop, poisson = read_results(path)
    assert loop.name == "benchmarks.json, benchmark 1" and poisson.conditions["arrival_rate"] == 20
    assert "1 requests failed; figures are of the others" in poisson.warnings
    assert poisson.conditions["requests"] == 3
    assert "1 requests were cut off at the end; figures are of the others" in poisson.warnings
    with pytest.raises(InputError, match="holds 2 runs; select one, as in run=1"):
        list(read_trace(path))
    assert len(list(read_trace(path, Reading(select={"run": "2"})))) == 5


@pytest.mark.parametrize(
    ("benchmarks", "text"),
    [
        ([], "holds no measured figure"),
        ([3], "benchmark 1: metrics: not an object"),
        ([{"metrics": {"time_to_first_token_ms": {"successful": [1]}}}], "time_to_first_token_ms: not an object"),
        ([{"metrics": {"request_latency": {"successful": {"mean": 1e99}}}}], "mean: 1e+99 is not a number"),
        ([{"metrics": {}, "duration": float("nan")}], "duration: nan is not a number"),
    ],
)  # fmt: skip
def test_guidellm_that_is_wrong(tmp_path: Path, benchmarks: list[Any], text: str) -> None:
    assert text in said(tmp_path, json.dumps({"benchmarks": benchmarks}))


# --- InferenceX -------------------------------------------------------------------------------------------


def test_inferencex_rows() -> None:
    flat, apart = read_results(SAMPLES / "inferencex-rows.json")
    assert flat.conditions == {
        "model": "openai/gpt-oss-120b", "hardware": "h200", "engine": "vllm", "dtype": "fp4", "tp": 8, "ep": 1,
        "engine_build": "vllm/vllm-openai:v0.11.0", "input_tokens": 1024, "output_tokens": 1024, "concurrency": 64,
        "arrival_process": "closed loop",
    }  # fmt: skip
    throughput = figure(flat, "output_throughput")
    assert throughput.value == 400 and throughput.per_gpu
    assert figure(flat, "ttft", "p50").value == 0.2
    # tokens a second at the P99 of TPOT are the slowest hundredth
    assert figure(flat, "user_throughput", "p1").value == 40 and "std_intvty" in flat.unread
    assert "isl and osl are the lengths asked for; requests may be shorter" in flat.warnings
    assert apart.conditions["topology"] == "2P1D" and apart.conditions["gpus"] == 16
    assert apart.conditions["prefill_tp"] == 4 and figure(apart, "e2e", "p99").value == 14.5
    assert any("speculative (mtp)" in warning for warning in apart.warnings)


def test_inferencex_that_is_wrong(tmp_path: Path) -> None:
    row = unpacked("inferencex-rows.json")[0]
    assert "tp: 'eight' is no tp" in said(tmp_path, json.dumps(row | {"tp": "eight"}))
    assert "entry 2 holds the same run as entry 1" in said(tmp_path, json.dumps([row, row]))
    assert "mean_ttft: -1 is not a number" in said(tmp_path, json.dumps([row | {"mean_ttft": -1}]))
    assert "has fields of vllm bench serve and of InferenceX" in said(
        tmp_path, json.dumps(row | {"num_prompts": 3})
    )


# --- copies -----------------------------------------------------------------------------------------------


def test_copies_by_series() -> None:
    a, b = read_results(SAMPLES / "copies.csv")
    assert a.conditions["link"] == "200 Gb/s" and a.conditions["link_bandwidth"] == 25e9
    assert [(f.value, f.conditions["payload"], f.conditions["descriptors"]) for f in a.figures] == [
        (pytest.approx(0.5e-3), 1e6, 10), (pytest.approx(0.6e-3), 2e6, 20), (pytest.approx(0.62e-3), 2e6, 20),
    ]  # fmt: skip
    assert a.warnings == ("1 of 4 rows state no bytes or no time",) and a.figures[1].note == "second run"
    assert [f.name for f in a.figures] == ["line 2, 1 MB", "line 3, 2 MB", "line 4, 2 MB"]
    assert (a.name, b.name) == ("copies.csv, a", "copies.csv, b")
    assert a.title == "a, 200 Gb/s, h100, some connector"
    # 1 MB in 0.1 ms are 10 GB/s, not 100
    assert b.warnings == ("line 6: 100 GB/s is not 1,000,000 bytes over 0.0001 s, 10 GB/s",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("bytes,time_ms\n", "has a header but no copy"),
        ("bytes,time_ms\n1000,\n", "no row has both bytes and a time"),
        ("bytes,time_ms\n1000,x\n", "line 2, column 'time_ms': 'x' is not a number"),
        ("bytes,time_ms\n-5,1\n", "line 2, column 'bytes': -5 is not a number from 0"),
        ("bytes,time_ms\n1e30,1\n", "line 2, column 'bytes': 1e+30 is not a number"),
        ("bytes,time_ms\nnan,1\n", "line 2, column 'bytes': nan is not a number"),
        ("bytes,time_ms\n5,1,2\n", "line 2: 3 cells, the header has 2"),
        ("bytes,time_ms,bytes\n5,1,2\n", "column 'bytes' stands 2 times"),
    ],
)
def test_copies_that_are_wrong(tmp_path: Path, text: str, told: str) -> None:
    assert told in said(tmp_path, text)


# --- /metrics ---------------------------------------------------------------------------------------------


def test_metrics_of_a_server() -> None:
    record = one("vllm.prom")
    assert record.conditions == {
        "engine": "vLLM", "model": "Qwen/Qwen3-8B", "requests": 10, "block_size": 16, "memory_utilization": 0.9,
        "cache_state": "prefix cache on",
    }  # fmt: skip
    assert figure(record, "ttft", "mean").value == pytest.approx(0.17)
    # 5 of 10 values are at most 0.1, 9 at most 0.25, the last is beyond 0.5
    p50, p90 = figure(record, "ttft", "p50"), figure(record, "ttft", "p90")
    assert (p50.value, p50.high, p90.value, p90.high) == (0, 0.1, 0.1, 0.25)
    assert not [f for f in record.figures if (f.metric, f.statistic) == ("ttft", "p99")]
    assert "vllm:time_to_first_token_seconds: p99 lies beyond the last bucket, 0.5 s" in record.warnings
    assert figure(record, "input_tokens", "mean").value == 100
    assert figure(record, "cache_hit_rate").value == 0.25 and figure(record, "kv_cache_blocks").value == 4096
    assert figure(record, "kv_transfer_time", "mean").value == pytest.approx(0.005)


def test_engines_are_added_up(tmp_path: Path) -> None:
    text = (SAMPLES / "vllm.prom").read_text()
    path = tmp_path / "metrics"
    path.write_text(text + text.replace('engine="0"', 'engine="1"'))
    (record,) = read_results(path)
    assert record.conditions["requests"] == 20 and figure(record, "ttft", "p50").high == 0.1


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('le="0.25",MODEL} 9.0', 'le="0.25",MODEL} 4.0', "its buckets shrink"),
        (
            'token_seconds_sum{engine="0",MODEL} 1.7',
            "token_seconds_sum{} nan",
            "is not a number of at least 0",
        ),
        (
            'token_seconds_sum{engine="0",MODEL} 1.7',
            "token_seconds_sum{} -1",
            "is not a number of at least 0",
        ),
        ('le="0.5"', 'le="half"', "has no bound (le)"),
        ('_count{engine="0",MODEL} 10.0', '_count{engine="0",MODEL} 11', "its count is 11"),
        ("} 2.0", "} many", "is no metric with labels and a number"),
        ('engine="0",le="0.1"', 'engine="0,le="0.1"', "is no metric with labels"),
    ],
)
def test_metrics_that_are_wrong(tmp_path: Path, old: str, new: str, told: str) -> None:
    text = (SAMPLES / "vllm.prom").read_text()
    old, new = (part.replace("MODEL", 'model_name="Qwen/Qwen3-8B"') for part in (old, new))
    assert old in text
    assert told in said(tmp_path, text.replace(old, new, 1))


def test_metrics_of_two_servers(tmp_path: Path) -> None:
    text = (SAMPLES / "vllm.prom").read_text() + 'sglang:token_usage{model_name="x"} 0.1\n'
    assert "holds metrics of vLLM and of SGLang" in said(tmp_path, text)


# --- requests ---------------------------------------------------------------------------------------------


def test_stages_that_an_engine_noted() -> None:
    a, b = read_log(SAMPLES / "stages-vllm-v1.jsonl")
    # queued at 50, scheduled at 50.5, first token at 50.75, the last of 11 at 51.75
    assert (a.queue_s, a.prefill_s, a.decode_s, a.tpot_s) == (0.5, 0.25, 1.0, 0.1)
    assert (a.ttft_from_queued_s, a.ttft_s, a.e2e_from_queued_s) == (0.75, 0.8, 1.75)
    assert b.request.arrival_s == 2 and b.tpot_s is None and b.request.isl == 200
    old, _ = read_log(SAMPLES / "stages-vllm-v0.jsonl")
    assert (old.queue_s, old.prefill_s, old.decode_s, old.ttft_s, old.e2e_s) == (0.25, 0.25, 1.0, 0.5, 1.5)
    record = one("stages-vllm-v0.jsonl")
    assert figure(record, "prefill_queue_time", "mean").value == 0.125
    assert figure(record, "decode_time", "p50").value == 0.75


def test_stages_as_finished_requests_have_them(tmp_path: Path) -> None:
    path = tmp_path / "log"
    row = {"num_prompt_tokens": 9, "num_generation_tokens": 3, "queued_time": 0.5, "prefill_time": 0.25,
           "decode_time": 1.0, "inference_time": 1.25, "e2e_latency": 1.8}  # fmt: skip
    path.write_text(json.dumps(row))
    (logged,) = read_log(path, timed=False)
    assert (logged.queue_s, logged.prefill_s, logged.decode_s, logged.tpot_s) == (0.5, 0.25, 1.0, 0.5)
    assert (logged.ttft_from_queued_s, logged.e2e_s, logged.ttft_s) == (0.75, 1.8, None)
    with pytest.raises(InputError, match="has no arrival_time for some or all requests"):
        list(read_log(path))


def test_stages_that_run_backwards(tmp_path: Path) -> None:
    row = json.loads((SAMPLES / "stages-vllm-v1.jsonl").read_text().split("\n")[0])
    told = said(tmp_path, json.dumps(row | {"first_token_ts": 40.0}))
    assert "line 1: first token at 40 s, before 50.5 s" in told
    assert "line 1: first_token_ts '-1' is not a time" in said(
        tmp_path, json.dumps(row | {"first_token_ts": -1})
    )


def test_sglang_details_are_requests() -> None:
    path = SAMPLES / "sglang-0.5.23.jsonl"
    with pytest.raises(InputError, match="holds 2 runs; select one"):
        list(read_log(path))
    log = list(read_log(path, {"run": "1"}, timed=False))
    raw = json.loads(path.read_text().split("\n")[0])
    assert [logged.request.isl for logged in log] == raw["input_lens"]
    assert log[0].ttft_s == raw["ttfts"][0]
    assert log[0].e2e_s == pytest.approx(raw["ttfts"][0] + sum(raw["itls"][0]))
    with pytest.raises(InputError, match="has no start_times for some or all requests"):
        list(read_log(path, {"run": "1"}))
    with pytest.raises(
        InputError, match="has no input_lens and no output_lens: save the result with --output-details"
    ):
        list(read_log(path, {"run": "2"}))


@pytest.mark.parametrize("name", ["guidellm-0.2.1-poisson.json.gz", "guidellm-0.8.1-poisson.json.gz"])
def test_guidellm_holds_requests(name: str) -> None:
    log, record = list(read_log(SAMPLES / name)), one(name)
    assert len(log) == 5 and log[0].request.arrival_s == 0 < log[-1].request.arrival_s
    for metric, times in (("ttft", [x.ttft_s for x in log]), ("e2e", [x.e2e_s for x in log])):
        assert sum(t for t in times if t) / 5 == pytest.approx(figure(record, metric, "mean").value)
    assert all(x.tpot_s and 0.003 < x.tpot_s < 0.01 for x in log)


@pytest.mark.parametrize(
    "field", ["num_prompt_tokens", "num_generation_tokens", "scheduled_ts", "first_token_latency"]
)
def test_numbers_of_stages_beyond_floats(tmp_path: Path, field: str) -> None:
    row = json.loads((SAMPLES / "stages-vllm-v1.jsonl").read_text().split("\n")[0])
    assert "line 1" in said(tmp_path, json.dumps(row | {field: 10**400}))


def test_guidellm_without_requests(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"benchmarks": [{"metrics": {}}]}')
    with pytest.raises(InputError, match=r"holds no single requests \(requests.successful\)"):
        list(read_trace(path))


def test_a_log_of_several_runs_is_several_records(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = ["model,vllm,arrival_s,prompt_tokens,output_tokens,ttft_s", "A,0.9,0,10,2,0.5", "B,0.9,0,10,2,0.7"]
    path.write_text("\n".join(rows))
    a, b = read_results(path)
    assert (a.conditions["model"], b.conditions["model"]) == ("A", "B")
    assert a.conditions["engine"] == "vLLM" and a.conditions["engine_version"] == "0.9"
    assert figure(b, "ttft", "mean").value == 0.7
