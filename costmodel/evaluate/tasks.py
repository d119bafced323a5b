"""What the reference's instances work on: prompts and running decodes."""

from __future__ import annotations

from dataclasses import dataclass

from ..serving.work import Chunk
from .timeline import Record


@dataclass(slots=True, eq=False)
class Prompt:
    """A prompt on its way through an instance, and whether its KV leaves afterwards.

    ``tokens`` to compute over ``cached`` ones, ``done`` so far; ``reading``: reads under way that it waits for. A
    preempted one starts again: ``since`` then, with ``lost`` tokens to regain, or as the decode ``resumes`` that it
    was, which produces its next token at the end.
    """

    record: Record
    copies: bool
    tokens: int
    cached: int
    placed: float
    done: int = 0
    taken: int = 0
    entered: int = 0
    held: int = 0
    lost: int = 0
    since: float = 0.0
    reading: int = 0
    resumes: Sequence_ | None = None

    @property
    def left(self) -> int:
        """Tokens still to compute."""
        return self.tokens - self.done

    @property
    def fresh(self) -> bool:
        """True for one that was never preempted."""
        return self.resumes is None and not self.lost

    @property
    def chunk(self) -> Chunk:
        """The part taken into the current step."""
        return Chunk(self.taken, self.cached + self.done)


@dataclass(slots=True, eq=False)
class Sequence_:
    """A running decode: steps left, and the context of the next one.

    ``again``: its next step recomputes the last prompt token. ``since``: when it was preempted, until its next
    decode step begins. ``held``: bytes a GPU.
    """

    record: Record
    again: bool
    left: int
    context: int
    held: int = 0
    entered: int = 0
    since: float | None = None

    @property
    def known(self) -> int:
        """Prompt tokens and tokens produced so far."""
        return self.context


def decode_of(record: Record, again: bool) -> Sequence_:
    """Return the decode of a request whose prompt is computed."""
    request = record.request
    return Sequence_(record, again, request.output_tokens - 1, request.isl if again else request.isl + 1)
