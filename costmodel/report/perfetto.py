"""A replay as a timeline to look at: trace events in JSON, as Perfetto and chrome://tracing open them.

What of the format is used, and how: processes are instances and threads are lanes, since complete events of one
thread may not overlap; thread ids are unique over all processes, and times whole microseconds, because viewers
mix up the former and round the latter. A flow joins the slices that enclose its two ends, so its ends lie inside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ..evaluate.spans import Lanes, Span, spans
from ..evaluate.timeline import ACCOUNTS, Record
from ..serving.deployment import Deployment
from ..serving.strategies import Strategy
from ..whole_file import whole_file

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Slice(NamedTuple):
    """A stage as it is drawn: start and end in microseconds, of which there is at least one."""

    stage: str
    start: int
    end: int


class Timeline:
    """Writes the stages of requests, and how busy pools are."""

    def __init__(self, write: Callable[[str], None], instances: Sequence[str]) -> None:
        self._write, self._between = write, "[\n"
        self._lanes = [Lanes() for _ in instances]
        self._threads: dict[tuple[int, int], int] = {}
        self._pools = len(instances) + 1
        self._held: dict[int, Record] = {}
        self._next = 0
        for pid, name in enumerate([*instances, "pools"], 1):
            self._event(ph="M", name="process_name", pid=pid, args={"name": name})
            self._event(ph="M", name="process_sort_index", pid=pid, args={"sort_index": pid})

    def add(self, record: Record) -> None:
        """Add a finished request, in any order.

        It is written when all that arrived before it are in, and kept until then: lanes are allotted in order
        of arrival. Raises InputError where the file cannot be written.
        """
        self._held[record.index] = record
        while (ready := self._held.pop(self._next, None)) is not None:
            self._next += 1
            self._request(ready)

    def busy(self, pool: str, shares: Sequence[tuple[float, float, float]]) -> None:
        """Add the busy share of a pool: start and end in seconds and share of each window, in order."""
        ends = [(shares[-1][1], 0.0)] if shares else []
        for at, share in [*((start, share) for start, _, share in shares), *ends]:
            self._event(
                ph="C", name=f"{pool} busy", pid=self._pools, ts=_microseconds(at), args={"share": share}
            )

    def finish(self) -> None:
        """Write what is left: requests that came after one that never ended, and the end of the file."""
        for index in sorted(self._held):
            self._request(self._held.pop(index))
        self._write("\n]\n")

    def _event(self, **fields: object) -> None:
        self._write(self._between + _encode(fields))
        self._between = ",\n"

    def _request(self, record: Record) -> None:
        """Write a request: a lane on each instance that it stays on, and a flow from one to the next."""
        left: tuple[int, int, int] | None = None
        for on, stay in groupby(spans(record), attrgetter("on")):
            parts = list(stay)
            slices = [drawn for drawn in map(_slice, parts) if drawn.start < drawn.end]
            if not slices:
                continue
            pid, tid = on + 1, self._thread(on, self._lanes[on].take(parts[0].start_s, parts[-1].end_s))
            for drawn in slices:
                self._slice(record, drawn, pid, tid)
            if left is not None:
                self._flow(record.index, "s", *left)
                self._flow(record.index, "f", pid, tid, slices[0].start)
            left = pid, tid, slices[-1].end - 1

    def _slice(self, record: Record, drawn: Slice, pid: int, tid: int) -> None:
        index = record.index
        self._event(
            ph="X",
            name=f"{drawn.stage} {index}",
            cat=drawn.stage,
            pid=pid,
            tid=tid,
            ts=drawn.start,
            dur=drawn.end - drawn.start,
            args=_facts(record) if drawn.stage == "prefill" else {"request": index},
        )

    def _flow(self, index: int, end: str, pid: int, tid: int, ts: int) -> None:
        binding = {"bp": "e"} if end == "f" else {}
        self._event(ph=end, name="handover", cat="handover", id=index, pid=pid, tid=tid, ts=ts, **binding)

    def _thread(self, on: int, lane: int) -> int:
        """Return the thread of a lane, made known on its first use."""
        known = self._threads.get((on, lane))
        if known is None:
            known = self._threads[on, lane] = self._pools + 1 + len(self._threads)
            self._event(ph="M", name="thread_name", pid=on + 1, tid=known, args={"name": f"lane {lane}"})
        return known


@contextmanager
def perfetto(path: Path, instances: Sequence[str]) -> Iterator[Timeline]:
    """Give a timeline that is written to ``path``, all or nothing, compressed where that ends ``.gz``.

    ``instances``: their names, in the order in which records count them. Raises InputError where the file
    cannot be written.
    """
    with whole_file(path) as write:
        timeline = Timeline(write, instances)
        yield timeline
        timeline.finish()


def instance_names(strategy: Strategy, deployment: Deployment) -> list[str]:
    """Return a name for each instance, in the order in which records count them: "prefill 0 (h100-sxm)"."""
    return [
        f"{spec.role.value} {place} ({kind.label()})"
        for spec in strategy.pools
        for place, (kind, _) in enumerate(deployment.pool(spec.role))
    ]


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _slice(span: Span) -> Slice:
    return Slice(span.stage, _microseconds(span.start_s), _microseconds(span.end_s))


def _facts(record: Record) -> dict[str, object]:
    """What a viewer shows of a request: its tokens and its ledger, in seconds."""
    request = record.request
    return {
        "request": record.index,
        "prompt_tokens": request.isl,
        "cached_tokens": record.cached,
        "output_tokens": request.output_tokens,
        "route": record.route,
        "preempted": record.preempted,
        "ttft_s": record.ttft,
        "tpot_s": record.tpot,
        "e2e_s": record.e2e,
        "ideal_s": record.ideal,
        **{f"{name}_s": record.account(name) for name in ACCOUNTS},
    }
