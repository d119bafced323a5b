"""Finished requests as columns: arrays of their times, the stages of their TTFT and whether they met the SLOs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.workload import Slo
from .timeline import ACCOUNTS, Record

Array = NDArray[np.float64]

_TIMES = ("first", "end", "ideal_prefill", "ideal_decode", "seating", "redone", "held_byte_s", "constant")
_FIELDS = (*_TIMES, *ACCOUNTS)
_LENGTHS = ("arrival_s", "uncached_tokens", "cached_tokens", "output_tokens")


@dataclass(frozen=True)
class Columns:
    """One value a request, in the order of finishing; seconds.

    ``values``: ttft, tpot (only of requests with two output tokens or more), e2e, delay, queue (both
    waits). ``stages``: those of TTFT. ``met``: 1 where every SLO was.
    """

    values: dict[str, Array]
    stages: dict[str, Array]
    met: Array

    def __len__(self) -> int:
        return len(self.met)


def joined(blocks: Sequence[Columns]) -> Columns:
    """Return the blocks one after the other as one."""
    first = blocks[0]
    return Columns(
        {name: np.concatenate([b.values[name] for b in blocks]) for name in first.values},
        {name: np.concatenate([b.stages[name] for b in blocks]) for name in first.stages},
        np.concatenate([b.met for b in blocks]),
    )


def read(records: Sequence[Record], slo: Slo, first_token: str) -> tuple[Columns, dict[str, float]]:
    """Return the columns of records (at least one), and sums that need no column of their own.

    The sums have the keys of the mean ledger, held_byte_s, recomputed_prefix_s, local, and prompt and output tokens.
    """
    fields = _numbers(records, _FIELDS)
    arrival, uncached, cached, output = _numbers([r.request for r in records], _LENGTHS).values()
    routes = [r.route for r in records]
    sent = arrival - fields["constant"]
    e2e, ttft = fields["end"] - sent, fields["first"] - sent
    ideal = fields["constant"] + fields["ideal_prefill"] + fields["ideal_decode"]
    tpot = np.full(len(records), np.nan)
    np.divide(fields["end"] - fields["first"], output - 1, out=tpot, where=output > 1)
    ledger = {name: fields[name] for name in ACCOUNTS}
    ledger["admission"] = fields["admission"] + fields["seating"]
    values = {"ttft": ttft, "tpot": tpot[output > 1], "e2e": e2e, "delay": e2e - ideal}
    values["queue"] = ledger["queue"] + ledger["admission"]
    sums = {f"{name}_s": float(column.sum()) for name, column in ledger.items()}
    sums |= {"ideal_s": float(ideal.sum()), "e2e_s": float(e2e.sum())}
    sums |= {"held_byte_s": float(fields["held_byte_s"].sum())}
    sums |= {"recomputed_prefix_s": math.fsum(record.recomputed_prefix for record in records)}
    sums |= {"prompt": float((uncached + cached).sum()), "output": float(output.sum())}
    sums["local"] = float(routes.count("local"))
    remote = np.array([route == "remote" for route in routes])
    return Columns(values, _stages(fields, remote, first_token), _met(slo, ttft, tpot)), sums


def _numbers(items: Sequence[Any], names: tuple[str, ...]) -> dict[str, Array]:
    """Attributes as columns; contiguous ones, which numpy adds up in pairs, so that sums keep their digits."""
    flat = chain.from_iterable(map(attrgetter(*names), items))
    table = np.fromiter(flat, float, len(items) * len(names)).reshape(-1, len(names))
    return dict(zip(names, np.ascontiguousarray(table.T)))


def _stages(fields: dict[str, Array], remote: NDArray[np.bool_], first_token: str) -> dict[str, Array]:
    """``summary.ttft_stages`` over columns."""
    before_first = remote if first_token != "prefill" else np.zeros_like(remote)
    return {
        "link_s": fields["link"] * before_first,
        "handover_s": fields["handover"] * before_first,
        "queue_s": fields["queue"],
        "load_s": fields["load"],
        "prefill_s": fields["ideal_prefill"] + fields["constant"],
        "stretch_s": fields["stretch"],
        "recompute_s": fields["redone"],
        "admission_s": fields["admission"] + fields["seating"] * before_first,
    }


def _met(slo: Slo, ttft: Array, tpot: Array) -> Array:
    """``Slo.met`` over columns; a TPOT of nan is that of one output token."""
    met = np.ones(len(ttft))
    if slo.ttft_s is not None:
        met[ttft > slo.ttft_s] = 0
    if slo.tpot_s is not None:
        met[tpot > slo.tpot_s] = 0
    return met
