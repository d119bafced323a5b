"""Inference engines: their rules by version and what their start-up logs say they keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, shorten

Version = tuple[int, ...]
VERSION = re.compile(
    r"v?(\d{1,4}(?:\.\d{1,4}){1,3})(?:[.-]?(?:rc|a|b|post|dev)[.\w]*)?(?:\+[.\w]+)?", re.ASCII
)


@dataclass(frozen=True)
class Entry:
    """One table of a file: the version from which it holds, its values (bytes where sized), its source."""

    since: Version
    values: Mapping[str, Any] = field(hash=False)
    source: str


@dataclass(frozen=True)
class Engine:
    """An engine: ``budget`` names what its share is a share of; tables are keyed by version and condition."""

    name: str
    title: str
    budget: str
    default_version: str
    newest_version: str
    block_tokens: int
    kv_dtypes: tuple[str, ...]
    tables: Mapping[str, tuple[Entry, ...]] = field(hash=False)

    def rules(self, version: Version) -> Entry:
        """Return the rules of a version: later entries replace what earlier ones say."""
        return self._merged("rules", version, lambda values: True)

    def batch(self, version: Version, gpu: str, memory_bytes: float) -> Entry:
        """Return the engine's default batch settings on a GPU."""

        def holds(values: Mapping[str, Any]) -> bool:
            large = memory_bytes >= values.get("memory", 0)
            return bool(large and not ("except" in values and values["except"] in gpu.lower()))

        return self._merged("batch", version, holds)

    def _merged(self, table: str, version: Version, holds: Any) -> Entry:
        found = [entry for entry in self.tables[table] if entry.since <= version and holds(entry.values)]
        if not found:
            raise InputError(f"{self.title} {dotted(version)}: no {table} are known for so early a version")
        values: dict[str, Any] = {}
        for entry in found:
            values |= entry.values
        return Entry(found[-1].since, values, found[-1].source)

    def latest(self, table: str, version: Version) -> Entry | None:
        """Return the newest entry of a table that a version has, if any."""
        found = [entry for entry in self.tables[table] if entry.since <= version]
        return found[-1] if found else None

    def nearest(self, table: str, version: Version, **wanted: Any) -> tuple[Entry, bool] | None:
        """Return the entry that fits best, and whether it is exactly what was ``wanted``.

        Of the newest entries that the version has: the nearest in what is wanted, in that order.
        """
        found = [entry for entry in self.tables[table] if entry.since <= version]
        if not found:
            return None

        def distance(entry: Entry) -> tuple[float, ...]:
            steps = [
                float(entry.values.get(key) != value)
                if isinstance(value, str)
                else abs(entry.values.get(key, value) - value)
                for key, value in wanted.items()
            ]
            newest = max(other.since for other in found if _same(other, entry, wanted))
            return (float(entry.since != newest), *steps)

        best = min(found, key=distance)
        return best, all(best.values.get(key, value) == value for key, value in wanted.items())


def _same(one: Entry, other: Entry, keys: Mapping[str, Any]) -> bool:
    return all(one.values.get(key) == other.values.get(key) for key in keys)


def parse_version(text: str) -> Version:
    """Return the numbers of a version: "v0.19.0rc1" is (0, 19), as its release. Raises InputError otherwise."""
    numbers = VERSION.fullmatch(text)
    if not numbers:
        raise InputError(f"engine version {shorten(text)!r}: expected numbers such as 0.19.0")
    parts = [int(part) for part in numbers[1].split(".")]
    while parts[-1] == 0 and len(parts) > 2:
        parts.pop()
    return tuple(parts)


def dotted(version: Version) -> str:
    """Return a version as text."""
    return ".".join(str(part) for part in version)
