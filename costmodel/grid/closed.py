"""Closed-form recommendations for thousands of points at once.

The formulas, and the order in which they are solved, are those of :mod:`costmodel.evaluate`; here each is asked for
all points together. Kairos' rule is not among them: it decides by the state at each arrival, and the deflected
strategy follows a threshold instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

#: Numbers that are worked on together, points times typical requests: they stay in the cache.
_BLOCK = 1 << 15
#: Points of a block, at most and at least.
_MOST, _LEAST = 4096, 1024
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
        self._limits = [limits(strategy, both) for strategy in STRATEGIES]

    def evaluate(self, points: GridPoints) -> GridAnswer:
        """Return means and verdict at each point, in one dimension. Raises InputError for values out of range."""
        import numpy as np

        rows, requests = laid_out(points, self.deployment, self.points)
        grid = _Grid(self, requests, points.workload)
        size = max(_LEAST, min(_MOST, _BLOCK // requests.uncached.shape[1]))
        parts, thresholds = [], []
        with np.errstate(all="ignore"):  # of points that a mask leaves out
            for start in range(0, len(rows.rate), size):
                found, threshold = grid.block(rows.of(slice(start, start + size)))
                parts.append(found)
                thresholds.append(threshold)
            strategies = [joined(list(blocks)) for blocks in zip(*parts)]
            return _answer(strategies, np.concatenate(thresholds), grid.ideal_s[rows.mix])

    def fits(self, requests: Requests) -> Array:
        """Say whether every request of a mix fits the empty pools of a strategy: a row a strategy."""
        import numpy as np

        isl = requests.uncached + requests.cached

        def within(limit: Limit) -> Array:
            found: Array = (isl + requests.outputs * limit.whole <= limit.most_tokens).all(-1)
            return found

        return np.array([np.all([within(limit) for limit in known], axis=0) for known in self._limits])


class _Grid:
    """What the points of one call share."""

    def __init__(self, grid: ClosedGrid, requests: Requests, workload: Workload | None) -> None:
        deployment = grid.deployment
        self.deployment, self.requests, self.workload = deployment, requests, workload
        self.prompts = {kind: PromptTable(steps, requests) for kind, steps in grid.steps.items()}
        self.mixes: Mixes = mixes_of(self.prompts, requests, deployment)
        self.copies = Copies(deployment.path, requests, self.prompts[deployment.prefill].alone)
        self.fits = grid.fits(requests)

    @property
    def ideal_s(self) -> Array:
        """A mean request alone, a row a mix."""
        found: Array = self.deployment.request_latency + self.mixes.ideal_prefill + self.mixes.ideal_decode
        return found

    def block(self, rows: Rows) -> tuple[list[Figures], Array]:
        """Return the figures of every strategy at some points, and the thresholds of the deflected one."""
        import numpy as np

        none = np.zeros(len(rows.mix), np.intp)
        pooled = [self._figures(rows, place, None) for place in (0, 1)]
        plain = self._figures(rows, 2, none)
        deflected, threshold = self._deflected(rows, plain)
        return [*pooled, plain, deflected], threshold

    def _figures(self, rows: Rows, place: int, local: Array | None) -> Figures:
        """Figures of one strategy, which keeps the ``local`` shortest prompts where it decodes."""
        load = Load(self.deployment, rows, self.mixes)
        strategies = Strategies(self.prompts, self.copies, load)
        outcome = strategies.pooled(whole=place == 0) if local is None else strategies.split(local)
        return figures(outcome, load, self.workload, self.fits[place][rows.mix])

    def _deflected(self, rows: Rows, plain: Figures) -> tuple[Figures, Array]:
        """Return the figures under the threshold of each point, or under the best, and that threshold."""
        import numpy as np

        best, threshold = plain.of(np.arange(len(rows.mix))), rows.threshold.copy()
        sizes = self.requests.uncached
        given = ~np.isnan(threshold)
        before = np.full(len(rows.mix), -1)
        for candidate in (np.nan, *KEPT):
            limit = _threshold(sizes, candidate)[rows.mix] if candidate == candidate else threshold
            local = (sizes[rows.mix] < limit[:, None]).sum(-1)
            asked = given if candidate != candidate else ~given & (local != before)
            at = np.flatnonzero(asked & (local > 0))
            if len(at):
                found = self._figures(rows.of(at), 3, local[at])
                better = given[at] | (before[at] < 0) | _less(found, best.of(at))
                best.put(at[better], found.of(better))
                threshold[at[better]] = limit[at[better]]
            before = np.where(asked, local, before)
        return best, threshold


def _threshold(sizes: Array, kept: float) -> Array:
    """Threshold of each mix that keeps this share of its prompts local: all up to that quantile."""
    import math

    found: Array = sizes[:, math.ceil(kept * sizes.shape[1]) - 1] + 1
    return found


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
