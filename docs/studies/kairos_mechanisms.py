"""Mechanisms that may make hand-overs long: the values tried, what each gives, and the nearest to what Kairos has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from kairos_figures import PUBLISHED, Published
from kairos_runs import NONE, Knobs, Stages, capacity, loaded, p95, play, stages

from costmodel.evaluate.summary import around_p95, mean
from costmodel.evaluate.timeline import Record

#: Copies at a time between two prefill and two decode instances with a port each.
PORTS = 2


class Mechanism(NamedTuple):
    """What makes the hand-over long: in words, a value of it in words, and the values tried."""

    label: str
    worded: Callable[[float], str]
    values: tuple[float, ...]


#: The values are this project's choice, before any was compared.
MECHANISMS = {
    "bandwidth": Mechanism(
        "slow copies, side by side",
        lambda v: f"{v / 1e6:.0f} MB/s each",
        tuple(1e6 * v for v in (25, 35, 50, 70, 100, 140, 200, 300)),
    ),
    "serial_s": Mechanism(
        "serial hand-over, whatever its bytes",
        lambda v: f"{v:g} s a request",
        (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7),
    ),
    "seats": Mechanism(
        "decode admission",
        lambda v: f"{v:.0f} seats an instance",
        (4, 5, 6, 8, 10, 12, 14, 16, 18, 20),
    ),
}
#: Workload and load of the comparison: see ``shares_section``; the second load shows what another gives.
PLACES = (("lpld", 0.3), ("lpld", 0.5), ("hphd", 0.8), ("hphd", 0.5))
AT = ("hphd", 0.8)


class Seen(NamedTuple):
    """P95 of TTFT and of each stage on its own, and the mean stages of the requests around P95 TTFT."""

    ttft: float
    queue: float
    execution: float
    transfer: float
    decode_queue: float
    around: Stages

    @property
    def adds_to(self) -> float:
        """Sum of the stages' own P95 over P95 TTFT."""
        return (self.queue + self.execution + self.transfer + self.decode_queue) / self.ttft


def summed(rows: Sequence[Stages]) -> Seen:
    """Stages of requests as the study reports them, and as they add up."""
    ordered = sorted(rows, key=sum)
    low, at, high = around_p95(len(ordered))
    around = Stages(*(mean(part) for part in zip(*ordered[low : high + 1])))
    queue, execution, transfer, boundary = (
        p95(getattr(row, name) for row in rows) for name in ("queue", "execution", "transfer", "boundary")
    )
    return Seen(sum(ordered[at]), queue, execution, transfer, boundary, around)


@cache
def finished(name: str, load: float, knobs: Knobs) -> list[Record]:
    """Records of a workload at a load."""
    return play(loaded(name, load), knobs).finished


@cache
def seen(name: str, load: float, knobs: Knobs = NONE) -> Seen:
    """P95s of a workload at a load under a mechanism. Copies side by side only add to what is without them."""
    records = finished(name, load, knobs._replace(bandwidth=None))
    return summed([stages(record, knobs) for record in records])


def distance(found: Seen, published: Published) -> float:
    """Root mean square of the logarithms of transfer and TTFT over the published ones."""
    assert published.transfer is not None
    pairs = (found.transfer, published.transfer), (found.ttft, published.ttft)
    return math.sqrt(mean([math.log(own / said) ** 2 for own, said in pairs]))


def tried(mechanism: str, name: str, load: float) -> list[Knobs]:
    """The values of a mechanism; of a serial hand-over, those that the two pairs of ports keep up with."""
    knobs = [NONE._replace(**{mechanism: value}) for value in MECHANISMS[mechanism].values]
    return [each for each in knobs if keeps_up(each, name, load)]


def keeps_up(knobs: Knobs, name: str, load: float) -> bool:
    """False where copies come faster than their ports serve them."""
    return load * capacity(name) * (knobs.serial_s or 0.0) < PORTS


@cache
def nearest(mechanism: str, name: str, load: float) -> Knobs:
    """Of the values tried, the one nearest to the published transfer and TTFT."""
    return min(
        tried(mechanism, name, load),
        key=lambda knobs: distance(seen(name, load, knobs), PUBLISHED[name]),
    )


def each_seen(name: str, load: float) -> list[Seen]:
    """A workload at a load under each mechanism at its nearest value."""
    return [seen(name, load, nearest(mechanism, name, load)) for mechanism in MECHANISMS]


def said(mechanism: str, knobs: Knobs) -> str:
    """The value of a mechanism in words."""
    return MECHANISMS[mechanism].worded(getattr(knobs, mechanism))


def share(part: float | None, whole: float) -> str:
    """A share in per cent; - where its figure is not known."""
    return "-" if part is None else f"{part / whole:.1%}"


def seconds(value: float | None) -> str:
    """Seconds to three figures; - where not known."""
    return "-" if value is None else f"{value:.3g}"


def shares(own: Seen | Published) -> tuple[str, str]:
    """Execution and transfer over P95 TTFT."""
    return share(own.execution, own.ttft), share(own.transfer, own.ttft)


def own_p95(own: Seen | Published) -> Iterable[str]:
    """P95 of TTFT and of each stage."""
    return map(seconds, (own.ttft, own.queue, own.execution, own.transfer, own.decode_queue))
