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
    DECODE_ONLY = "decodes only"


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


@dataclass(frozen=True)
class Rule:
    """A routing rule and its settings.

    ``alpha``: a deflected TTFT may be this multiple of the remote estimate. ``beta``: share of the TBT SLO
    that a mixed step may take. ``candidates``: chunk sizes tried, largest first. ``threshold``: prompts
    with fewer uncached tokens stay local. Source: arXiv 2607.02043; the printed estimate of the remote
    TTFT leaves the copy out, ``kairos`` adds it.
    """

    kind: RuleKind
    alpha: float = 1.3
    beta: float = 1.0
    candidates: tuple[int, ...] = (2048, 1024, 512, 256, 128)
    threshold: int = 0

    def __post_init__(self) -> None:
        if self.alpha < 1:
            raise InputError(f"alpha must be at least 1, not {self.alpha:g}")
        if not 0 < self.beta <= 1:
            raise InputError(f"beta must lie in (0, 1], not {self.beta:g}")
        if not self.candidates or any(c < 1 for c in self.candidates):
            raise InputError("candidate chunks must be positive")
        if self.threshold < 0:
            raise InputError(f"a threshold cannot be negative: {self.threshold}")

    @property
    def label(self) -> str:
        """Name for reports."""
        return f"threshold {self.threshold}" if self.kind is RuleKind.THRESHOLD else self.kind.value


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
    (PoolSpec(Role.PREFILL, Schedule.WHOLE), PoolSpec(Role.DECODE, Schedule.DECODE_ONLY)),
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
    """Return the rule named ``kairos``, ``kairos-printed`` or ``threshold:N``. Raises InputError."""
    name, _, number = text.partition(":")
    if name == RuleKind.THRESHOLD.value:
        if not re.fullmatch("[0-9]{1,9}", number):
            raise InputError(
                f"write a threshold as threshold:N with whole tokens, below 10**9, not {shorten(text)!r}"
            )
        return Rule(RuleKind.THRESHOLD, threshold=int(number))
    known = {kind.value: kind for kind in RuleKind}
    if name not in known or number:
        raise InputError(unknown("rule", text, ("kairos", "kairos-printed", "threshold:N")))
    return Rule(known[name])
