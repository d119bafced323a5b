"""An engine's rules and overheads, and a family of models: what their files and adapters say."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import About
from ..errors import InputError, unknown
from ..families import ADAPTERS, WRAPPERS, adapter
from ..memory.engine import dotted
from ..memory.engine_file import load_engine
from .show_model import SCHEMA


@dataclass(frozen=True)
class EngineEntry:
    """An engine: its rules by version and the overheads of its start-up logs, each with its source."""

    schema: str
    name: str
    title: str
    budget: str
    default_version: str
    newest_version: str
    block_tokens: int
    tables: dict[str, tuple[dict[str, object], ...]]
    about: About


@dataclass(frozen=True)
class FamilyEntry:
    """A family: the model_types that its adapter reads, and what the adapter says of itself."""

    schema: str
    name: str
    reads: str
    about: About


def engine_row(name: str) -> dict[str, object]:
    found = load_engine(name)
    keys = ("name", "title", "budget", "default_version", "newest_version", "block_tokens")
    return {key: getattr(found, key) for key in keys}


def engine_entry(name: str) -> EngineEntry:
    found = load_engine(name)
    tables = {
        table: tuple({"from": dotted(entry.since), **entry.values} for entry in entries)
        for table, entries in found.tables.items()
        if entries
    }
    sources = dict.fromkeys(entry.source for entries in found.tables.values() for entry in entries)
    return EngineEntry(
        SCHEMA, found.name, found.title, found.budget, found.default_version, found.newest_version,
        found.block_tokens, tables, About(sources=tuple(sources)),
    )  # fmt: skip


def family_names() -> tuple[str, ...]:
    return tuple(sorted({*ADAPTERS, *WRAPPERS}))


def family_row(name: str) -> dict[str, object]:
    entry = family_entry(name)
    return {"name": entry.name, "reads": entry.reads}


def family_entry(name: str) -> FamilyEntry:
    if name not in ADAPTERS and name not in WRAPPERS:
        raise InputError(unknown("family", name, family_names()))
    if name in WRAPPERS:
        inner = f"{WRAPPERS[name]} unless it says otherwise" if WRAPPERS[name] else "by its own model_type"
        reads = f"a wrapper: the language model nested in it, {inner}"
    else:
        reads = (
            (adapter(name).__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ").replace("``", "")
        )
    return FamilyEntry(SCHEMA, name, reads, About())
