"""What hurts a run: the account that leads, how sure that is, what is not in the model, and what would move it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from ..units import format_si
from .accounts import ALONE, MEANING, accounts_of, leading
from .answer import (
    LEDGER,
    LIKELY,
    MEASURED,
    NOT_CARRIED,
    SURE,
    UNSURE,
    Account,
    Cause,
    Diagnosed,
    Diagnosis,
    RuledOut,
)
from .front_end import from_the_client
from .levers import HELPS, Lever, Levers, best
from .moves import SETTING, STRATEGY
from .predict import LOADED, Basis, Prediction, Row
from .reconcile import reconcile
from .waiting import Waiting

#: Figures that are diagnosed, and which of their statistics, as far as they were measured.
FIGURES, STATISTICS = ("ttft", "tpot", "e2e"), ("mean", None, "p50", "p95", "p90", "p99")
#: Width of the interval of a measured figure, over itself, above which its run is too short to be sure.
_WIDE = 0.5
#: An account below this share of a figure does not hurt it.
_SMALL = 0.05
#: Factor up to which a measured wait is the one that was replayed.
_ALIKE = 2.0
#: Part of what is not predicted that something has to reach to be a suspect.
_SUSPECT = 0.5


def diagnose(
    basis: Basis, prediction: Prediction, statistic: str | None = None, *, reconciling: bool = False
) -> Diagnosis:
    """Return what hurts TTFT, TPOT and E2E of a run.

    ``statistic``: the one to look at, where it was measured. ``reconciling``: try which assumption, taken otherwise,
    brings all three to what was measured; it takes some twenty replays more.
    """
    replays = None if basis.unanswered else basis.replays
    rows = [row for measure in FIGURES if (row := _chosen(prediction, measure, statistic))]
    if not rows:
        return Diagnosis((), "neither TTFT, TPOT nor E2E was measured")
    if replays is None:
        return Diagnosis((), basis.unanswered)
    levers, waiting = Levers(replays), Waiting(replays)
    made = [_Figure(basis, prediction, row, levers, waiting).diagnosed for row in rows]
    missed = reconciling and any(each.grade == NOT_CARRIED for each in made)
    reconciled = reconcile(replays, prediction.rows, basis.detail) if missed else None
    return Diagnosis((*_from_the_client(prediction, made), *made), reconciliation=reconciled)


def _from_the_client(prediction: Prediction, made: Sequence[Diagnosed]) -> Iterator[Diagnosed]:
    """TTFT as the client counts it, where the engine has counted it, too."""
    for queued in made:
        for row in prediction.rows:
            same = (row.measure, row.statistic) == ("ttft", queued.statistic) and queued.measure == "ttft"
            if same and row.ttft_from and not _by_engine(row) and queued.ttft_from:
                yield from_the_client(row, queued)


def _by_engine(row: Row) -> bool:
    return row.ttft_from is None or "queue" in row.ttft_from


def _chosen(prediction: Prediction, measure: str, statistic: str | None) -> Row | None:
    """The statistic to look at; of times that both count, those of the engine."""
    rows = [row for row in prediction.rows if row.measure == measure]
    found = {row.statistic: row for row in sorted(rows, key=_by_engine)}
    wanted = (statistic, *STATISTICS) if statistic else STATISTICS
    return next((found[word] for word in wanted if word in found), None)


class _Figure:
    """One figure under diagnosis."""

    def __init__(
        self, basis: Basis, prediction: Prediction, row: Row, levers: Levers, waiting: Waiting
    ) -> None:
        self.basis, self.prediction, self.row = basis, prediction, row
        self.replays, self._levers, self._waiting = levers.replays, levers, waiting
        self.word = row.statistic or "mean"

    @property
    def diagnosed(self) -> Diagnosed:
        """All that there is to say of the figure."""
        row = self.row
        name, seconds = self.lead
        grade, sureness = self.graded
        levers, cause = self.levers, self.cause(name) if name else None
        setting = best(levers, cause.name if cause else None) if self._in_ledger else None
        return Diagnosed(
            measure=row.measure,
            statistic=row.statistic,
            measured_s=row.measured_s,
            predicted_s=row.predicted_s,
            low_s=row.low_s,
            high_s=row.high_s,
            inside=row.inside,
            unexplained_s=row.gap_s,
            unexplained_share=row.gap_share,
            basis=self.source,
            accounts=self.accounts,
            account=name,
            account_s=seconds,
            account_share=None if seconds is None or not self.whole else seconds / self.whole,
            account_reason=None if name else self.no_account,
            cause=cause,
            grade=grade,
            sureness=sureness,
            ruled_out=self.ruled_out,
            levers=levers,
            setting=setting,
            setting_reason=None if setting else self._no_setting(levers),
            said=self._said(name, seconds),
            ttft_from=row.ttft_from,
        )

    # --- accounts ------------------------------------------------------------------------------------

    @property
    def gap(self) -> float | None:
        """Measured less predicted, seconds."""
        return self.row.gap_s

    @property
    def loaded(self) -> bool:
        """Whether the figure is predicted by a replay, which has a ledger."""
        return self.row.form == LOADED

    @cached_property
    def predicted(self) -> dict[str, float]:
        """Accounts of the figure in the replay."""
        if not self.loaded:
            return {}
        first = self.basis.ran.deployment.settings.first_token if self.basis.ran else "decode"
        return accounts_of(self.replays.nominal, self.row.measure, self.word, first)

    @cached_property
    def stages(self) -> dict[str, float]:
        """Accounts of TTFT from stages that were measured with the same statistic; nothing without a measured queue.

        Percentiles of stages do not add up to that of TTFT: only means are taken apart.
        """
        if self.row.measure != "ttft" or self.word != "mean":
            return {}
        stated = {
            r.measure: r.measured_s for r in self.prediction.stages if r.statistic == self.row.statistic
        }
        queue, prefill = stated.get("prefill_queue_time"), stated.get("prefill_time")
        if queue is None:
            return {}
        found = {"queue_s": queue}
        alone = self.predicted.get("prefill_s")
        if prefill is not None:
            found |= (
                {"prefill_s": prefill}
                if alone is None
                else {"prefill_s": alone, "stretch_s": prefill - alone}
            )
        if "kv_transfer_time" in stated:
            found["transfer_s"] = stated["kv_transfer_time"]
        return {**found, "rest_s": self.row.measured_s - sum(found.values())}

    @property
    def source(self) -> str | None:
        """Where the accounts come from."""
        return MEASURED if self.stages else LEDGER if self.predicted else None

    @property
    def whole(self) -> float:
        """What the accounts add up to, seconds."""
        return self.row.measured_s if self.stages else self.row.predicted_s or 0.0

    @cached_property
    def edges(self) -> list[dict[str, float]]:
        """Accounts at the fast and at the slow edge of the band of steps; none where steps have no band.

        Fewer requests are replayed there: each account is that of all of them, moved as it moves for those.
        """
        if not self.predicted or self.replays.fitted:
            return []
        factor, measure = self.replays.step_spread(self.row.measure), self.row.measure
        first = self.replays.ran.deployment.settings.first_token
        base = accounts_of(self.replays.base, measure, self.word, first)
        played = [self.replays.all_steps(1 / factor), self.replays.all_steps(factor)]
        moved = [accounts_of(each, measure, self.word, first) for each in played]
        scale = {name: self.predicted[name] / value if value > 0 else 1.0 for name, value in base.items()}
        return [{name: value * scale.get(name, 1.0) for name, value in each.items()} for each in moved]

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The accounts, largest first."""
        own = self.stages or self.predicted
        ends = self.edges if not self.stages else []
        return tuple(
            Account(
                name,
                MEANING[name],
                value,
                value / self.whole if self.whole else 0.0,
                min(e.get(name, 0.0) for e in ends) if ends else None,
                max(e.get(name, 0.0) for e in ends) if ends else None,
                self.cause(name),
            )
            for name, value in sorted(own.items(), key=lambda each: -each[1])
        )

    @cached_property
    def lead(self) -> tuple[str, float] | tuple[None, None]:
        """The account that hurts most, where one does and the ledger can carry it."""
        return _lead(self.stages or self.predicted) if self._carried else (None, None)

    def cause(self, account: str) -> Cause | None:
        """Why requests wait, by the replay; None where what was measured of the wait is not what it replays."""
        own = self.stages or self.predicted
        measured, replayed = own.get(account, 0.0), self.predicted.get(account, 0.0)
        if not measured / _ALIKE <= replayed <= _ALIKE * measured:
            return None
        return self._waiting.of(account, self.row.measure, self.word)

    @property
    def _carried(self) -> bool:
        """Whether the accounts can name what leads: they were measured, or the ledger holds."""
        return bool(self.stages) or self._in_ledger

    @property
    def _in_ledger(self) -> bool:
        """Whether what leads the ledger would lead wherever the part that is not predicted belongs."""
        if self.row.inside is not False:
            return True
        ranked = leading(self.predicted)
        second = ranked[1][1] if len(ranked) > 1 else 0.0
        return bool(ranked) and ranked[0][1] - second > abs(self.gap or 0.0)

    @property
    def no_account(self) -> str:
        """Why no account leads."""
        if not (self.stages or self.predicted):
            return self.row.reason or "a single step has no ledger"
        if not self._carried:
            return f"the ledger cannot carry it: {self._outside()}"
        alone = sum(v for k, v in (self.stages or self.predicted).items() if k in ALONE)
        return f"{alone / self.whole:.0%} of it is what a request takes alone: no account hurts it"

    # --- how sure ------------------------------------------------------------------------------------

    @cached_property
    def graded(self) -> tuple[str, str] | tuple[None, None]:
        """How sure the diagnosis is, and why; of a wait, also of its cause."""
        grade, why = self._graded
        cause = self.cause(self.lead[0]) if self.lead[0] else None
        if grade is None or why is None or cause is None or cause.steady is not False:
            return grade, why  # type: ignore[return-value]
        return (
            LIKELY if grade == SURE else grade,
            f"{why}; at an edge of the band it waits for something else",
        )

    @property
    def _graded(self) -> tuple[str, str] | tuple[None, None]:
        row = self.row
        if not (self.stages or self.predicted):
            return None, None
        if self.stages:
            ranked = leading(self.stages)
            clear = len(ranked) < 2 or ranked[0][1] > 2 * ranked[1][1]
            return (SURE if clear else LIKELY), f"the stages were measured{self._noise_told()}"
        if not self._carried:
            return NOT_CARRIED, self._outside()
        if row.inside is None:
            return UNSURE, f"the prediction has no band: {row.reason}"
        if not row.inside:
            return LIKELY, f"{self._outside()}; what leads would lead wherever that belongs"
        told = f"measured {_s(row.measured_s)} lies within {_s(row.low_s)} to {_s(row.high_s)}"
        own = _lead(self.predicted)[0]
        other = [name for each in self.edges if (name := _lead(each)[0]) != own]
        if other:
            what = MEANING[other[0]] if other[0] else "no account"
            return UNSURE, f"{told}, but at an edge of the band {what} leads"
        steady = f"{told}, and {'the same account leads' if own else 'none leads'} at both edges of the band"
        if self._width is None or self._width > _WIDE:
            return LIKELY, f"{steady}{self._noise_told()}"
        return SURE, f"{steady}{self._noise_told()}"

    @property
    def _width(self) -> float | None:
        low, high = self.row.measured_low_s, self.row.measured_high_s
        return (
            None
            if low is None or high is None or not self.row.measured_s
            else (high - low) / self.row.measured_s
        )

    def _noise_told(self) -> str:
        if self._width is None:
            return f"; {self.row.measured_reason}" if self.row.measured_reason else ""
        return f"; another run would move the figure by some {self._width / 2:.0%} either way"

    def _outside(self) -> str:
        row, gap = self.row, self.gap or 0.0
        told = f"predicted {_s(row.predicted_s)} ({_s(row.low_s)} to {_s(row.high_s)}), measured {_s(row.measured_s)}"
        if gap >= 0:
            front = ""
            if row.inside_with_front_end:
                front = (
                    f"; up to {_s(row.front_end_s)} may be the engine's front end, of which no stack is known"
                )
            return f"{told}: {gap / row.measured_s:.0%} of it is not in the model{front}"
        return f"{told}: less than predicted, so that the run did less than is stated of it, or did it faster"

    # --- what it cannot be ---------------------------------------------------------------------------

    @property
    def ruled_out(self) -> tuple[RuledOut, ...]:
        """What takes too little to be the part that is not predicted."""
        if self.row.inside is not False or self.gap is None or self.gap <= 0:
            return ()
        return tuple(
            RuledOut(
                what,
                seconds,
                self.gap / seconds,
                f"{told}: it would have to take {self.gap / seconds:,.0f} times as long",
            )
            for what, seconds, told in self._suspects()
            if 0 < seconds < _SUSPECT * self.gap
        )

    def _suspects(self) -> list[tuple[str, float, str]]:
        """What a request takes whatever the others do: the copy, its prompt, its decoding."""
        found, ran = [], self.replays.ran
        if not ran.strategy.pooled:
            requests = self.replays.probe.requests
            tokens = round(sum(r.isl for r in requests) / len(requests))
            what, path = f"the copy of {tokens:,} tokens", ran.deployment.path
            rate = format_si(path.bandwidth_bytes_per_s, "byte/second")
            found.append((what, path.wire_s(tokens), f"{what} takes {_s(path.wire_s(tokens))} at {rate}"))
        for name in ALONE:
            most = max(accounts.get(name, 0.0) for accounts in (self.predicted, *self.edges))
            found.append(
                (MEANING[name], most, f"{MEANING[name]} takes {_s(most)} at the slow edge of the band")
            )
        return found

    # --- what moves it -------------------------------------------------------------------------------

    @cached_property
    def levers(self) -> tuple[Lever, ...]:
        """What each moved setting does to the figure."""
        return self._levers.of(self.row.measure, self.word) if self.predicted and self._in_ledger else ()

    def _no_setting(self, levers: tuple[Lever, ...]) -> str:
        if not self.predicted:
            return "a single step is moved by no setting of a scheduler"
        if not self._in_ledger:
            return f"what moves the prediction need not move the run: {self._outside()}"
        for lever in levers:
            if lever.effect == HELPS and lever.kind in (SETTING, STRATEGY) and lever.worsens:
                other = f"{lever.worsens.upper()} by {lever.others[lever.worsens]:+.0%}"
                return f"{lever.name} {lever.step} moves it by {lever.change:+.0%}, and {other}"
        return "no setting or strategy that was moved lowers it beyond the noise"

    def _said(self, name: str | None, seconds: float | None) -> str:
        label = f"{self.row.measure.upper()} {self.row.statistic or ''}".strip()
        start = f", counted from {self.row.ttft_from}" if self.row.ttft_from else ""
        if name is None or seconds is None:
            return f"{label} of {_s(self.row.measured_s)}{start}: {self.no_account}"
        share = seconds / self.whole if self.whole else math.nan
        by = "as measured" if self.stages else f"of {_s(self.whole)} predicted"
        cause = self.cause(name)
        why = f"; {cause.said}, by the replay" if cause else ""
        told = f"{MEANING[name]} hurts most, {_s(seconds)} ({share:.0%}) {by}"
        return f"{label} of {_s(self.row.measured_s)}{start}: {told}{why}"


def _lead(accounts: dict[str, float]) -> tuple[str, float] | tuple[None, None]:
    """The account that leads, with its seconds; None where none takes more than a small share."""
    ranked = leading(accounts)
    if not ranked or ranked[0][1] < _SMALL * sum(accounts.values()):
        return None, None
    return ranked[0]


def _s(seconds: float | None) -> str:
    return "no band" if seconds is None else format_si(seconds, "second")
