"""The largest chunk of a prompt that running decodes can bear: a limit on mixed steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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


class Mixed(NamedTuple):
    """A chunk beside decodes: its place among the candidates, its tokens, and the time of the mixed step."""

    place: int
    tokens: int
    seconds: float


def largest_step(
    times: Steps, cap: Cap, left: int, prefix: int, batch: int, context: int, budget: int, first: int = 0
) -> Mixed | None:
    """Return the step of the largest candidate chunk (the last one shortened) that the cap allows.

    Without running decodes, or without a cap, the largest candidate. None when even the smallest exceeds it.
    ``first``: place of the largest candidate to try.
    """
    free = batch == 0 or cap.step_s is None
    for place in range(first, len(cap.candidates)):
        size = cap.candidates[place]
        if size > budget:
            continue
        chunk = min(size, left)
        seconds = times.step((Chunk(chunk, prefix),), int(chunk == left), batch, context)
        if free or (cap.step_s is not None and seconds <= cap.step_s):
            return Mixed(place, chunk, seconds)
    return None


def largest_chunk(
    times: Steps, cap: Cap, left: int, prefix: int, batch: int, context: int, budget: int
) -> int | None:
    """Return the tokens of :func:`largest_step`, or None."""
    found = largest_step(times, cap, left, prefix, batch, context, budget)
    return None if found is None else found.tokens
