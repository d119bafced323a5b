"""What engines and routers call the settings that a plan decides: one line for each role, from one data file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from string import Formatter
from typing import Any

from ..data import HARDWARE, load_toml, package_files
from ..errors import InputError

_FILE = "flags.toml"
#: Roles of instances, and of what stands before them.
POOLED, PREFILL, DECODE, ROUTER = "pooled", "prefill", "decode", "router"
ROLES = (POOLED, PREFILL, DECODE, ROUTER)
SPLIT = ("disaggregated", "deflected")
STRATEGIES = ("colocated", "chunked", *SPLIT)
#: Values that lines may name, besides the role.
VALUES = (
    "tp",
    "instances",
    "token_budget",
    "max_seqs",
    "kv_dtype",
    "threshold_tokens",
    "offload_gib",
    "offload_gb",
)


@dataclass(frozen=True)
class Decided:
    """What a plan decides, of each pool; a pooled strategy has the parallelism of ``decode`` and all instances.

    None: not decided, so that no line names it. ``kv_dtype``: this project's name.
    """

    strategy: str
    prefill_tp: int
    decode_tp: int
    prefill_instances: int
    decode_instances: int
    token_budget: int
    max_seqs: int
    kv_dtype: str | None = None
    threshold_tokens: int | None = None
    offload_bytes: float | None = None


@dataclass(frozen=True)
class EngineSettings:
    """The settings of one engine or router, and what differs from what was asked of it.

    ``lines``: role, how many instances and their flags. ``checked``: the day on which names were compared with the
    engine's documentation (``source``).
    """

    engine: str
    lines: tuple[str, ...]
    notes: tuple[str, ...]
    checked: str
    source: str


def engine_settings(decided: Decided) -> tuple[EngineSettings, ...]:
    """Return what to set for a plan, under each engine's own names. Raises InputError for a faulty data file."""
    return tuple(_of(engine, decided) for engine in _engines())


def knobs(strategy: str, *, token_budget: int | None, threshold_tokens: int | None) -> dict[str, str]:
    """Return the token budget and the threshold of a strategy by engine, under its own names, where it has them."""
    values = {"token_budget": token_budget, "threshold_tokens": threshold_tokens}
    found = {}
    for engine in _engines():
        texts = [_filled(knob, values) for knob in engine.get("knobs", ()) if strategy in knob["strategies"]]
        told = " ".join(text for text in texts if text)
        if told:
            found[engine["name"]] = told
    return found


def _of(engine: Mapping[str, Any], decided: Decided) -> EngineSettings:
    roles = (PREFILL, DECODE, ROUTER) if decided.strategy in SPLIT else (POOLED,)
    lines = []
    for role in roles:
        values = _values(engine, decided, role)
        flags = [
            _filled(setting, values) for setting in engine["settings"] if _applies(setting, decided, role)
        ]
        told = " ".join(flag for flag in flags if flag)
        if told:
            lines.append(f"{_label(role, values)}: {told}")
    notes = [note["text"] for note in engine.get("notes", ()) if _applies(note, decided, None)]
    if decided.kv_dtype and "kv_dtypes" in engine and decided.kv_dtype not in engine["kv_dtypes"]:
        notes.append(f"{engine['title']} has no cache dtype for {decided.kv_dtype}")
    return EngineSettings(
        engine["name"], tuple(lines), tuple(notes), engine["checked"].isoformat(), engine["source"]
    )


def _label(role: str, values: Mapping[str, Any]) -> str:
    return role if role == ROUTER else f"{role} x {values['instances']}"


def _values(engine: Mapping[str, Any], decided: Decided, role: str) -> dict[str, Any]:
    pooled = decided.strategy not in SPLIT
    instances = decided.prefill_instances if role == PREFILL else decided.decode_instances
    size = decided.offload_bytes
    return {
        "role": role,
        "tp": decided.prefill_tp if role == PREFILL else decided.decode_tp,
        "instances": decided.prefill_instances + decided.decode_instances if pooled else instances,
        "token_budget": decided.token_budget,
        "max_seqs": decided.max_seqs,
        "kv_dtype": engine.get("kv_dtypes", {}).get(decided.kv_dtype),
        "threshold_tokens": decided.threshold_tokens,
        "offload_gib": None if size is None else f"{size / 2**30:.0f}",
        "offload_gb": None if size is None else f"{size / 1e9:.0f}",
    }


def _applies(entry: Mapping[str, Any], decided: Decided, role: str | None) -> bool:
    if role is not None and role not in entry["roles"]:
        return False
    return decided.strategy in entry.get("strategies", STRATEGIES)


def _filled(setting: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """The text with its values; nothing where one of them is not decided."""
    text: str = setting["text"]
    return "" if any(values[name] is None for name in _names(text)) else text.format(**values)


def _names(text: str) -> Iterator[str]:
    return (name for _, name, _, _ in Formatter().parse(text) if name)


@lru_cache(maxsize=1)
def _engines() -> tuple[Mapping[str, Any], ...]:
    """Read the data file. Raises InputError with every problem of it."""
    source = package_files(HARDWARE).joinpath(_FILE)
    engines = load_toml(source).get("engine", [])
    problems = [problem for number, engine in enumerate(engines, 1) for problem in _problems(number, engine)]
    if problems:
        raise InputError(problems, where=str(source))
    return tuple(engines)


def _entries(engine: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (entry for key in ("settings", "knobs", "notes") for entry in engine.get(key, ()))


def _problems(number: int, engine: Mapping[str, Any]) -> Iterator[str]:
    for key in ("name", "title", "checked", "source", "settings"):
        if key not in engine:
            yield f"engine {number}: no {key}"
    for place, entry in enumerate(_entries(engine), 1):
        here = f"engine {number}, entry {place}"
        if "text" not in entry:
            yield f"{here}: no text"
            continue
        for name in _names(entry["text"]):
            if name not in (*VALUES, "role"):
                yield f"{here}: {name!r} is no value of a plan; expected one of {', '.join(VALUES)}"
        for role in entry.get("roles", ()):
            if role not in ROLES:
                yield f"{here}: {role!r} is no role; expected one of {', '.join(ROLES)}"
        for strategy in entry.get("strategies", ()):
            if strategy not in STRATEGIES:
                yield f"{here}: {strategy!r} is no strategy; expected one of {', '.join(STRATEGIES)}"
