"""Checks of stalls, bursts, full chunks, parallel steps, repeats, crossings and predictions, by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from audit_records import case_of, found, row

from costmodel.audit.case import Case
from costmodel.audit.checks.bounds import check_bounds
from costmodel.audit.checks.bursts import check_bursts, invert_bursts
from costmodel.audit.checks.chunks import check_chunks, invert_chunk_sizes, invert_chunks
from costmodel.audit.checks.copies import check_copies
from costmodel.audit.checks.crossings import invert_crossings
from costmodel.audit.checks.descriptors import invert_blocks, invert_posting
from costmodel.audit.checks.interference import check_chunk_gaps, check_stalls, invert_stalls
from costmodel.audit.checks.lengths import check_lengths, invert_lengths
from costmodel.audit.checks.needed import check_far, invert_size
from costmodel.audit.checks.objectives import check_objectives
from costmodel.audit.checks.order import check_gaps, check_order, check_ranges, check_streams, invert_gaps
from costmodel.audit.checks.parallel import check_bytes_read, invert_prompt_all_reduces
from costmodel.audit.checks.predictions import check_predictions
from costmodel.audit.checks.ratios import check_ratios
from costmodel.audit.checks.repeats import check_repeats, invert_repeats
from costmodel.audit.checks.reuse import invert_reuse
from costmodel.audit.checks.saturated import check_saturated
from costmodel.audit.checks.split import invert_ratios, invert_split, invert_wire
from costmodel.audit.checks.sweeps import check_scaling, check_sweeps, invert_scaling
from costmodel.audit.checks.trends import check_serial
from costmodel.audit.finding import Finding, Inversion


def values(invert: Callable[[Case], Iterable[Inversion]], text: str, quantity: str) -> list[float | None]:
    """Values of one quantity that would explain figures of a record."""
    return [i.value for i in invert(case_of(text)) if i.quantity == quantity]


def grades(check: Callable[[Case], Iterable[Finding]], text: str) -> list[str]:
    return [finding.grade for finding in found(check, text)]


# Gaps of 20 ms: 50 a second. One prompt a second stalls 2 % of them, 0.4 prompts 0.8 %.
_GAP = row("itl", 20, "ms", statistic="p50")
_STALL = row("stall_time", 1, "s")


@pytest.mark.parametrize(
    ("rate", "tail", "grade"),
    [(1, 21, "inconsistent"), (1, 900, "holds"), (0.4, 21, "holds"), (0.4, 900, "suspicious")],
)
def test_stalls_reach_a_percentile_where_enough_gaps_have_one(rate: float, tail: int, grade: str) -> None:
    text = f"arrival_rate = {rate}\n" + _GAP + row("itl", tail, "ms", statistic="p99") + _STALL
    assert grades(check_stalls, text) == [grade]


def test_chunks_stall_a_gap_each_and_split_prefill_none() -> None:
    text = "arrival_rate = 0.4\ninput_tokens = 4000\nmax_num_batched_tokens = 1000\n"
    assert values(invert_stalls, text + _GAP, "stalled_share") == [pytest.approx(0.4 * 4 * 0.02)]
    assert values(invert_stalls, text + 'topology = "1P1D"\n' + _GAP, "stalled_share") == []


def test_a_burst_cannot_end_before_its_work() -> None:
    # Llama-3.1-8B: 2 x 7.5e9 x 4096 / 989 TFLOP/s = 62 ms a prompt and more: 10 take 0.62 s, 5.5 of them 0.34 s.
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\ninput_tokens = 4096\nburst = 10\n'
    mean, last = row("ttft", 200, "ms", statistic="mean"), row("ttft", 500, "ms", statistic="max")
    assert sorted(grades(check_bursts, text + mean + last)) == ["impossible", "impossible", "suspicious"]
    mean, last = row("ttft", 900, "ms", statistic="mean"), row("ttft", 1500, "ms", statistic="max")
    assert grades(check_bursts, text + mean + last) == ["holds"] * 3
    assert values(invert_bursts, text + mean + last, "mean_over_last") == [pytest.approx(0.6)]


_FULL = """
model = "Llama-3.1-8B"
hardware = "H100"
input_tokens = 8000
output_tokens = 20
batch = 32
max_num_batched_tokens = 2048
"""


def test_a_gap_with_a_full_chunk_takes_the_chunks_time() -> None:
    # 32 x 8000 / 20 = 12,800 prompt tokens a step; 2016 of them take 2 x 7e9 x 2016 / 989 TFLOP/s = 29 ms at least.
    assert grades(check_saturated, _FULL + row("itl", 50, "ms")) == ["holds"]
    assert grades(check_saturated, _FULL + row("itl", 20, "ms")) == ["suspicious"]
    # 32 x 8000 / 2000 = 128 a step: no step is full.
    few = _FULL.replace("output_tokens = 20", "output_tokens = 2000")
    assert grades(check_saturated, few + row("itl", 20, "ms")) == []


def test_chunks_of_a_dense_model_read_keys_again_but_no_experts() -> None:
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\ninput_tokens = 4096\nmax_num_batched_tokens = 1024\n'
    # 1024 x 4 x 3 / 2 tokens x 32 x 2 x 8 x 128 x 2 B
    assert values(invert_chunks, text + row("ttft", 1, "s"), "kv_reread_bytes") == [6144 * 131072]
    assert values(invert_chunks, text + row("ttft", 1, "s"), "expert_reread_bytes") == []
    assert grades(check_chunks, text + row("prefill_time_ratio", 1.01, "x")) == ["holds"]
    assert grades(check_chunks, text + row("prefill_time_ratio", 3, "x")) == ["suspicious"]


@pytest.mark.parametrize(
    ("bandwidth", "grade"), [(1660, "holds"), (1900, "suspicious"), (3000, "inconsistent")]
)
def test_bandwidth_times_step_is_the_weights(bandwidth: float, grade: str) -> None:
    # Llama-3.1-8B: 7.5e9 weights without the embedding, 15.0 GB, in 9.05 ms: 1660 GB/s.
    text = 'model = "Llama-3.1-8B"\nhardware = "A100"\ntp = 1\nbatch = 1\n'
    text += row("decode_step_time", 9.05, "ms") + row("memory_bandwidth_achieved", bandwidth, "GB/s")
    assert grades(check_bytes_read, text) == [grade]


def test_equal_copies_far_apart_wait() -> None:
    text = 'payload = "1 GB"\n' + row("kv_transfer_time", 20, "ms") + row("kv_transfer_time", 80, "ms")
    (finding,) = found(check_repeats, text)
    assert finding.grade == "suspicious"
    assert "they wait" in finding.said
    assert values(invert_repeats, text, "wait_s") == [pytest.approx(0.06)]
    assert grades(check_repeats, text.replace("80", "30")) == []


def test_two_ways_cross_where_their_difference_changes_sign() -> None:
    text = "".join(
        row("ttft", value, "s", strategy=way, arrival_rate=rate)
        for way, points in (("colocated", (1, 2, 6)), ("disaggregated", (2, 2.5, 4)))
        for rate, value in zip((1, 2, 4), points)
    )
    # -0.5 at 2 and +2 at 4: 2 + 2 x 0.5 / 2.5
    assert values(invert_crossings, text, "break_even_per_s") == [pytest.approx(2.4)]


def test_a_fetch_that_is_always_slower_has_no_break_even() -> None:
    text = "".join(
        row(metric, tokens * each + 0.001, "s", input_tokens=tokens)
        for metric, each in (("prefill_time", 1e-5), ("kv_transfer_time", 3e-5))
        for tokens in (1000, 2000, 4000)
    )
    (found_,) = [i for i in invert_crossings(case_of(text)) if i.quantity == "break_even_tokens"]
    assert found_.value is None
    assert "prefill_time is the quicker" in str(found_.reason)


def test_posting_of_the_whole_copy_leaves_no_bytes() -> None:
    assert values(invert_posting, row("posting_share", 100, "%"), "posting_over_wire") == []


def test_ratio_of_instances() -> None:
    text = 'topology = "1P3D"\n' + row("prefill_time", 1, "s") + row("decode_time", 3, "s")
    # min(1 / 1, 3 / 3) = 1 a second against 4 / 4 = 1: this ratio loses nothing
    assert values(invert_split, text, "split_over_colocated") == [pytest.approx(1.0)]


def test_a_speed_up_is_no_ratio() -> None:
    assert values(invert_ratios, row("ttft_speedup", 4, "x"), "cached_share") == [pytest.approx(0.75)]
    assert values(invert_ratios, row("ttft_ratio", 4, "x"), "cached_share") == []
    split = 'topology = "1P1D"\n' + row("ttft_ratio", 1.5, "x")
    assert values(invert_ratios, split, "handover_over_prefill") == [pytest.approx(0.5)]


def test_the_wire_of_a_prompt_where_no_copy_is_given() -> None:
    text = 'model = "Llama-3.1-8B"\ntopology = "1P1D"\nlink = "100 Gbps"\ninput_tokens = 1000\n'
    # 131,072,000 B / 12.5 GB/s
    assert values(invert_wire, text + row("ttft", 1, "s"), "wire_s") == [pytest.approx(0.010486, rel=1e-4)]
    assert values(invert_wire, text + row("kv_transfer_time", 1, "s"), "wire_s") == []


def test_requests_longer_than_served() -> None:
    text = "max_model_len = 8192\ninput_tokens = 8000\n" + row("ttft", 1, "s")
    assert grades(check_lengths, text) == []
    assert grades(check_lengths, "output_tokens = 500\n" + text) == ["inconsistent"]


def test_lengths_are_told_where_they_are_not_stated() -> None:
    rates = row("request_throughput", 2, "req/s") + row("output_throughput", 300, "tok/s")
    assert values(invert_lengths, rates, "output_tokens") == [pytest.approx(150)]
    assert values(invert_lengths, "output_tokens = 100\n" + rates, "output_tokens") == []


@pytest.mark.parametrize(("ttft", "grades_"), [(60, []), (400, []), (900, ["suspicious"])])
def test_a_prompt_alone_many_times_above_its_work(ttft: int, grades_: list[str]) -> None:
    # 2 x 7.5e9 x 4000 / 989 TFLOP/s = 62 ms
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\ninput_tokens = 4000\nconcurrency = 1\n'
    assert grades(check_far, text + row("ttft", ttft, "ms")) == grades_


def test_the_size_that_would_take_so_long() -> None:
    text = 'hardware = "8xH100"\ntp = 8\ninput_tokens = 1000\n' + row("prefill_time", 0.1, "s")
    # 0.1 s x 8 x 989e12 / 2000
    assert values(invert_size, text, "parameters") == [pytest.approx(395.6e9)]


@pytest.mark.parametrize(("e2e", "grade"), [(10.5, "suspicious"), (20, "holds")])
def test_errors_that_cancel(e2e: float, grade: str) -> None:
    # TTFT -50 %, TPOT +100 %; E2E +5 % or +100 % of 10 s
    text = row("ttft", 2, "s") + row("tpot", 10, "ms") + row("e2e", 10, "s")
    made = {"predicted_by": "a simulator"}
    text += row("ttft", 1, "s", **made) + row("tpot", 20, "ms", **made) + row("e2e", e2e, "s", **made)
    assert grades(check_predictions, text) == [grade]


@pytest.mark.parametrize(("power", "grades_"), [(1, ["holds"]), (0, []), (2, [])])
def test_ttft_in_proportion_to_clients_is_a_queue(power: int, grades_: list[str]) -> None:
    text = "".join(row("ttft", 0.1 * n**power, "s", concurrency=n) for n in (1, 4, 16))
    assert grades(check_serial, text) == grades_


def test_a_warm_cache_leaves_the_bound_open() -> None:
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\ninput_tokens = 10000\n' + row("ttft", 60, "ms")
    assert grades(check_bounds, text) == ["impossible"]
    assert grades(check_bounds, 'cache_state = "warm"\n' + text) == ["not_computable"]
    assert grades(check_bounds, 'cache_state = "warm"\ncached_share = 0.1\n' + text) == ["impossible"]


def test_a_model_known_by_its_name_alone_is_not_called_impossible() -> None:
    # 2 x 72e9 x 8000 / (8 x 989 TFLOP/s) = 146 ms
    text = 'model = "Qwen1.5-72B"\nhardware = "8xH100"\ninput_tokens = 8000\n'
    assert grades(check_bounds, text + row("prefill_time", 100, "ms")) == ["suspicious"]
    assert grades(check_bounds, text + row("prefill_time", 200, "ms")) == ["holds"]
    assert grades(check_bounds, text.replace("72B", "110B-MoE") + row("ttft", 1, "ms")) == ["not_computable"]


@pytest.mark.parametrize(
    ("link", "gigabytes", "grade"),
    [
        ("PCIe Gen4 x16", 31, "holds"),
        ("PCIe Gen4 x16", 33, "impossible"),
        ("PCIe 5.0 x16 bidirectional", 83, "impossible"),
        ("8x NDR", 390, "holds"),
        ("25 GB/s", 26, "impossible"),
        ("HDR200", 24, "holds"),
    ],
)
def test_wires_as_reports_name_them(link: str, gigabytes: int, grade: str) -> None:
    text = f'link = "{link}"\nhardware = "8xH100"\n' + row("kv_transfer_bandwidth", gigabytes, "GB/s")
    assert grades(check_copies, text) == [grade]


def test_rates_of_both_ways() -> None:
    text = 'link = "PCIe 5.0 x16"\nhardware = "H100"\n'
    both = row("kv_transfer_bandwidth", 83.4, "GB/s", note="bidirectional")
    assert grades(check_copies, text + both) == ["holds"]  # of 2 x 63


@pytest.mark.parametrize(
    ("statistics", "grades_"),
    [
        ({"p50": 10, "p90": 12, "p99": 30}, ["holds"]),
        ({"p50": 10, "p99": 9}, ["impossible"]),
        ({"mean": 40, "p99": 30}, ["suspicious"]),
        ({"mean": 40, "max": 30}, ["impossible"]),
        ({"mean": 5, "min": 6}, ["impossible"]),
        ({"mean": 8, "min": 6}, []),
    ],
)
def test_statistics_in_order(statistics: dict[str, float], grades_: list[str]) -> None:
    text = "".join(row("ttft", value, "ms", statistic=name) for name, value in statistics.items())
    assert grades(check_order, text) == grades_


def test_shares_of_at_most_all() -> None:
    assert grades(check_ranges, row("cache_hit_rate", 99, "%")) == []
    assert grades(check_ranges, row("cache_hit_rate", 104, "%")) == ["impossible"]
    text = "cached_tokens = 9000\ninput_tokens = 8192\n" + row("ttft", 1, "s")
    assert grades(check_ranges, text) == ["impossible"]


@pytest.mark.parametrize(("gap", "grade"), [(10, "holds"), (25, "suspicious"), (5, "suspicious")])
def test_a_gap_of_several_tokens(gap: int, grade: str) -> None:
    text = row("itl", gap, "ms", statistic="mean") + row("tpot", 10, "ms", statistic="mean")
    assert grades(check_gaps, text) == [grade]
    assert values(invert_gaps, text, "tokens_per_event") == [pytest.approx(gap / 10)]


@pytest.mark.parametrize(("rate", "grade"), [(1500, "holds"), (1800, "inconsistent"), (3000, "impossible")])
def test_no_more_decodes_than_clients(rate: int, grade: str) -> None:
    # 16 clients, 10 ms a token: at most 1600 tokens a second
    text = "concurrency = 16\n" + row("output_throughput", rate, "tok/s")
    assert grades(check_streams, text + row("tpot", 10, "ms", statistic="mean")) == [grade]


def test_the_rate_of_one_request_is_one_over_tpot() -> None:
    text = row("user_throughput", 50, "tok/s") + row("tpot", 20, "ms", statistic="mean")
    assert grades(check_streams, text) == ["holds"]
    assert grades(check_streams, text.replace("50", "90")) == ["inconsistent"]


def test_more_clients_make_none_faster() -> None:
    def sweep(metric: str, unit: str, *points: float) -> str:
        return "".join(row(metric, v, unit, concurrency=n) for n, v in zip((1, 4, 16), points))

    assert grades(check_sweeps, sweep("output_throughput", "tok/s", 100, 390, 1200)) == []
    assert grades(check_sweeps, sweep("output_throughput", "tok/s", 100, 600, 1200)) == ["suspicious"]
    assert grades(check_sweeps, sweep("ttft", "ms", 900, 300, 400)) == ["suspicious"]
    assert grades(check_sweeps, sweep("ttft", "ms", 300, 310, 400)) == []


def test_rates_scale_with_gpus_at_most() -> None:
    text = row("output_throughput", 100, "tok/s", hardware="H100", tp=1)
    four = row("output_throughput", 300, "tok/s", hardware="4xH100", tp=4)
    assert values(invert_scaling, text + four, "scaling_efficiency") == [pytest.approx(0.75)]
    assert grades(check_scaling, text + four) == ["holds"]
    assert grades(check_scaling, text + four.replace("300", "600")) == ["suspicious"]
    # 1 client on one GPU beside 64 on four are two loads; 16 beside 64 are 16 a GPU each
    for clients, count in ((1, 0), (16, 1), (64, 1)):
        few = row("output_throughput", 100, "tok/s", hardware="H100", tp=1, concurrency=clients)
        many = row("output_throughput", 300, "tok/s", hardware="4xH100", tp=4, concurrency=64)
        assert len(grades(check_scaling, few + many)) == count


@pytest.mark.parametrize(
    ("metric", "value", "unit", "grade"),
    [
        ("ttft_reduction", 75, "%", "holds"),  # 1 - 0.5 / 2
        ("ttft_reduction", 60, "%", "inconsistent"),
        ("ttft_speedup", 4, "x", "holds"),
        ("ttft_increase", 300, "%", "holds"),  # 2 / 0.5 - 1
        ("tpot_reduction", 60, "%", None),
    ],
)
def test_a_claimed_ratio_is_that_of_two_figures(
    metric: str, value: float, unit: str, grade: str | None
) -> None:
    text = row("ttft", 2, "s", strategy="before") + row("ttft", 0.5, "s", strategy="after")
    assert grades(check_ratios, text + row(metric, value, unit)) == ([grade] if grade else [])


def test_passes_of_chunks_have_a_price() -> None:
    # 8192 tokens in 2, 4 and 8 passes: 0.4 s and 0.05 s each
    text = "input_tokens = 8192\n" + "".join(
        row("ttft", 0.4 + 0.05 * passes, "s", max_num_batched_tokens=8192 // passes) for passes in (2, 4, 8)
    )
    assert values(invert_chunk_sizes, text, "per_pass_s") == [pytest.approx(0.05)]


def test_a_ratio_of_layouts_may_differ_in_what_follows_from_them() -> None:
    text = row("goodput", 1.6, "req/s/GPU", strategy="colocated", gpus=1)
    text += row("goodput", 3.3, "req/s/GPU", strategy="disaggregated", topology="2P1D", gpus=3)
    assert grades(check_ratios, text + row("goodput_ratio", 2.1, "x")) == ["holds"]  # 3.3 / 1.6 = 2.06
    assert grades(check_ratios, text + row("goodput_ratio", 3.1, "x")) == ["inconsistent"]
    assert grades(check_ratios, text + row("goodput_ratio", 3.1, "x", workload="another")) == []


def test_each_block_of_a_copy_has_a_price() -> None:
    text = "input_tokens = 7500\n" + row("kv_transfer_time", 20, "ms", block_size=16)
    text += row("kv_transfer_time", 8, "ms", block_size=128)
    # ceil(7500 / 16) = 469 blocks and ceil(7500 / 128) = 59: 12 ms / 410
    assert values(invert_blocks, text, "per_block_s") == [pytest.approx(29.27e-6, rel=1e-3)]


def test_a_sliver_of_a_wire_is_another_path() -> None:
    text = 'link = "400 Gb/s"\n' + row("kv_transfer_bandwidth", 0.3, "GB/s")
    assert grades(check_copies, text) == ["suspicious"]
    assert grades(check_copies, text.replace("0.3", "3.0")) == ["holds"]


@pytest.mark.parametrize(("rate", "grade"), [(12_000, "holds"), (20_000, "impossible")])
def test_output_tokens_need_their_products_in_any_batch(rate: int, grade: str) -> None:
    # Llama-3.3-70B: 2 x 69.5e9 a token; 1979 TFLOP/s of FP8 make at most 14,200 a second and GPU.
    text = 'model = "Llama-3.3-70B"\ndtype = "fp8"\nhardware = "8xH200"\n'
    assert grades(check_bounds, text + row("output_throughput", rate, "tok/s/GPU")) == [grade]


@pytest.mark.parametrize(("limit", "grade"), [("50 ms", "impossible"), ("100 ms", "holds")])
def test_a_limit_below_the_least_time_is_met_by_none(limit: str, grade: str) -> None:
    # 2 x 7.5e9 x 4000 / 989 TFLOP/s = 62 ms
    text = f'model = "Llama-3.1-8B"\nhardware = "H100"\ninput_tokens = 4000\nslo_ttft = "{limit}"\n'
    assert grades(check_objectives, text + row("slo_attainment", 90, "%")) == [grade]


@pytest.mark.parametrize(("tail", "grades_"), [(20, ["inconsistent"]), (60, ["holds"])])
def test_a_tail_with_full_chunks_takes_their_time(tail: int, grades_: list[str]) -> None:
    # 4 chunks a prompt, 1 prompt a second, gaps of 10 ms: 4 % of gaps have 2048 tokens, 32 ms at peak.
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\ninput_tokens = 8192\nmax_num_batched_tokens = 2048\n'
    gaps = row("itl", 10, "ms", statistic="p50") + row("itl", tail, "ms", statistic="p99")
    assert grades(check_chunk_gaps, "arrival_rate = 1\n" + text + gaps) == grades_
    assert grades(check_chunk_gaps, "arrival_rate = 0.1\n" + text + gaps) == []


@pytest.mark.parametrize(("hardware", "gigabytes"), [("8xA800", 5.86), ("8xH800", 18.6)])
def test_the_bandwidth_from_which_on_a_fetch_pays(hardware: str, gigabytes: float) -> None:
    """Mooncake (FAST 2025), equation 2: LLaMA3-70B, 8192 tokens; it counts attention over the whole square."""
    text = f'model = "Llama-3-70B"\nhardware = "{hardware}"\ntp = 8\ninput_tokens = 8192\n'
    (rate,) = values(invert_reuse, text + row("kv_transfer_time", 1, "s"), "break_even_bytes_per_s")
    assert rate == pytest.approx(gigabytes * 1e9, rel=0.07)


def test_all_reduces_of_a_prompt_over_pcie() -> None:
    text = 'model = "Llama-3-70B"\ntp = 4\ninput_tokens = 1024\n' + row("ttft", 1, "s")
    # 160 x 2 x 3 / 4 x 1024 x 8192 x 2 B / 31.5 GB/s
    wire = 160 * 1.5 * 1024 * 8192 * 2 / 31.5e9
    assert values(invert_prompt_all_reduces, 'hardware = "4xL40S"\n' + text, "all_reduce_wire_s") == [
        pytest.approx(wire, rel=0.01)
    ]
    assert values(invert_prompt_all_reduces, 'hardware = "4xH100"\n' + text, "all_reduce_wire_s") == []


def test_a_burst_whose_prompts_a_cache_may_have_answered_has_no_bound() -> None:
    # 64 x 14.4 ms of Llama-3.1-8B on an H100 are 0.92 s, and 0.3 s are too few
    text = 'model = "Llama-3.1-8B"\nhardware = "1x H100"\ndtype = "bf16"\nburst = 64\ninput_tokens = 1024\n'
    text += row("ttft", 0.3, "s", statistic="mean")
    assert grades(check_bursts, text) == ["impossible"]
    assert grades(check_bursts, 'cache_state = "prefix caching on"\n' + text) == []
    assert grades(check_bursts, "concurrency = 8\n" + text) == []
