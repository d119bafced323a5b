"""The largest chunk of a prompt that running decodes can bear: a limit on mixed steps."""

from __future__ import annotations

from dataclasses import dataclass

from .step import StepTimes
from .work import Chunk


@dataclass(frozen=True)
class Cap:
    """A limit on mixed steps: seconds (None: no limit) and the chunks to try, largest first."""

    step_s: float | None
    candidates: tuple[int, ...]


def largest_chunk(
    times: StepTimes, cap: Cap, left: int, prefix: int, batch: int, context: int, budget: int
) -> int | None:
    """Return the largest candidate chunk (the last one shortened) that keeps the step within the cap.

    Without running decodes, or without a cap, the largest candidate. None when even the smallest exceeds it.
    """
    sizes = [c for c in cap.candidates if c <= budget]
    for size in sorted(sizes, reverse=True):
        chunk = min(size, left)
        if batch == 0 or cap.step_s is None:
            return chunk
        if times.step((Chunk(chunk, prefix),), int(chunk == left), batch, context) <= cap.step_s:
            return chunk
    return None
