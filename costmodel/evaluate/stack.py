"""Hits of a prefix cache of every size at once: one pass over a trace's blocks, by stack distances.

An LRU cache of C tokens holds the C tokens used last, so that one list, ordered by use, stands for caches of all
sizes (Mattson et al., IBM Systems Journal 9, 1970). A block hits in those with room for it and all that were used
since; a prefix in those where all of its blocks hit.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import InputError
from ..inputs.workload import Request

_SMALLEST = 1024
#: Share of the hits of an infinite cache for which a capacity is told.
NEARLY = 0.9


class _Recency:
    """Blocks in the order of their last use, with the tokens used since any of them: a Fenwick tree over uses.

    Uses are numbered; once the numbers run out, those that are still some block's last are numbered anew. Memory
    grows with distinct blocks, not with uses.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._tree = [0] * (_SMALLEST + 1)
        self._next = 1
        self.tokens = 0

    def __len__(self) -> int:
        return len(self._last)

    def room(self, block: int) -> int | None:
        """Tokens of the smallest cache that holds the block: its own and all used since; None where it is new."""
        found = self._last.get(block)
        return None if found is None else self.tokens - self._before(found[0] - 1)

    def use(self, block: int, tokens: int) -> None:
        """Note a block as used just now."""
        found = self._last.pop(block, None)
        if found is not None:
            self._add(found[0], -found[1])
            self.tokens -= found[1]
        if self._next == len(self._tree):
            self._renumber()
        self._last[block] = (self._next, tokens)
        self._add(self._next, tokens)
        self._next += 1
        self.tokens += tokens

    def _before(self, place: int) -> int:
        total, tree = 0, self._tree
        while place:
            total += tree[place]
            place &= place - 1
        return total

    def _add(self, place: int, tokens: int) -> None:
        tree = self._tree
        while place < len(tree):
            tree[place] += tokens
            place += place & -place

    def _renumber(self) -> None:
        """Number the last uses anew, from 1, with as many numbers to spare; a dict keeps the order of use."""
        self._tree = [0] * (max(_SMALLEST, 2 * len(self._last)) + 1)
        self._next = 1
        for block, (_, tokens) in self._last.items():
            self._last[block] = (self._next, tokens)
            self._add(self._next, tokens)
            self._next += 1


@dataclass(frozen=True)
class MissRatioCurve:
    """Prompt tokens of a trace that an LRU prefix cache finds, by its size in tokens.

    ``sizes_tokens`` are those at which hits grow, ``hit_tokens`` the hits from there on; between them nothing is
    gained. ``prompt_tokens`` and ``requests`` of the trace, ``hashed`` of them with blocks, ``working_set_tokens``
    of all distinct blocks, each whole; ``unhashed_tokens`` of prompts are beyond their hashes and never found.
    """

    requests: int
    hashed: int
    prompt_tokens: int
    output_tokens: int
    working_set_tokens: int
    distinct_blocks: int
    sizes_tokens: tuple[int, ...]
    hit_tokens: tuple[int, ...]
    unhashed_tokens: int = 0

    def hits(self, size_tokens: float) -> int:
        """Prompt tokens found by a cache with room for so many."""
        place = bisect.bisect_right(self.sizes_tokens, size_tokens)
        return self.hit_tokens[place - 1] if place else 0

    def hit_rate(self, size_tokens: float) -> float:
        """Share of all prompt tokens that such a cache finds."""
        return self.hits(size_tokens) / self.prompt_tokens

    @property
    def most_hits(self) -> int:
        """Prompt tokens that a cache without bound finds."""
        return self.hit_tokens[-1] if self.hit_tokens else 0

    @property
    def infinite_hit_rate(self) -> float:
        """Share of all prompt tokens that a cache without bound finds."""
        return self.most_hits / self.prompt_tokens

    @property
    def enough_tokens(self) -> int:
        """Size from which a larger cache gains nothing, 0 where no size gains anything."""
        return self.sizes_tokens[-1] if self.sizes_tokens else 0

    def size_for(self, share: float) -> int | None:
        """Smallest size that finds this share of what a cache without bound finds; None where that is nothing."""
        if not self.most_hits:
            return None
        return self.sizes_tokens[bisect.bisect_left(self.hit_tokens, share * self.most_hits)]


def miss_ratio_curve(requests: Iterable[Request], *, tail_first: bool = True) -> MissRatioCurve:
    """Return the hits of a prefix cache of every size, in one pass.

    A prompt is looked up as a whole before its blocks count as used. ``tail_first``: of one prompt the last block is
    forgotten first, as in vLLM; else the first block. At least the last token of a prompt is always computed.

    Raises InputError for no requests, or where none has hashes of its blocks.
    """
    recency = _Recency()
    grown: dict[int, int] = {}
    count = hashed = prompts = outputs = unhashed = 0
    for request in requests:
        count += 1
        prompts += request.isl
        outputs += request.output_tokens
        unhashed += max(0, request.isl - len(request.blocks) * request.block_tokens)
        if not request.blocks:
            continue
        hashed += 1
        _look_up(request, recency, grown)
        for block in reversed(request.blocks) if tail_first else request.blocks:
            recency.use(block, request.block_tokens)
    if not count:
        raise InputError("the trace has no requests")
    if not hashed:
        raise InputError(
            "the trace has no hashes of prompt blocks, by which hits are found: state --hit-rate"
        )
    sizes = sorted(grown)
    hits, total = [], 0
    for size in sizes:
        total += grown[size]
        hits.append(total)
    return MissRatioCurve(
        count, hashed, prompts, outputs, recency.tokens, len(recency), tuple(sizes), tuple(hits), unhashed
    )


def _look_up(request: Request, recency: _Recency, grown: dict[int, int]) -> None:
    """Add the tokens that a prompt finds to the smallest cache that finds them."""
    found = least = 0
    for block in request.blocks:
        room = recency.room(block)
        if room is None:
            return
        least = max(least, room)
        gained = min(found + request.block_tokens, request.isl - 1) - found
        if gained <= 0:
            return
        found += gained
        grown[least] = grown.get(least, 0) + gained
