"""What a diagnosis says: accounts of a figure, how sure it is, what it cannot be, and what would move it."""

from __future__ import annotations

from dataclasses import dataclass

from .levers import Lever
from .reconcile import Reconciliation

#: How sure a diagnosis is, most first; the last: the ledger cannot carry it.
SURE, LIKELY, UNSURE, NOT_CARRIED = "sure", "likely", "unsure", "not carried"
MEASURED, LEDGER = "measured stages", "predicted ledger"


@dataclass(frozen=True)
class Cause:
    """Why requests waited, by the replay: what held for the largest ``share`` of an account.

    ``name``: slots, memory, prompts or step under way; ``shares`` of all of them. ``steady``: it is the same at both
    edges of the band; None where steps have none.
    """

    name: str
    share: float
    said: str
    shares: dict[str, float]
    steady: bool | None


@dataclass(frozen=True)
class Account:
    """An account of a figure: seconds (of TPOT: a token), its share, and its seconds at both edges of the band.

    ``cause``: of a wait, where the replay has it.
    """

    name: str
    meaning: str
    seconds: float
    share: float
    low_s: float | None = None
    high_s: float | None = None
    cause: Cause | None = None


@dataclass(frozen=True)
class RuledOut:
    """What is too short to be the part that is not predicted: its seconds, and how many times as long it would be."""

    what: str
    seconds: float
    times: float
    said: str


@dataclass(frozen=True)
class Diagnosed:
    """One figure: which account of the ledger hurts it, and what would move it.

    ``unexplained_s``: measured less predicted, signed; ``unexplained_share`` of the measured. ``basis``: measured
    stages, or the predicted ledger. ``account``: the one that leads beyond what a request takes alone, with its seconds
    and share of the figure; None with ``account_reason``. ``cause``: of a wait that leads. ``grade`` and ``sureness``:
    how sure, and by which figures. ``levers``: what each moved setting does to the prediction, most helpful first;
    none where the prediction does not carry the figure. ``setting``: the best of settings and strategies that worsens
    no other figure by more; None with ``setting_reason``. ``ttft_from``: as of :class:`..predict.Row`.
    """

    measure: str
    statistic: str | None
    measured_s: float
    predicted_s: float | None
    low_s: float | None
    high_s: float | None
    inside: bool | None
    unexplained_s: float | None
    unexplained_share: float | None
    basis: str | None
    accounts: tuple[Account, ...]
    account: str | None
    account_s: float | None
    account_share: float | None
    account_reason: str | None
    cause: Cause | None
    grade: str | None
    sureness: str | None
    ruled_out: tuple[RuledOut, ...]
    levers: tuple[Lever, ...]
    setting: Lever | None
    setting_reason: str | None
    said: str
    ttft_from: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """Figures of a run that were measured, each with what hurts it; none, with the ``reason``.

    ``reconciliation``: where the prediction does not carry them, which assumption taken otherwise does.
    """

    figures: tuple[Diagnosed, ...]
    reason: str | None = None
    reconciliation: Reconciliation | None = None
