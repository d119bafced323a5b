"""Claims about populations against counted ones: a packaged figure whose note says "3 of 45" was counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ...records import Figure, Record
from ...records.packaged import load_records, record_names
from ..case import Case
from ..finding import HOLDS, INCONSISTENT, Finding, not_computable
from ..written import resolution

CHECK = "counted_population"
#: Confidence of a record whose figures were counted where they were published, not quoted.
COUNTED = "primary"
_COUNTS = re.compile(r"\b(\d+) of (\d+)\b")
#: Conditions that say which population: a claim that states one is about that one.
_WHICH = ("workload", "scenario")
_ROUND = re.compile(r"v\d+(\.\d+)*")


class Counted(NamedTuple):
    """A packaged figure, the counts that it comes from, and what was counted."""

    record: str
    value: float
    hits: int
    size: int
    which: str


@lru_cache(maxsize=1)
def _populations() -> dict[str, tuple[Counted, ...]]:
    """Counted populations by metric."""
    found: dict[str, list[Counted]] = {}
    for name in record_names():
        for record in load_records(name):
            for figure in record.figures if record.confidence == COUNTED else ():
                counts = _COUNTS.search(figure.note or "")
                if counts and figure.dimension == "1":
                    hits, size = int(counts[1]), int(counts[2])
                    made = Counted(record.name, figure.value, hits, size, _which(record, figure))
                    found.setdefault(figure.metric, []).append(made)
    return {metric: tuple(counted) for metric, counted in found.items()}


def _which(record: Record, figure: Figure) -> str:
    stated = record.conditions_of(figure)
    return ", ".join(str(stated[key]) for key in _WHICH if key in stated)


def check_populations(case: Case) -> Iterator[Finding]:
    """Compare claims of shares with every packaged population of the same metric that they may be about."""
    for claim in case.record.figures:
        counted = [c for c in _known(claim) if c.record != case.record.name]
        if not counted:
            continue
        about = _about(case.record, claim, counted)
        what = f"{claim.metric} {claim.note or claim.text}"
        if not about:
            reason = f"that population is not packaged: {'; '.join(c.which for c in counted)} are"
            yield not_computable(CHECK, (claim.name,), what, reason)
        else:
            yield _compared(claim, what, about)


def _known(claim: Figure) -> tuple[Counted, ...]:
    """Populations of a claim's metric; one that was counted itself is none of the others."""
    return _populations().get(claim.metric, ()) if claim.dimension == "1" else ()


def _about(record: Record, claim: Figure, counted: list[Counted]) -> list[Counted]:
    """Populations that a claim may be about: of the round that it names, of the others that any of its words name."""
    stated = record.conditions_of(claim)
    left = counted
    for word in _words(" ".join(str(stated[key]) for key in _WHICH if key in stated)):
        named = [c for c in left if any(own.startswith(word) for own in _words(c.which))]
        if named or _ROUND.fullmatch(word):
            left = named
    return left


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s,;()]+", text.lower()) if word]


def _compared(claim: Figure, what: str, counted: list[Counted]) -> Finding:
    told = ", ".join(f"{c.hits} of {c.size} ({c.which})" for c in counted)
    low, high = min(c.value for c in counted), max(c.value for c in counted)
    open_ = resolution(claim)
    least, most = claim.value - open_, (claim.value if claim.high is None else claim.high) + open_
    arithmetic = f"{claim.value:.3g} against {low:.3g} to {high:.3g}: {told}"
    if most >= low and least <= high:
        return Finding(
            CHECK, HOLDS, (claim.name,), f"{what} is in the range of {len(counted)} populations", arithmetic
        )
    own = _COUNTS.search(claim.note or "")
    size = int(own[2]) if own else None
    none = f"; none has {size} of them" if size and size not in {c.size for c in counted} else ""
    return Finding(CHECK, INCONSISTENT, (claim.name,), f"{what} is not reproduced: {told}{none}", arithmetic)
