"""What a replayed instance did with its time, in running sums."""

from __future__ import annotations

from ..serving.bound import step_bound
from ..serving.instance import InstanceKind
from ..serving.table import StepTable
from .timeline import PoolUse


class Use:
    """Seconds by kind of step, decode steps by batch, and tokens, bytes and FLOPs.

    ``runs``: decode steps by batch; ``prompt_steps``: all others, with ``tokens`` decodes among them and ``moved``
    bytes of everything but attention. ``contexts`` and ``prefix``: cached tokens that decodes and chunks read.
    ``compute_s``: FLOPs of prompts at the peak rate.
    """

    def __init__(self) -> None:
        self.prefill_s = self.decode_s = self.mixed_s = self.mixed_decode_s = self.recompute_s = 0.0
        self.moved = self.compute_s = 0.0
        self.prompt_steps = self.tokens = self.contexts = self.prefix = 0
        self.runs: dict[int, int] = {}

    def add_to(self, pool: PoolUse, kind: InstanceKind, times: StepTable) -> None:
        """Add to the use of the pool."""
        pool.prefill_s += self.prefill_s
        pool.decode_s += self.decode_s
        pool.mixed_s += self.mixed_s
        pool.mixed_decode_s += self.mixed_decode_s
        pool.recompute_s += self.recompute_s
        pool.busy_s += self.prefill_s + self.decode_s + self.mixed_s
        pool.steps += self.prompt_steps + sum(self.runs.values())
        tokens = self.tokens + sum(batch * count for batch, count in self.runs.items())
        moved = self.moved + sum(n * times.token_bytes(batch, batch) for batch, n in self.runs.items())
        decodes = step_bound(kind, (), 0, tokens, self.contexts)
        pool.compute_bound_s += self.compute_s + decodes.compute_s
        cached = times.cached_bytes(tokens, self.contexts + self.prefix)
        pool.memory_bound_s += (moved + cached) / kind.memory_peak
