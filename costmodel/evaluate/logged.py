"""Replaying a log: what it measured, and the same times of a replay, counted from the same moments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..inputs.traces import LoggedRequest
from ..inputs.workload import Request, Slo
from ..serving.deployment import Deployment
from ..serving.strategies import CHUNKED
from ..serving.table import StepTable
from .replay import Replay
from .timeline import Record


class Times(NamedTuple):
    """TTFT, TPOT (None for a single output token) and E2E of a request, seconds."""

    ttft_s: float
    tpot_s: float | None
    e2e_s: float


def from_queued(log: Iterable[LoggedRequest]) -> bool:
    """Say whether a log counts from when the engine queued its requests, rather than from their sending."""
    return any(logged.ttft_from_queued_s is not None for logged in log)


def measured(logged: LoggedRequest, queued: bool) -> Times | None:
    """Return the times of a request, ``queued`` or else sent; None where the log lacks one that others do not give."""
    ttft, e2e = (
        (logged.ttft_from_queued_s, logged.e2e_from_queued_s) if queued else (logged.ttft_s, logged.e2e_s)
    )
    gaps, tpot = logged.request.output_tokens - 1, logged.tpot_s
    if ttft is None:
        return None
    if not gaps:
        tpot, e2e = None, ttft
    elif e2e is not None:
        tpot = (e2e - ttft) / gaps
    elif tpot is not None:
        e2e = ttft + tpot * gaps
    # nothing that an engine did takes no time
    good = e2e is not None and ttft > 0 and (tpot is None or tpot > 0)
    return Times(ttft, tpot, e2e) if good and e2e is not None else None


#: Replayed and measured times of a request.
Pair = tuple[Times, Times]


class Notices:
    """A router that notes when the engine takes notice of each request: when the step under way ends."""

    def __init__(self, router: Any) -> None:
        self.router = router
        self.times: list[float] = []

    def place(self, request: Request, now: float) -> Any:
        """Place a request as the router does."""
        placed = self.router.place(request, now)
        server, noticed = placed[0], now
        if server.busy and server.count:
            passed = server.times.until(server.batch, server.context, server.count, now - server.started)[1]
            noticed = max(now, server.started + passed)
        elif server.busy:
            noticed = server.started + server.length
        self.times.append(noticed)
        return placed

    def __getattr__(self, name: str) -> Any:
        return getattr(self.router, name)


class Replayed(NamedTuple):
    """What a replay says of requests in order of arrival.

    ``noticed``: times from when the engine took notice of each. ``waits``: seconds until then, of what the log
    counts. ``preempted``: how often any was.
    """

    noticed: list[Times]
    waits: list[float]
    preempted: int

    def times(self, waits: Sequence[float] | None = None) -> list[Times]:
        """Return times as the log counts them; ``waits`` in the place of the replay's own."""
        return [
            Times(ttft + wait, tpot, e2e + wait)
            for (ttft, tpot, e2e), wait in zip(self.noticed, self.waits if waits is None else waits)
        ]


def pairs(replayed: Sequence[Times], measured: Sequence[Times | None]) -> list[Pair]:
    """Return both times of the requests that were measured."""
    return [(ours, theirs) for ours, theirs in zip(replayed, measured) if theirs is not None]


def replay_log(
    deployment: Deployment, times: StepTable, requests: Sequence[Request], queued: bool, first: int
) -> Replayed:
    """Replay requests, chunked, on the one instance of a deployment until the ``first`` of them have ended.

    ``queued``: the log counts from when the engine takes notice, else from the arrival. Raises NoAnswerError for
    a request whose KV never fits.
    """
    made = Replay(CHUNKED, deployment, Slo(), {deployment.prefill: times})
    queue = made.router = Notices(made.router)
    records: list[Record] = []
    left = first

    def finished(record: Record) -> None:
        nonlocal left
        if record.index < first:
            records.append(record)
            left -= 1
            made.stopped = left == 0

    made.run(requests, finished)
    records.sort(key=lambda record: record.index)
    starts = queue.times[:first]
    return Replayed(
        [Times(r.first - start, r.tpot, r.end - start) for r, start in zip(records, starts)],
        [0.0 if queued else start - r.request.arrival_s for r, start in zip(records, starts)],
        sum(record.preempted for record in records),
    )
