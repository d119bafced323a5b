"""KV tiers of a deployment: where prefixes lie that GPU memory has no room for, and what reading them takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..formulas.reuse import tier_read_time


@dataclass(frozen=True)
class KvTier:
    """A tier below GPU memory, as instances see it.

    ``shared``: all instances share one store (KV reuse, as LMCache and Mooncake have it); else each has its own (KV
    offload, as vLLM has it). ``capacity_bytes``: of the store, or of one instance. Bandwidths: between one instance
    and the tier, one direction each. ``on_link``: reads cross the ports that hand-overs use. ``bytes_per_token``: as
    the tier keeps them, of all layers, each byte once.
    """

    name: str
    shared: bool
    capacity_bytes: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    bytes_per_token: float
    fixed_bytes: float = 0.0
    latency_s: float = 0.0
    chunk_tokens: int = 256
    per_chunk_s: float = 0.0
    on_link: bool = False

    @property
    def capacity_tokens(self) -> float:
        """Tokens that the tier has room for."""
        return self.capacity_bytes / self.bytes_per_token if self.bytes_per_token else math.inf

    def read_s(self, tokens: int) -> float:
        """Seconds to read the KV of so many tokens while nobody else reads; none for none."""
        if tokens <= 0:
            return 0.0
        return (
            float(
                tier_read_time(
                    tokens,
                    self.bytes_per_token,
                    self.latency_s,
                    self.chunk_tokens,
                    self.per_chunk_s,
                    self.read_bytes_per_s,
                )
            )
            + self.fixed_bytes / self.read_bytes_per_s
        )
