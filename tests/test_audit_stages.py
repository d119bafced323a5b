"""Stages beside the whole: parts above it, means that do not add up, percentiles that were added."""

from __future__ import annotations

import pytest
from audit_records import case_of, found, row
from test_audit_shares import HPHD, LPLD

from costmodel.audit.checks.stages import check_stages, invert_handover


def stages(statistic: str, *, queue: float, prefill: float, copy: float, wait: float, ttft: float) -> str:
    """A breakdown of TTFT in ms."""
    values = {"prefill_queue_time": queue, "prefill_time": prefill, "kv_transfer_time": copy, "decode_queue_time": wait,
              "ttft": ttft}  # fmt: skip
    return "".join(row(metric, value, "ms", statistic=statistic) for metric, value in values.items())


def test_percentiles_of_stages_that_leave_time_unexplained() -> None:
    # 59.2 + 191.4 + 4205.4 + 54.5 = 4510.5; 6278.8 - 4510.5 = 1768.3; 4510.5 / 6278.8 = 72 %
    (finding,) = found(check_stages, LPLD)
    assert (finding.id, finding.grade) == ("percentiles_added", "inconsistent")
    assert finding.arithmetic == "59.2 ms + 191.4 ms + 4.2054 s + 54.5 ms = 4.5105 s against 6.2788 s"
    assert "72%" in finding.said and "1.7683 s are explained by no stage" in finding.said


def test_percentiles_that_add_up_were_added() -> None:
    # 10.1 + 20.2 + 30.3 + 39.4 = 100, within 0.5 % of 100.4 and not of 101.1, each known to 0.05
    for ttft, grade in ((100.4, "suspicious"), (101.1, "inconsistent"), (95.1, "inconsistent")):
        (finding,) = found(
            check_stages, stages("p99", queue=10.1, prefill=20.2, copy=30.3, wait=39.4, ttft=ttft)
        )
        assert (finding.id, finding.grade) == ("percentiles_added", grade)
    assert "4.9 ms more than the whole" in finding.said


def test_stages_that_are_not_given_may_be_the_rest() -> None:
    # 6292.0 - 1222.8 - 3584.6 = 1484.6
    (finding,) = found(check_stages, HPHD)
    assert finding.grade == "not_computable"
    assert "1.4846 s may be prefill_queue_time and decode_queue_time" in str(finding.reason)


@pytest.mark.parametrize("statistic", ["mean", "p95"])
def test_a_part_above_the_whole_is_impossible(statistic: str) -> None:
    text = row("prefill_time", 501, "ms", statistic=statistic) + row("ttft", 499, "ms", statistic=statistic)
    (finding,) = found(check_stages, text)
    assert (finding.id, finding.grade, finding.arithmetic) == ("stages", "impossible", "501 ms > 499 ms")
    assert not found(check_stages, text.replace("501", "499.4"))  # the whole may be 499.5, rounded
    assert not found(check_stages, text.replace(f"'{statistic}'", "'p50'", 1))


def test_a_copy_after_the_first_token_is_no_part_of_ttft() -> None:
    text = row("kv_transfer_time", 900, "ms") + row("ttft", 500, "ms")
    assert found(check_stages, text)
    assert not found(check_stages, 'first_token = "prefill"\n' + text)
    wait = row("prefill_queue_time", 900, "ms") + row("ttft", 500, "ms")
    assert found(check_stages, wait)
    assert not found(check_stages, 'ttft_from = "scheduling"\n' + wait)


@pytest.mark.parametrize(
    ("ttft", "grade"),
    [(99.1, "impossible"), (100.0, "holds"), (110.0, "holds"), (125.0, "suspicious")],  # 1.01, 1, 0.91, 0.8
)
def test_means_of_stages_add_up(ttft: float, grade: str) -> None:
    (finding,) = found(
        check_stages, stages("mean", queue=10.1, prefill=20.2, copy=30.3, wait=39.4, ttft=ttft)
    )
    assert (finding.id, finding.grade) == ("stages", grade)
    if grade == "suspicious":
        assert finding.said == "25 ms of mean ttft, 20%, are in no stage"


def test_what_of_a_hand_over_is_not_the_copy() -> None:
    # 197 - 29 = 168 ms, 29 / 197 = 14.7 %
    text = row("handover_time", 197, "ms", statistic="p50") + row("kv_transfer_time", 29, "ms")
    (inversion,) = invert_handover(case_of(text))
    assert inversion.quantity == "orchestration_s" and inversion.value == pytest.approx(0.168)
    assert "14.7%" in inversion.said
    (above,) = found(check_stages, row("handover_time", 20, "ms") + row("kv_transfer_time", 29, "ms"))
    assert above.grade == "impossible"


def test_one_pool_has_no_hand_over() -> None:
    # 10.1 + 20.2 = 30.3 ms of 50.3: 20 ms, 40 %, are in neither
    text = row("prefill_queue_time", 10.1, "ms") + row("prefill_time", 20.2, "ms") + row("ttft", 50.3, "ms")
    (finding,) = found(check_stages, 'strategy = "colocated"\n' + text)
    assert finding.grade == "suspicious" and "20 ms of mean ttft, 40%" in finding.said
    (finding,) = found(check_stages, text)
    assert finding.grade == "holds" and "kv_transfer_time, decode_queue_time are not given" in finding.said


def test_ttft_and_the_rest_are_the_whole_in_means() -> None:
    text = row("ttft", 300.5, "ms", statistic="mean") + row("decode_time", 900.5, "ms", statistic="mean")
    for e2e, grade in ((1201.1, "holds"), (1150.1, "impossible"), (1500.1, "suspicious")):
        (finding,) = found(check_stages, text + row("e2e", e2e, "ms", statistic="mean"))
        assert finding.grade == grade
    p99 = (text + row("e2e", 1500.1, "ms", statistic="mean")).replace("'mean'", "'p99'")
    assert not found(check_stages, p99)
