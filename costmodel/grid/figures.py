"""Figures of a strategy at many points: the accounts of the ledger, or a code that says why there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..inputs.workload import _NEAR_CAPACITY, Workload
from ..serving.deployment import Deployment
from .load import Load
from .strategies import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Codes of why a strategy has no means, and what they say.
REASONS = (
    "",
    "the shared pool is offered more than its capacity",
    "the prefill pool is offered more than its capacity",
    "the decode pool is offered more than its capacity",
    "the link pool is offered more than its capacity",
    "the load varies over time: means and the variation of gaps do not describe it",
    "a trace this short does not show whether its load varies over time",
    "a request fits no empty KV pool of the strategy",
)
_OVERLOADED = {"shared": 1, "prefill": 2, "decode": 3, "link": 4}
_VARIES, _SHORT, _TOO_LONG = 5, 6, 7
#: Accounts of the ledger, as the scalar closed form has them.
ACCOUNTS = ("queue", "admission", "load", "stretch", "link", "handover", "stalls", "gathering", "recompute")


class Figures(NamedTuple):
    """Figures of a strategy; NaN where ``reason`` is not 0. ``accounts``: a row an account of :data:`ACCOUNTS`."""

    utilisation: Array
    mean_delay_s: Array
    ttft_mean_s: Array
    tpot_mean_s: Array
    local_share: Array
    reason: Array
    accounts: Array

    def of(self, rows: Any) -> Figures:
        """Those of some points."""
        return Figures(*(column[..., rows] for column in self))

    def copied(self) -> Figures:
        """The same, to be written to."""
        return Figures(*(column.copy() for column in self))

    def put(self, rows: Array, other: Figures) -> None:
        """Write the figures of some points."""
        for column, values in zip(self, other):
            column[..., rows] = values


def joined(parts: list[Figures]) -> Figures:
    """Figures of one block after the other."""
    import numpy as np

    return Figures(*(np.concatenate(columns, axis=-1) for columns in zip(*parts)))


def figures(outcome: Outcome, load: Load, workload: Workload | None, fits: Array) -> Figures:
    """Return the figures of a strategy; ``fits``: whether every request fits its pools."""
    import numpy as np

    deployment, at = load.deployment, load.rows.mix
    stacked = np.stack(outcome.loads)
    worst = stacked.argmax(0)
    utilisation = stacked.max(0)
    reason = _reasons(outcome, worst, utilisation, workload)
    reason[~fits] = _TOO_LONG
    prefill, decode = load.mixes.ideal_prefill[at], load.mixes.ideal_decode[at]
    accounts = _accounts(outcome, deployment, load.gaps, prefill, decode)
    ledger = dict(zip(ACCOUNTS, accounts))
    hand = ledger["admission"] + ledger["link"] + ledger["handover"]
    late = hand if deployment.settings.first_token == "prefill" else 0.0
    ttft = deployment.request_latency + prefill + ledger["queue"] + ledger["stretch"] + hand - late
    tpot = outcome.station.gap + late / load.gaps
    accounts[:, reason > 0] = np.nan
    none = np.where(reason > 0, np.nan, 0.0)
    return Figures(
        utilisation,
        accounts.sum(0),
        ttft + none,
        np.where(load.gaps > 0, tpot, np.nan) + none,
        outcome.here,
        reason,
        accounts,
    )


def _reasons(outcome: Outcome, worst: Array, utilisation: Array, workload: Workload | None) -> Array:
    """Codes of why there are no means, as the scalar closed form decides it."""
    import numpy as np

    reason = np.zeros(len(worst), np.int8)
    if workload is not None and workload.bursty:
        busy = workload.arrivals.bursty | (workload.peak * utilisation > _NEAR_CAPACITY)
        reason[busy] = _SHORT if workload.peak == np.inf else _VARIES
    over = np.array([_OVERLOADED[role] for role in outcome.roles], np.int8)
    return np.where(utilisation >= 1, over[worst], reason)


def _accounts(outcome: Outcome, deployment: Deployment, gaps: Array, prefill: Array, decode: Array) -> Array:
    """The accounts of the ledger, a row each."""
    import numpy as np

    here, station, remote = outcome.here, outcome.station, outcome.remote
    away, none = 1 - here, np.zeros(len(here))
    again = station.step if deployment.settings.first_token == "recompute" else none
    boundary = np.minimum(1.0, station.batch) * station.step / 2
    return np.stack(
        [
            away * remote.wait + here * station.wait,
            remote.sent * boundary,
            none,
            away * remote.service + here * station.service - prefill,
            remote.sent * remote.link,
            remote.sent * (remote.copy + again),
            gaps * (station.gap - station.step),
            gaps * station.step - decode,
            none,
        ]
    )
