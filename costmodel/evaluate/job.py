"""A request under way in a replay: its record, and what its instance has to know of it."""

from __future__ import annotations

from .timeline import Record


class Job(Record):
    """One object a request: what is not set stands at its default.

    As a prompt: ``tokens`` to compute over the ``cached`` ones, ``done`` so far and ``taken`` by the step under
    way, ``placed`` when, ``copies`` where its KV leaves. As a decode: steps ``left`` when it joined, after step
    ``begun`` of its instance, the first of them over ``context`` tokens, the last number ``ends`` (-1: none);
    ``again``: its first step recomputes the last prompt token; ``gathered`` and ``stalled`` are the instance's
    totals then. ``entered`` in which order, with KV of ``admitted`` tokens and ``held`` bytes a GPU.

    Preempted at ``since``, a prompt has ``lost`` tokens to regain, and a decode ``resumes`` as a prompt of all
    tokens known so far, which produces the next one.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    isl: int
    outputs: int
    tokens: int
    placed: float
    copies: bool
    done = 0
    taken = 0
    lost = 0
    resumes = False
    since = -1.0
    entered = 0
    held = 0
    admitted = 0
    left = 0
    context = 0
    again = False
    begun = 0
    ends = -1
    gathered = 0.0
    stalled = 0.0

    @property
    def fresh(self) -> bool:
        """True for a prompt that was never preempted."""
        return not self.resumes and not self.lost
