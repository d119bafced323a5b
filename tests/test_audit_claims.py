"""Claims about populations against those that were counted."""

from __future__ import annotations

import pytest
from audit_records import found, row

from costmodel.audit.case import Case
from costmodel.audit.checks.claims import check_populations
from costmodel.records.packaged import load_records

CLAIM = "offline_below_server_share"
# The results that MLCommons publishes, counted: v4.1 0 of 36, 0 of 38, 0 of 15; v5.1 3 of 45, 3 of 45, 2 of 24 (8.3 %),
# 0 of 23, 0 of 11, 0 of 8.


def test_a_share_that_no_population_has() -> None:
    (finding,) = found(check_populations, row(CLAIM, 5 / 9, "fraction", note="5 of 9 systems", id="claim"))
    assert (finding.id, finding.grade, finding.of) == ("counted_population", "inconsistent", ("claim",))
    for counts in ("0 of 36", "0 of 38", "0 of 15", "3 of 45", "2 of 24", "0 of 23", "0 of 11", "0 of 8"):
        assert counts in finding.said
    assert "5 of 9 systems is not reproduced" in finding.said and "none has 9 of them" in finding.said


@pytest.mark.parametrize(
    ("value", "more", "grade"),
    [
        (7, {}, "holds"),  # 3 of 45 is 6.7 %
        (9, {}, "inconsistent"),  # above 2 of 24
        (7, {"workload": "llama2-70b-99", "scenario": "v5.1"}, "holds"),
        (7, {"workload": "llama2-70b-99", "scenario": "v4.1"}, "inconsistent"),
        (7, {"workload": "llama2-70b-99"}, "holds"),
        (7, {"workload": "llama2-70b"}, "holds"),  # either accuracy target
        (7, {"workload": "mixtral-8x7b"}, "inconsistent"),
        (7, {"workload": "bursty", "scenario": "disaggregated"}, "holds"),  # says nothing of a population
        (7, {"scenario": "MLPerf v6.0"}, "not_computable"),
    ],
)
def test_a_claim_is_about_the_population_that_it_states(
    value: float, more: dict[str, str], grade: str
) -> None:
    (finding,) = found(check_populations, row(CLAIM, value, "%", **more))
    assert finding.grade == grade


def test_a_population_is_not_compared_with_itself() -> None:
    (record,) = load_records("mlperf")
    assert not [*check_populations(Case(record))]
    assert not found(check_populations, row("slo_attainment", 5 / 9, "fraction", note="5 of 9 systems"))


def test_counts_are_the_shares_that_stand_beside_them() -> None:
    (record,) = load_records("mlperf")
    counted = [figure for figure in record.figures if figure.metric == CLAIM]
    assert len(counted) == 9
    for figure in counted:
        hits, size = str(figure.note).split(" systems")[0].split(" of ")
        assert figure.value == pytest.approx(int(hits) / int(size))


def test_offline_is_above_server_in_the_packaged_runs() -> None:
    (record,) = load_records("mlperf")
    rates = {figure.name: figure.value for figure in record.figures if figure.metric == "output_throughput"}
    servers = [name for name in rates if name.endswith("-server")]
    assert len(servers) == 10 and all(
        rates[name] < rates[name.replace("server", "offline")] for name in servers
    )
