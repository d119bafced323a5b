"""Strategies as values: which pools there are, how each schedules, and the stages a request goes through.

Evaluators interpret these values; no strategy is coded twice. A new strategy is a new value here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ..errors import InputError, shorten, unknown


class Schedule(Enum):
    """How the steps of an instance take up prompts."""

    WHOLE = "whole prompts, before decodes"  # prefill first: a step holds prompts or decodes, never both
    CHUNKED = "chunks beside decodes"  # stall-free: decodes first, prompts fill the token budget


class Role(Enum):
    """Which instances of the deployment form a pool."""

    SHARED = "shared"  # all of them
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True)
class PoolSpec:
    """A pool of instances and its schedule."""

    role: Role
    schedule: Schedule


@dataclass(frozen=True)
class Route:
    """The stages of a request: where its prompt is computed, whether its KV is copied, where it decodes."""

    prefill: Role
    decode: Role

    @property
    def copies(self) -> bool:
        """True where prefill and decode run in different pools, so that KV crosses a link."""
        return self.prefill is not self.decode


class RuleKind(Enum):
    """How a router decides between the routes of a strategy."""

    KAIROS_PRINTED = "kairos-printed"
    KAIROS = "kairos"
    THRESHOLD = "threshold"
    BUSY = "busy"


@dataclass(frozen=True)
class Rule:
    """A routing rule and its settings.

    ``alpha``: a deflected TTFT may be this multiple of the remote estimate. ``beta``: share of the TBT SLO
    that a mixed step may take. ``candidates``: chunk sizes tried, largest first. ``threshold``: prompts
    with fewer uncached tokens stay local; ``queue`` (``busy``): so does every prompt while that many wait for
    prefill (Dynamo's conditional disaggregation). Source: arXiv 2607.02043; the printed estimate of the remote
    TTFT leaves the copy out, ``kairos`` adds it.
    """

    kind: RuleKind
    alpha: float = 1.3
    beta: float = 1.0
    candidates: tuple[int, ...] = (2048, 1024, 512, 256, 128)
    threshold: int = 0
    queue: int = 0

    def __post_init__(self) -> None:
        if self.alpha < 1:
            raise InputError(f"alpha must be at least 1, not {self.alpha:g}")
        if not 0 < self.beta <= 1:
            raise InputError(f"beta must lie in (0, 1], not {self.beta:g}")
        if not self.candidates or any(c < 1 for c in self.candidates):
            raise InputError("candidate chunks must be positive")
        if self.threshold < 0:
            raise InputError(f"a threshold cannot be negative: {self.threshold}")
        if self.kind is RuleKind.BUSY and self.queue < 1:
            raise InputError(f"busy:N:Q needs Q of at least 1 waiting prompt, not {self.queue}")

    @property
    def kairos(self) -> bool:
        """True where the router estimates both ways and caps mixed steps."""
        return self.kind in (RuleKind.KAIROS, RuleKind.KAIROS_PRINTED)

    @property
    def label(self) -> str:
        """Name for reports."""
        if self.kind is RuleKind.THRESHOLD:
            return f"threshold {self.threshold}"
        if self.kind is RuleKind.BUSY:
            return f"threshold {self.threshold} or {self.queue} waiting"
        return str(self.kind.value)


@dataclass(frozen=True)
class Strategy:
    """A way to serve: pools, routes, and the rule that picks a route where there are two."""

    name: str
    pools: tuple[PoolSpec, ...]
    routes: tuple[Route, ...]
    rule: Rule | None = None

    @property
    def pooled(self) -> bool:
        """True where every instance does everything."""
        return self.pools[0].role is Role.SHARED


_LOCAL = Route(Role.SHARED, Role.SHARED)
_REMOTE = Route(Role.PREFILL, Role.DECODE)
_DEFLECTED = Route(Role.DECODE, Role.DECODE)

COLOCATED = Strategy("colocated", (PoolSpec(Role.SHARED, Schedule.WHOLE),), (_LOCAL,))
CHUNKED = Strategy("chunked", (PoolSpec(Role.SHARED, Schedule.CHUNKED),), (_LOCAL,))
DISAGGREGATED = Strategy(
    "disaggregated",
    (PoolSpec(Role.PREFILL, Schedule.WHOLE), PoolSpec(Role.DECODE, Schedule.WHOLE)),
    (_REMOTE,),
)


def deflected(rule: Rule | None = None) -> Strategy:
    """Return the deflected strategy under a routing rule (default: Kairos with the copy in its estimate)."""
    return Strategy(
        "deflected",
        (PoolSpec(Role.PREFILL, Schedule.WHOLE), PoolSpec(Role.DECODE, Schedule.CHUNKED)),
        (_REMOTE, _DEFLECTED),
        rule or Rule(RuleKind.KAIROS),
    )


DEFLECTED = deflected()
STRATEGIES = (COLOCATED, CHUNKED, DISAGGREGATED, DEFLECTED)


def parse_rule(text: str) -> Rule:
    """Return the rule named ``kairos``, ``kairos-printed``, ``threshold:N`` or ``busy:N:Q``. Raises InputError."""
    name, *numbers = text.split(":")
    wanted = {RuleKind.THRESHOLD.value: ("N",), RuleKind.BUSY.value: ("N", "Q")}
    if name in wanted:
        form = ":".join((name, *wanted[name]))
        if len(numbers) != len(wanted[name]) or not all(re.fullmatch("[0-9]{1,9}", n) for n in numbers):
            raise InputError(
                f"write a {name} as {form} with whole tokens, below 10**9, not {shorten(text)!r}"
                if name == RuleKind.THRESHOLD.value
                else f"write {form}: uncached tokens and waiting prompts, below 10**9, not {shorten(text)!r}"
            )
        return Rule(
            RuleKind(name), threshold=int(numbers[0]), queue=int(numbers[-1]) if len(numbers) > 1 else 0
        )
    known = {kind.value: kind for kind in RuleKind}
    if name not in known or numbers:
        raise InputError(unknown("rule", text, ("kairos", "kairos-printed", "threshold:N", "busy:N:Q")))
    return Rule(known[name])
