"""Inference engines: their rules by version and what their start-up logs say they keep, from data files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..data import HARDWARE, Reader, load_toml, locate, resource_names
from ..errors import InputError

FOLDER = "engines"
BUDGETS = ("share_of_total", "static_pool", "share_of_free")
TABLES = ("rules", "batch", "activation", "non_torch", "graphs", "context", "validated")
_BYTES = re.compile(r"^[0-9.]+ [KMG]i?B$")

Version = tuple[int, ...]


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


def engine_names() -> tuple[str, ...]:
    """Return the names of the packaged engines."""
    return resource_names(HARDWARE, FOLDER)


@lru_cache(maxsize=16)
def load_engine(name_or_path: str | Path) -> Engine:
    """Return a packaged engine, or that of a TOML file. Raises InputError with all problems of the file."""
    source = locate(name_or_path, HARDWARE, FOLDER, "engine")
    reader = Reader(load_toml(source), str(source))
    plain = ("name", "title", "budget", "default_version", "newest_version", "block_tokens")
    reader.keys((*plain, "rules", "batch", "sources"), TABLES[2:])
    origin = {key: reader.sub("sources").text(key) for key in reader.sub("sources").table}
    engine = Engine(
        name=reader.text("name"),
        title=reader.text("title"),
        budget=reader.choice("budget", BUDGETS),
        default_version=reader.text("default_version"),
        newest_version=reader.text("newest_version"),
        block_tokens=reader.whole("block_tokens", low=1),
        tables={table: _entries(reader, table, origin) for table in TABLES},
    )
    reader.close()
    return engine


def _entries(reader: Reader, table: str, origin: Mapping[str, str]) -> tuple[Entry, ...]:
    found = []
    listed = reader.table.get(table, [])
    if not isinstance(listed, list):
        reader.note(f"{table}: expected a list of tables, [[{table}]]")
        return ()
    for index, values in enumerate(listed):
        one = Reader(values, reader.where, path=f"{table}[{index}]", problems=reader.problems)
        cited = one.text("source")
        if cited not in origin:
            one.note(f"{one.name('source')}: {cited!r} does not stand in [sources]")
        said = {key: _value(one, key) for key in values if key not in ("from", "source")}
        found.append(Entry(parse_version(one.text("from")), said, origin.get(cited, "")))
    return tuple(sorted(found, key=lambda entry: entry.since))


def _value(reader: Reader, key: str) -> Any:
    value = reader.table[key]
    if isinstance(value, str) and _BYTES.match(value):
        return reader.quantity(key, "byte", positive=False)
    return tuple(value) if isinstance(value, list) else value


def parse_version(text: str) -> Version:
    """Return the leading numbers of a version: "0.19.0rc1" is (0, 19, 0). Raises InputError without any."""
    numbers = re.match(r"\D{0,9}(\d+(?:\.\d+)*)", text)
    if not numbers:
        raise InputError(f"engine version {text!r}: expected numbers such as 0.19.0")
    parts = [int(part) for part in numbers[1].split(".")]
    while parts and parts[-1] == 0 and len(parts) > 2:
        parts.pop()
    return tuple(parts)


def dotted(version: Version) -> str:
    """Return a version as text."""
    return ".".join(str(part) for part in version)
