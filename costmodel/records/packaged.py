"""The project's own table of published figures: one file a report, the first the one that the project began with."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ..data import load_toml, locate, resource_names
from .read import records_of
from .record import Record

_PACKAGE, _FOLDER = "costmodel", "records"
#: Shown before all others.
FIRST = "kairos"


def record_names() -> tuple[str, ...]:
    """Return the names of the packaged records, the project's first one first."""
    return tuple(sorted(resource_names(_PACKAGE, _FOLDER), key=lambda name: (name != FIRST, name)))


@lru_cache(maxsize=64)
def load_records(name: str) -> tuple[Record, ...]:
    """Return the records of a packaged file. Raises InputError for an unknown name, with the nearest."""
    source = locate(name, _PACKAGE, _FOLDER, "record")
    return records_of(load_toml(source), str(source) if isinstance(source, Path) else name, name)
