"""Offered against finished requests: runs that drain, overload that other figures contradict, more than was sent."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.load import check_offered


def offered(finished: float, rate: float = 10, **conditions: object) -> str:
    lines = [f"{key} = {value}" for key, value in {"arrival_rate": rate, **conditions}.items()]
    return "\n".join(lines) + "\n" + row("request_throughput", finished, "req/s", id="finished")


def mean(metric: str, seconds: float) -> str:
    return row(metric, seconds, "s", statistic="mean", id=metric)


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        # 200 requests are sent in 20 s, the last answer comes 6 s later: 200 / 26 = 7.69/s are all there is
        (offered(7.69, requests=200) + mean("e2e", 5.973), "holds"),
        (
            offered(7.69, requests=200, output_tokens=512) + mean("ttft", 0.045) + mean("tpot", 0.0116),
            "holds",
        ),
        # 300 at 4/s: 150 x (1 / 2.1 - 1 / 4) = 33.9 s each, as stated: at its limit, and no contradiction
        (offered(2.1, rate=4, requests=300) + mean("e2e", 33.8) + mean("ttft", 2.63), "suspicious"),
        # 36,000 at 10/s: 18,000 x (1 / 6.2 - 1 / 10) = 1,103 s each, not 6 s
        (offered(6.2, requests=36000) + mean("e2e", 6.0), "inconsistent"),
        # 4,096 at 3.2/s: 160 s each; 819 are left at the end, of which 640 are under way, 64 or all
        (offered(2.56, rate=3.2, requests=4096, concurrency=640) + mean("ttft", 24.77), "inconsistent"),
        (offered(2.56, rate=3.2, requests=4096, concurrency=640) + mean("ttft", 100), "suspicious"),
        (offered(2.56, rate=3.2, requests=4096) + mean("ttft", 24.77), "suspicious"),
        # how many were sent is not stated
        (offered(6.2) + mean("e2e", 6.0), "suspicious"),
        (offered(9.8), "holds"),
        (offered(10.4), "holds"),
    ],
)
def test_offered_against_finished(text: str, grade: str) -> None:
    (finding,) = found(check_offered, text)
    assert (finding.id, finding.grade) == ("overload", grade)


def test_a_contradicted_time_is_named() -> None:
    (finding,) = found(check_offered, offered(6.2, requests=36000) + mean("e2e", 6.0))
    assert finding.of == ("finished", "e2e") and "= 1103 s" in (finding.arithmetic or "")
    assert "not 6 s" in finding.said


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (offered(12), True),
        (offered(12, requests=100), False),  # 100 arrivals are 10 off in a deviation: 20 % are two of them
        (offered(12, requests=10000), True),
        ("arrival_rate = 8\n" + row("goodput", 12, "req/s"), True),
        ("arrival_rate = 8\n" + row("goodput", 7.9, "req/s"), False),
        # nominal lengths leave 15 % open: 11/s are inside, 12.5/s are not
        ("arrival_rate = 10\noutput_tokens = 100\n" + row("output_throughput", 1100, "tok/s"), False),
        ("arrival_rate = 10\noutput_tokens = 100\n" + row("output_throughput", 1250, "tok/s"), True),
    ],
)
def test_more_than_was_sent(text: str, more: bool) -> None:
    assert [f.grade for f in found(check_offered, text, "more_than_offered")] == ["inconsistent"] * more
