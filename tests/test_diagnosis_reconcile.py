"""Assumptions taken otherwise: a hidden limit is found by what it does to all figures, a hidden constant by each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logged_runs import run_of_log

from costmodel.audit.runs import Run
from costmodel.diagnosis.detail import Detail
from costmodel.diagnosis.diagnose import diagnose
from costmodel.diagnosis.predict import Basis, predict, prepare
from costmodel.diagnosis.reconcile import Reconciliation
from costmodel.inputs.traces import LoggedRequest
from costmodel.inputs.workload import Request
from costmodel.records import Stated
from costmodel.serving.scenario import Scenario

STATED: dict[str, Stated] = {"engine": "vLLM", "engine_version": "0.19.0", "tp": 1}
SCENARIO = Scenario("Qwen/Qwen3-8B", "h100-sxm")
REQUESTS = tuple(Request(i * 0.1, 300 + 100 * (i % 7), 0, 60 + 20 * (i % 5)) for i in range(120))


def basis(detail: Detail, **stated: Stated) -> Basis:
    run = run_of_log(detail, {})
    return prepare(
        Run(run.record, {**run.conditions, **STATED, **stated}, run.figures), SCENARIO, detail=detail
    )


def measured(delay_s: float = 0.0, **hidden: Stated) -> Detail:
    """What a run with hidden conditions measures, by its replay."""
    logged = tuple(LoggedRequest(request, 1.0, None, 2.0) for request in REQUESTS)
    replays = basis(Detail("made", logged, True, False), **hidden).replays
    assert replays is not None
    times = [(record.ttft + delay_s, record.e2e + delay_s) for record in replays.nominal.records]
    made = tuple(LoggedRequest(r, ttft, None, e2e) for r, (ttft, e2e) in zip(REQUESTS, times))
    return Detail("made", made, True, False)


def reconciled(detail: Detail, **stated: Stated) -> Reconciliation:
    made = basis(detail, **stated)
    found = diagnose(made, predict(made), reconciling=True).reconciliation
    assert found is not None
    return found


def test_a_hidden_sequence_limit_is_found() -> None:
    found = reconciled(measured(max_num_seqs=4))
    best = found.fitting[0]
    assert best.name == "max_num_seqs" and best.value == pytest.approx(4, abs=1)
    assert "sequence slots TTFT, TPOT and E2E all fit; the result does not state max_num_seqs" in found.said


def test_a_hidden_constant_is_found() -> None:
    found = reconciled(measured(delay_s=2.0))
    best = found.fitting[0]
    assert best.name == "front end" and best.value == pytest.approx(2.0, rel=0.02)


def test_what_is_stated_is_not_tried() -> None:
    hidden = measured(max_num_seqs=4)
    assert "max_num_seqs" not in reconciled(hidden, max_num_seqs=1024).tried


def test_none_reconciles_what_no_limit_does() -> None:
    """Each decode step takes ten times as long, and prompts do not."""
    fine = measured()
    slow = tuple(
        r._replace(e2e_s=(r.ttft_s or 0.0) + 10 * ((r.e2e_s or 0.0) - (r.ttft_s or 0.0)))
        for r in fine.requests
    )
    found = reconciled(replace(fine, requests=slow))
    assert not found.fitting and "no single one of" in found.said
