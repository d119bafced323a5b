"""The largest chunk of a prompt that running decodes can bear: a limit on mixed steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .work import Chunk


class Steps(Protocol):
    """Times of single steps, in seconds; :class:`~.step.StepTimes` and :class:`~.table.StepTable` have them."""

    def decode(self, batch: int, context: float) -> float:
        """A step of ``batch`` decodes over ``context`` cached tokens in all."""

    def prefill(self, tokens: int, prefix: int = 0) -> float:
        """One prompt alone, in one step."""

    def step(self, chunks: Sequence[Chunk], last: int, batch: int, context: float) -> float:
        """Chunks, ``last`` of which end their prompt, and decodes."""


@dataclass(frozen=True)
class Cap:
    """A limit on mixed steps: seconds (None: no limit) and the chunks to try, largest first."""

    step_s: float | None
    candidates: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(sorted(self.candidates, reverse=True)))


def largest_chunk(
    times: Steps, cap: Cap, left: int, prefix: int, batch: int, context: int, budget: int
) -> int | None:
    """Return the largest candidate chunk (the last one shortened) that keeps the step within the cap.

    Without running decodes, or without a cap, the largest candidate. None when even the smallest exceeds it.
    """
    for size in cap.candidates:
        if size > budget:
            continue
        chunk = min(size, left)
        if batch == 0 or cap.step_s is None:
            return chunk
        if times.step((Chunk(chunk, prefix),), int(chunk == left), batch, context) <= cap.step_s:
            return chunk
    return None
