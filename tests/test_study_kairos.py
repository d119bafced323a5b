"""The study of Kairos holds against the published figures, and its page is what the script computes.

Published: arXiv 2607.02043, breakdown of P95 TTFT (section 3.1) and abstract, as reported; its text was not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import kairos
import kairos_deflection as deflection
import kairos_figures as figures
import kairos_leverage as leverage
import kairos_mechanisms as mechanisms
import kairos_runs as runs
import pytest
from cli_runner import run
from kairos_mechanisms import Seen
from kairos_runs import Knobs

from costmodel.formulas.waiting import md1_execution_share
from costmodel.serving.strategies import DISAGGREGATED, deflected

PAGE = Path(kairos.__file__).with_suffix(".md").read_text()

#: P95 in seconds: prefill execution, KV transfer, TTFT.
LPLD = (0.1914, 4.2054, 6.2788)
HPHD = (1.2228, 3.5846, 6.2920)
#: P95 queues of lpld before prefill and on the decode side.
LPLD_QUEUES = (0.0592, 0.0545)
#: Shares of P95 TTFT and SM utilisation, lowest and highest.
EXECUTION_SHARE, TRANSFER_SHARE = (0.02, 0.23), (0.22, 0.57)
SM_PREFILL, SM_DECODE = (0.75, 0.84), (0.07, 0.27)
#: A token of latents: 27 layers of 512 + 64 elements of 2 bytes (arXiv 2405.04434, appendix B).
TOKEN_BYTES = 27 * (512 + 64) * 2
#: At hphd and a load of 0.8: the value of each mechanism that the page has.
VALUES = {"bandwidth": 200e6, "serial_s": 0.4, "seats": 16}
FEW = 800


def seen(name: str, load: float, knobs: Knobs) -> Seen:
    """P95s of a short run."""
    run_ = runs.play(runs.loaded(name, load), knobs, count=FEW)
    return mechanisms.summed([runs.stages(record, knobs) for record in run_.finished])


@pytest.fixture(scope="module")
def at_hphd() -> dict[str, Seen]:
    """hphd at 0.8 under each mechanism."""
    return {name: seen("hphd", 0.8, runs.NONE._replace(**{name: value})) for name, value in VALUES.items()}


def rows(first: str) -> Iterator[list[str]]:
    """Rows of the page whose first cell begins so."""
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[0].startswith(first):
            yield cells


def test_the_script_has_the_published_figures() -> None:
    for name, said in (("lpld", LPLD), ("hphd", HPHD)):
        own = figures.PUBLISHED[name]
        assert (own.execution, own.transfer, own.ttft) == said
    assert figures.PUBLISHED["lpld"].queue == LPLD_QUEUES[0]
    assert (figures.EXECUTION_SHARE, figures.TRANSFER_SHARE) == (EXECUTION_SHARE, TRANSFER_SHARE)
    assert (figures.SM_PREFILL, figures.SM_DECODE) == (SM_PREFILL, SM_DECODE)
    assert LPLD[1] / LPLD[2] > TRANSFER_SHARE[1] + 0.05  # outside of the range claimed
    assert round(sum(LPLD[:2]) + sum(LPLD_QUEUES), 2) == 4.51 and "4.51 s of 6.28 s" in PAGE


def test_bytes_explain_next_to_nothing() -> None:
    path, ethernet = kairos.path_over("ib-hdr"), kairos.path_over("eth-25")
    assert path.payload_bytes(511) == 512 * TOKEN_BYTES
    assert path.wire_s(512) < 0.001 * LPLD[1]
    for execution, transfer, _ in (LPLD, HPHD):
        prompt = kairos.implied_prompt(execution)
        assert prompt * TOKEN_BYTES / 25e9 < path.wire_s(prompt) < 0.02 * transfer
        assert ethernet.wire_s(prompt) < 0.10 * transfer
    prompts, transfers = kairos.growth()
    assert 4 < prompts < 5.5 and transfers == pytest.approx(HPHD[1] / LPLD[1]) and transfers < 0.86


def test_three_mechanisms_give_the_published_shares_of_hphd(at_hphd: dict[str, Seen]) -> None:
    for name, own in at_hphd.items():
        assert own.execution / own.ttft == pytest.approx(HPHD[0] / HPHD[2], abs=0.08), name
        assert own.transfer / own.ttft == pytest.approx(HPHD[1] / HPHD[2], abs=0.20), name
        assert own.ttft == pytest.approx(HPHD[2], rel=0.30), name
        assert sum(own.around) == pytest.approx(own.ttft, rel=0.05), name
    around = {name: own.around for name, own in at_hphd.items()}
    for name, stage in (
        ("bandwidth", "wire"),
        ("serial_s", "link"),
        ("seats", "memory"),
    ):  # for unlike reasons
        assert getattr(around[name], stage) > 0.25 * at_hphd[name].ttft
        assert all(
            getattr(other, stage) < 0.1 * at_hphd[key].ttft for key, other in around.items() if key != name
        )


def test_no_mechanism_has_stages_that_add_up_to_as_little_as_those_of_lpld(at_hphd: dict[str, Seen]) -> None:
    published = (sum(LPLD[:2]) + sum(LPLD_QUEUES)) / LPLD[2]
    assert published < 0.75
    found = [*at_hphd.values(), seen("lpld", 0.3, Knobs(serial_s=0.25)), seen("lpld", 0.3, Knobs(seats=8))]
    assert min(own.adds_to for own in found) > published + 0.1


def test_the_page_says_how_far_off_the_mechanisms_are() -> None:
    for load, (execution, transfer) in ((0.8, (5, 18)), (0.5, (9, 28))):
        found = [
            cells for cells in rows(f"{load}: ") if cells[1].split()[0] in ("200", "0.4", "0.6", "16", "8")
        ]
        shares = [[float(cell.strip(" %")) for cell in cells[7:9]] for cells in found]
        off = [max(abs(own[i] - 100 * HPHD[i] / HPHD[2]) for own in shares) for i in (0, 1)]
        assert len(found) == 3 and [round(points) for points in off] == [execution, transfer]
    assert "by up to 5 points (execution, 19 %) and 18 (transfer, 57 %) at a load of 0.8" in PAGE
    assert "by up to 9 and 28 at 0.5" in PAGE


def test_one_bandwidth_does_not_serve_both_workloads() -> None:
    prompt = kairos.implied_prompt(LPLD[0])
    assert prompt * TOKEN_BYTES / VALUES["bandwidth"] < 0.25 * LPLD[1]
    assert (
        min(
            float(cell.split(";")[0]) for cell in next(rows("serial hand-over, whatever its bytes, 0.4"))[1:2]
        )
        < LPLD[1]
    )


def test_queueing_alone_gives_execution_shares_and_no_transfer_near_capacity() -> None:
    busy, own = (seen("hphd", load, runs.NONE) for load in (0.8, 0.95))
    assert busy.execution / busy.ttft > EXECUTION_SHARE[1] + 0.1  # not in any busy pool
    assert EXECUTION_SHARE[0] < own.execution / own.ttft < EXECUTION_SHARE[1] + 0.05
    assert own.transfer / own.ttft < 0.02
    queues = [seen("lpld", load, runs.NONE).queue for load in (0.2, 0.5)]
    assert queues[0] < LPLD_QUEUES[0] < queues[1]


def test_when_deflection_cuts_and_when_it_never_triggers() -> None:
    change, states = deflection.deflection, {state.label: state for state in deflection.DECODES}
    cut = change(states["slack: lphd"], 1.1, 0.0, count=FEW)
    assert -0.9 < cut.change < -0.6 and cut.tpot_without < cut.tpot_with < 0.05
    tight = change(states["no slack: hphd, TPOT SLO 25 ms"], 0.8, 0.0, count=FEW)
    assert tight.local < 0.02 and abs(tight.change) < 0.02
    assert change(deflection.HURT[2][0], 0.3, 0.0, count=FEW).change > 0.05


def test_deflection_relieves_hand_overs_that_queue_and_not_decode_admission() -> None:
    changes = []
    for knobs in (Knobs(serial_s=0.25), Knobs(seats=4)):
        workload = runs.loaded("lpld", 0.3)
        pair = [runs.play(workload, knobs, way, count=FEW).finished for way in (DISAGGREGATED, deflected())]
        changes.append(deflection.compared(pair[0], pair[1], knobs).change)
    assert changes[0] < -0.5 and changes[1] > -0.2


def test_no_utilisation_is_that_of_both_pools() -> None:
    prefill, decode = runs.play(runs.loaded("hphd", 0.8), count=FEW).pools
    assert SM_PREFILL[0] - 0.05 < prefill.busy_share < SM_PREFILL[1] + 0.05
    assert prefill.mfu < 0.5 and prefill.mbu < 0.2
    assert decode.mfu < SM_DECODE[0] and min(decode.busy_share, decode.mbu) > SM_DECODE[1]


def test_a_small_share_may_be_large_leverage() -> None:
    closed = md1_execution_share(0.8), leverage.closed_arc(0.8)
    own = leverage.leverage(leverage.one_server(0.8), topology="1P1D", count=3000)
    assert own.mean_share == pytest.approx(closed[0], rel=0.2)
    assert own.mean_elasticity == pytest.approx(closed[1], rel=0.3)
    busy = leverage.leverage(runs.loaded("hphd", 0.9), count=FEW)
    assert busy.p95_share < EXECUTION_SHARE[1] + 0.12 and busy.p95_elasticity > 2
    slow = leverage.leverage(runs.loaded("lpld", 0.3), Knobs(bandwidth=25e6), count=FEW)
    assert slow.p95_share < 0.05 and abs(slow.p95_elasticity) < 0.1


def test_what_the_page_says_of_leverage_is_what_its_table_has() -> None:
    cases = {cells[0]: cells for cells in rows("lpld, 0.3: ") if len(cells) == 3}
    cases |= {cells[0]: cells for cells in rows("hphd, 0.8: ") if len(cells) == 3}
    found = {label: [float(value) for value in cells[2].split(", ")] for label, cells in cases.items()}
    assert len(found) == 6
    for label, values in found.items():
        if label.startswith("lpld"):
            assert f"{min(values):.2f} to {max(values):.2f}" in PAGE
    hphd = [value for label, values in found.items() if label.startswith("hphd") for value in values]
    assert f"elasticities of {min(hphd):.2f} to {max(hphd):.2f}, all above the share" in PAGE


def test_the_page_is_what_the_script_prints() -> None:
    for part in (kairos.published_section, kairos.bytes_section):
        assert kairos.spaced(part()).strip() in PAGE
    assert PAGE.startswith(kairos.spaced(kairos.QUESTION).strip() + "\n\n## In short\n")
    for text in (kairos.PUBLISHED_WHERE, kairos.HOW, kairos.CLI):
        assert kairos.spaced(text).strip() in PAGE
    assert re.search(r"\d%", PAGE) is None
    assert "secondary" in PAGE and "not arXiv 2605.02329" in PAGE
    knobs = Knobs(seats=16)
    row = next(cells for cells in rows("0.8: decode admission"))
    assert row[1] == "16 seats an instance" and row[2:7] == list(
        mechanisms.own_p95(mechanisms.seen("hphd", 0.8, knobs))
    )


def test_the_quoted_copy_is_that_of_the_command() -> None:
    command = re.search(r"^\$ costmodel (transfer .*)$", PAGE, re.MULTILINE)
    assert command is not None
    printed = run(*command[1].split()).output.splitlines()
    for line in ("bytes on the wire      16.4 MB (16,422,912 B)", "time on a free link    1.29 ms"):
        assert line in printed and line in PAGE
