"""How far the step times of a layout may be off: one factor, from the GPU time of a request, operator by operator.

Each kind of operator, and the whole step, is moved to its edge (:mod:`..serving.band`), one at a time; what that adds
to the GPU time of a mean request, at the batches that the layout runs at, is combined by root-sum-square.
"""

from __future__ import annotations

from ..decision.bands import COPY, errors
from ..serving.band import moves, spread
from ..serving.deployment import Topology
from ..serving.instance import InstanceKind
from ..serving.step import seconds_by_kind
from ..serving.strategies import Schedule
from ..serving.work import Chunk
from .closed import Closed
from .space import Layout


def step_factor(closed: Closed, layout: Layout, topology: Topology) -> float:
    """Return the factor by which step times may be slower, or faster."""
    parts = gpu_seconds(closed, layout, topology)
    off = {name: edge for name, edge in errors(layout.at(topology)).items() if name != COPY}
    total = sum(parts.values())
    return spread(total, [total + width for width in moves(parts, off)])


def gpu_seconds(closed: Closed, layout: Layout, topology: Topology) -> dict[str, float]:
    """GPU-seconds of a mean request by kind of operator: its prompt, and its share of the steps that it decodes in."""
    form, means, deployment = (
        closed.form(layout, topology),
        closed.means(layout, topology),
        layout.at(topology),
    )
    tokens = max(1, round(form.mean([request.uncached_tokens for request in form.requests])))
    prefix = round(form.mean([request.cached_tokens for request in form.requests]))
    batch = max(1, round(means.batch or 1.0))
    context = batch * form.context
    beside = _beside(layout, means.local_share)
    chunk = max(1, min(tokens, layout.budget - batch))
    mixed = beside * tokens / chunk
    found: dict[str, float] = {}

    def add(kind: InstanceKind, steps: float, chunks: tuple[Chunk, ...], decodes: int) -> None:
        if steps > 0:
            parts = seconds_by_kind(kind, chunks, len(chunks), decodes, context if decodes else 0.0)
            for name, seconds in parts.items():
                found[name] = found.get(name, 0.0) + steps * kind.gpus * seconds

    add(deployment.prefill, 1 - beside, (Chunk(tokens, prefix),), 0)
    add(deployment.decode, mixed, (Chunk(chunk, prefix),), batch)
    add(deployment.decode, form.gaps / batch - mixed, (), batch)
    return found


def _beside(layout: Layout, local_share: float) -> float:
    """Share of the prompts that run in steps beside decodes."""
    if layout.pooled:
        return float(layout.strategy.pools[0].schedule is not Schedule.WHOLE)
    return local_share
