"""What of a prompt is already cached: blocks of an infinite cache, earlier turns of a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..workload import Request


def with_cached(request: Request, cached: int) -> Request:
    """Return the request with so many of its prompt tokens cached, at most all but the last."""
    cached = min(cached, request.isl - 1)
    return request._replace(uncached_tokens=request.isl - cached, cached_tokens=cached)


class InfiniteCache:
    """A shared prefix cache that never forgets: a prompt hits its leading blocks that came before.

    It keeps every distinct hash: some 100 bytes each.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def serve(self, request: Request) -> Request:
        """Return the request with its hits as cached tokens, and keep its blocks."""
        hits = 0
        for block in request.blocks:
            if block not in self._seen:
                break
            hits += 1
        self._seen.update(request.blocks)
        return with_cached(request, hits * request.block_tokens)


def could_be_cached(requests: Iterable[Request]) -> Iterator[Request]:
    """Yield requests with what a cache without bound would hold of the blocks they name; others as they are."""
    cache = InfiniteCache()
    for request in requests:
        yield cache.serve(request) if request.blocks else request


class Sessions:
    """Sessions whose every turn repeats what the turn before held, prompt and output.

    A prompt shorter than that began anew: nothing is cached. It keeps one number for each session.
    """

    def __init__(self) -> None:
        self._held: dict[str, int] = {}

    def turn(self, request: Request, session: str) -> Request:
        """Return the request with what its session left as cached tokens; no session, nothing."""
        if not session:
            return request
        held = self._held.get(session, 0)
        self._held[session] = request.isl + request.output_tokens
        return with_cached(request, held if request.isl >= held else 0)
