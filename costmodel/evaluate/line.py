"""Prompts that wait in line for the instances of a pool: their mean wait, and TTFT as a distribution."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .prompts import moments
from .waits import Gaps, Waits, mean_wait, waits

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How narrowly a quantile is found, as a fraction of it.
_NARROW = 1e-4
#: Points of a step that stand for the moment at which a request finds it.
_PARTS = (1 / 8, 3 / 8, 5 / 8, 7 / 8)


class Line(NamedTuple):
    """One queue before ``servers`` equal instances, for a ``share`` of all requests.

    Seconds of each typical prompt, with ``weights``: ``takes`` of an instance while others wait, ``alone`` from its
    first step to its end where it found nobody ahead, ``crowded`` where it had to wait, ``behind`` at most for prompts
    that came while it waited and share its step, ``after`` from its end to token 1. ``step``: decode step under way
    where it finds nobody ahead, with probability ``busy``; ``seat``: the one it waits for after its end.
    ``added``: seconds that one more prompt adds to a step that others share; ``together``: the most that a step takes,
    on average. ``swing``: by how much a prompt takes longer beside as many decodes as run at times.
    """

    share: float
    gaps: Gaps
    servers: int
    weights: tuple[float, ...]
    takes: tuple[float, ...]
    alone: tuple[float, ...]
    crowded: tuple[float, ...]
    behind: tuple[float, ...] = ()
    added: float = 0.0
    together: float = 1.0
    after: tuple[float, ...] = ()
    step: float = 0.0
    seat: float = 0.0
    busy: float = 0.0
    swing: float = 0.0

    def mean_wait(self) -> float:
        """Mean wait for prompts ahead; the caller has checked that the line is stable."""
        return mean_wait(self.gaps, moments(self.takes, self.weights), self.servers)

    @property
    def joining(self) -> float:
        """Work a second that arrives at an instance for the step of one that waits."""
        return self.added * self.gaps.rate / self.servers

    def mean_behind(self) -> float:
        """Mean seconds that prompts behind add to the steps they share."""
        most = moments(self.behind, self.weights).mean if self.behind else 0.0
        return min(most, self.joining * self.mean_wait()) if most else 0.0


@lru_cache(maxsize=64)
def waits_of(line: Line) -> Waits:
    """The waits of a line, as a distribution."""
    return waits(line.gaps, line.takes, line.weights, line.servers)


class Ttft:
    """TTFT of all requests whose prompts wait in these lines. ``constant``: seconds of every request besides."""

    def __init__(self, lines: Sequence[Line], constant: float = 0.0) -> None:
        self.lines, self.constant = lines, constant

    def beyond(self, seconds: float) -> float:
        """Share of requests with a longer TTFT."""
        return sum(line.share * self._beyond(line, seconds - self.constant) for line in self.lines)

    @staticmethod
    def _beyond(line: Line, seconds: float) -> float:
        import numpy as np

        weights = np.asarray(line.weights)
        return float((late(line, seconds) * weights).sum() / weights.sum())

    def quantile(self, share: float) -> float:
        """TTFT that this share of the requests stays within, seconds."""
        low, high = 0.0, 1.0
        while self.beyond(high) > 1 - share:
            low, high = high, 2 * high
        while high - low > _NARROW * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.beyond(middle) > 1 - share else (low, middle)
        return (low + high) / 2


def late(line: Line, seconds: float) -> NDArray[Any]:
    """Chance of each typical prompt of a line that its TTFT is longer, but for what every request takes besides."""
    import numpy as np

    found, alone = waits_of(line), np.asarray(line.alone)
    left = seconds - np.asarray(line.after) if line.after else np.full(len(alone), seconds)
    chances: NDArray[Any] = np.zeros(len(alone))
    for chance, seat in _rests(line.seat, line.busy):
        rests = _rests(line.step, line.busy)
        free = sum(part * (alone > left - seat - rest) for part, rest in rests)
        chances += chance * (1 - found.waiting) * free
        chances += chance * found.waiting * found.beyond(_needed(line, left - seat))
    return chances


def _rests(step: float, busy: float) -> list[tuple[float, float]]:
    """Chances of seconds until a step under way ends, where one is with probability ``busy``."""
    if step <= 0 or busy <= 0:
        return [(1.0, 0.0)]
    return [(1 - busy, 0.0), *((busy / len(_PARTS), step * part) for part in _PARTS)]


def _needed(line: Line, left: Any) -> Any:
    """Wait of each prompt beyond which its end comes more than ``left`` seconds after its arrival.

    Prompts that come while it waits and share its step add their work, up to ``behind``.
    """
    import numpy as np

    waited = left - np.asarray(line.crowded)
    if not line.behind:
        return waited
    return np.maximum(waited / (1 + line.joining), waited - np.asarray(line.behind))
