"""Throughput that does not say which tokens it counts."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.bounds import check_bounds
from costmodel.audit.checks.identities import check_littles_law, check_rates
from costmodel.audit.checks.readings import check_readings

LENGTHS = "input_tokens = 8000\noutput_tokens = 1000\n"


@pytest.mark.parametrize(
    # 2 requests/s: 16,000 prompt tokens, 2,000 output tokens, 18,000 in all
    ("rate", "grade", "kind"),
    [
        (2000, "holds", "of output"),
        (16000, "holds", "of input"),
        (18000, "holds", "of total"),
        (6000, "suspicious", "neither"),
    ],
)
def test_the_reading_that_fits(rate: float, grade: str, kind: str) -> None:
    text = LENGTHS + row("request_throughput", 2, "req/s") + row("throughput", rate, "tok/s")
    (finding,) = found(check_readings, text)
    assert finding.grade == grade and kind in finding.said
    assert not found(check_rates, text)


def test_the_reading_by_clients_and_a_number_of_gpus() -> None:
    # one client: 0.21 s + 999 x 14.94 ms = 15.1 s for 1,000 output tokens are 66 a second, 33 a GPU of two
    text = 'hardware = "2x MI300X"\nconcurrency = 1\ninput_tokens = 1000\noutput_tokens = 1000\n'
    text += row("ttft", 210, "ms", statistic="mean") + row("tpot", 14.94, "ms", statistic="mean")
    for rate, unit in ((65, "tok/s"), (33, "tok/s/GPU")):
        (finding,) = found(check_readings, text + row("throughput", rate, unit))
        assert finding.grade == "holds" and "input or output" in finding.said
        assert not found(check_littles_law, text + row("throughput", rate, unit))


@pytest.mark.parametrize(("counts", "grade"), [("output tokens", "holds"), ("total", "inconsistent")])
def test_a_stated_count_is_held_to(counts: str, grade: str) -> None:
    text = LENGTHS + row("request_throughput", 2, "req/s")
    text += row("throughput", 2000, "tok/s", throughput_counts=counts)
    assert [f.grade for f in found(check_rates, text)] == [grade] and not found(check_readings, text)


def test_a_bound_that_no_reading_meets() -> None:
    # Llama-3.1-8B: 2 x 7.5e9 FLOP a token at least, 989e12 / 15e9 = 66,000 tokens/s of any kind
    text = 'model = "Llama-3.1-8B"\nhardware = "1x H100"\ndtype = "bf16"\n'
    for rate, grade in ((80000, "impossible"), (40000, "holds")):
        (finding,) = found(check_bounds, text + row("throughput", rate, "tok/s"))
        assert finding.grade == grade
