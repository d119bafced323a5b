"""E2E by the definition of TPOT that a report states, and output tokens that times imply."""

from __future__ import annotations

import pytest
from audit_records import case_of, found, row

from costmodel.audit.checks.identities import check_e2e, check_littles_law
from costmodel.audit.checks.lengths import invert_lengths

TIMES = "output_tokens = 256\n" + row("ttft", 1, "s", statistic="mean") + row("e2e", 6, "s", statistic="mean")


@pytest.mark.parametrize(
    ("definition", "tpot", "grade"),
    [
        # 256 x 23.4 ms = 5.99 s; 1 s + 255 x 23.4 ms = 6.97 s; 1 s + 256 x 19.53 ms = 6 s; 1 s + 255 x 19.6 ms = 6 s
        ("end-to-end latency / output tokens", 23.4, "holds"),
        ("(E2E - TTFT) / (OSL - 1)", 23.4, "inconsistent"),
        ("(E2E - time to first token) / OSL", 19.53, "holds"),
        ("gaps between tokens", 19.6, "holds"),
        ("gaps between tokens", 23.4, "inconsistent"),
        ("E2E / OSL", 19.6, "inconsistent"),
        # not stated: one of the definitions fits, which is no contradiction
        (None, 23.4, "suspicious"),
        (None, 19.6, "holds"),
        (None, 40, "inconsistent"),
    ],
)
def test_e2e_by_the_stated_definition(definition: str | None, tpot: float, grade: str) -> None:
    more = {} if definition is None else {"tpot_definition": definition}
    (finding,) = found(check_e2e, TIMES + row("tpot", tpot, "ms", statistic="mean", **more))
    assert finding.grade == grade
    assert ("E2E / OSL fits" in finding.said) == (definition is None and tpot == 23.4)


def test_littles_law_with_a_stated_definition() -> None:
    # 2/s x 256 x 20 ms = 10.24 of 10 clients; with TTFT apart it would be 2/s x (5 s + 5.1 s) = 20.2
    text = 'tpot_definition = "E2E / OSL"\noutput_tokens = 256\nconcurrency = 10\n' + row(
        "request_throughput", 2, "req/s"
    )
    text += row("ttft", 5, "s", statistic="mean") + row("tpot", 20, "ms", statistic="mean")
    assert [f.grade for f in found(check_littles_law, text)] == ["holds"]


def test_output_tokens_that_times_imply_instead_of_the_stated() -> None:
    # 1 + (7.5 s - 200 ms) / 20 ms = 366, not 512
    text = row("ttft", 200, "ms", statistic="mean") + row("tpot", 20, "ms", statistic="mean")
    text += row("e2e", 7.5, "s", statistic="mean")
    (inversion,) = invert_lengths(case_of("output_tokens = 512\n" + text))
    assert inversion.value == pytest.approx(366) and "not 512" in inversion.said
    assert not list(invert_lengths(case_of("output_tokens = 370\n" + text)))
