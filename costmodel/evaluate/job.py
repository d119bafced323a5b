"""A request under way in a replay: its record, and what its instance has to know of it."""

from __future__ import annotations

from ..inputs.workload import Request
from .timeline import Record


class Job(Record):
    """One object a request.

    As a prompt: ``tokens`` to compute over the ``cached`` ones, ``done`` so far and ``taken`` by the step under
    way, ``placed`` when, ``copies`` where its KV leaves. As a decode: steps ``left`` when it joined, after step
    ``begun`` of its instance, the first of them over ``context`` tokens, the last number ``ends`` (-1: none);
    ``reading``: reads under way that it waits for.
    ``again``: its first step recomputes the last prompt token; ``gathered`` and ``stalled`` are the instance's
    totals then. ``entered`` in which order, with KV of ``admitted`` tokens and ``held`` bytes a GPU.

    Preempted at ``since``, a prompt has ``lost`` tokens to regain, and a decode ``resumes`` as a prompt of all
    tokens known so far, which produces the next one.
    """

    __slots__ = (
        "admitted", "again", "begun", "context", "copies", "done", "ends", "entered", "gathered", "held", "isl",
        "left", "lost", "outputs", "placed", "reading", "resumes", "since", "stalled", "taken", "tokens",
    )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __init__(
        self, request: Request, index: int, ideal: tuple[float, float], now: float, constant: float
    ) -> None:
        # Not by Record's own __init__: this one is called for every request.
        self.request, self.index, self.placed = request, index, now
        self.ideal_prefill, self.ideal_decode = ideal
        self.constant = constant
        self.isl, self.outputs = request[1] + request[2], request[3]
        self.route = ""
        self.p0 = self.end = self.since = -1.0
        self.prefill_on = self.decode_on = self.ends = -1
        self.copies = self.resumes = self.again = False
        self.ahead = self.ahead_tokens = 0
        self.cached = self.read = self.reading = self.preempted = self.tokens = self.done = self.taken = (
            self.lost
        ) = self.entered = 0
        self.held = self.admitted = self.left = self.context = self.begun = 0
        self.p1 = self.reserved = self.copied = self.d0 = self.first = self.gathered = self.stalled = 0.0
        self.queue = self.admission = self.seating = self.load = self.stretch = self.link = self.handover = (
            0.0
        )
        self.stalls = self.gathering = self.recompute = self.redone = self.inflicted = self.held_byte_s = 0.0
        self.recomputed_prefix = 0.0

    @property
    def fresh(self) -> bool:
        """True for a prompt that was never preempted."""
        return not self.resumes and not self.lost
