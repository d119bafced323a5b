"""Logs of requests beside replays of them, with step times that nobody fitted to the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..evaluate.logged import Times, replay_log
from ..inputs.stack import Stack
from ..inputs.traces import runs_of
from ..serving.band import edges, factors, used_kinds
from ..serving.deployment import Deployment
from ..serving.table import StepTable
from .compare import Pair
from .logs import Asked, Log, deployment_of, read_run, stack_of
from .predict import banded, of_stack
from .runs import END_TO_END, Setting, Whole
from .runs import Log as Logged
from .stacks import stack_for


def pairs_of_log(path: str | Path, asked: Asked | None = None, own: Stack | None = None) -> list[Pair]:
    """Return TTFT and TPOT of every request of a log beside those of its replay.

    ``asked``: what the log does not say of its engine. ``own``: a stack in place of the packaged ones.

    Raises InputError for a log that cannot be read, or that does not tell model and GPU.
    """
    return [pair for run in runs_of(path) for pair in _pairs(path, run, asked or Asked(), own)]


def _pairs(path: str | Path, run: Mapping[str, str], asked: Asked, own: Stack | None) -> list[Pair]:
    log = read_run(path, run)
    bare = deployment_of(run, asked, str(path))
    text = stack_of(run, asked)
    stack = own or stack_for(text, bare.prefill.gpu)
    deployment = deployment_of(run, asked, str(path), stack) if stack else bare
    kind = deployment.prefill
    setting = Setting(kind.model, kind.gpu, kind.tp)
    moved = [_replayed(log, deployment, factors) for factors in ({}, *_factors(deployment))]
    found = []
    for index, measured in enumerate(log.times):
        if measured is None:
            continue
        whole = Whole(END_TO_END, text, setting, Logged(len(log.requests)), {}, str(path), index)
        for measure, at in (("ttft", 0), ("tpot", 1)):
            times = [replay[index][at] for replay in moved]
            truth = measured[at]
            if truth is not None and all(times):
                band = banded([time or 0.0 for time in times], 0.0)
                found.append(Pair(whole, measure, truth, band, False, of_stack(kind.stack)))
    return found


def _factors(deployment: Deployment) -> list[dict[str, float]]:
    """Factors of step times, one kind of operator moved at a time, then the whole step."""
    kind = deployment.prefill
    return [factors(kind, name, edge) for name, edge in edges(kind, used_kinds(kind)).items()]


def _replayed(log: Log, deployment: Deployment, factors: dict[str, float]) -> list[Times]:
    times = StepTable(deployment.prefill, factors)
    return replay_log(deployment, times, log.requests, log.queued, len(log.requests)).times()
