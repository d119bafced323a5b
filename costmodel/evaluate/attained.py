"""Share of requests that meet their SLOs, by closed form, and why it may not be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..inputs.workload import Request, Workload
from .closed import Means
from .line import Line, late
from .pace import Tpot

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Shares(NamedTuple):
    """Shares of requests that meet both SLOs, that of TTFT, and that of TPOT."""

    both: float
    ttft: float
    tpot: float


NONE = Shares(0.0, 0.0, 0.0)


def attained(means: Means, requests: Sequence[Request], workload: Workload, constant: float) -> Shares:
    """Return the shares that meet the SLOs of a stable strategy; ``constant``: seconds of TTFT besides steps.

    A request meets both with the product of its chances: how long its prompt waits says nothing of how many decode
    beside it later, once lengths are known.
    """
    import numpy as np

    slo, count = workload.slo, len(requests)
    if means.decodes is None or not means.lines:
        return NONE
    slow = np.zeros(count)
    if slo.tpot_s is not None:
        slow = Tpot(means.decodes, requests, means.late).beyond(slo.tpot_s)
    both = ttft = tpot = 0.0
    for line in means.lines:
        weights = np.asarray(line.weights) * line.share / sum(line.weights)
        missed = _missed(line, slo.ttft_s, constant)
        both += float(weights @ ((1 - missed) * (1 - slow)))
        ttft += float(weights @ (1 - missed))
        tpot += float(weights @ (1 - slow))
    return Shares(min(1.0, both), min(1.0, ttft), min(1.0, tpot))


def few(means: Means, workload: Workload) -> str | None:
    """Say that so few decode at once that TPOT takes few values; None where enough do, or no SLO asks for it."""
    if workload.slo.tpot_s is None or means.batch is None or means.batch >= 1:
        return None
    return f"{means.batch:.1f} requests decode at once on an instance: TPOT takes few values, which no mean tells"


def prompt(means: Means, workload: Workload, constant: float) -> float:
    """Return the share that meets the SLO of TTFT alone."""
    import numpy as np

    found = 0.0
    for line in means.lines:
        weights = np.asarray(line.weights) * line.share / sum(line.weights)
        found += float(weights @ (1 - _missed(line, workload.slo.ttft_s, constant)))
    return min(1.0, found)


def paced(means: Means, requests: Sequence[Request], workload: Workload) -> float:
    """Return the share that meets the SLO of TPOT alone, without waits."""
    if workload.slo.tpot_s is None:
        return 1.0
    if means.decodes is None:
        return 0.0
    slow = Tpot(means.decodes, requests, means.late).beyond(workload.slo.tpot_s)
    return 1 - float(slow.mean())


def _missed(line: Line, seconds: float | None, constant: float) -> NDArray[Any]:
    import numpy as np

    return np.zeros(len(line.weights)) if seconds is None else late(line, seconds - constant)
