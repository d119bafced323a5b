"""Findings: what a check of a record came to, with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

IMPOSSIBLE, INCONSISTENT, SUSPICIOUS = "impossible", "inconsistent", "suspicious"
NOT_COMPUTABLE, HOLDS = "not_computable", "holds"
#: Worst first.
GRADES = (IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, NOT_COMPUTABLE, HOLDS)


@dataclass(frozen=True)
class Finding:
    """A check of figures of a record.

    ``id``: the check. ``grade``: one of :data:`GRADES`. ``of``: names of the figures. ``said``: the finding in a
    sentence. ``arithmetic``: how it was computed, None where it cannot be, with the ``reason``.
    """

    id: str
    grade: str
    of: tuple[str, ...]
    said: str
    arithmetic: str | None = None
    reason: str | None = None
    record: str = ""


@dataclass(frozen=True)
class Inversion:
    """What would explain a figure: the ``value`` of a ``quantity`` in SI, None with the ``reason``.

    ``quantity``: its name and unit as the keys of all answers, such as ``effective_bytes_per_s``. ``plausible``: False
    where no hardware or workload stated has it, None where that cannot be said.
    """

    quantity: str
    value: float | None
    of: tuple[str, ...]
    arithmetic: str | None
    plausible: bool | None = None
    said: str = ""
    reason: str | None = None
    record: str = ""


def not_computable(check: str, of: tuple[str, ...], told: str, reason: str) -> Finding:
    """Return the finding that a check of what is ``told`` could not be made, and why."""
    return Finding(check, NOT_COMPUTABLE, of, f"{told}: cannot be checked", None, reason)


def worst(findings: tuple[Finding, ...]) -> str | None:
    """Return the worst grade of findings; None where there are none."""
    return min((f.grade for f in findings), key=GRADES.index, default=None)
