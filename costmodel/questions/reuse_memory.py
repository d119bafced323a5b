"""The KV pool of an instance against what its sequences hold at once, and what is left for prefixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..formulas.reuse import kv_overflow
from ..serving.instance import InstanceKind
from ..serving.memory import kv_pool
from ..serving.tiers import KvShape, KvTier
from .reuse_hits import NO_CAPACITY


@dataclass(frozen=True)
class Memory:
    """KV pool of all GPUs of an instance, or why it is not known; bytes of its ranks' copies together."""

    pool_bytes: float | None
    reason: str | None
    bytes_per_token: float
    fixed_bytes: float

    def wanted_bytes(self, sequences: int, context: int) -> float:
        """KV bytes of so many sequences."""
        return float(kv_overflow(sequences, context, self.bytes_per_token, self.fixed_bytes, 0.0))

    def room_tokens(self, sequences: int | None, context: int | None) -> float | None:
        """Tokens of prefixes for which the pool has room beside the sequences that run."""
        if self.pool_bytes is None or not self.bytes_per_token:
            return None
        running = self.wanted_bytes(sequences, context) if sequences and context else 0.0
        return max(0.0, self.pool_bytes - running) / self.bytes_per_token


@dataclass(frozen=True)
class Overflow:
    """KV of ``sequences`` at once on one instance, copies of all its ranks included, against its pool.

    ``taken_by``: the first tier that has room for all of it: what is computed is written to every tier, so that a tier
    has what lies above it, too.
    """

    sequences: int
    context_tokens: int
    wanted_bytes: float
    pool_bytes: float | None
    pool_reason: str | None
    overflow_bytes: float | None
    overflow_reason: str | None
    overflow_tokens: float | None
    taken_by: str | None
    taken_by_reason: str | None


def memory_of(kind: InstanceKind | None, given: float | None, shape: KvShape) -> Memory:
    """Return the KV pool of an instance: as given, else as vLLM sizes it on its GPUs."""
    per_token, fixed = shape.held_bytes_per_token, shape.held_fixed_bytes
    if given is not None:
        return Memory(given, None, per_token, fixed)
    if kind is None:
        why = "pass --hardware, or --pool with the KV pool of the instance"
        return Memory(None, why, per_token, fixed)
    return Memory(kv_pool(kind).pool_bytes * kind.gpus, None, per_token, fixed)


def overflow_of(memory: Memory, sequences: int, context: int, tiers: Sequence[KvTier]) -> Overflow:
    """Return what of these sequences the pool has no room for, and which tier takes it."""
    wanted, pool, why = memory.wanted_bytes(sequences, context), memory.pool_bytes, memory.reason
    if pool is None:
        return Overflow(sequences, context, wanted, None, why, None, why, None, None, why)
    over = float(kv_overflow(sequences, context, memory.bytes_per_token, memory.fixed_bytes, pool))
    tokens = over / memory.bytes_per_token if memory.bytes_per_token else 0.0
    taker = _taker(sequences, context, tiers) if over else (None, "everything fits GPU memory")
    return Overflow(sequences, context, wanted, pool, None, over, None, tokens, *taker)


def _taker(sequences: int, context: int, tiers: Sequence[KvTier]) -> tuple[str | None, str | None]:
    """Return the first tier with room for the KV of all sequences, or why there is none."""
    for tier in tiers:
        if math.isinf(tier.capacity_bytes):
            return None, f"capacity of {tier.name} {NO_CAPACITY}"
        if sequences * tier.bytes_of(context) <= tier.capacity_bytes:
            return tier.name, None
    none = "no tier has room for all of it: each has what lies above it, too"
    return None, none if tiers else "no --tier is given"
