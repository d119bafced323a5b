"""Utilisation over time in constant memory: windows that merge in pairs as a run gets longer."""

from __future__ import annotations

#: Width of the first windows, in seconds. A power of 2: the edges of windows are exact.
_NARROWEST_S = 2.0**-10


class BusyBins:
    """Seconds that the instances of one pool spend in steps, window by window.

    ``instances``: those of the pool. ``most``: windows at most, an even number; their width doubles when the
    run no longer fits.
    """

    def __init__(self, instances: int, most: int = 240) -> None:
        self._instances = instances
        self._busy = [0.0] * most
        self._width = _NARROWEST_S
        self._room = most * self._width
        self._last = 0.0

    def add(self, start_s: float, end_s: float) -> None:
        """Add a step or a run of steps of one instance: from and to seconds since the start of the run."""
        if end_s > self._last:
            if end_s > self._room:
                self._widen(end_s)
            self._last = end_s
        width = self._width
        at = int(start_s / width)
        if end_s <= (at + 1) * width and start_s < end_s:
            self._busy[at] += end_s - start_s
        else:
            self._split(start_s, end_s)

    def _split(self, start_s: float, end_s: float) -> None:
        """Share a span out over the windows that it touches."""
        at, width, busy = int(start_s / self._width), self._width, self._busy
        while start_s < end_s:
            at += 1
            edge = min(end_s, at * width)
            busy[at - 1] += edge - start_s
            start_s = edge

    def _widen(self, end_s: float) -> None:
        """Merge neighbours until the windows reach ``end_s``."""
        busy = self._busy
        half = len(busy) // 2
        while end_s > self._room:
            busy[:] = [*map(float.__add__, busy[::2], busy[1::2]), *[0.0] * half]
            self._width *= 2
            self._room *= 2

    def shares(self) -> list[tuple[float, float, float]]:
        """Return start, end (seconds) and share of instance time spent in steps of each window.

        The windows follow each other from 0; the last one ends with the last step.
        """
        found, start = [], 0.0
        for at, busy in enumerate(self._busy, 1):
            if start >= self._last:
                break
            end = min(at * self._width, self._last)
            found.append((start, end, busy / ((end - start) * self._instances)))
            start = end
        return found
