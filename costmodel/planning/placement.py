"""DistServe's placement (arXiv 2401.09670, algorithm 1): each phase apart by goodput a GPU, then replicated.

Goodput of one prefill instance under the SLO of TTFT alone, of one decode instance under that of TPOT alone, here by
closed form; prefill and decode then have as many instances as the rate takes. What the phases do to each other, and
what many instances gain over one, it does not see.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from ..inputs.workload import Workload
from ..serving.deployment import Topology
from .closed import Closed
from .sizing import Sized
from .space import Layout, Unit

#: Instances of the other phase, enough for it not to matter.
_MANY = 64
#: How narrowly a rate is found.
_NARROW = 1.04


def placement(
    closed: Closed, layouts: Iterable[Layout], cost: Callable[[Layout, Topology], float], workload: Workload
) -> Sized | None:
    """Return DistServe's placement; None where a phase attains the target at no rate, or none is disaggregated."""
    pairs = [layout for layout in layouts if layout.strategy.name == "disaggregated"]
    prefills, decodes = _alike(pairs)
    target = workload.slo.attainment
    prefill, decode = Topology(1, _MANY), Topology(_MANY, 1)
    first = _best(
        prefills, lambda one, least: _goodput(closed, one, prefill, Closed.prompt, target, least), cost
    )
    last = _best(decodes, lambda one, least: _goodput(closed, one, decode, Closed.paced, target, least), cost)
    if first is None or last is None:
        return None
    found = next(
        (one for one in pairs if (one.prefill, one.decode) == (first[0].prefill, last[0].decode)), None
    )
    if found is None:
        return None
    topology = Topology(math.ceil(workload.rate / first[1]), math.ceil(workload.rate / last[1]))
    return Sized(found, topology, closed.shares(found, topology).both)


def _alike(pairs: list[Layout]) -> tuple[list[Layout], list[Layout]]:
    """One layout for each prefill unit and one for each decode unit."""
    prefills: dict[Unit, Layout] = {}
    decodes: dict[Unit, Layout] = {}
    for layout in pairs:
        prefills.setdefault(layout.prefill, layout)
        decodes.setdefault(layout.decode, layout)
    return list(prefills.values()), list(decodes.values())


def _best(
    layouts: list[Layout],
    goodput: Callable[[Layout, float], float],
    cost: Callable[[Layout, Topology], float],
) -> tuple[Layout, float] | None:
    """The layout of the highest goodput for what its instance costs, and that goodput.

    ``goodput`` may return 0 for a layout that does not reach a rate, here the one at which it would be as good as the
    best so far.
    """
    role = Topology(1, 0) if len({layout.prefill for layout in layouts}) == len(layouts) else Topology(0, 1)
    best, worth = None, 0.0
    for layout in layouts:
        each = cost(layout, role)
        rate = goodput(layout, worth * each)
        if rate > worth * each:
            best, worth = (layout, rate), rate / each
    return best


def _goodput(
    closed: Closed,
    layout: Layout,
    topology: Topology,
    share: Callable[[Closed, Layout, Topology], float],
    target: float,
    least: float,
) -> float:
    """Highest rate at which one instance attains its own SLO; 0 where that is below ``least``."""

    def reaches(rate: float) -> bool:
        return share(closed.under(closed.given.at_rate(rate)), layout, topology) >= target

    high = closed.workload.rate / max(closed.loads(layout, topology).values())
    low = max(high / 32, least)
    if low >= high or not reaches(low):
        return 0.0
    while high / low > _NARROW:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low
