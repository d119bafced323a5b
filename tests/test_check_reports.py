"""Public reports, each as a record of what it states, and the verdicts that a careful reader reaches by hand.

A record that ends in "-assumed" adds what its first lines name as assumed and not reported. Tolerances are those of the
hand arithmetic, which leaves out norms, biases and routers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from costmodel.audit.finding import IMPOSSIBLE, INCONSISTENT
from costmodel.questions.check import CheckAnswer, ask_check

RECORDS = Path(__file__).parent / "records"
MODEL, HARDWARE, LOAD = "model", "hardware", "batch or concurrency"
ISL, OSL, VERSION, WARMUP = "input length", "output length", "engine version", "warm-up"

#: Of a figure: (quantity, value or None, relative tolerance).
Value = tuple[str, str, float | None, float]


@dataclass(frozen=True)
class Report:
    """What is expected of a record: absent conditions, (check, figure, grade), inversions, what it is not beside."""

    name: str
    absent: tuple[str, ...]
    findings: tuple[tuple[str, str, str], ...] = ()
    values: tuple[Value, ...] = ()
    not_beside: tuple[str, ...] = ()
    #: Figures with a finding that is impossible or inconsistent: these, and no other.
    wrong: tuple[str, ...] = ()


REPORTS = (
    Report(
        "b02-nixl-handover",
        (MODEL, LOAD, OSL, VERSION, WARMUP),
        values=(
            ("orchestration_s", "handover-16", 0.158, 0.001),  # 263 - 105 ms: 105 / 263 = 40 % is the copy
            ("orchestration_s", "handover-64", 0.150, 0.001),  # 197 - 47 ms: 24 %
            ("effective_bytes_per_s", "window-16", None, 0),  # no model, no bytes
        ),
    ),
    Report(
        "b03-posting-gb200",
        (LOAD, ISL, OSL, VERSION, WARMUP),
        values=(
            ("posting_over_wire", "mnnvl", 1.320, 0.001),  # 0.569 / 0.431
            ("posting_over_wire", "ib", 0.1765, 0.001),  # 0.15 / 0.85
        ),
    ),
    Report(
        "b04-descriptor-sizes",
        (MODEL, HARDWARE, LOAD, ISL, OSL, VERSION, WARMUP),
        findings=(("faster_than_wire", "uccl-256k", "holds"),),  # 12.157 of 12.5 GB/s
        values=(
            # 256 x 1 KiB / 3.779 GB/s = 69.4 us and 256 x 256 KiB / 12.157 = 5520 us: 48 us + bytes / 12.2 GB/s
            ("latency_s", "uccl-1k", 48e-6, 0.03),
            ("effective_bytes_per_s", "uccl-1k", 12.2e9, 0.02),
            ("per_descriptor_s", "uccl-64k", 48e-6 / 256, 0.03),
            # 262,144 B / 0.715 GB/s = 366.6 us, of which the wire 21.0: 345.6 / 256
            ("per_descriptor_s", "nixl-1k", 1.35e-6, 0.01),
            # 224 us at 4 KiB is less than 367 at 1 KiB: no constant and a bandwidth
            ("latency_s", "nixl-1k", None, 0),
        ),
    ),
    Report(
        "b06-copies-of-one-size",
        (MODEL, HARDWARE, ISL, OSL, VERSION, WARMUP),
        findings=(("copies_of_one_size", "first", "suspicious"),),  # 1088 / 36.7 = 29.6 times
        values=(
            ("wait_s", "first", 1.051, 0.001),  # 1.088136 - 0.036717
            ("effective_bytes_per_s", "third", 18.8e9, 0.002),  # 690.54 MB / 36.717 ms
            # 39.2, 55.4, 74.0 ms: 17.4 ms apart, 690.54 MB / 17.4 ms
            ("link_bytes_per_s", "fifth", 39.6e9, 0.01),
        ),
    ),
    Report(
        "b08-pipelined-copy",
        (VERSION, WARMUP),
        findings=(
            # 2 x 72.7e9 x 8192 / (4 x 148 TFLOP/s) = 2.01 s; the half of it at 4096, 0.25 s at 1024
            ("below_bound", "pipelined-8192", "impossible"),
            ("below_bound", "pipelined-4096", "impossible"),
            ("below_bound", "serial-8192", "inconsistent"),  # 1.23 s: possible at the 296 TFLOP/s of FP8
            ("below_bound", "serial-4096", "holds"),
            ("below_bound", "pipelined-1024", "holds"),
            ("growth_with_tokens", "pipelined-8192", "inconsistent"),  # 0.37 of 1.95 s
        ),
        values=(
            ("mfu", "pipelined-8192", 2.01 / 0.637, 0.05),
            # 80 layers x 2 x 8 x 128 x 2 B = 327,680 B: 2.68 GB / 200 GB/s, of 1234 ms
            ("wire_s", "serial-8192", 0.01342, 0.001),
        ),
        wrong=("pipelined-256", "pipelined-1024", "pipelined-4096", "pipelined-8192", "serial-8192"),
    ),
    Report(
        "b09-overloaded-2p1d",
        (MODEL, VERSION, WARMUP),
        findings=(
            ("overload", "ttft", "inconsistent"),  # 3.2 offered / 2.56 finished = 1.25
            ("littles_law", "in-flight", "holds"),  # 561.7 / 2.56 = 219.4 s, reported 219.5
            ("e2e_identity", "e2e", "holds"),  # 24.77 + 1299 x 0.1499 = 219.5
            ("rates", "burst-rate", "holds"),  # 64 x 4096 / 32.92 = 7963
            ("burst_order", "burst-ttft", "holds"),
            ("below_bound", "ttft", "not_computable"),  # no model
        ),
        values=(
            ("mean_over_last", "burst-ttft", 22.2 / 32.92, 0.001),  # 0.674: between (64 + 1) / 128 and 1
            ("tokens_per_s", "burst-duration", 7963, 0.001),
        ),
        wrong=("ttft", "e2e", "offered", "finished"),
    ),
    Report(
        "b10-one-port-assumed",
        (LOAD, VERSION, WARMUP),
        # 78 layers x ((512 + 64) x 2 B + 132 B of an index key) = 100,152 B: 32,000 of them / 50 GB/s
        values=(("wire_s", "prompt", 0.0641, 0.002),),
    ),
    Report(
        "b14-serial-prompts",
        (VERSION, WARMUP),
        # 37e9 x 2 x 1000 / (8 x 1979 TFLOP/s) = 4.7 ms of 0.1 s a user, 21 times and more
        findings=(("serial_prefill", "users-250", "suspicious"), ("below_bound", "users-1", "holds")),
        values=(
            # 25 s / 250, 0.1 s / 1 and 2 s / 10: between 0.1 and 0.2 s a user
            ("service_s", "users-250", 0.119, 0.01),
            ("mfu", "users-1", 0.0047 / 0.1, 0.04),
        ),
    ),
    Report(
        "b16-pull-or-recompute",
        (LOAD, OSL, VERSION, WARMUP),
        findings=(("below_bound", "recompute-8k", "holds"),),
        values=(
            # (550.5 - 49.0) ms / 47,104 tokens = 10.65 us; 49.0 - 2048 x 10.65 us = 27.2 ms
            ("latency_s", "pull-2k", 0.0272, 0.03),
            # 18 full layers x 2 x 8 x 64 x 2 B = 36,864 B / 10.65 us
            ("effective_bytes_per_s", "pull-48k", 3.46e9, 0.005),
            ("break_even_tokens", "pull-2k", None, 0),  # 49.0 < 70.6 ms at the shortest already
            # 2 x 5.1e9 x 8192 / 989 TFLOP/s = 84.5 ms of 205.4
            ("mfu", "recompute-8k", 0.411, 0.03),
        ),
    ),
    Report(
        "b17-hybrid-kv-tokens",
        (VERSION,),  # a start-up's log: no request has run
    ),
    Report(
        "b19-bursts",
        (MODEL, HARDWARE, ISL, OSL, VERSION, WARMUP),
        values=(
            # 2 x (1795 - 38) / 1024 = 3.4 ms, 2 x (302 - 38) / 128 = 4.1
            ("service_s", "p4d4-1024", 3.8e-3, 0.1),
            ("service_s", "p2d4-mooncake-128", 55.4e-3, 0.05),  # 2 x (3674 - 127) / 128
            ("service_s", "p2d4-nixl-128", 8.9e-3, 0.12),  # 2 x (634 - 63) / 128
        ),
    ),
    Report(
        "b20-twice-the-ttft",
        (MODEL, HARDWARE, ISL, OSL, VERSION, WARMUP),
        values=(
            ("handover_over_prefill", "ratio", 1.0, 1e-6),
        ),  # 2 - 1: as if the prompt were computed again
    ),
    Report("b22-unlike-flags", (VERSION, WARMUP), not_beside=("rates per GPU of other systems",)),
    Report(
        "b22-unlike-flags-assumed",
        (VERSION, WARMUP),
        # 5.58 / 2 = 2.79 req/s a GPU against 4.55
        findings=(("unequal_gpus", "split-on-rate", "inconsistent"),),
        wrong=("split-on-rate", "colocated-rate"),
    ),
    Report(
        "b23-work-of-each-side",
        (LOAD, ISL, OSL, VERSION, WARMUP),
        values=(
            ("prefill_share", "prefill", 0.02569, 0.001),  # 58 / 2258
            ("decode_instances_per_prefill", "prefill", 37.93, 0.001),  # 2200 / 58
            ("split_over_colocated", "prefill", 0.5132, 0.001),  # (1 / 2200) / (2 / 2258)
        ),
    ),
    Report(
        "c03-stalls",
        (OSL, VERSION, WARMUP),
        findings=(
            ("stalls_in_percentile", "tail-half", "holds"),  # 0.5/s x 15 ms = 0.75 % of gaps, below 1 %
            ("below_bound", "stall-4k", "holds"),  # 2 x 4e9 x 4096 / 165 TFLOP/s = 0.2 s of 0.5
        ),
        values=(
            ("stalled_share", "gap", 0.0075, 0.001),
            ("arrival_rate_per_s", "gap", 0.667, 0.001),  # 1 % / 15 ms
        ),
    ),
    Report(
        "c04-burst-together",
        (HARDWARE, VERSION, WARMUP),
        findings=(
            ("burst_order", "together-mean", "holds"),
            ("below_bound", "together-mean", "not_computable"),
        ),
        values=(
            ("mean_over_last", "together-mean", 0.942, 0.001),  # 3975 / 4219: nearly 1, all wait for the last
            ("mean_over_last", "limited-mean", 0.571, 0.001),  # 2634 / 4610: (16 + 1) / 32 = 0.531 in turn
            ("tokens_per_s", "together-p99", 3883, 0.001),  # 16 x 1024 / 4.219
        ),
    ),
    Report(
        "c07-chunks-of-long-prompts",
        (LOAD, VERSION, WARMUP),
        findings=(("chunk_rereads", "prompt", "holds"),),  # 2.3 ms of 1.2 s and more: not the cause
        values=(
            # 10 chunks: 4096 x (0 + 1 + ... + 9) = 184,320 tokens x 327,680 B = 60.4 GB / (8 x 3.35 TB/s)
            ("kv_reread_bytes", "prompt", 60.4e9, 0.001),
            ("kv_reread_s", "prompt", 2.25e-3, 0.002),
        ),
    ),
    Report(
        "c09-mixed-steps",
        (MODEL, OSL, WARMUP),
        findings=(("below_bound", "derived-4096", "not_computable"),),
    ),
    Report(
        "c09-mixed-steps-assumed",
        (OSL, WARMUP),
        findings=(
            # 36 layers x 192.9e6 = 6.95e9 weights: 2 x 6.95e9 x 2048 + 4 x 36 x 4096 x 2048^2 / 2 = 29.7 TFLOP, 30 ms
            ("below_bound", "derived-2048", "impossible"),
            ("below_bound", "derived-4096", "impossible"),
            ("below_bound", "tool-4096", "holds"),  # 62.6 ms of 91.55
        ),
        values=(
            ("mfu", "derived-2048", 30.0 / 15.09, 0.01),
            ("mfu", "tool-4096", 0.684, 0.01),
            ("prediction_error", "tool-4096", 1.920, 0.001),  # 91.55 / 31.35 - 1
        ),
        wrong=("derived-2048", "derived-4096"),
    ),
    Report(
        "c10-saturated",
        (WARMUP,),
        findings=(
            ("full_chunks", "itl-32", "not_computable"),
        ),  # 32 x 9000 / 30 = 9600 a step, of which a part
        # 2 x 6.95e9 x 9000 + 4 x 36 x 4096 x 9000^2 / 2 = 149 TFLOP, 150.6 ms: 236.8 / 150.6 x 9000 tokens
        values=(("chunk_tokens", "itl-32", 14_150, 0.01),),
    ),
    Report(
        "c10-saturated-assumed",
        (WARMUP,),
        findings=(
            ("full_chunks", "itl-32", "holds"),  # 9600 > 8192
            # 32 x 9000 x 147,456 B / 4.8 TB/s = 8.85 ms of the 72 by which the gap grows
            ("full_chunks_growth", "itl-64", "suspicious"),
        ),
        values=(
            # 8160 tokens: 2 x 6.95e9 x 8160 + 4 x 36 x 4096 x 8160 x 4500 = 135 TFLOP and decodes: 137 ms
            ("mfu", "itl-32", 0.579, 0.01),
            ("mfu", "itl-64", 0.445, 0.01),
            ("prediction_error", "tool-64", -0.1943, 0.001),  # 248.8 / 308.8 - 1
        ),
    ),
    Report("c12-chunked-experts", (HARDWARE, LOAD, OSL, WARMUP)),
    Report(
        "c12-chunked-experts-assumed",
        (LOAD, OSL, WARMUP),
        findings=(
            ("chunk_rereads", "ratio", "suspicious"),
        ),  # 0.385 s beside 0.119: 4.2 of the claimed 10 times
        values=(
            # 48 x 128 experts x 3 x 2048 x 768 x 2 B = 58.0 GB, read 23 times instead of once, / 3.35 TB/s
            ("expert_reread_s", "ratio", 0.381, 0.005),
            ("kv_reread_s", "ratio", 3.80e-3, 0.005),  # 512 x 23 x 22 / 2 x 98,304 B / 3.35 TB/s
        ),
    ),
    Report(
        "g01-batch-one-7b",
        (OSL, VERSION, WARMUP),
        findings=(
            ("bytes_read", "tp1", "holds"),  # 6.74e9 x 2 B = 13.5 GB less an embedding of 0.26
            # each GPU holds embedding and head, 2 x 0.262 GB: (13.48 - 0.52) + 8 x 0.52 = 17.1 GB
            ("bytes_read", "tp8", "holds"),
        ),
        values=(
            ("bytes_read_bytes", "tp1", 13.32e9, 0.001),  # 1397.31 / 104.9
            ("bytes_read_bytes", "tp8", 17.15e9, 0.001),  # 8 x 704.05 / 328.43
            ("tp_overhead_s", "tp8", 1.853e-3, 0.001),  # 1 / 328.43 - 1 / 104.9 / 8
            ("all_reduce_s", "tp8", 28.96e-6, 0.001),  # / (2 x 32 layers)
        ),
        not_beside=("aggregate throughput of many requests",),
    ),
    Report(
        "g02-batch-one-70b",
        (OSL, VERSION, WARMUP),
        findings=(("bytes_read", "tp2", "holds"), ("below_bound", "int8", "holds")),
        values=(
            ("bytes_read_bytes", "tp2", 139.0e9, 0.001),  # 2 x 1482 / 21.32
            ("all_reduce_s", "tp8", 26.7e-6, 0.002),  # (16.0 - 46.90 x 2 / 8) ms / (2 x 80)
        ),
    ),
    Report(
        "g03-pcie-tp8",
        (VERSION, WARMUP),
        findings=(
            ("e2e_identity", "whole", "holds"),  # 426.7 + 49 x 39.3 = 2352 ms
            ("below_bound", "first", "not_computable"),
        ),
    ),
    Report(
        "g03-pcie-tp8-assumed",
        (VERSION, WARMUP),
        findings=(("below_bound", "first", "holds"), ("below_bound", "other", "holds")),
        values=(
            ("mfu", "first", 154.9 / 426.7, 0.001),  # 2 x 72.3e9 x 1024 / (8 x 119.5 TFLOP/s) = 154.9 ms
            ("mbu", "other", 20.92 / 39.3, 0.001),  # 144.6 GB / (8 x 864 GB/s) = 20.92 ms
            ("overhead_s", "other", 18.4e-3, 0.002),
        ),
    ),
    Report(
        "g05-single-stream",
        (VERSION, WARMUP),
        findings=(("far_above_bound", "stream", "suspicious"),),  # 37 GB / (8 x 4 TB/s) = 1.16 ms of 33.3
        values=(("mbu", "stream", 0.035, 0.05),),
        not_beside=("aggregate throughput of many requests",),
    ),
    Report(
        "g06-405b-fp4",
        (VERSION, WARMUP),
        findings=(
            # 793.3 / 1024 x (5.24 + 1023 x 0.07558) = 63.96 of 64 clients
            ("littles_law", "rate", "holds"),
            ("below_bound", "tpot", "holds"),  # 405e9 x 0.5 B / 8 TB/s = 25 ms at least
        ),
    ),
    Report(
        "h01-same-prompts-again",
        (LOAD, OSL, VERSION, WARMUP),
        values=(("cached_share", "ttft", 0.9796, 0.001),),  # 1 - 1 / 49
    ),
    Report(
        "h02-rerun",
        (MODEL, HARDWARE, LOAD, OSL, VERSION, WARMUP),
        findings=(("below_bound", "again", "not_computable"),),
        values=(("cached_share", "again", 0.9849, 0.001),),  # 1 - 313 / 20,701
    ),
    Report(
        "h02-rerun-assumed",
        (MODEL, LOAD, OSL, VERSION, WARMUP),
        # 6.8 TFLOP/s / (2 x 4e9) = 850 tokens/s at most
        findings=(("below_bound", "again", "impossible"), ("below_bound", "cold", "holds")),
        values=(("mfu", "again", 20_701 / 850, 0.001), ("mfu", "cold", 313 / 850, 0.001)),
        wrong=("again",),
    ),
    Report(
        "h06-wasted-seconds",
        (MODEL, LOAD, OSL, VERSION, WARMUP),
        values=(
            ("parameters", "recompute", 193e9, 0.002),  # 3.2 s x 989 TFLOP/s / (2 x 8192)
            ("parameters_at_half_peak", "recompute", 96.6e9, 0.002),
        ),
    ),
    Report(
        "h06-wasted-seconds-assumed",
        (LOAD, OSL, VERSION, WARMUP),
        # 2 x 8e9 x 8192 / 989 TFLOP/s = 0.133 s, 24 times below
        findings=(("far_above_bound", "recompute", "suspicious"), ("below_bound", "recompute", "holds")),
        values=(("mfu", "recompute", 0.0417, 0.01),),
    ),
    Report(
        "h07-offline-online",
        (HARDWARE, LOAD, ISL, OSL, VERSION, WARMUP),
        values=(
            ("tokens_per_request", "offline-tokens", 481.2, 0.001),  # 7516 / 15.62, prompt and output
            ("input_tokens", "online-in", 245.9, 0.001),  # 3241 / 13.18
            ("output_tokens", "online-out", 194.7, 0.001),  # 2566 / 13.18: 441 in all, another mix
        ),
        not_beside=("MLPerf Offline", "MLPerf Server"),
    ),
    Report(
        "h11-other-engine",
        (LOAD, ISL, OSL, WARMUP),
        not_beside=("measured runs of vLLM 0.9.1",),
    ),
    Report(
        "h12-errors-that-cancel",
        (LOAD, ISL, OSL, VERSION, WARMUP),
        findings=(("errors_cancel", "sim-e2e", "suspicious"),),
        values=(
            ("prediction_error", "sim-ttft", -0.876, 0.001),  # 7.2 / 58.0 - 1
            ("prediction_error", "sim-tpot", 1.737, 0.001),  # 94.7 / 34.6 - 1
            ("prediction_error", "sim-e2e", -0.1476, 0.001),  # 68.7 / 80.6 - 1
            ("output_tokens", "engine-e2e", 654, 0.001),  # 1 + (80.6 - 58.0) / 0.0346
        ),
        not_beside=("measured runs of vLLM",),
    ),
)


@cache
def _answer(name: str) -> CheckAnswer:
    return ask_check([RECORDS / f"{name}.toml"])


def test_every_record_has_its_verdict() -> None:
    assert {report.name for report in REPORTS} == {path.stem for path in RECORDS.glob("*.toml")}


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_absent_conditions(report: Report) -> None:
    absent = {each.condition for each in _answer(report.name).absent if each.asked and not each.of}
    assert absent == set(report.absent)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_findings(report: Report) -> None:
    found = {(f.id, figure, f.grade) for f in _answer(report.name).findings for figure in f.of}
    assert set(report.findings) <= found


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_figures_called_wrong_are_these(report: Report) -> None:
    found = _answer(report.name).findings
    wrong = {figure for f in found if f.grade in (IMPOSSIBLE, INCONSISTENT) for figure in f.of}
    assert wrong == set(report.wrong)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_inversions(report: Report) -> None:
    for quantity, figure, value, tolerance in report.values:
        same = [i.value for i in _answer(report.name).inversions if i.quantity == quantity and figure in i.of]
        assert same, (quantity, figure)
        if value is None:
            assert None in same
        else:
            near = min((v for v in same if v is not None), key=lambda v: abs(v / value - 1))
            assert near == pytest.approx(value, rel=tolerance), (quantity, figure)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_what_it_does_not_compare_with(report: Report) -> None:
    answer = _answer(report.name)
    assert set(report.not_beside) <= {each.what for each in answer.not_comparable_with}
    assert not set(report.not_beside) & {each.what for each in answer.comparable_with}
