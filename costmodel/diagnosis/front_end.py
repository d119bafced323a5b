"""TTFT of the client beside that of the engine: their difference is the front end's."""

from __future__ import annotations

from dataclasses import replace

from ..units import format_si
from .accounts import MEANING, leading
from .answer import MEASURED, SURE, Account, Diagnosed
from .predict import Row

FRONT_END, REST = "front_end_s", "rest_s"
_NO_SETTING = "no setting of a scheduler moves what comes before its queue"


def from_the_client(row: Row, queued: Diagnosed) -> Diagnosed:
    """Return the diagnosis of a client's TTFT, from that of the same statistic as the engine counts it."""
    seconds = {a.name: a.seconds for a in queued.accounts}
    front, rest = row.measured_s - queued.measured_s, queued.measured_s - sum(seconds.values())
    found = {FRONT_END: front, **seconds, REST: seconds.get(REST, 0.0) + rest}
    causes = {a.name: a.cause for a in queued.accounts}
    accounts = tuple(
        Account(name, MEANING[name], value, value / row.measured_s, cause=causes.get(name))
        for name, value in sorted(found.items(), key=lambda each: -each[1])
    )
    made = replace(
        queued,
        measured_s=row.measured_s,
        predicted_s=row.predicted_s,
        low_s=row.low_s,
        high_s=row.high_s,
        inside=row.inside,
        unexplained_s=row.gap_s,
        unexplained_share=row.gap_share,
        accounts=accounts,
        account_share=None if queued.account_s is None else queued.account_s / row.measured_s,
        ttft_from=row.ttft_from,
    )
    return _of_front_end(made, front) if leading(found)[0][0] == FRONT_END else made


def _of_front_end(made: Diagnosed, front: float) -> Diagnosed:
    share = front / made.measured_s
    told = f"{format_si(front, 'second')} ({share:.0%}) as measured"
    return replace(
        made,
        basis=MEASURED,
        account=FRONT_END,
        account_s=front,
        account_share=share,
        account_reason=None,
        cause=None,
        grade=SURE,
        sureness="the client and the engine measured the same requests",
        ruled_out=(),
        levers=(),
        setting=None,
        setting_reason=_NO_SETTING,
        said=f"TTFT {made.statistic or ''} of {format_si(made.measured_s, 'second')}, counted from {made.ttft_from}: "
        f"the time {MEANING[FRONT_END]} hurts most, {told}",
    )
