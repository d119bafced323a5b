"""The GPUs that a report means: which, how many, how they are split. Read from words; nothing is added to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ..inputs.hardware import Gpu, load_gpu
from .boards import as_stated, boards_in
from .counting import MOST_GPUS, Counted, counted
from .record import Stated
from .wording import plain_words

_TOPOLOGY = re.compile(r"(?<![A-Za-z0-9])(\d{1,3})\s*[Pp]\s*:?\s*(\d{1,3})\s*[Dd](?![A-Za-z0-9])")
_NODES = re.compile(r"(\d{1,4})\s+(prefill|decode)?\s*nodes?\b", re.IGNORECASE)
_ROLES = ("prefill", "decode")
_ONE_MEANT = "one is meant"


@dataclass(frozen=True)
class Machine:
    """What runs: ``gpu`` None where it is not stated or not known, with the ``reason``.

    ``gpus``: all of them; ``per_prefill`` and ``per_decode``: those of one instance; ``prefill`` and ``decode``:
    instances (``decode`` 0: one pool). None: not stated. ``said``: how the words were read. ``decoding``: the
    machine of the decode instances, where a report names each side's GPUs; the rest is then of prefill.
    ``counted``: GPUs that words or numbers state, whatever degrees of parallelism say (of prefill, where sides are
    named).
    """

    gpu: Gpu | None = None
    reason: str | None = None
    gpus: int | None = None
    per_prefill: int | None = None
    per_decode: int | None = None
    prefill: int | None = None
    decode: int | None = None
    said: tuple[str, ...] = ()
    decoding: Machine | None = None
    counted: int | None = None

    @property
    def split(self) -> bool:
        """Whether prefill and decode run on different instances."""
        return bool(self.decode)

    @property
    def presumed(self) -> bool:
        """Whether one GPU is meant only because no number is stated."""
        return any(said.endswith(_ONE_MEANT) for said in self.said)

    @property
    def most_per_prompt(self) -> int | None:
        """Most GPUs that can work on one prompt: those of a prefill instance, else all of them."""
        return self.per_prefill or self.gpus

    @property
    def most_per_step(self) -> int | None:
        """Most GPUs that can share one decode step."""
        return self.per_decode or self.gpus


def machine_of(conditions: Mapping[str, Stated]) -> Machine:
    """Return the machine that stated conditions mean. Raises nothing: what cannot be read stays None."""
    sides = _sides(conditions)
    return _of_two(conditions, *sides) if sides else _of_one(conditions)


def _of_one(conditions: Mapping[str, Stated]) -> Machine:
    """The machine of a report that names its GPUs once."""
    text = " ".join(str(conditions[key]) for key in ("hardware", "topology") if key in conditions)
    named = str(conditions.get("hardware") or conditions.get("prefill_hardware") or "")
    prefill, decode = _instances(conditions, text)
    nodes = _count(conditions, "nodes") or (prefill + decode if prefill and decode else None)
    gpu, reason, found, read = _named(named, nodes)
    said = list(read)
    if gpu is None and named:
        gpu = as_stated(named, conditions)
        said += [f"{named!r} is not packaged: peaks and memory are as the report states them"] if gpu else []
        reason = None if gpu else reason
    per_prefill, per_decode = _degrees(conditions, text)
    gpus = _count(conditions, "gpus")
    if gpus is None and prefill is not None and per_prefill and (per_decode or not decode):
        gpus = prefill * per_prefill + (decode or 0) * (per_decode or 0)
    if gpus is None and found.gpus is not None:
        gpus = max(found.gpus, per_prefill or 0) if found.each else found.gpus
    if gpus is None and found.nodes and (each := _count(conditions, "gpus_per_node")):
        gpus = found.nodes * each
    if gpus is None and named and per_prefill and not decode:
        gpus = per_prefill * (_count(conditions, "instances") or 1)
        said.append(f"{gpus} GPUs: one instance of {per_prefill}" if gpus == per_prefill else f"{gpus} GPUs")
    if gpus is None and gpu is not None and not decode and found.one and "nodes" not in conditions:
        gpus = 1
        said.append(f"{named!r} states no number of GPUs: {_ONE_MEANT}")
    own = _count(conditions, "gpus") or (None if found.each else found.gpus)
    return Machine(gpu, reason, gpus, per_prefill, per_decode, prefill, decode, tuple(said), counted=own)


def _of_two(conditions: Mapping[str, Stated], first: str, second: str) -> Machine:
    """The machine of a report that names the GPUs of each side."""
    text = " ".join(str(conditions[key]) for key in ("hardware", "topology") if key in conditions)
    prefill, decode = _instances(conditions, text)
    made = [_side(conditions, role, words) for role, words in zip(_ROLES, (first, second))]
    by_instance = "decode_hardware" in conditions
    instances = (prefill or 1, decode or 1) if by_instance else (1, 1)
    counts = [side.gpus * number for side, number in zip(made, instances) if side.gpus is not None]
    total = _count(conditions, "gpus") or (sum(counts) if len(counts) == len(made) else None)
    said = dict.fromkeys(f"{role}: {told}" for role, side in zip(_ROLES, made) for told in side.said)
    own = [(side.gpus or 1) // (side.per_prefill or side.gpus or 1) or 1 for side in made]
    return replace(
        made[0],
        gpus=total,
        per_decode=made[1].per_decode,
        prefill=prefill or own[0],
        decode=decode or own[1],
        said=tuple(said),
        decoding=made[1],
    )


def _side(conditions: Mapping[str, Stated], role: str, words: str) -> Machine:
    """The machine of one side. Its GPUs, where no degree is stated, make up one instance: none can have more."""
    gpu, reason, found, read = _named(words, None)
    tp = _count(conditions, f"{role}_tp") or _in_text(words, "TP") or _count(conditions, "tp")
    pp = _in_text(words, "PP") or _count(conditions, "pp") or 1
    gpus = found.gpus or (tp * pp if tp else 1 if found.one else None)
    each = tp * pp if tp else gpus
    return Machine(gpu, reason, gpus, each, each, said=read, counted=found.gpus)


def _sides(conditions: Mapping[str, Stated]) -> tuple[str, str] | None:
    """The words for the GPUs of prefill and of decode: of two conditions, or of one that names both roles."""
    hardware = str(conditions.get("hardware", ""))
    own = {role: str(conditions.get(f"{role}_hardware", "")) for role in _ROLES}
    if all(own.values()) or (hardware and any(own.values())):
        return own["prefill"] or hardware, own["decode"] or hardware
    parts: dict[str, str] = {}
    for part in re.split(r"[;+|]|,(?![^(]*\))|\band\b", hardware):
        roles = {role for role in _ROLES if role in part.lower()}
        if len(roles) == 1 and boards_in(plain_words(part).split())[1].count("BOARD"):
            role = roles.pop()
            parts[role] = f"{parts[role]} + {part}" if role in parts else part
    if parts.keys() != set(_ROLES):
        return None
    bare = [re.sub(r"(?i)\b(?:prefill|decode)\w*\b|\bfor\b|:", " ", parts[role]).strip() for role in _ROLES]
    return bare[0], bare[1]


@lru_cache(maxsize=1024)
def _named(written: str, nodes: int | None) -> tuple[Gpu | None, str | None, Counted, tuple[str, ...]]:
    """The GPU of a text, or why none is known, and how many it counts."""
    if not written:
        return None, "no hardware is stated", Counted(), ()
    names, words = boards_in(plain_words(written).split())
    found = counted(words, written, nodes)
    if not names:
        return None, f"{written!r} names no GPU that is packaged (costmodel show hardware)", found, ()
    if len(names) > 1:
        return None, f"{written!r} names several GPUs: {', '.join(names)}", found, ()
    return load_gpu(names[0]), None, found, (f"{written!r} is read as {names[0]}",)


def _instances(conditions: Mapping[str, Stated], text: str) -> tuple[int | None, int | None]:
    topology = _TOPOLOGY.search(f"{conditions.get('topology', '')} {text} {conditions.get('scenario', '')}")
    if topology:
        return int(topology[1]), int(topology[2])
    roles = {role.lower(): int(n) for n, role in _NODES.findall(text) if role}
    if {"prefill", "decode"} <= roles.keys():
        return roles["prefill"], roles["decode"]
    ratio = re.search(r"(\d+)\s*prefill\s*\+\s*(\d+)\s*decode", text, re.IGNORECASE)
    if ratio:
        return int(ratio[1]), int(ratio[2])
    count = _count(conditions, "instances")
    plain = re.fullmatch(r"\s*(\d{1,4})\s*", str(conditions.get("topology", "")))
    return (count or (int(plain[1]) if plain else None)), 0 if count or plain else None


def _degrees(conditions: Mapping[str, Stated], text: str) -> tuple[int | None, int | None]:
    """GPUs of a prefill and of a decode instance: TP times pipeline stages."""
    tp, pp = _count(conditions, "tp"), _count(conditions, "pp") or _in_text(text, "PP") or 1
    degrees = []
    for role in ("prefill", "decode"):
        said = re.search(rf"TP\s*=?\s*(\d{{1,3}})\s+{role}", text, re.IGNORECASE)
        own = (
            _count(conditions, f"{role}_tp") or (int(said[1]) if said else None) or tp or _in_text(text, "TP")
        )
        degrees.append(own * pp if own else None)
    return degrees[0], degrees[1]


def _in_text(text: str, degree: str) -> int | None:
    found = re.search(rf"(?<![A-Za-z]){degree}\s*=?\s*(\d{{1,3}})(?!\d)", text, re.IGNORECASE)
    return int(found[1]) if found else None


def _count(conditions: Mapping[str, Stated], key: str) -> int | None:
    value = conditions.get(key)
    return int(value) if isinstance(value, int | float) and 1 <= value <= MOST_GPUS else None
