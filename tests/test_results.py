"""Results of benchmarks and logs of engines' starts as records: what they state, and what was measured."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.records import Figure, Record
from costmodel.records.vocabulary import CONDITIONS, METRICS
from costmodel.results import is_result, read_results

SAMPLES = Path(__file__).parent / "samples" / "results"


def figure(record: Record, metric: str, statistic: str | None = None, **conditions: Any) -> Figure:
    """The one figure of a metric and statistic."""
    found = [
        f
        for f in record.figures
        if (f.metric, f.statistic) == (metric, statistic) and conditions.items() <= dict(f.conditions).items()
    ]
    assert len(found) == 1, [(f.metric, f.statistic) for f in record.figures]
    return found[0]


def sample(name: str) -> tuple[Record, ...]:
    """The records of a sample file."""
    return read_results(SAMPLES / name)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a result, of a text or of objects a line, and return its path."""

    def to_file(*parts: str | dict[str, Any], name: str = "result") -> Path:
        path = tmp_path / name
        path.write_text(
            "\n".join(p if isinstance(p, str) else json.dumps(p) for p in parts), encoding="utf-8"
        )
        return path

    return to_file


#: A small result of vllm bench serve, of round numbers.
VLLM: dict[str, Any] = {
    "model_id": "Qwen/Qwen3-8B", "num_prompts": 10, "request_rate": "inf", "max_concurrency": 4, "duration": 10.0,
    "completed": 10, "total_input_tokens": 10240, "total_output_tokens": 1000, "request_throughput": 1.0,
    "mean_ttft_ms": 46.0, "p99.9_ttft_ms": 50,
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.[jlp]*")), ids=lambda path: path.name)
def test_every_sample_is_read_in_words_of_the_vocabulary(path: Path) -> None:
    assert is_result(path)
    for record in read_results(path):
        assert record.figures and record.form and record.confidence == "primary"
        assert record.conditions.keys() <= CONDITIONS.keys()
        for one in record.figures:
            known = METRICS.get(one.metric)
            assert one.dimension == (known.dimension if known else None)
            assert one.text and one.value >= 0 and one.conditions.keys() <= CONDITIONS.keys()


def test_vllm_with_single_requests() -> None:
    (record,) = sample("vllm-0.33.0-detailed.json")
    raw = json.loads((SAMPLES / "vllm-0.33.0-detailed.json").read_text())
    assert record.form == "vllm bench serve"
    assert record.conditions == {
        "model": "tiny-fake", "requests": 6, "arrival_process": "closed loop", "concurrency": 2, "input_tokens": 24,
        "output_tokens": 6, "engine_version": "0.33.0", "tp": 1,
    }  # fmt: skip
    ttft = figure(record, "ttft", "p90")
    assert ttft.value == pytest.approx(raw["p90_ttft_ms"] / 1000) and ttft.name == "p90_ttft_ms"
    assert ttft.text.endswith(" ms") and ttft.conditions["ttft_from"] == "the client's sending"
    assert figure(record, "ttft", "mean").value == pytest.approx(sum(raw["ttfts"]) / 6)
    assert figure(record, "tpot", "mean").conditions == {
        "tpot_definition": "(E2E - TTFT) / (OSL - 1) of a request"
    }
    assert figure(record, "e2e", "p99").value == pytest.approx(raw["p99_e2el_ms"] / 1000)
    assert figure(record, "total_throughput").value == raw["total_token_throughput"]
    assert record.unread["itls"] == record.unread["ttfts"] == "a list of 6"
    assert record.unread["backend"] == "openai" and not record.warnings


def test_vllm_runs_appended_to_one_file() -> None:
    poisson, burst = sample("vllm-0.33.0-appended.json")
    assert (poisson.conditions["arrival_rate"], poisson.conditions["arrival_process"]) == (20, "Poisson")
    assert "arrival_rate" not in burst.conditions and burst.conditions["arrival_process"] == "all at once"
    assert "input_tokens" not in poisson.conditions  # of totals nobody knows whether all are alike
    assert figure(poisson, "input_tokens", "mean").value == 24
    assert poisson.name == "vllm-0.33.0-appended.json, line 1" and poisson.where.endswith(", line 1")
    assert poisson.warnings == ("the result states no engine version",)
    goodput = figure(poisson, "request_goodput")
    assert goodput.dimension is None and goodput.text.endswith("req/s")


def test_vllm_load_in_words(write: Any) -> None:
    (gamma,) = read_results(write(VLLM | {"request_rate": 2.5, "burstiness": 0.25, "max_concurrency": 8}))
    # gamma gaps of shape k vary by 1 / sqrt(k)
    assert (
        gamma.conditions["arrival_process"] == "gamma gaps, coefficient of variation 2, at most 8 at a time"
    )
    assert gamma.conditions["arrival_rate"] == 2.5 and "concurrency" not in gamma.conditions


def test_vllm_failures_are_said(write: Any) -> None:
    (record,) = read_results(write(VLLM | {"completed": 7, "total_input_tokens": 7000}))
    assert "3 of 10 requests failed; figures are of the others" in record.warnings
    assert record.conditions["requests"] == 7  # of which rates and totals are
    assert figure(record, "input_tokens", "mean").value == 1000


def test_vllm_failed_requests_have_no_lengths(write: Any) -> None:
    lists = {"input_lens": [100, 100, 7], "output_lens": [5, 9, 0], "errors": ["", "", "timeout"]}
    (record,) = read_results(write(VLLM | lists | {"num_prompts": 3, "completed": 2}))
    assert record.conditions["input_tokens"] == 100
    assert record.conditions["output_length"] == "5 to 9 tokens, mean 7"


#: Two requests of 100 ms and 200 ms to the first token.
SINGLES: dict[str, Any] = {
    "num_prompts": 2, "completed": 2, "input_lens": [100, 100], "output_lens": [3, 3], "ttfts": [0.1, 0.2],
    "itls": [[0.01, 0.02], [0.01, 0.01]], "latencies": [0.13, 0.22], "start_times": [1.0, 2.0], "errors": ["", ""],
    "mean_ttft_ms": 150.0, "mean_e2el_ms": 175.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"ttfts": ["0.1", 0.2]}, "ttfts: entry 1 has 0.1"),
        ({"ttfts": [0.1, float("nan")]}, "ttfts: entry 2 has nan"),
        ({"latencies": [0.1, -0.2]}, "latencies: entry 2 has -0.2"),
        ({"start_times": 3}, "start_times: a number, not a list"),
        ({"itls": [0.01, 0.02]}, "itls: no list of gaps for each request"),
        ({"itls": [[0.01], [True]]}, "itls: entry 2 has"),
        ({"ttfts": [0.15]}, "different lengths (input_lens 2, output_lens 2, ttfts 1"),
        (
            {"ttfts": [100, 200]},
            "ttfts: their mean is 1.5e+05 ms, mean_ttft_ms says 150 ms: the list is not in seconds",
        ),
        ({"mean_e2el_ms": 300.0}, "latencies: their mean is 175 ms, mean_e2el_ms says 300 ms"),
    ],
)
def test_lists_of_single_requests_that_are_wrong_are_named(
    write: Any, wrong: dict[str, Any], said: str
) -> None:
    assert not [w for w in read_results(write(VLLM | SINGLES))[0].warnings if "engine" not in w]
    (record,) = read_results(write(VLLM | SINGLES | wrong))
    assert any(said in warning for warning in record.warnings), record.warnings


def test_failed_requests_do_not_count_in_means_of_lists(write: Any) -> None:
    lists = {"ttfts": [0.15, 0.9], "latencies": [0.175, 0.9], "errors": ["", "timeout"], "completed": 1}
    (record,) = read_results(write(VLLM | SINGLES | lists))
    assert not any("mean" in warning for warning in record.warnings)


@pytest.mark.parametrize("tp", [0, "0", "two", -1, 1.5])
def test_metadata_that_states_nothing_is_said(write: Any, tp: object) -> None:
    (record,) = read_results(write(VLLM | {"tp": tp}))
    assert "tp" not in record.conditions
    assert f"tp: {str(tp)!r} states no tp, and is not used" in record.warnings


def test_vllm_of_2024(write: Any) -> None:
    old = {
        "date": "20240607-101112", "backend": "vllm", "version": "N/A", "model_id": "m", "tokenizer_id": "m",
        "best_of": 1, "use_beam_search": False, "num_prompts": 4, "request_rate": "inf", "duration": 2.0,
        "completed": 4, "total_input_tokens": 40, "total_output_tokens": 8, "request_throughput": 2.0,
        "input_throughput": 20.0, "output_throughput": 4.0, "mean_ttft_ms": 12.5, "median_ttft_ms": 12.0,
        "p99_ttft_ms": 20.0, "request_goodput:": None,
    }  # fmt: skip
    (record,) = read_results(write(old))
    assert figure(record, "ttft", "p50").value == 0.012 and figure(record, "input_throughput").value == 20
    assert "engine" not in record.conditions and "engine_version" not in record.conditions
    assert record.title == "vllm bench serve, 2024-06-07 10:11" and record.unread["use_beam_search"] is False


def test_vllm_times_that_the_server_told(write: Any) -> None:
    (record,) = read_results(write(VLLM | {"server_queue_times": [0.0, 0.1, None, 0.2]}))
    assert figure(record, "prefill_queue_time", "mean").value == pytest.approx(0.1)
    assert figure(record, "prefill_queue_time", "p50").value == pytest.approx(0.1)


def test_sglang_of_two_versions() -> None:
    old, rate = sample("sglang-0.4.10.jsonl")
    assert old.conditions["engine"] == "SGLang" and "model" not in old.conditions
    assert old.conditions["arrival_process"] == "closed loop" and old.conditions["concurrency"] == 2
    assert old.conditions["input_length"].startswith("21 to 28 tokens")
    assert {"the result states no engine version", "the result does not state the model"} == set(old.warnings)
    assert figure(old, "itl", "p95").dimension == "second"
    # ratio 1 and a mean of the very length asked for: all prompts are of it
    assert rate.conditions["input_tokens"] == 16 and rate.conditions["output_tokens"] == 4
    new, _ = sample("sglang-0.5.23.jsonl")
    assert new.conditions["engine_version"] == "0.5.23" and new.conditions["model"] == "Qwen/Qwen3-0.6B"
    assert (new.conditions["tp"], new.conditions["max_num_batched_tokens"]) == (2, 8192)
    assert figure(new, "kv_cache_tokens").value == 412345
    assert figure(new, "requests_in_flight", "mean").value == pytest.approx(1.8776, rel=1e-4)
    assert figure(new, "max_output_tokens_per_s").dimension is None


def test_sglang_counts_that_disagree(write: Any) -> None:
    line = json.loads((SAMPLES / "sglang-0.5.23.jsonl").read_text().split("\n")[1])
    (record,) = read_results(write(line | {"total_output_tokens_retokenized": 20}))
    assert "output tokens: 24 by the server, 20 by the tokenizer" in record.warnings


START = [
    ("start-vllm-0.5.4.log", {"engine": "vLLM", "engine_version": "0.5.4", "model": "Qwen/Qwen2-7B", "tp": 1,
     "max_num_seqs": 128, "max_model_len": 8192, "block_size": 16, "cache_state": "prefix cache off"},
     {"weight_bytes": 14.2487 * 2**30, "kv_cache_blocks": 61012}),
    ("start-vllm-0.19.0.log", {"engine_version": "0.19.0", "model": "Qwen/Qwen3-32B", "tp": 2, "kv_dtype": "fp8",
     "dtype": "bfloat16", "max_num_batched_tokens": 8192, "max_num_seqs": 64, "connector": "NixlConnector"},
     {"weight_bytes": 30.59 * 2**30, "kv_pool_bytes": 37.21 * 2**30, "kv_cache_tokens": 609632}),
    ("start-vllm-0.33.0.log", {"engine_version": "0.33.0", "model": "Qwen/Qwen3-0.6B", "dtype": "fp8",
     "hardware": "NVIDIA H100 80GB HBM3", "memory_utilization": 0.8, "cache_state": "prefix cache off"},
     {"kv_cache_tokens": 575792, "max_concurrency": 14.06}),
    ("start-sglang-0.4.10.log", {"engine": "SGLang", "model": "Qwen/Qwen3-8B", "tp": 2, "max_num_seqs": 4096,
     "max_model_len": 40960, "max_num_batched_tokens": 8192, "memory_utilization": 0.868},
     {"weight_bytes": 7.67 * 2**30, "kv_pool_bytes": 60.5 * 2**30, "kv_cache_tokens": 881251}),
    ("start-trtllm-1.0.0.log", {"engine": "TensorRT-LLM", "engine_version": "1.0.0", "block_size": 32},
     {"kv_pool_bytes": 55.16 * 2**30, "kv_cache_tokens": 401664}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "conditions", "figures"), START, ids=[name for name, _, _ in START])
def test_start_of_an_engine(name: str, conditions: dict[str, Any], figures: dict[str, float]) -> None:
    (record,) = sample(name)
    assert record.form == "start-up log"
    assert {key: record.conditions.get(key) for key in conditions} == conditions
    for metric, value in figures.items():
        assert figure(record, metric).value == pytest.approx(value)


def test_gpus_that_differ_are_a_range() -> None:
    (record,) = sample("start-vllm-0.19.0.log")
    pool = figure(record, "kv_pool_bytes")
    assert pool.high == pytest.approx(37.4 * 2**30) and pool.per_gpu and "2 lines differ" in str(pool.note)
    assert figure(record, "weight_bytes").high is None


def test_unset_options_state_nothing() -> None:
    (record,) = sample("start-sglang-0.4.10.log")
    # dtype 'auto', disaggregation 'null' with its default backend, no version
    assert not {"dtype", "kv_dtype", "connector", "engine_version"} & record.conditions.keys()
    assert record.warnings == ("the log states no engine version",)


def test_a_log_of_two_starts(tmp_path: Path) -> None:
    both = tmp_path / "both.log"
    both.write_text("".join((SAMPLES / f"start-vllm-{v}.log").read_text() for v in ("0.19.0", "0.33.0")))
    with pytest.raises(InputError) as caught:
        read_results(both)
    assert "the log holds several starts, keep one" in str(caught.value) and "0.33.0" in str(caught.value)


def start_of(tmp_path: Path, *lines: str, figure: str = "INFO GPU KV cache size: 1,000 tokens") -> Record:
    """The record of a log of these lines, and of one that gives a figure."""
    path = tmp_path / "start.log"
    path.write_text("\n".join([*lines, figure]))
    (record,) = read_results(path)
    return record


def test_wordings_of_other_versions(tmp_path: Path) -> None:
    blue, plain = "\x1b[1;36m", "\x1b[0m"
    record = start_of(
        tmp_path,
        f"{blue}(APIServer pid=7){plain} INFO 01-02 [api_server.py:1] vLLM API server version 0.10.1.1",
        "INFO [llm_engine.py:1] Initializing a V0 LLM engine (v0.10.1.1) with config: model='/m/x', dtype=torch.half",
        "INFO args: Namespace(model_tag='org/x', chat_template=<f at 0x1>, speculative_config={'method': 'ngram'}, a=b",
        "INFO memory profiling: model weights take 14.99GiB; the rest of the memory reserved for KV Cache is 54.82GiB.",
    )
    assert record.conditions["engine_version"] == "0.10.1.1" and record.conditions["model"] == "org/x"
    assert record.conditions["dtype"] == "half"
    assert figure(record, "kv_pool_bytes").value == pytest.approx(54.82 * 2**30)
    assert "decoding is speculative: a step gives more than one token" in record.warnings


def test_copies_of_an_engine_and_attention_apart(tmp_path: Path) -> None:
    pool = "[2026-01-02 10:00:09] max_total_num_tokens=1000, context_len=9"
    start = "[2026-01-02 10:00:00] server_args=ServerArgs(model_path='a/b', tp_size=8, dp_size=8"
    assert (
        start_of(tmp_path, f"{start}, enable_dp_attention=False)", figure=pool).conditions["instances"] == 8
    )
    groups = start_of(tmp_path, f"{start}, enable_dp_attention=True)", figure=pool)
    assert "instances" not in groups.conditions and any("data-parallel" in text for text in groups.warnings)
    split = f"{start}, disaggregation_mode='prefill', disaggregation_transfer_backend='nixl')"
    apart = start_of(tmp_path, split, figure=pool)
    assert apart.conditions["connector"] == "nixl"


def test_gzip_and_names_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "anything.bin"
    path.write_bytes(gzip.compress((SAMPLES / "start-vllm-0.5.4.log").read_bytes()))
    assert read_results(path)[0].conditions["engine_version"] == "0.5.4"


#: A line of SGLang's client.
SGLANG: dict[str, Any] = json.loads((SAMPLES / "sglang-0.5.23.jsonl").read_text().split("\n")[1])

# --- what is wrong with a file ----------------------------------------------------------------------------


DEEP = "[" * 100_000
NESTED = '{"model_id": "m", "a": ' + '{"b": ' * 70 + "1" + "}" * 70 + "}"
BAD: list[tuple[str, list[str | dict[str, Any]], str]] = [
    ("empty", [""], "is empty; expected results of vllm bench serve"),
    ("blank", ["\n \n"], "is empty"),
    ("cut short", [json.dumps(VLLM)[:-20]], "not JSON"),
    ("second line cut", [VLLM, json.dumps(VLLM)[:-9]], "line 2: not JSON"),
    ("NaN", [VLLM | {"mean_ttft_ms": float("nan")}], "mean_ttft_ms: nan is not a number from 0"),
    ("infinite", [VLLM | {"p99.9_ttft_ms": float("inf")}], "p99.9_ttft_ms: inf is not a number from 0"),
    ("negative", [VLLM | {"mean_ttft_ms": -1}], "mean_ttft_ms: -1 is not a number from 0"),
    ("huge", [VLLM | {"duration": 1e300}], "duration: 1e+300 is not a number from 0 to 1e+10"),
    ("larger than a float", [VLLM | {"duration": 10**400}], "is not a number from 0 to 1e+10"),
    ("digits", ['{"model_id": "m", "duration": ' + "9" * 5000 + "}"], "not JSON"),
    ("text", [VLLM | {"duration": "soon"}], "duration: 'soon' is not a number"),
    ("list", [VLLM | {"completed": [1]}], "completed: a list is not a number"),
    ("bool", [VLLM | {"num_prompts": True}], "num_prompts: True is not a number"),
    ("half a request", [VLLM | {"num_prompts": 2.5}], "num_prompts: 2.5 is not a whole number"),
    ("model", [VLLM | {"model_id": 5}], "model_id: 5 is not a text"),
    ("rate", [VLLM | {"request_rate": 0}], "request_rate: 0 requests a second is no rate"),
    ("rate in words", [VLLM | {"request_rate": "fast"}], "request_rate: 'fast' is not a number"),
    ("more than sent", [VLLM | {"completed": 11}], "completed: 11 of 10 requests"),
    ("lengths", [VLLM | {"input_lens": [1, -2]}], "input_lens, entry 2: -2 is not a whole number"),
    ("nothing done", [VLLM | {"completed": 0}], "holds no measured figure: no request completed"),
    ("deep list", [DEEP], "more than 64 deep"),
    ("deep object", [NESTED], "more than 64 deep"),
    ("twice", [VLLM, VLLM | {"duration": 9.0}, VLLM], "line 3 holds the same run as line 1: keep one"),
    ("key twice", ['{"model_id": "m", "duration": 1, "duration": 2}'], "'duration' stands twice in one object"),
    ("tokens beyond floats", [SGLANG | {"total_output_tokens": 10**400}], "total_output_tokens: 1000"),
    ("unknown", [{"name": "x", "value": 1}], "is JSON of an unknown kind (it holds name, value)"),
    ("no object", ["[1, 2]"], "entry 1: a number where a run is expected"),
    ("empty list", ["[]"], "is an empty list"),
    ("prose", ["We measured 12 ms."], "is no result of a known format"),
    ("two tools", [VLLM | {"total_output_tokens_retokenized": 3}], "has fields of SGLang bench_serving"),
    ("two versions", [VLLM | {"mean_e2el_ms": 5, "mean_e2e_latency_ms": 6}], "both say e2e mean, and differ"),
    ("log of nothing", ["INFO non-default args: {'model': 'm'}"], "holds no measured figure"),
    ("log and number", ["vLLM API server version 0.1\nargs: Namespace(tensor_parallel_size=two)"], "'two' is no tp"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "said"), [(p, s) for _, p, s in BAD], ids=[name for name, _, _ in BAD])
def test_what_a_bad_file_is_told(write: Any, parts: list[Any], said: str) -> None:
    path = write(*parts)
    with pytest.raises(InputError) as caught:
        read_results(path)
    assert str(caught.value).startswith(str(path)) and said in str(caught.value), str(caught.value)
    assert not is_result(path)


@pytest.mark.parametrize(
    "data", [b"\x00\x01\xfe\xff" * 50, b"\x1f\x8b\x08\x00broken"], ids=["binary", "gzip"]
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "result"
    path.write_bytes(data)
    with pytest.raises(InputError):
        read_results(path)


def test_all_problems_of_a_run_come_at_once(write: Any) -> None:
    with pytest.raises(InputError) as caught:
        read_results(write(VLLM | {"duration": -1, "mean_ttft_ms": "x", "model_id": 5}))
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "line", ["x" * 30_000_000, "{" + "x" * 30_000_000, "args: Namespace(" + "a=[" * 10_000_000]
)
def test_a_line_without_end_does_not_hang(write: Any, line: str) -> None:
    with pytest.raises(InputError):
        read_results(write(line))
