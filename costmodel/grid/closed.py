"""Closed-form recommendations for thousands of points at once.

The formulas, and the order in which they are solved, are those of :mod:`costmodel.evaluate`; here each is asked for
all points together. Means alone: percentiles, bands and SLOs are those of single points. Kairos' rule is not among
them either: it decides by the state at each arrival, and the deflected strategy follows a threshold instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..evaluate.limits import Limit, limits
from ..inputs.workload import Workload
from ..serving.deployment import Deployment, Topology
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes, step_times
from ..serving.strategies import CHUNKED, COLOCATED, DEFLECTED, DISAGGREGATED, Strategy
from .figures import ACCOUNTS, Figures, figures, joined
from .load import Copies, Load, Mixes, mixes_of
from .points import GridPoints, Requests, Rows, laid_out
from .prompts import PromptTable
from .steps import ArraySteps
from .strategies import Strategies
from .verdict import verdicts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Points that are worked on together: enough that numpy's calls cost little, few enough for the cache.
BLOCK = 16384
#: Shares of the prompts that thresholds keep local where none is given.
KEPT = (0.25, 0.5, 0.75, 1.0)
STRATEGIES: tuple[Strategy, ...] = (COLOCATED, CHUNKED, DISAGGREGATED, DEFLECTED)


@dataclass(frozen=True)
class GridStrategy:
    """Figures of a strategy, an array each; NaN where ``reason``, a place in :data:`.figures.REASONS`, is not 0.

    ``local_share``: share of the prompts that are computed where they decode. ``tpot_mean_s`` is NaN, too, where
    requests have one output token.
    """

    name: str
    utilisation: Array
    stable: Array
    mean_delay_s: Array
    ttft_mean_s: Array
    tpot_mean_s: Array
    local_share: Array
    accounts: dict[str, Array]
    reason: Array


@dataclass(frozen=True)
class GridAnswer:
    """Strategies in the order of :data:`STRATEGIES`, and the verdict at each point.

    ``best``, ``runner_up``: places of the least and the second mean delay among the stable, -1 where there is none; a
    deflected strategy that keeps no prompt local is plain disaggregation, and no rival. ``margin``: the second over
    the least, NaN where there are no two. ``threshold``: uncached tokens, below which the deflected strategy keeps
    prompts local. ``ideal_s``: a mean request alone.
    """

    strategies: tuple[GridStrategy, ...]
    best: Array
    runner_up: Array
    margin: Array
    threshold: Array
    ideal_s: Array


class ClosedGrid:
    """Closed forms of one deployment's instance kinds, pools, path and settings; the rest varies from point to point.

    ``points``: quantiles that stand for a distribution of lengths, as for the scalar closed form.
    """

    def __init__(
        self, deployment: Deployment, times: dict[InstanceKind, StepTimes] | None = None, points: int = 24
    ) -> None:
        deployment.need_split()
        self.deployment, self.points = deployment, points
        times = times or step_times(deployment.kinds)
        self.steps = {kind: ArraySteps(times[kind]) for kind in times}
        both = deployment.with_topology(Topology(1, 1))
        self._limits = [limits(strategy, both) for strategy in STRATEGIES[:3]]  # deflected: those of a split

    def evaluate(self, points: GridPoints) -> GridAnswer:
        """Return means and verdict at each point, in one dimension. Raises InputError for values out of range."""
        import numpy as np

        rows, requests = laid_out(points, self.deployment, self.points)
        if self.deployment.held != "both" and (requests.prompts.cached > 0).any():
            raise InputError(
                f"cached tokens of a grid lie on both sides, not {self.deployment.held}: ask for single points instead"
            )
        grid = _Grid(self, requests, points.workload)
        parts, thresholds = [], []
        with np.errstate(all="ignore"):  # of points that a mask leaves out
            for start in range(0, max(1, len(rows.rate)), BLOCK):
                found, threshold = grid.block(rows.of(slice(start, start + BLOCK)))
                parts.append(found)
                thresholds.append(threshold)
            strategies = [joined(list(blocks)) for blocks in zip(*parts)]
            return _answer(strategies, np.concatenate(thresholds), grid.ideal_s[rows.mix])

    def fits(self, requests: Requests) -> Array:
        """Say whether every request of a mix fits the empty pools of a strategy: a row a strategy."""
        import numpy as np

        isl = requests.isl

        def within(limit: Limit) -> Array:
            found: Array = (isl + requests.outputs * limit.whole <= limit.most_tokens).all(-1)
            return found

        return np.array([np.all([within(limit) for limit in known], axis=0) for known in self._limits])


class _Grid:
    """What the points of one call share."""

    def __init__(self, grid: ClosedGrid, requests: Requests, workload: Workload | None) -> None:
        deployment = grid.deployment
        self.deployment, self.requests, self.workload = deployment, requests, workload
        self.prompts = {kind: PromptTable(steps, requests.prompts) for kind, steps in grid.steps.items()}
        self.mixes: Mixes = mixes_of(self.prompts, requests, deployment)
        self.copies = Copies(deployment.path, requests.prompts, self.prompts[deployment.prefill].alone)
        self.fits = grid.fits(requests)

    @property
    def ideal_s(self) -> Array:
        """A mean request alone, a row a mix."""
        found: Array = self.deployment.request_latency + self.mixes.ideal_prefill + self.mixes.ideal_decode
        return found

    def block(self, rows: Rows) -> tuple[list[Figures], Array]:
        """Return the figures of every strategy at some points, and the thresholds of the deflected one."""
        import numpy as np

        pooled = [self._figures(rows, place, None) for place in (0, 1)]
        none = np.zeros(len(rows.mix), np.intp)
        tried = [(np.arange(len(none)), none, rows.threshold), *self._thresholds(rows)]
        ends = np.cumsum([len(at) for at, _, _ in tried])
        every = np.concatenate([at for at, _, _ in tried])
        split = self._figures(rows.of(every), 2, np.concatenate([local for _, local, _ in tried]))
        parts = [split.of(slice(end - len(at), end)) for end, (at, _, _) in zip(ends, tried)]
        best, threshold = parts[0].copied(), rows.threshold.copy()
        fresh = np.ones(len(none), bool)
        for found, (at, _, limit) in zip(parts[1:], tried[1:]):
            better = fresh[at] | _less(found, best.of(at))
            best.put(at[better], found.of(better))
            threshold[at[better]] = limit[better]
            fresh[at] = False
        return [*pooled, parts[0].copied(), best], threshold

    def _figures(self, rows: Rows, place: int, local: Array | None) -> Figures:
        """Figures of one strategy, which keeps the ``local`` shortest prompts where it decodes."""
        load = Load(self.deployment, rows, self.mixes)
        strategies = Strategies(self.prompts, self.copies, load)
        outcome = strategies.pooled(whole=place == 0) if local is None else strategies.split(local)
        return figures(outcome, load, self.workload, self.fits[place][rows.mix])

    def _thresholds(self, rows: Rows) -> Iterator[tuple[Array, Array, Array]]:
        """Yield points with how many of their shortest prompts a threshold keeps local, at least one, and it."""
        import numpy as np

        sizes, open_ = self.requests.prompts.uncached, np.isnan(rows.threshold)
        given = np.flatnonzero(~open_)
        if len(given):
            limit = rows.threshold[given]
            local = (sizes[rows.prompt[given]] < limit[:, None]).sum(-1)
            some = local > 0
            yield given[some], local[some], limit[some]
        at, before = np.flatnonzero(open_), np.zeros(len(sizes), np.intp)
        for kept in KEPT:
            limits = sizes[:, math.ceil(kept * sizes.shape[1]) - 1] + 1  # all up to that quantile
            local = (sizes < limits[:, None]).sum(-1)
            new = at[(local > before)[rows.prompt[at]]]
            if len(new):
                yield new, local[rows.prompt[new]], limits[rows.prompt[new]]
            before = local


def _less(new: Figures, old: Figures) -> Array:
    """Say where the delay is less; where neither has one, whether the utilisation is."""
    import numpy as np

    known, before = ~np.isnan(new.mean_delay_s), ~np.isnan(old.mean_delay_s)
    neither = ~known & ~before & (new.utilisation < old.utilisation)
    return np.where(known & before, new.mean_delay_s < old.mean_delay_s, known | neither)


def _answer(strategies: list[Figures], threshold: Array, ideal_s: Array) -> GridAnswer:
    import numpy as np

    rivals = np.array([found.utilisation < 1 for found in strategies])
    rivals[3] &= strategies[3].local_share > 0
    found = verdicts(np.array([one.mean_delay_s for one in strategies]), rivals)
    told = tuple(
        GridStrategy(
            strategy.name,
            one.utilisation,
            one.utilisation < 1,
            one.mean_delay_s,
            one.ttft_mean_s,
            one.tpot_mean_s,
            one.local_share,
            dict(zip(ACCOUNTS, one.accounts)),
            one.reason,
        )
        for strategy, one in zip(STRATEGIES, strategies)
    )
    return GridAnswer(told, *found, threshold, ideal_s)
