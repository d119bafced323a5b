"""Claims of shares against parts and wholes of the same report; stages beside the whole."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.checks.shares import check_shares

LPLD = (
    row("prefill_queue_time", 59.2, "ms", statistic="p95", workload="LPLD")
    + row("prefill_time", 191.4, "ms", statistic="p95", workload="LPLD")
    + row("kv_transfer_time", 4205.4, "ms", statistic="p95", workload="LPLD", id="copy")
    + row("decode_queue_time", 54.5, "ms", statistic="p95", workload="LPLD")
    + row("ttft", 6278.8, "ms", statistic="p95", workload="LPLD", id="whole")
)
HPHD = (
    row("prefill_time", 1222.8, "ms", statistic="p95", workload="HPHD")
    + row("kv_transfer_time", 3584.6, "ms", statistic="p95", workload="HPHD")
    + row("ttft", 6292.0, "ms", statistic="p95", workload="HPHD")
)
HPLD = row("prefill_time", 1340.2, "ms", statistic="p95", workload="HPLD") + row(
    "ttft", 5781.5, "ms", statistic="p95", workload="HPLD"
)


def test_a_share_outside_the_claim_is_inconsistent_and_one_inside_holds() -> None:
    # 4205.4 / 6278.8 = 0.66978; 3584.6 / 6292.0 = 0.56971
    outside, inside = found(
        check_shares, LPLD + HPHD + row("kv_transfer_share_of_p95_ttft", [22, 57], "%", id="claim")
    )
    assert (outside.grade, inside.grade) == ("inconsistent", "holds")
    assert outside.arithmetic == "4.2054 s / 6.2788 s = 67.0% outside 22 to 57 %"
    assert outside.of == ("claim", "copy", "whole")
    assert "57.0% inside" in str(inside.arithmetic)


@pytest.mark.parametrize(
    ("metric", "more"),
    [
        ("kv_transfer_share_of_p95_ttft", {}),
        ("kv_transfer_time_share_of_ttft", {"statistic": "p95"}),
        ("kv_transfer_share_of_ttft", {"statistic": "max across workloads, of P95 TTFT"}),
    ],
)
def test_the_statistic_may_stand_in_the_metric_or_beside_it(metric: str, more: dict[str, object]) -> None:
    (finding,) = found(check_shares, LPLD + row(metric, 0.57, **more))
    assert finding.grade == "inconsistent" and "67.0%" in finding.said


def test_a_claim_is_as_wide_as_its_rounding() -> None:
    # 1340.2 / 5781.5 = 23.18 %, which is 23 % rounded, and not 22 %
    for high, grade in ((23, "holds"), (22, "inconsistent")):
        (finding,) = found(check_shares, HPLD + row("prefill_execution_share_of_p95_ttft", [2, high], "%"))
        assert finding.grade == grade


def test_queues_and_transfer_are_summed() -> None:
    # (59.2 + 54.5 + 4205.4) / 6278.8 = 4319.1 / 6278.8 = 68.8 %
    claim = row("queue_and_transfer_share_of_p95_ttft", [0.77, 0.98])
    (finding,) = found(check_shares, LPLD + claim)
    assert finding.grade == "inconsistent" and "68.8%" in str(finding.arithmetic)


def test_a_part_that_no_run_states_cannot_be_computed() -> None:
    (finding,) = found(check_shares, HPLD + row("kv_transfer_share_of_p95_ttft", [22, 57], "%"))
    assert finding.grade == "not_computable" and "no run states kv_transfer_time" in str(finding.reason)
    # one of three parts is there, and less than claimed: the others may be the rest
    (finding,) = found(check_shares, HPHD + row("queue_and_transfer_share_of_p95_ttft", [0.77, 0.98]))
    assert finding.grade == "not_computable"
    assert "prefill_queue_time and decode_queue_time" in str(finding.reason)


def test_shares_of_means_do_not_take_percentiles() -> None:
    (finding,) = found(check_shares, LPLD + row("kv_transfer_share_of_ttft", [22, 57], "%"))
    assert finding.grade == "not_computable"


def test_a_claim_of_one_workload_is_about_that_one() -> None:
    claim = row("kv_transfer_share_of_p95_ttft", 57, "%", workload="HPHD")
    (finding,) = found(check_shares, LPLD + HPHD + claim)
    assert finding.grade == "holds" and "workload HPHD" in finding.said
