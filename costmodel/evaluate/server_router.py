"""The router of a replay: the same choices, without a function call an instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from .routing import Routed, Router
from .server import Server


class ServerRouter(Router):
    """Chooses among servers in plain loops, which compile."""

    def shortest(self, pool: Sequence[Routed]) -> Server:
        """Return the server with the fewest prompt tokens pending."""
        servers = cast(list[Server], pool)
        best = servers[0]
        for server in servers:
            if server.pending_tokens != best.pending_tokens:
                better = server.pending_tokens < best.pending_tokens
            elif server.load != best.load:
                better = server.load < best.load
            else:
                better = server.placed < best.placed
            if better:
                best = server
        return best

    def least_kv(self) -> Server:
        """Return the decode server with the smallest share of its KV pool placed there."""
        servers = cast(list[Server], self.decodes)
        best = servers[0]
        least = best.committed / best.room
        for server in servers:
            share = server.committed / server.room
            if share < least or (share == least and server.placed < best.placed):
                best, least = server, share
        return best
