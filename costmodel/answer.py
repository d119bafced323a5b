"""What every answer carries besides its figures: assumptions, sources, what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class About:
    """Assumptions, sources of every constant used, what is not modelled, and warnings; one sentence each."""

    assumptions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    not_modelled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())
