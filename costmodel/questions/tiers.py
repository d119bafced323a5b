"""Tiers as options state them: ``NAME[,capacity=500GiB][,bandwidth=50GB/s]...``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..errors import InputError, unknown
from ..inputs.tier import Tier, load_tier
from ..serving.handover import HoldsKv
from ..serving.tiers import KvTier, kv_tier
from ..units import Dimension, parse_option

#: What may follow the name: its dimension; None: one of two words.
KEYS: dict[str, Dimension | None] = {
    "capacity": "byte",
    "bandwidth": "byte/second",
    "read": "byte/second",
    "write": "byte/second",
    "latency": "second",
    "per_chunk": "second",
    "chunk": "token",
    "bytes_per_token": "byte",
    "count": "1",
    "shared": None,
    "on_link": None,
    "per_rank": None,
    "windows": None,
}
_MAY_BE_ZERO = ("latency", "per_chunk")
_WHOLE = ("chunk", "count")
#: What tells two tiers of one file apart.
_NAME = "name"
_WORDS = {"windows": {"all": True, "last": False}}
_YES_NO = {"yes": True, "no": False}


@dataclass(frozen=True)
class TierOption:
    """A tier and what was given beside its name; a value that was not given is the file's, if that has one."""

    tier: Tier
    given: Mapping[str, float | bool] = field(hash=False)
    option: str = "--tier"

    @property
    def capacity_bytes(self) -> float | None:
        """Bytes of the store, or of one instance's part; None where not given."""
        return self._number("capacity")

    @property
    def read_bytes_per_s(self) -> float | None:
        """Bandwidth of reads of one GPU, drive, port or node; None where neither given nor in the file."""
        return self._rate("read")

    @property
    def write_bytes_per_s(self) -> float | None:
        """Bandwidth of writes of the same."""
        return self._rate("write")

    def kv_tier(self, end: HoldsKv, *, reads_alone: bool = False) -> KvTier:
        """Return the tier as instances of this kind see it. Raises InputError naming what must be added.

        ``reads_alone``: capacity and writes do not matter; where they are stated nowhere they have no bound.
        """
        chunk, count = self._number("chunk"), self._number("count")
        capacity, write = self.capacity_bytes, self._given_rate("write")
        if reads_alone:
            capacity = math.inf if capacity is None else capacity
            write = math.inf if self.write_bytes_per_s is None else write
        return kv_tier(
            self.tier,
            end,
            capacity_bytes=capacity,
            shared=self._flag("shared"),
            bytes_per_token=self._number("bytes_per_token"),
            read_bytes_per_s=self._given_rate("read"),
            write_bytes_per_s=write,
            latency_s=self._number("latency"),
            per_chunk_s=self._number("per_chunk"),
            chunk_tokens=None if chunk is None else int(chunk),
            count=None if count is None else int(count),
            per_rank=self._flag("per_rank"),
            whole_windows=self._flag("windows"),
            on_link=self._flag("on_link"),
            option=self.option,
        )

    def notes(self) -> tuple[str, ...]:
        """Say where bandwidths come from and what counts as none because nobody states it."""
        said = []
        for direction in ("read", "write"):
            stated = self.tier.used(direction)
            if self._given_rate(direction) is not None:
                said.append(f"{direction}s as given")
            elif stated is not None and not (direction == "read" and self.tier.pieces and self.tier.piece):
                measured = f"sustained_{direction}" in self.tier.values
                basis = "measured" if measured else "peak: no measured figure"
                said.append(f"{direction}s at {stated.text} a {self.tier.per} ({basis})")
        for key, shown in (("latency", "latency"), ("per_chunk", "time of a chunk")):
            if key not in self.given and key not in self.tier.values:
                said.append(f"{shown} not stated: none")
        if "chunk" not in self.given and self.tier.chunk_tokens is None:
            said.append(f"chunk not stated: {KvTier.chunk_tokens} tokens")
        return (f"{self.tier.name}: {', '.join(said)}",) if said else ()

    def sources(self) -> tuple[str, ...]:
        """Sources of the values that count, one line each."""
        used = [self.tier.used(direction) for direction in ("read", "write")]
        used += [self.tier.values.get(key) for key in ("latency", "per_chunk", "chunk_tokens")]
        lines = [f"{self.tier.name}: {value.source}" for value in used if value is not None]
        return tuple(dict.fromkeys(lines))

    def _number(self, key: str) -> float | None:
        return self.given.get(key)

    def _flag(self, key: str) -> bool | None:
        found = self.given.get(key)
        return None if found is None else bool(found)

    def _given_rate(self, direction: str) -> float | None:
        found = self._number(direction)
        return self._number("bandwidth") if found is None else found

    def _rate(self, direction: str) -> float | None:
        stated = self.tier.used(direction)
        given = self._given_rate(direction)
        return given if given is not None else None if stated is None else stated.value


def parse_tier(text: str, option: str = "--tier") -> TierOption:
    """Return a tier of an option's text, ``NAME[,KEY=VALUE]...``. Raises InputError for what is unknown."""
    name, *pairs = (part.strip() for part in text.split(","))
    if not name or "=" in name:
        raise InputError(f"{option} {text!r}: expected NAME[,capacity=500GiB][,bandwidth=50GB/s]...")
    tier = load_tier(name)
    given: dict[str, float | bool | str] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        known = (*KEYS, _NAME)
        if key not in known:
            told = unknown("key", key, known, remedy=f"(one of {', '.join(known)})")
            raise InputError(f"{option} {name}: {told}")
        if not equals or not value:
            raise InputError(f"{option} {name}: {key} needs a value: {key}=...")
        if key in given:
            raise InputError(f"{option} {name}: {key} is given twice")
        given[key] = value if key == _NAME else _value(key, value, f"{option} {name}: {key}")
    own = str(given.pop(_NAME, tier.name))
    return TierOption(
        replace(tier, name=own),
        {key: each for key, each in given.items() if not isinstance(each, str)},
        option,
    )


def _value(key: str, text: str, what: str) -> float | bool:
    dimension = KEYS[key]
    if dimension is None:
        words = _WORDS.get(key, _YES_NO)
        if text not in words:
            raise InputError(f"{what}: {text!r} is neither {' nor '.join(words)}")
        return words[text]
    found = parse_option(text, dimension, what, positive=key not in _MAY_BE_ZERO)
    if key in _WHOLE and not found.is_integer():
        raise InputError(f"{what}: {text!r} is no whole number")
    return found


def parse_tiers(texts: Sequence[str], option: str = "--tier") -> tuple[TierOption, ...]:
    """Return the tiers of an option that may be repeated; two of one file need names of their own (``name=``).

    Raises InputError for unknown names and keys, and for a name that is given twice.
    """
    found = tuple(parse_tier(text, option) for text in texts)
    names = [each.tier.name for each in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"{option} {name} is given twice: tell them apart by name=..., such as name={name}-2"
            )
    return found


def kv_tiers(texts: Sequence[str], end: HoldsKv, option: str = "--tier") -> list[KvTier]:
    """Return the tiers of a deployment whose instances are of this kind. Raises InputError naming what is absent."""
    return [each.kv_tier(end) for each in parse_tiers(texts, option)]
