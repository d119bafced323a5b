"""Instances where prompts and decodes meet, at many points: :mod:`costmodel.evaluate.stations`, point by point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .prompts import PromptTable
from .sharing import of_shortest, sharing, step_sizes
from .steps import ArraySteps
from .waits import Moments, Queues, mean_wait

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

_ROUNDS = 60
#: Numbers that are worked on together where each typical prompt counts, so that they stay in the cache.
_SLAB = 1 << 16


class Offered(NamedTuple):
    """What reaches pools of ``instances``, a row each: as in the scalar code, with the ``prompt`` and the ``local``
    shortest of its typical prompts that are computed here, ``prompts`` of them a second at the whole pool.
    """

    prompt: Array
    local: Array
    instances: Array
    prompts: Array
    tokens: Array
    context: Array
    most: Array
    budget: Array

    def of(self, rows: Any) -> Offered:
        """Those of some points."""
        return Offered(*(column[rows] for column in self))


class Station(NamedTuple):
    """States of instances, a column each as in the scalar code, but for what its percentiles alone need."""

    utilisation: Array
    batch: Array
    step: Array
    gap: Array
    wait: Array
    service: Array

    def put(self, rows: Array, other: Station) -> None:
        """Write the states of some points."""
        for column, values in zip(self, other):
            column[rows] = values


def nothing(count: int) -> Station:
    """States yet to be written."""
    import numpy as np

    return Station(*(np.zeros(count) for _ in Station._fields))


def seen_step(steps: ArraySteps, batch: Array, offered: Offered) -> Array:
    """Decode steps that requests see."""
    import numpy as np

    return steps.decodes(np.maximum(1.0, batch + 1 / offered.instances), offered.context)


class Whole(NamedTuple):
    """Prompts that run whole: their mean wait and what those behind them add, the share of time that they take of an
    instance, and the least, where every step is full.
    """

    wait: Array
    behind: Array
    busy: Array
    utilisation: Array
    service: Array


def whole_line(
    prompts: PromptTable, prompt: Array, budget: Array, shortest: Array, queues: Queues, *, others: bool
) -> Whole:
    """The shortest prompts, or the others, that queue to run whole; waits are 0 where the queue is not stable."""
    import numpy as np

    shared, typical = sharing(prompts, prompt, budget, shortest, others=others)
    least = queues.rate * shared.takes(shared.most, typical).mean / queues.servers
    size = shared.most.copy()
    stable = np.flatnonzero(least < 1)
    size[stable] = step_sizes(shared.of(stable), typical, queues.of(stable))
    takes = shared.takes(size, typical)
    busy = queues.rate * takes.mean / queues.servers
    wait, behind = np.zeros(len(prompt)), np.zeros(len(prompt))
    at = queues.of(stable)
    wait[stable] = mean_wait(at, Moments(takes.mean[stable], takes.scv[stable]))
    behind[stable] = behind_of(shared.behind[stable], shared.added[stable], at, wait[stable])
    return Whole(wait, behind, busy, least, shared.mean)


def behind_of(most: Array, added: Array, queues: Queues, wait: Array) -> Array:
    """Mean seconds that prompts behind add to the steps they share."""
    import numpy as np

    return np.where(most != 0, np.minimum(most, added * queues.rate / queues.servers * wait), 0.0)


def whole_station(prompts: PromptTable, offered: Offered, queues: Queues) -> Station:
    """Prompts first, whole: decodes run in the time that they leave."""
    import numpy as np

    steps = prompts.steps
    whole = whole_line(prompts, offered.prompt, offered.budget, offered.local, queues, others=False)
    decoding = offered.tokens * (steps.decodes(offered.most, offered.context) / offered.most)
    room = 1 - whole.busy
    utilisation = whole.utilisation + decoding
    found = nothing(len(room))._replace(
        utilisation=utilisation, batch=offered.most.copy(), service=whole.service
    )
    stable = np.flatnonzero((utilisation < 1) & (room > 0))
    given, room = offered.of(stable), room[stable]

    def need(rows: Array, batch: Array) -> Array:
        at = given.of(rows)
        found: Array = at.tokens * (seen_step(steps, batch, at) / room[rows])
        return found

    batch, _ = fixed_point(need, given.most)
    step = seen_step(steps, batch, given)
    wait = whole.wait[stable] + room * np.minimum(1.0, batch) * step / 2
    found.batch[stable], found.step[stable], found.gap[stable] = batch, step, step / room
    found.wait[stable] = wait
    found.service[stable] += whole.behind[stable]
    return found


def decode_station(steps: ArraySteps, offered: Offered) -> Station:
    """Decodes alone."""
    import numpy as np

    def need(rows: Array, batch: Array) -> Array:
        at = offered.of(rows)
        found: Array = at.tokens * seen_step(steps, batch, at)
        return found

    batch, full = fixed_point(need, offered.most)
    crowding = full / offered.most
    step = seen_step(steps, batch, offered)
    wait = np.minimum(1.0, batch) * step / 2
    return Station(crowding, batch, step, step, wait, np.zeros(len(step)))


class _Mixed(NamedTuple):
    """Mixed steps: seconds, of which ``riding`` the attention that decodes add; ``full`` without the chunk's own."""

    size: Array
    riding: Array
    full: Array
    length: Array
    busy: Array
    gap: Array


class _Own(NamedTuple):
    """A prompt's own time in chunks: mean and variation where every step holds a ``full`` chunk, mean where it is
    ``alone``, and what prompts ``behind`` may add to it.
    """

    full: Array
    scv: Array
    alone: Array
    behind: Array

    def of(self, rows: Any) -> _Own:
        """Those of some points."""
        return _Own(*(column[rows] for column in self))


class MixedStation:
    """Prompts in chunks beside decodes, which advance in every step."""

    def __init__(self, prompts: PromptTable, offered: Offered) -> None:
        import numpy as np

        self.prompts, self.steps, self.offered = prompts, prompts.steps, offered
        sums = prompts.typical.uncached.cumsum(-1)
        self.tokens = sums[offered.prompt, offered.local - 1] / offered.local
        self.grain = np.maximum(1.0, np.minimum(32.0, offered.budget // 64))

    def chunk(self, rows: Any, batch: Array) -> Array:
        """Prefill tokens of a step under the token budget."""
        import numpy as np

        grain = self.grain[rows]
        found: Array = np.maximum(1.0, self.offered.budget[rows] - grain * np.rint(batch / grain))
        return found

    def at(self, rows: Any, batch: Array) -> _Mixed:
        """Mixed steps of some points at these batches, and the mean time between two tokens of a decode."""
        import numpy as np

        steps, offered = self.steps, self.offered.of(rows)
        size = self.chunk(rows, batch)
        cut, row = self.prompts.cut(offered.prompt, size)
        riding = steps.riding((size, cut.middle[row]), cut.middle_s[row], batch, offered.context)
        full = steps.tokens(size + batch, batch) + riding
        count = self.tokens[rows] / size
        attention = cut.sums[row, offered.local] / offered.local
        length = steps.host(full + attention / count, batch)
        busy = np.minimum(1.0, offered.prompts * count * length / offered.instances)
        gap = 1 / (busy / length + (1 - busy) / seen_step(steps, batch, offered))
        return _Mixed(size, riding, full, length, busy, gap)

    def found(self, queues: Queues) -> Station:
        """Return the states."""
        import numpy as np

        offered = self.offered
        batch, full = fixed_point(lambda rows, b: offered.tokens[rows] * self.at(rows, b).gap, offered.most)
        crowding = full / offered.most
        step = seen_step(self.steps, batch, offered)
        mixed = self.at(slice(None), batch)
        own = self._in_chunks(mixed, batch)
        busy = offered.prompts * own.full / offered.instances
        utilisation = np.maximum(busy, crowding)
        found = Station(utilisation, batch, step, step.copy(), np.zeros(len(step)), own.full.copy())
        stable = np.flatnonzero(utilisation < 1)
        at, busy, own = queues.of(stable), busy[stable], own.of(stable)
        wait = mean_wait(at, Moments(own.full, own.scv))
        behind = behind_of(own.behind, own.full, at, wait)
        lag = np.minimum(1.0, batch[stable]) * step[stable] / 2
        found.gap[stable] = mixed.gap[stable]
        found.wait[stable] = (1 - busy) * lag + wait
        found.service[stable] = own.alone + behind
        return found

    def _in_chunks(self, mixed: _Mixed, batch: Array) -> _Own:
        """Means over the typical prompts in chunks, slab by slab."""
        import numpy as np

        strata = self.prompts.alone.shape[1]
        size = max(1, _SLAB // strata)
        parts = [self._slab(slice(start, start + size), mixed, batch) for start in range(0, len(batch), size)]
        return _Own(*(np.concatenate(columns) for columns in zip(*parts))) if parts else _Own(*[batch] * 4)

    def _slab(self, rows: slice, mixed: _Mixed, batch: Array) -> _Own:
        import numpy as np

        steps, offered = self.steps, self.offered.of(rows)
        size, beside = mixed.size[rows, None], batch[rows, None]
        step, riding = mixed.full[rows, None], mixed.riding[rows, None]
        cut, row = self.prompts.cut(offered.prompt, mixed.size[rows])
        rest, attention = cut.rest[row], cut.attention[row]
        last = steps.tokens(np.maximum(1.0, rest + beside), beside + 1) + riding
        if steps.waits_for_host:
            mean = attention / cut.chunks[row]
            step = step + steps.host(step + mean, beside) - (step + mean)
            part = mean * rest / size
            last = last + steps.host(last + part, beside + 1) - (last + part)
        full = cut.chunks[row] * step + attention
        saved = rest / size * step - last * (rest > 0)  # over a last step of its own
        behind = np.maximum(0.0, saved + mixed.length[rows, None] / 2)
        local = offered.local
        if (local < full.shape[1]).any():
            weights = of_shortest(local, full.shape[1])
            full, saved, behind = full * weights, saved * weights, behind * weights
        takes, square = full.sum(-1) / local, np.einsum("ij,ij->i", full, full) / local
        scv = np.maximum(0.0, square / takes**2 - 1)
        return _Own(takes, scv, takes - saved.sum(-1) / local, behind.sum(-1) / local)


def fixed_point(need: Callable[[Array, Array], Array], most: Array) -> tuple[Array, Array]:
    """Batches b with need(b) = b, at most ``most``, and need(most): the secants of the scalar code, all points at once.

    ``need`` takes the points asked for and their batches.
    """
    import numpy as np

    full = need(np.arange(len(most)), most)
    found = most.copy()
    rows: Array = np.flatnonzero(full < most)
    low: Array = np.zeros(len(rows))
    high, last = most[rows], low
    batch = np.minimum(need(rows, low), high) if len(rows) else low
    excess_last = batch
    for _ in range(_ROUNDS):
        if not len(rows):
            break
        excess = need(rows, batch) - batch
        more = excess > 0
        low, high = np.where(more, batch, low), np.where(more, high, batch)
        going = (np.abs(excess) > 1e-6 * np.maximum(0.1, batch)) & (high - low > 1e-9)
        found[rows] = batch
        moved = batch != last
        slope = np.where(moved, (excess - excess_last) / np.where(moved, batch - last, 1.0), 0.0)
        guess = np.where(slope < 0, batch - excess / np.where(slope < 0, slope, 1.0), np.inf)
        last, excess_last = batch, excess
        batch = np.where((low < guess) & (guess < high), guess, (low + high) / 2)
        columns = (rows, low, high, last, excess_last, batch)
        rows, low, high, last, excess_last, batch = (column[going] for column in columns)
    found[rows] = batch
    return found, full
