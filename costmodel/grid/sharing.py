"""Prompts that share a step, at many points: :mod:`costmodel.evaluate.sharing`, point by point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..evaluate.sharing import _NARROW
from .classes import distinct
from .prompts import PromptTable
from .waits import Moments, Queues, mean_wait, moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class _Prompts(NamedTuple):
    """Typical prompts of classes of points: seconds of each in a step of its own, and their weights."""

    own: Array
    weights: Array


class Sharing(NamedTuple):
    """Prompts in whole steps: ``mean``, variance and ``least`` of the seconds of one in a step of its own, ``fixed`` of
    which any step takes; the ``most`` prompts of a step, and the mean seconds that one more ``added`` and those
    ``behind`` add. ``place``: the class of each point.
    """

    mean: Array
    variance: Array
    least: Array
    fixed: Array
    most: Array
    added: Array
    behind: Array
    place: Array

    def of(self, rows: Any) -> Sharing:
        """Those of some points."""
        return Sharing(*(column[rows] for column in self))

    def takes(self, size: Array, prompts: _Prompts) -> Moments:
        """Seconds that a prompt takes of an instance where so many share a step."""
        import numpy as np

        saved = self.fixed * (1 - 1 / size)
        mean = self.mean - saved
        safe = np.where(mean > 0, mean, 1.0)
        found = Moments(mean, np.where(mean > 0, self.variance / safe**2, 0.0))
        short = np.flatnonzero(self.least < saved)  # some prompts save more than they take: one by one
        if len(short):
            own, weights = prompts.own[self.place[short]], prompts.weights[self.place[short]]
            found.mean[short], found.scv[short] = moments(np.maximum(0.0, own - saved[short, None]), weights)
        return found


def of_shortest(count: Array, strata: int, *, others: bool = False) -> Array:
    """Weights of the typical prompts: 1 of the shortest ``count``, 0 of the others; or the other way round."""
    import numpy as np

    return ((np.arange(strata) < count[:, None]) ^ others).astype(float)


def sharing(
    prompts: PromptTable, prompt: Array, budget: Array, shortest: Array, *, others: bool
) -> tuple[Sharing, _Prompts]:
    """Return how typical prompts of each point share steps of at most ``budget`` tokens: the ``shortest``, or the
    ``others``.
    """
    import numpy as np

    first, place = distinct(prompt, budget, shortest)
    prompt, budget = prompt[first], budget[first]
    weights = of_shortest(shortest[first], prompts.alone.shape[1], others=others)
    own, sizes = prompts.alone[prompt], prompts.typical.uncached[prompt]
    total = weights.sum(-1)
    partners = _partners(budget[:, None] - sizes, sizes, weights)
    shares = np.flatnonzero((total > 0) & partners.any(-1))
    fixed = np.zeros(len(prompt))
    if len(shares):
        tokens = np.rint((sizes[shares] * weights[shares]).sum(-1) / total[shares])
        fixed[shares] = prompts.saved(tokens, prompt[shares])
    mean = moments(own, weights).mean
    variance = moments((own - mean[:, None]) ** 2, weights).mean
    least = np.where(weights > 0, own, np.inf).min(-1)
    most = 1 + moments(partners, weights).mean
    added = mean - fixed
    behind = np.where(most > 1, moments(partners * (added / 2)[:, None], weights).mean, 0.0)
    columns = (mean, variance, least, fixed, most, added, behind, np.arange(len(prompt)))
    return Sharing(*(column[place] for column in columns)), _Prompts(own, weights)


def _partners(rooms: Array, sizes: Array, weights: Array) -> Array:
    """Mean numbers of prompts that fit into so many tokens, the next in line first. ``sizes`` ascend."""
    import numpy as np

    found = np.zeros(sizes.shape)
    rows = np.flatnonzero(rooms[:, 0] >= sizes[:, 0])  # elsewhere not even the shortest prompts fit together
    if not len(rows):
        return found
    rooms, sizes, weights = rooms[rows], sizes[rows], weights[rows]
    fitting = (sizes[:, None, :] <= rooms[:, :, None]).sum(-1)
    heavy, first, second = (_sums(weights * sizes**power, fitting) for power in (0, 1, 2))
    some = heavy > 0
    safe, base = np.where(some, heavy, 1.0), np.where(some, first, 1.0)
    size, scv = base / safe, second * safe / base**2 - 1
    share = heavy / np.where(some, weights.sum(-1, keepdims=True), 1.0)
    found[rows] = np.where(some, share * np.maximum(1.0, rooms / size + (scv - 1) / 2), 0.0)
    return found


def _sums(values: Array, counts: Array) -> Array:
    """Sums of the first so many values of each row."""
    import numpy as np

    sums = np.concatenate([np.zeros((len(values), 1)), values.cumsum(-1)], axis=1)
    return np.take_along_axis(sums, counts, axis=1)


def step_sizes(shared: Sharing, prompts: _Prompts, queues: Queues) -> Array:
    """Mean number of prompts in the step of one that waited: the halvings of the scalar code, all points at once."""
    import numpy as np

    low, high = np.ones(len(shared.most)), shared.most.copy()
    rows = np.flatnonzero(high - low > _NARROW)
    shared, queues = shared.of(rows), queues.of(rows)
    while len(rows):
        size = (low[rows] + high[rows]) / 2
        taken = shared.takes(size, prompts)
        up = queues.rate * taken.mean >= queues.servers
        calm = np.flatnonzero(~up)
        queue = queues.of(calm)
        wait = mean_wait(queue, Moments(taken.mean[calm], taken.scv[calm]))
        up[calm] = 1 + 2 * wait * queue.rate / queue.servers > size[calm]
        low[rows] = np.where(up, size, low[rows])
        high[rows] = np.where(up, high[rows], size)
        wide = high[rows] - low[rows] > _NARROW
        if not wide.all():
            rows, shared, queues = rows[wide], shared.of(wide), queues.of(wide)
    return high
