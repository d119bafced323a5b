"""Experts that a batch reads, MLPerf's two scenarios, and percentiles beside an attainment."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.experts import check_experts
from costmodel.audit.checks.objectives import check_attainment
from costmodel.audit.checks.scenarios import check_scenarios


@pytest.mark.parametrize(
    # DeepSeek-R1 on 8 H200: 64 tokens choose 256 x (1 - (1 - 8 / 256)^64) = 222 of 256 experts in each of 58 layers:
    # 58 x 222.4 x 3 x 7168 x 2048 x 1 B = 568 GB, and 17 GB of the rest, at 8 x 4.8 TB/s take 15.3 ms
    ("tpot", "batch", "grade"),
    [(8, 64, ["suspicious"]), (20, 64, ["holds"]), (8, 4, [])],
)
def test_experts_that_a_batch_reads(tpot: float, batch: int, grade: list[str]) -> None:
    text = f'model = "DeepSeek-R1"\nhardware = "8x H200"\nconcurrency = {batch}\n' + row("tpot", tpot, "ms")
    findings = found(check_experts, text)
    assert [f.grade for f in findings] == grade
    assert all("= 15.3 ms" in str(f.arithmetic) for f in findings)


def test_a_dense_model_has_no_experts() -> None:
    text = 'model = "Llama-3.1-8B"\nhardware = "H100"\nbatch = 64\n' + row("tpot", 8, "ms")
    assert not found(check_experts, text)


@pytest.mark.parametrize(("server", "grade"), [(36000, "suspicious"), (33000, "holds")])
def test_server_beside_offline(server: float, grade: str) -> None:
    text = 'hardware = "8x H200"\n' + row(
        "output_throughput", 34864, "tok/s", scenario="Offline", id="offline"
    )
    text += row("output_throughput", server, "tok/s", scenario="Server", slo="TTFT 2 s", id="server")
    (finding,) = found(check_scenarios, text)
    assert (finding.grade, finding.of) == (grade, ("server", "offline"))
    assert not found(
        check_scenarios, text.replace("scenario = 'Server'", "scenario = 'Server'\nhardware = '8x H100'")
    )


@pytest.mark.parametrize(
    # a P90 of 4.2 s leaves at most 90 % below 2 s; a P99 99 %
    ("statistic", "attained", "grade"),
    [("p90", 0.97, ["inconsistent"]), ("p90", 0.9, ["holds"]), ("p99", 0.97, ["holds"]), ("mean", 0.97, [])],
)
def test_a_percentile_above_its_limit(statistic: str, attained: float, grade: list[str]) -> None:
    text = 'slo_ttft = "2 s"\n' + row("slo_attainment", attained) + row("ttft", 4.2, "s", statistic=statistic)
    assert [f.grade for f in found(check_attainment, text)] == grade
    assert not found(check_attainment, text.replace("4.2", "1.9"))
