"""A software stack: its parameters by GPU, how far they are off, and what they were fitted to."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from ..answer import About
from ..inputs.stack import Stack, StackFit, load_stack
from .show_model import SCHEMA


@dataclass(frozen=True)
class StackFitEntry:
    """A stack on a GPU (or ``any``). ``parameters`` in SI, those that do nothing left out; ``errors``: what to expect
    of each measure, as fractions, from so many held-out points (0: carried from elsewhere);
    None where none was tried. ``lent``: its constant of TTFT is that of the engine's other fits.
    """

    gpu: str
    parameters: dict[str, float]
    errors: dict[str, float | None]
    held_out_points: dict[str, int]
    lent: bool
    fitted_on: tuple[str, ...]


@dataclass(frozen=True)
class StackEntry:
    """A stack: an engine at a version, by GPU."""

    schema: str
    name: str
    engine: str
    version: str
    date: str
    fits: tuple[StackFitEntry, ...]
    about: About


def stack_row(name: str) -> dict[str, object]:
    found = load_stack(name)
    return {
        "name": found.name,
        "engine": found.engine,
        "version": found.version,
        "gpus": ", ".join(found.fits),
        "error": max(fit.error() for fit in found.fits.values()),
    }


def stack_entry(name: str) -> StackEntry:
    return entry_of(load_stack(name))


def entry_of(found: Stack) -> StackEntry:
    """Return a stack as it is shown."""
    about = About(
        assumptions=(
            "errors: the factor of the mean log error held out (any: carried to another GPU), less 1",
        ),
        sources=(found.source,),
    )
    fits = tuple(_entry(fit) for fit in found.fits.values())
    return StackEntry(SCHEMA, found.name, found.engine, found.version, found.date, fits, about)


def _entry(fit: StackFit) -> StackFitEntry:
    given = asdict(fit.parameters)
    plain = {name: 1.0 if name.endswith(("factor", "share")) else 0.0 for name in given}
    changed = {name: value for name, value in given.items() if not math.isclose(value, plain[name])}
    errors = {name: fit.error(name) if fit.tried(name) else None for name in fit.errors}
    tried = {name: found.held_out_points for name, found in fit.errors.items()}
    return StackFitEntry(fit.gpu, changed, errors, tried, fit.lent, fit.fitted_on)
