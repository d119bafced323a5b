"""A run beside its prediction: by hand at step times of round numbers, and against a log of a real engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest
from logged_runs import run_of_log

from costmodel.audit.runs import Run
from costmodel.audit.subject import Unknown
from costmodel.diagnosis.detail import Detail, interval, read_detail, requests_of, statistic
from costmodel.diagnosis.offered import offered
from costmodel.diagnosis.predict import Basis, Prediction, Row, predict, prepare
from costmodel.diagnosis.ran import what_ran
from costmodel.errors import InputError
from costmodel.inputs.step_times import Steps
from costmodel.inputs.traces import LoggedRequest, runs_of
from costmodel.inputs.workload import Request
from costmodel.records import Figure, Stated
from costmodel.report.render import to_json
from costmodel.serving.affine import AffineSteps
from costmodel.serving.deployment import Settings
from costmodel.serving.instance import InstanceKind
from costmodel.serving.scenario import Scenario

LOG = Path(__file__).parent.parent / "hardware/measurements/llmservingsim_e2e_vllm019_requests.csv.gz"
MODEL = "meta-llama/Llama-3.1-8B"
SCENARIO = Scenario(MODEL, "h100-sxm")
#: Every step takes 10 ms, and 0.1 ms more for each prompt token.
ROUND = Steps(0.010, 0.0, 0.0, 0.0001, 0.0)


def by_hand(kind: InstanceKind) -> AffineSteps:
    return AffineSteps(kind, ROUND)


def figure(metric: str, value: float, word: str | None = "mean", dimension: str = "second") -> Figure:
    return Figure(f"{metric} {word}", metric, value, dimension, f"{value}", "", word)


def run(conditions: Mapping[str, Stated], *figures: Figure) -> Run:
    return Run("made", conditions, figures or (figure("ttft", 0.1),))


LOOP: dict[str, Stated] = {
    "concurrency": 1,
    "requests": 10,
    "input_tokens": 1000,
    "output_tokens": 11,
    "tp": 1,
}


def row(found: Prediction, measure: str, word: str | None = "mean") -> Row:
    (only,) = [r for r in (*found.rows, *found.stages) if (r.measure, r.statistic) == (measure, word)]
    return only


def basis_of_log(model: str, scenario: Scenario | None = None) -> Basis:
    (columns,) = [c for c in runs_of(LOG) if c["model"] == model]
    detail = read_detail(LOG, columns)
    asked = scenario or Scenario(model, "rtx-pro-6000-blackwell")
    return prepare(run_of_log(detail, columns), asked, detail=detail)


# --- by hand -----------------------------------------------------------------------------------------


def test_one_client_waits_for_nobody() -> None:
    """A prompt of 1,000 tokens 10 + 100 ms, then ten steps of 10 ms: E2E 210 ms, 1 / 0.21 requests a second."""
    rates = (
        figure("request_throughput", 4.0, None, "1/second"),
        figure("output_throughput", 52.0, None, "token/second"),
    )
    times = [figure(name, 0.1) for name in ("ttft", "tpot", "e2e", "prefill_queue_time", "itl")]
    found = predict(prepare(run(LOOP, *times, *rates), SCENARIO, tables=by_hand))
    expected = {"ttft": 0.110, "tpot": 0.010, "itl": 0.010, "e2e": 0.210, "prefill_queue_time": 0.0}
    for measure, seconds in expected.items():
        assert row(found, measure).predicted_s == pytest.approx(seconds, abs=1e-9)
    assert [r.predicted_per_s for r in found.rates] == pytest.approx([1 / 0.21, 11 / 0.21])
    assert row(found, "ttft").ratio == pytest.approx(1.1)
    assert row(found, "ttft").low_s is None and "fitted to a log" in str(row(found, "ttft").reason)


def test_prompts_that_come_at_once_wait_in_line() -> None:
    """Three prompts of a step each: 110, 220 and 330 ms; the median of gaps between percentiles is the middle one."""
    burst: dict[str, Stated] = {
        "arrival_process": "all at once", "requests": 3, "input_tokens": 1000, "output_tokens": 1, "tp": 1,
        "max_num_batched_tokens": 1000,
    }  # fmt: skip
    figures = [
        figure("ttft", 0.2),
        figure("ttft", 0.2, "p50"),
        figure("ttft", 0.2, "p90"),
        figure("tpot", 0.1),
    ]
    found = predict(prepare(run(burst, *figures), SCENARIO, tables=by_hand))
    assert row(found, "ttft").predicted_s == pytest.approx(0.220)
    assert row(found, "ttft", "p50").predicted_s == pytest.approx(0.220)
    assert row(found, "ttft", "p90").predicted_s == pytest.approx(0.308)  # 0.8 of the way from 220 to 330
    assert row(found, "tpot").predicted_s is None  # one token: no gap
    assert found.ledger is not None and found.ledger["queue_s"] == pytest.approx(0.110)  # (0 + 110 + 220) / 3


def test_decodes_of_a_fixed_batch_are_a_step() -> None:
    """A step of Llama-3.1-8B reads 16.06 GB of weights, at 3.35 TB/s: 4.8 ms at least."""
    conditions: dict[str, Stated] = {"batch": 8, "input_tokens": 512, "output_tokens": 2, "tp": 1}
    found = predict(prepare(run(conditions, figure("decode_step_time", 0.006, None)), SCENARIO))
    step = row(found, "decode_step_time", None)
    assert (
        step.form == "step"
        and step.bound_s is not None
        and step.low_s is not None
        and step.high_s is not None
    )
    assert step.bound_s == pytest.approx(
        15.0e9 / 3.35e12, rel=0.05
    )  # all but the embedding: 15.0 GB, and a little KV
    assert step.bound_s <= step.low_s < step.predicted_s < step.high_s  # type: ignore[operator]


def test_a_copy_is_of_the_stated_link() -> None:
    """4,096 tokens of 131,072 B: 537 MB, at 50 GB/s 10.7 ms at least."""
    conditions: dict[str, Stated] = {"topology": "1P1D", "link": "ib-ndr", "input_tokens": 4096, "tp": 1}
    found = predict(prepare(run(conditions, figure("kv_transfer_time", 0.02)), SCENARIO))
    assert row(found, "kv_transfer_time").bound_s == pytest.approx(4096 * 131072 / 50e9)
    stated = predict(
        prepare(run({**conditions, "link_bandwidth": 25e9}, figure("kv_transfer_time", 0.02)), SCENARIO)
    )
    assert row(stated, "kv_transfer_time").bound_s == pytest.approx(4096 * 131072 / 25e9)


def test_the_band_holds_the_best_and_arrivals_add_their_noise() -> None:
    conditions: dict[str, Stated] = {
        **LOOP, "arrival_rate": 4.0, "arrival_process": "Poisson", "requests": 200, "engine": "vLLM",
    }  # fmt: skip
    del conditions["concurrency"]
    figures = [figure("ttft", 0.05, "p95"), figure("tpot", 0.008)]
    drawn = predict(prepare(run(conditions, *figures), SCENARIO))
    even = predict(prepare(run({**conditions, "arrival_process": "constant"}, *figures), SCENARIO))
    widths = []
    for found in (drawn, even):
        told = row(found, "ttft", "p95")
        assert told.low_s is not None and told.high_s is not None and told.predicted_s is not None
        assert told.bound_s is not None and told.bound_s <= told.low_s < told.predicted_s < told.high_s
        widths.append(told.high_s / told.predicted_s)
    assert widths[0] > widths[1]


# --- a real log --------------------------------------------------------------------------------------


def test_a_real_log_lies_in_the_bands() -> None:
    """vLLM 0.19.0 under a load beyond its capacity: waits of seconds, predicted from operators alone."""
    basis = basis_of_log(MODEL)
    found = predict(basis)
    assert basis.ran is not None and basis.ran.deployment.settings.max_seqs == 128
    for measure in ("ttft", "tpot", "e2e", "prefill_queue_time"):
        for word in ("mean", "p50", "p95"):
            told = row(found, measure, word)
            assert told.inside, (measure, word)
            assert told.ratio == pytest.approx(1.0, abs=0.13)
            assert told.measured_low_s is not None and told.measured_high_s is not None
            assert told.measured_low_s <= told.measured_s <= told.measured_high_s
    assert row(found, "ttft", "p99").measured_low_s is None
    assert "too few" in str(row(found, "ttft", "p99").measured_reason)
    assert sum(v for k, v in (found.ledger or {}).items() if k != "e2e_s") == pytest.approx(
        (found.ledger or {})["e2e_s"]
    )
    assert '"inside": true' in to_json(found)


def test_figures_of_a_log_are_those_of_its_rows() -> None:
    """Means of the file by awk: 7.09716 s of ttft_from_queued_s, 0.032458 s of (E2E - TTFT) / (OSL - 1)."""
    basis = basis_of_log(MODEL)
    ttft, tpot = basis.run.get("ttft", "mean"), basis.run.get("tpot", "mean")
    assert ttft is not None and ttft.value == pytest.approx(7.0971566, abs=1e-6)
    assert tpot is not None and tpot.value == pytest.approx(0.032458, abs=2e-6)


# --- what is not stated ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        ({"input_tokens": 10, "output_tokens": 2}, "neither concurrency nor an arrival rate"),
        ({"concurrency": 2, "output_tokens": 2}, "prompt tokens are not stated"),
        ({"concurrency": 2, "input_tokens": 10}, "output tokens are not stated"),
        (
            {"arrival_rate": 2.0, "input_tokens": 10, "output_tokens": 2, "requests": 9},
            "process is not stated",
        ),
        (
            {"arrival_rate": 2.0, "arrival_process": "Poisson", "input_tokens": 10, "output_tokens": 2},
            "number of requests",
        ),
        (
            {
                "arrival_rate": 2.0,
                "arrival_process": "times of a trace",
                "input_tokens": 9,
                "output_tokens": 2,
            },
            "times are not known",
        ),
        (
            {"arrival_rate": 2.0, "arrival_process": "Poisson, at most 9 at a time", "input_tokens": 9},
            "is not replayed",
        ),
    ],
)
def test_a_load_that_is_not_stated_is_not_made_up(conditions: dict[str, Stated], why: str) -> None:
    with pytest.raises(Unknown, match=why):
        offered(run(conditions))
    found = predict(prepare(run({**conditions, "tp": 1}, figure("tpot", 0.01)), SCENARIO))
    assert found.load is None and why in str(found.load_reason)
    assert row(found, "tpot").predicted_s is None and why in str(row(found, "tpot").reason)


def test_what_the_user_states_counts_and_is_told_as_such() -> None:
    bare: dict[str, Stated] = {"input_tokens": 10, "output_tokens": 2, "requests": 9}
    load = offered(run(bare), {"concurrency": 3})
    assert load.concurrency == 3
    assert [each.basis for each in load.taken if each.name == "concurrency"] == ["option"]


def test_means_of_lengths_give_neither_a_percentile_nor_a_wait() -> None:
    """Alike requests of two clients march in step; of one client nobody waits."""
    conditions: dict[str, Stated] = {"concurrency": 2, "requests": 20, "output_tokens": 4, "tp": 1}
    lengths = figure("input_tokens", 500.0, "mean", "token")
    figures = (
        figure("ttft", 0.1),
        figure("tpot", 0.1, "p95"),
        figure("e2e", 0.1),
        figure("duration", 9.0, None),
    )
    found = predict(prepare(run(conditions, *figures, lengths), SCENARIO, tables=by_hand))
    assert row(found, "e2e").predicted_s is not None
    assert row(found, "ttft").predicted_s is None and "waits, and so ttft" in str(row(found, "ttft").reason)
    assert row(found, "duration", None).predicted_s is None
    assert "no p95 follows" in str(row(found, "tpot", "p95").reason)
    alone = predict(
        prepare(run({**conditions, "concurrency": 1}, *figures, lengths), SCENARIO, tables=by_hand)
    )
    assert row(alone, "ttft").predicted_s == pytest.approx(0.060)


def test_lengths_are_drawn_by_their_deviation_or_range() -> None:
    conditions: dict[str, Stated] = {"concurrency": 2, "requests": 400, "output_tokens": 4}
    stated = [
        figure("input_tokens", value, word, "token") for word, value in (("mean", 500.0), ("std", 250.0))
    ]
    requests = offered(run(conditions, *stated)).requests
    assert mean(r.isl for r in requests) == pytest.approx(500, rel=0.01)
    assert stdev(r.isl for r in requests) == pytest.approx(250, rel=0.15)
    assert {r.output_tokens for r in requests} == {4}
    ends = [figure("input_tokens", value, word, "token") for word, value in (("min", 400.0), ("max", 600.0))]
    even = offered(run(conditions, stated[0], *ends)).requests
    assert 400 <= min(r.isl for r in even) < 410 and 590 < max(r.isl for r in even) <= 600


# --- options beside a detailed result -------------------------------------------------------------------


def detailed() -> Detail:
    """Twenty prompts of 100 or 300 tokens, one a second, each of 1.5 s: two at a time."""
    sizes = [100, 300] * 10
    return Detail(
        "x",
        tuple(LoggedRequest(Request(float(i), n, 0, 5), 0.5, None, 1.5) for i, n in enumerate(sizes)),
        True,
        False,
    )


def test_options_leave_arrivals_and_lengths_as_they_are_listed() -> None:
    given: dict[str, Stated] = {"input_tokens": 200, "arrival_rate": 1.0, "cached_tokens": 50}
    load = offered(run({"arrival_rate": 1.1}), given, detailed())
    assert [r.arrival_s for r in load.requests] == [float(i) for i in range(20)]
    assert [(r.isl, r.cached_tokens) for r in load.requests[:2]] == [(100, 25), (300, 75)]
    assert [each.note for each in load.taken if each.name == "cached_tokens"] == ["25% of every prompt"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"input_tokens": 500}, "the requests of the result have 200 on average"),
        ({"output_tokens": 50}, "the requests of the result have 5 on average"),
        ({"arrival_rate": 9.0}, "the requests of the result have 1 a second"),
        ({"concurrency": 1}, "the result lists 2 requests at a time"),
        ({"cached_tokens": 200}, "200 cached tokens of prompts of 200"),
    ],
)
def test_what_contradicts_the_requests_is_refused(given: dict[str, Stated], why: str) -> None:
    with pytest.raises(InputError, match=why):
        offered(run({}), given, detailed())


def test_more_cached_tokens_than_the_prompt_has_are_refused() -> None:
    with pytest.raises(InputError, match="2,000 cached tokens of prompts of 1,000"):
        offered(run(LOOP), {"cached_tokens": 2000})


def test_an_option_against_what_is_stated_is_said() -> None:
    found = predict(prepare(run(LOOP), replace(SCENARIO, tp=2), passed=("tp",), given={"concurrency": 3}))
    notes = {each.name: each.note for each in found.taken if each.basis == "option"}
    assert notes == {"tp": "the result states 1", "concurrency": "the result states 1"}
    assert "concurrency 3" in found.run


def test_a_topology_without_a_decode_side_runs_no_split() -> None:
    with pytest.raises(InputError, match="one pool of instances"):
        prepare(
            run(LOOP), replace(SCENARIO, topology="1"), passed=("topology", "link"), strategy="disaggregated"
        )


def test_a_run_of_unknown_length_counts_its_middle_alone() -> None:
    conditions = {key: value for key, value in LOOP.items() if key != "requests"}
    basis = prepare(
        run(conditions, figure("ttft", 0.1), figure("duration", 9.0, None)), SCENARIO, tables=by_hand
    )
    found = predict(basis)
    assert basis.load is not None and basis.load.settled
    assert found.requests == 150  # of 200, less a fifth and a twentieth
    assert row(found, "duration", None).predicted_s is None


def test_gaps_of_single_tokens_are_not_predicted() -> None:
    found = predict(prepare(run(LOOP, figure("itl", 0.1, "p99")), SCENARIO, tables=by_hand))
    assert "single gaps" in str(row(found, "itl", "p99").reason)


# --- what ran ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "name", "basis"),
    [
        ({}, "chunked", "assumed"),
        ({"engine": "vLLM", "engine_flags": "--no-enable-chunked-prefill"}, "colocated", "stated"),
        ({"engine_flags": "--enable-chunked-prefill"}, "chunked", "stated"),
        ({"topology": "1P1D", "link": "ib-ndr"}, "disaggregated", "stated"),
        ({"strategy": "disaggregated", "link": "IB NDR"}, "disaggregated", "stated"),
        ({"strategy": "colocated"}, "colocated", "stated"),
    ],
)
def test_strategies_are_as_stated(conditions: dict[str, Stated], name: str, basis: str) -> None:
    found = what_ran(run({"tp": 1, **conditions}), SCENARIO)
    assert found.strategy.name == name
    assert [each.basis for each in found.taken if each.name == "strategy"] == [basis]


def test_settings_are_stated_passed_or_said_to_be_assumed() -> None:
    conditions: dict[str, Stated] = {
        "engine": "vLLM",
        "engine_version": "0.19.0",
        "max_num_batched_tokens": 1024,
        "tp": 2,
    }
    stated = what_ran(run(conditions), Scenario("meta-llama/Llama-3.1-70B", "h100-sxm"))
    assert stated.deployment.settings.token_budget == 1024 and stated.deployment.prefill.tp == 2
    assert stated.deployment.settings.lag
    # vLLM's defaults on an H100: 1,024 sequences (hardware/engines/vllm.toml)
    assert stated.deployment.settings.max_seqs == 1024 and "max_seqs" in [
        each.name for each in stated.assumed
    ]
    asked = Scenario("meta-llama/Llama-3.1-70B", "h100-sxm", tp=4, settings=Settings(token_budget=512))
    passed = what_ran(run(conditions), asked, passed=("token_budget", "tp"))
    assert passed.deployment.settings.token_budget == 512 and passed.deployment.prefill.tp == 4
    assert {e.name for e in passed.taken if e.basis == "option"} == {"token_budget", "tp"}


@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        ({"topology": "1P1D", "tp": 1}, "the link of the copy is not stated"),
        ({"topology": "1P1D", "tp": 1, "link": "carrier pigeon"}, "is not packaged"),
        ({"hardware": "8 x H100 SXM", "gpus": 8}, "8 GPUs are stated"),
        ({"tp": 1, "pp": 2}, "pipeline stages"),
    ],
)
def test_what_no_default_stands_for_is_a_reason(conditions: dict[str, Stated], why: str) -> None:
    found = predict(prepare(run({**LOOP, "tp": 0, **conditions}), SCENARIO))
    assert found.strategy is None and why in str(found.reason)
    assert row(found, "ttft").predicted_s is None and why in str(row(found, "ttft").reason)


def test_a_model_that_does_not_fit_is_a_reason_and_a_bad_name_an_error() -> None:
    large = predict(prepare(run(LOOP), Scenario("meta-llama/Llama-3.1-70B", "a10")))
    assert large.reason is not None and row(large, "ttft").predicted_s is None
    with pytest.raises(InputError):
        prepare(run(LOOP), replace(SCENARIO, hardware="h1000"))
    with pytest.raises(InputError, match="unknown strategy"):
        prepare(run(LOOP), SCENARIO, strategy="magic")


def test_the_logged_kv_pool_is_taken() -> None:
    found = what_ran(run({"tp": 1}, figure("kv_cache_tokens", 10_000.0, None, "token")), SCENARIO)
    assert found.deployment.decode_pool.sequences(100) == pytest.approx(100)


# --- intervals ---------------------------------------------------------------------------------------


def test_intervals_are_those_of_tables() -> None:
    """Ranks that hold the median of 20 values: 6 and 15 (tables of the binomial); t of 29 degrees of freedom: 2.045."""
    twenty = [float(n) for n in range(1, 21)]
    assert (interval(twenty, "p50").low, interval(twenty, "p50").high) == (6.0, 15.0)
    thirty = [0.0] * 15 + [1.0] * 15
    deviation = (30 * 0.25 / 29) ** 0.5
    assert interval(thirty, "mean").high == pytest.approx(0.5 + 2.045 * deviation / 30**0.5, abs=1e-4)
    assert interval([1.0] * 99, "p99").reason and interval([1.0, 2.0], "mean").reason


def test_percentiles_lie_between_two_values() -> None:
    assert statistic([4.0, 1.0, 3.0, 2.0], "p95") == pytest.approx(3.85)
    with pytest.raises(InputError):
        statistic([], "mean")


def test_times_of_a_detail_are_by_stage() -> None:
    logged = LoggedRequest(Request(0.0, 10, 0, 3), None, 0.5, None, 0.9, None, 0.4)
    found = Detail("x", (logged,), True, True).seconds
    assert found["prefill_time"] == [pytest.approx(0.1)] and found["decode_time"] == [pytest.approx(0.4)]
    assert found["tpot"] == [pytest.approx(0.2)]


# --- lists that cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttfts", "told"),
    [
        ([0.1, 0.2], "ttfts has 2 entries, input_lens 3"),
        ([0.1, 0.2, float("nan")], "request 3: ttfts 'nan' is not a time"),
        (None, None),
    ],
)
def test_lists_that_cannot_be_read_are_said_to_be(tmp_path: Path, ttfts: object, told: str | None) -> None:
    result = {"request_throughput": 1.0, "input_lens": [9, 9, 9], "output_lens": [5, 5, 5], "ttfts": ttfts}
    path = tmp_path / "result.json"
    path.write_text(json.dumps({key: value for key, value in result.items() if value is not None}))
    found, why = requests_of(path)
    assert (found is None, why is None) == (told is not None, told is None)
    assert told is None or told in str(why)
    path.write_text('{"request_throughput": 1.0, "completed": 3}')
    assert requests_of(path) == (None, None)  # no list: nothing to say


def test_requests_that_contradict_their_figures_are_a_warning() -> None:
    """Milliseconds among seconds: a mean of 200 s stands beside one of 0.2 s."""
    logged = [LoggedRequest(Request(0.0, 10, 0, 3), 200.0, None, 400.0) for _ in range(9)]
    detail = Detail("x", tuple(logged), False, False)
    assert "of the requests it is 200 s" in detail.doubts([figure("ttft", 0.2)])[0]
    assert not detail.doubts([figure("ttft", 199.0)])
    late = Detail("x", (logged[0]._replace(ttft_s=500.0),), False, False)  # after the end
    assert "no request has a ttft that can be" in late.doubts([figure("ttft", 0.2)])[0]
    found = predict(prepare(run(LOOP, figure("ttft", 0.2)), SCENARIO, detail=detail, warnings=["first"]))
    assert found.warnings[0] == "first" and "200 s" in found.warnings[1]
