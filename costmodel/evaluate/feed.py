"""How requests come to an evaluator: at their own times, or one for each that ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..errors import InputError
from ..inputs.workload import Request


@dataclass
class Feed:
    """Requests in order of arrival. ``concurrency`` N closes the loop: N clients, each sends the next request as
    soon as its last one has ended, and the requests' own times are not read.
    """

    requests: Iterable[Request]
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.concurrency is not None and self.concurrency < 1:
            raise InputError(f"--concurrency must be at least 1, not {self.concurrency}")
        self._left: Iterator[Request] = iter(self.requests)

    @property
    def closed(self) -> bool:
        """True where requests wait for others to end."""
        return self.concurrency is not None

    def next(self, now: float = 0.0) -> Request | None:
        """Return the next request, of a closed loop as arriving ``now``; None at the end."""
        request = next(self._left, None)
        if request is None or self.concurrency is None:
            return request
        return request._replace(arrival_s=now)
