"""Metrics, values, units and conditions as strangers write them: all of it is read, or said to be left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError, nearest
from costmodel.records.amounts import amount_of, spelt
from costmodel.records.conditions import Conditions, read_conditions
from costmodel.records.figures import meant
from costmodel.records.read import records_of
from costmodel.records.record import Figure, Record
from costmodel.records.vocabulary import METRICS


def record(conditions: Mapping[str, object] | None = None, **row: object) -> Record:
    tables: dict[str, Any] = {"conditions": dict(conditions or {}), "measurement": [{"id": "a", **row}]}
    (found,) = records_of(tables, "report.toml", "report")
    return found


def figure(conditions: Mapping[str, object] | None = None, **row: object) -> Figure:
    return record(conditions, **row).figures[0]


def conditions(**stated: object) -> Conditions:
    problems: list[str] = []
    found = read_conditions(stated, "", problems)
    assert not problems
    return found


#: The lines that ``vllm bench serve`` and SGLang's ``bench_serving`` print, and what each of them measures.
PRINTED = [
    ("Successful requests", "requests_completed", None, None),
    ("Failed requests", "requests_failed", None, None),
    ("Request rate configured (RPS)", "offered_rate", None, "rps"),
    ("Benchmark duration (s)", "duration", None, "s"),
    ("Total input tokens", "total_input_tokens", None, None),
    ("Total input text tokens", "total_input_tokens", None, None),
    ("Total generated tokens", "total_output_tokens", None, None),
    ("Total generated tokens (retokenized)", "retokenized_output_tokens", None, None),
    ("Request throughput (req/s)", "request_throughput", None, "req/s"),
    ("Request goodput (req/s)", "goodput", None, "req/s"),
    ("Input token throughput (tok/s)", "input_throughput", None, "tok/s"),
    ("Output token throughput (tok/s)", "output_throughput", None, "tok/s"),
    ("Peak output token throughput (tok/s)", "peak_output_throughput", None, "tok/s"),
    ("Peak concurrent requests", "peak_requests_in_flight", None, None),
    ("Total Token throughput (tok/s)", "total_throughput", None, "tok/s"),
    ("Total token throughput (tok/s)", "total_throughput", None, "tok/s"),
    ("Concurrency", "requests_in_flight", None, None),
    ("Accept length", "acceptance_length", None, None),
    ("Acceptance rate (%)", "acceptance_rate", None, "%"),
    ("Mean TTFT (ms)", "ttft", "mean", "ms"),
    ("Median TTFT (ms)", "ttft", "p50", "ms"),
    ("P99 TPOT (ms)", "tpot", "p99", "ms"),
    ("Median ITL (ms)", "itl", "p50", "ms"),
    ("P95 ITL (ms)", "itl", "p95", "ms"),
    ("Max ITL (ms)", "itl", "max", "ms"),
    ("Mean E2EL (ms)", "e2e", "mean", "ms"),
    ("Median E2E Latency (ms)", "e2e", "p50", "ms"),
    ("P99.9 E2EL (ms)", "e2e", "p99.9", "ms"),
]


@pytest.mark.parametrize(("line", "metric", "statistic", "unit"), PRINTED)
def test_lines_that_benchmarks_print(line: str, metric: str, statistic: str | None, unit: str | None) -> None:
    found = meant(line)
    assert (found.metric, found.statistic, found.unit) == (metric, statistic, unit)
    assert metric in METRICS


@pytest.mark.parametrize(
    ("written", "metric", "statistic", "unit", "each"),
    [
        ("TTFT (P90)", "ttft", "p90", None, None),
        ("TTFT p99 (ms)", "ttft", "p99", "ms", None),
        ("TTFT [ms]", "ttft", None, "ms", None),
        ("ttft_ms_p50", "ttft", "p50", "ms", None),
        ("Avg. TTFT", "ttft", "mean", None, None),
        ("99th percentile TTFT (ms)", "ttft", "p99", "ms", None),
        ("Time to 1st Token", "ttft", None, None, None),
        ("Time per Output Token (excl. 1st token)", "tpot", None, None, None),
        ("End-to-end latency", "e2e", None, None, None),
        ("latency(ms)", "e2e", None, "ms", None),
        ("KV transfer latency", "kv_transfer_time", None, None, None),
        ("tok/s", "throughput", None, "tok/s", None),
        ("tokens_per_sec", "throughput", None, "tok/s", None),
        ("Output tok/s", "output_throughput", None, "tok/s", None),
        ("req/s", "request_throughput", None, "req/s", None),
        ("mean throughput tokens per second", "throughput", "mean", "tok/s", None),
        ("Throughput (output)", "output_throughput", None, None, None),
        ("Tput/GPU", "throughput", None, None, "gpu"),
        ("Total tput per GPU", "total_throughput", None, None, "gpu"),
        ("Throughput (tok/s/GPU)", "throughput", None, "tok/s", "gpu"),
        ("Maximum concurrency for 32,768 tokens per request", "full_length_sequences", None, None, None),
        ("peak_flops", "peak_flops_claimed", None, None, None),
        ("gpu_peak_mem(gb)", "gpu_peak_mem_gb", None, None, None),  # gb: bits or bytes
        ("TTFT (excl. queue)", "ttft_excl_queue", None, None, None),  # what brackets say is not dropped
    ],
)
def test_names_with_brackets_slashes_and_units(
    written: str, metric: str, statistic: str | None, unit: str | None, each: str | None
) -> None:
    found = meant(written)
    assert (found.metric, found.statistic, found.unit, found.each) == (metric, statistic, unit, each)


@pytest.mark.parametrize(
    ("stated", "unit", "metric"),
    [
        ({}, "tok/s", "throughput"),
        ({"throughput_counts": "output"}, "tok/s", "output_throughput"),
        ({"throughput_counts": "prompt and output tokens"}, "tok/s", "total_throughput"),
        ({"throughput_counts": "input"}, "tok/s", "input_throughput"),
        ({}, "output tok/s", "output_throughput"),
        ({}, "total tokens per second", "total_throughput"),
        ({}, "req/s", "request_throughput"),
        ({}, "tok/s/user", "user_throughput"),
    ],
)
def test_throughput_is_of_the_tokens_that_are_said_to_count(
    stated: Mapping[str, object], unit: str, metric: str
) -> None:
    assert figure(stated, metric="Throughput", value=10, unit=unit).metric == metric


def test_rates_per_user_and_per_gpu() -> None:
    user = figure(metric="output tokens per second per user", value=50)
    assert (user.metric, user.per_gpu, user.text) == ("user_throughput", False, "50 tok/s/user")
    each = figure(metric="Tput/GPU", value=50, unit="tokens/sec")
    assert (each.metric, each.per_gpu, each.text) == ("throughput", True, "50 tokens/s/GPU")


@pytest.mark.parametrize("stated", [{"gpus_per_node": 8}, {"hardware": "12 nodes x 8 H100"}])
def test_a_rate_of_a_node_is_one_of_its_gpus(stated: Mapping[str, object]) -> None:
    found = figure(stated, metric="input_throughput", value=52300, unit="tok/s per node")
    assert (found.metric, found.value, found.per_gpu) == ("input_throughput", 52300 / 8, True)
    assert found.text == "52300 tok/s/node"


def test_a_rate_of_a_node_of_unknown_size_is_not_checked() -> None:
    found = record(metric="input_throughput", value=52300, unit="tok/s/node")
    assert found.figures[0].metric == "input_throughput_per_node" and not found.figures[0].per_gpu
    assert any("gpus_per_node is not stated" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("output_throughputs", "'output_throughput'"),
        ("mood", "costmodel show metrics"),
        ("Maximum request concurrency", "concurrency is a condition"),
    ],
)
def test_a_metric_that_no_check_knows_is_warned_of_once(metric: str, said: str) -> None:
    rows = [{"metric": metric, "value": value} for value in (1, 2)]
    (found,) = records_of({"measurement": rows}, "report.toml", "report")
    (warning,) = found.warnings
    assert repr(metric) in warning and said in warning


@pytest.mark.parametrize("metric", ["kv_transfer_time_share_of_ttft", "ttft_ratio", "ttft", "tbt_ratio"])
def test_metrics_that_checks_know_are_not_warned_of(metric: str) -> None:
    unit = "s" if metric == "ttft" else "x"
    assert not record(metric=metric, value=1, unit=unit).warnings


@pytest.mark.parametrize(
    ("metric", "value", "si", "text"),
    [
        ("kv_pool_bytes", "58.11 GiB", 58.11 * 2**30, "58.11 GiB"),
        ("slo_attainment", "57%", 0.57, "57 %"),
        ("maximum_concurrency", "33.04x", 33.04, "33.04 x"),
        ("gpu_kv_cache_size", "476,016 tokens", 476016, "476016 tokens"),
        ("gpu_kv_cache_size", "1.2M tokens", 1.2e6, "1200000 tokens"),
        ("output_throughput", "1.2k tok/s", 1200, "1200 tok/s"),
        ("output_throughput", "1.2 ktok/s", 1200, "1.2 ktok/s"),
        ("tpot", "1.5e-3 s", 0.0015, "0.0015 s"),
    ],
)
def test_values_as_text(metric: str, value: str, si: float, text: str) -> None:
    found = record(metric=metric, value=value)
    assert found.figures[0].value == pytest.approx(si, rel=1e-12)
    assert found.figures[0].text == text and not found.warnings


@pytest.mark.parametrize(
    ("value", "si", "left"),
    [
        ("~450 ms", 0.45, "~"),
        ("about 450 ms", 0.45, "about"),
        ("< 50 ms", 0.05, "<"),
        (">= 7 s", 7, ">="),
        ("up to 3 s", 3, "up to"),
        ("12.5 ± 0.4 s", 12.5, "± 0.4"),
    ],
)
def test_what_a_value_leaves_open_is_said(value: str, si: float, left: str) -> None:
    found = record(metric="ttft", value=value)
    assert found.figures[0].value == pytest.approx(si, rel=1e-12)
    assert [w for w in found.warnings if repr(left) in w and repr(value) in w]


@pytest.mark.parametrize("value", ["22-57 %", "22 – 57%", "22 to 57 %", [57, 22]])
def test_ranges(value: object) -> None:
    found = figure(metric="slo_attainment", value=value, unit="%")
    assert [found.value, found.high] == pytest.approx([0.22, 0.57])
    assert found.text == "22 to 57 %"


@pytest.mark.parametrize(
    "value", ["fast", "12,5 ms", "", "1k-2k", "inf", "±3", "~", "1e999", [1], ["a", "b"], True]
)
def test_what_is_no_amount(value: object) -> None:
    found = amount_of(value)
    assert (
        found is None or found.unit == "k-2k"
    )  # an amount whose unit nothing knows is refused with its metric


_PIECES = st.lists(
    st.sampled_from(
        [
            "~",
            "1",
            "1e9",
            "1,0",
            ".",
            "-",
            "±",
            "k",
            " ",
            "ms",
            "GB",
            "/",
            "per",
            "GPU",
            "(",
            ")",
            "p99",
            "tok/s",
            "x",
        ]
    )
    | st.text(max_size=3),
    max_size=6,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(_PIECES, _PIECES, _PIECES | st.none(), _PIECES)
def test_whatever_words_a_measurement_has_they_are_read_or_refused(
    metric: str, value: str, unit: str | None, count: str
) -> None:
    row: dict[str, Any] = {
        "metric": metric,
        "value": value,
        "concurrency": count,
        "input_tokens": count,
        "qps": count,
    }
    try:
        found = record(**row | ({} if unit is None else {"unit": unit}))
    except InputError:
        return
    assert all(math.isfinite(each.value) for each in found.figures)


def test_a_value_that_is_not_stated_is_no_figure() -> None:
    rows = [{"id": "a", "metric": "ttft", "value": "n/a"}, {"id": "b", "metric": "ttft", "value": "3 s"}]
    (found,) = records_of({"measurement": rows}, "report.toml", "report")
    assert [f.name for f in found.figures] == ["b"]
    assert [w for w in found.warnings if w.startswith("a: ") and "'n/a'" in w]
    with pytest.raises(InputError, match="no measurement states a value"):
        record(metric="ttft", value="n/a")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"metric": "TTFT (ms)", "value": 3, "unit": "s"}, "two units, 's' and 'ms'"),
        ({"metric": "ttft", "value": "3 ms", "unit": "s"}, "two units, 's' and 'ms'"),
        ({"metric": "TTFT (P90)", "value": 3}, "has no unit"),
        ({"metric": "ttft", "value": "5m"}, "unit 'm' does not measure ttft"),
        ({"metric": "ttft", "value": "3 furlongs"}, "expected one such as ms"),
        ({"metric": "kv_bytes", "value": 3, "unit": "Gb"}, "unit 'Gb' does not measure"),
        ({"metric": "kv_bytes", "value": 3, "unit": "gb"}, "unit 'gb' does not measure"),
        ({"metric": "kv_transfer_bandwidth", "value": 3, "unit": "gbps"}, "unit 'gbps' does not measure"),
        ({"metric": "ttft", "value": 3, "unit": 7}, "unit 7 is not a text"),
    ],
)
def test_units_that_contradict_or_do_not_fit_are_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        record(**row)
    assert said in str(error.value) and "a: " in str(error.value)


def test_a_unit_said_twice_alike_is_one() -> None:
    assert figure(metric="tokens_per_sec", value="3 tok/s", unit="tokens/s/GPU").per_gpu


@pytest.mark.parametrize(
    ("metric", "unit", "si"),
    [
        ("request_throughput", "req/sec", 1),
        ("request_throughput", "Requests per second", 1),
        ("output_throughput", "tokens/sec", 1),
        ("output_throughput", "t/s", 1),
        ("output_throughput", "tokens per second", 1),
        ("output_throughput", "Tok/S", 1),
        ("peak_flops", "TFLOPS", 1e12),
        ("peak_flops", "tflops", 1e12),
        ("kv_transfer_bandwidth", "GB/sec", 1e9),
        ("kv_transfer_bandwidth", "Gbit/sec", 0.125e9),
        ("kv_transfer_bandwidth", "Gbits/s", 0.125e9),
        ("kv_transfer_bandwidth", "Gbps", 0.125e9),
        ("kv_transfer_bandwidth", "GBps", 1e9),
        ("ttft", "mins", 60),
        ("ttft", "secs", 1),
        ("ttft", "msec", 1e-3),
        ("ttft", "usec", 1e-6),
        ("ttft", "MS", 1e-3),
        ("tpot", "ms/tok", 1e-3),
        ("decode_step_time", "s/it", 1),
    ],
)
def test_units_in_other_spellings(metric: str, unit: str, si: float) -> None:
    assert figure(metric=metric, value=1, unit=unit).value == pytest.approx(si, rel=1e-12)


@pytest.mark.parametrize("unit", ["gb", "Gb", "gib", "gbps", "mb/s", "kw"])
def test_bits_and_bytes_are_never_guessed_from_small_letters(unit: str) -> None:
    assert spelt(unit) == unit


def test_a_rate_without_end_is_an_arrival_process() -> None:
    for endless in ("inf", "Infinity", float("inf")):
        assert conditions(request_rate=endless).stated == {"arrival_process": "all at once"}
    clients = conditions(request_rate="inf", max_concurrency=4).stated
    assert clients == {"concurrency": 4, "arrival_process": "closed loop"}
    told = conditions(request_rate="inf", arrivals="burst").stated
    assert told == {"arrival_process": "burst"}


@pytest.mark.parametrize(
    ("value", "stated"),
    [
        (121.3, {"mean_input_tokens": 121.3, "input_length": "mean 121.3 tokens"}),
        ("mean 317.6 tokens", {"mean_input_tokens": 317.6, "input_length": "mean 317.6 tokens"}),
        ("512 (avg)", {"mean_input_tokens": 512.0, "input_length": "mean 512 tokens"}),
        ("1,024 tokens", {"input_tokens": 1024}),
        (512.0, {"input_tokens": 512}),
        ("1k", {"input_length": "1k"}),
        ("512-2048", {"input_length": "512-2048"}),
    ],
)
def test_lengths_are_of_all_requests_or_means_or_words(value: object, stated: dict[str, object]) -> None:
    assert conditions(input_tokens=value).stated == stated


@pytest.mark.parametrize(
    ("key", "value", "stated"),
    [
        ("concurrency", "32 clients", {"concurrency": 32}),
        ("Maximum request concurrency", 32, {"concurrency": 32}),
        ("num_prompts", "1,000 requests", {"requests": 1000}),
        ("gpus", "8 GPUs", {"gpus": 8}),
        ("tokens_per_block", 32, {"block_size": 32}),
        ("peak_flops", "1979 TFLOPS", {"peak_flops": 1979e12}),
        ("link_bandwidth", "400 Gbps", {"link_bandwidth": 50e9}),
        ("slo_ttft", "2 seconds", {"slo_ttft": 2.0}),
        ("qps", "4 requests/s", {"arrival_rate": 4.0}),
        ("Request rate configured (RPS)", 4, {"arrival_rate": 4.0}),
    ],
)
def test_conditions_with_units(key: str, value: object, stated: dict[str, object]) -> None:
    assert conditions(**{key: value}).stated == stated


@pytest.mark.parametrize(("key", "value"), [("concurrency", "1-64"), ("qps", "~4 req/s"), ("tp", "<= 8")])
def test_a_condition_of_no_single_value_is_kept_apart_and_said(key: str, value: str) -> None:
    found = conditions(**{key: value})
    assert not found.stated and found.unread == {key: value}
    assert key in found.warnings[0] and repr(value) in found.warnings[0]


@pytest.mark.parametrize(
    ("key", "value"), [("concurrency", "many"), ("tp", -1), ("input_tokens", -3), ("input_tokens", True)]
)
def test_malformed_conditions_are_problems(key: str, value: object) -> None:
    problems: list[str] = []
    read_conditions({key: value}, "", problems)
    assert len(problems) == 1 and problems[0].startswith(f"{key}: ")


def test_a_source_among_the_conditions_is_the_records() -> None:
    found = record({"source": "a paper", "model": "Qwen3-8B"}, metric="ttft", value="1 s")
    assert found.source == "a paper" and found.conditions == {"model": "Qwen3-8B"}
    assert not found.unread and not found.warnings


@pytest.mark.parametrize(("text", "known"), [("source", "software"), ("tok/s/node", "tok/s/user")])
def test_hints_are_of_like_words_only(text: str, known: str) -> None:
    assert nearest(text, [known]) == known and nearest(text, [known], cutoff=0.95) is None
    assert known not in " ".join(conditions(**{text: 1}).warnings)
