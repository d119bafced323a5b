"""The constant to give a router: the system threshold, where one is."""

from __future__ import annotations

from ..serving.strategies import DISAGGREGATED
from .breakeven import Values
from .comparison import Comparison
from .operating import measured_load, operating_point, self_consistent, threshold


def replayed_load(compare: Comparison) -> Values | None:
    """Return wait and batch of plain disaggregation as a replay has them, None where it is not stable."""
    if not compare.means(DISAGGREGATED).stable:
        return None
    run = compare.run(DISAGGREGATED)
    return measured_load(run, compare.counted(run), compare.deployment, compare.workload.rate)


def system_threshold(compare: Comparison) -> float | None:
    """Return the uncached tokens below which prefill had better stay local, those it delays included.

    At the load that the threshold causes itself; where closed forms have none (the load varies), at that of plain
    disaggregation, replayed. None where local is cheaper at every length, or nothing is stable.
    """
    deployment, workload = compare.deployment, compare.workload
    found, _ = self_consistent(deployment, workload, compare.times)
    if found is not None:
        return found
    load = replayed_load(compare)
    if load is None:
        return None
    return threshold(operating_point(deployment, workload, compare.times, overrides=load).values).value
