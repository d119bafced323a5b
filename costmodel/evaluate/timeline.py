"""What an evaluator returns: each request's timestamps and ledger, each pool's use."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..inputs.workload import Request

#: Accounts of the ledger, in the order of a request's life; they add up to E2E - ideal.
ACCOUNTS = ("queue", "admission", "load", "stretch", "link", "handover", "stalls", "gathering", "recompute")


@dataclass(slots=True)
class Record:
    """One request's timestamps (seconds) and accounts (signed seconds), filled in as it runs.

    ``p0``/``p1``: start of the step with its first, end of the step with its last prompt token. ``first``:
    when the client sees token 1. ``d0``: start of its first decode step elsewhere. ``admission`` is the
    wait before prefill, ``seating`` that on the decode side; the ledger adds them. ``inflicted``: stalls
    that its prompt caused in others. ``index``: place in order of arrival. ``cached``: prompt tokens that were not
    computed, as memory had them or, ``read`` of them, a KV tier. ``ahead``: prompts on the instance when it joined
    its queue, with ``ahead_tokens`` to compute. ``redone``: the part of ``recompute`` before token 1.
    ``recomputed_prefix``: the part of ``stretch`` that computes, alone, what the ideal has cached.
    ``prefill_on``/``decode_on``:
    instances, counted over all pools. ``constant``: what the engine takes outside of steps before token 1; it lies
    before the arrival, which is when the engine's queue has the request.
    """

    request: Request
    index: int = 0
    route: str = ""
    cached: int = 0
    preempted: int = 0
    ahead: int = 0
    ahead_tokens: int = 0
    prefill_on: int = -1
    decode_on: int = -1
    read: int = 0
    p0: float = -1.0
    p1: float = 0.0
    reserved: float = 0.0
    copied: float = 0.0
    d0: float = 0.0
    first: float = 0.0
    end: float = -1.0
    ideal_prefill: float = 0.0
    ideal_decode: float = 0.0
    queue: float = 0.0
    admission: float = 0.0
    seating: float = 0.0
    load: float = 0.0
    stretch: float = 0.0
    link: float = 0.0
    handover: float = 0.0
    stalls: float = 0.0
    gathering: float = 0.0
    recompute: float = 0.0
    redone: float = 0.0
    inflicted: float = 0.0
    held_byte_s: float = 0.0
    constant: float = 0.0
    recomputed_prefix: float = 0.0

    @property
    def finished(self) -> bool:
        """True once the last token is out."""
        return self.end >= 0

    @property
    def ttft(self) -> float:
        """Arrival to the first token that the client sees."""
        return self.first - self.request.arrival_s + self.constant

    @property
    def e2e(self) -> float:
        """Arrival to the last token."""
        return self.end - self.request.arrival_s + self.constant

    @property
    def ideal(self) -> float:
        """What the request takes alone, on the fastest instance kind, unchunked."""
        return self.constant + self.ideal_prefill + self.ideal_decode

    @property
    def delay(self) -> float:
        """E2E - ideal."""
        return self.e2e - self.ideal

    @property
    def tpot(self) -> float | None:
        """(E2E - TTFT) / (OSL - 1), None for a single output token."""
        gaps = self.request.output_tokens - 1
        return (self.end - self.first) / gaps if gaps > 0 else None

    def account(self, name: str) -> float:
        """Return one account of the ledger; admission includes the decode side's."""
        return self.admission + self.seating if name == "admission" else float(getattr(self, name))


@dataclass(slots=True)
class PoolUse:
    """What a pool of instances did: GPU-seconds by kind of step, useful work, and the time observed."""

    role: str
    instances: int
    gpus: int
    busy_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    mixed_s: float = 0.0
    mixed_decode_s: float = 0.0
    recompute_s: float = 0.0
    compute_bound_s: float = 0.0
    memory_bound_s: float = 0.0
    span_s: float = 0.0
    steps: int = 0

    @property
    def busy_share(self) -> float:
        """Share of instance time spent in steps."""
        return self.busy_s / (self.span_s * self.instances) if self.span_s else 0.0

    @property
    def mfu(self) -> float:
        """Useful FLOPs over peak FLOPs of the whole time."""
        return self.compute_bound_s / (self.span_s * self.instances) if self.span_s else 0.0

    @property
    def mbu(self) -> float:
        """Fewest bytes over peak bytes of the whole time."""
        return self.memory_bound_s / (self.span_s * self.instances) if self.span_s else 0.0


@dataclass(slots=True)
class TierUse:
    """What was read from a KV tier and written to it, over all its ports.

    ``read_s``: seconds that reads take of their ports, ``write_s``: written bytes over the tier's bandwidth.
    ``read_use`` and ``write_use``: their shares of the time observed, at the busiest port. ``unheld``: prompts whose
    stated prefix it has no room for even once.
    """

    name: str
    ports: int
    reads: int = 0
    read_tokens: int = 0
    read_s: float = 0.0
    written_tokens: int = 0
    write_s: float = 0.0
    read_use: float = 0.0
    write_use: float = 0.0
    unheld: int = 0


@dataclass(slots=True)
class PrefixUse:
    """Where prompt tokens were found: in memory, in each tier, or nowhere, so that they were computed.

    ``hits``: prompts that read from a tier; ``alone_s``: seconds of their reads, each on free ports; ``saved_s``:
    seconds that they would compute longer alone, had they not read.
    """

    memory_tokens: int = 0
    computed_tokens: int = 0
    hits: int = 0
    alone_s: float = 0.0
    saved_s: float = 0.0
    tiers: list[TierUse] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """All requests of one evaluation, the use of its pools, and where prefixes were found."""

    strategy: str
    records: list[Record]
    pools: list[PoolUse] = field(default_factory=list)
    span_s: float = 0.0
    prefixes: PrefixUse = field(default_factory=PrefixUse)

    @property
    def finished(self) -> list[Record]:
        """Requests whose last token is out."""
        return [record for record in self.records if record.finished]
