"""Prefix caches: which leading blocks of a prompt an instance still holds from earlier prompts."""

from __future__ import annotations

from collections import OrderedDict

from ..inputs.workload import Request


class PrefixCache:
    """Blocks of finished prompts on one instance, the least recently used forgotten first.

    Of one prompt those at its end go first, as engines free them: what is left is a prefix still.

    Blocks are known by their hashes, which stand for all tokens up to their end. They may fill what requests
    that are served there leave of the KV pool: ``room`` bytes, passed at every use. ``tokens``: held now.
    """

    def __init__(self, bytes_per_token: float) -> None:
        self.bytes_per_token = bytes_per_token
        self.tokens = 0
        self._blocks: OrderedDict[int, int] = OrderedDict()

    def hit(self, request: Request) -> int:
        """Cached tokens of a prompt: its leading blocks that are here, at most all tokens but the last."""
        found = 0
        for block in request.blocks:
            if block not in self._blocks:
                break
            found += request.block_tokens
        return min(found, request.isl - 1)

    def add(self, request: Request, room: float) -> None:
        """Note a computed prompt's blocks as used just now; forget what the room does not hold."""
        blocks = self._blocks
        for block in reversed(request.blocks):
            if block in blocks:
                blocks.move_to_end(block)
            else:
                blocks[block] = request.block_tokens
                self.tokens += request.block_tokens
        most = max(0.0, room) / self.bytes_per_token
        while self.tokens > most:
            self.tokens -= blocks.popitem(last=False)[1]


def copied_tokens(request: Request, cache: PrefixCache, *, prefix: bool = False) -> int:
    """Prompt tokens whose KV a decode instance lacks; ``prefix``: it lacks a cached prefix of unknown blocks, too."""
    if request.blocks:
        return request.isl - cache.hit(request)
    return request.isl if prefix else request.uncached_tokens
