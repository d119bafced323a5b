"""A tier of KV below GPU memory: the store, the wire to it and the software on that wire, as measured together."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..data import (
    HARDWARE,
    Reader,
    Sourced,
    load_toml,
    locate,
    not_above,
    resource_names,
    sourced_values,
    whole_count,
)
from ..units import Dimension

TIERS = "tiers"
KINDS = ("dram", "nvme", "remote")
PER = ("gpu", "drive", "port", "node")
#: What a tier is read over, by the kinds of links; c2c: a wire to host memory of its own, which is not PCIe.
WIRES = ("pcie", "c2c", "infiniband", "ethernet", "efa")
#: What one copy holds: a chunk of all layers, or the keys or values of one layer of it.
PIECES = ("chunk", "layer")

SCHEMA: dict[str, Dimension] = {
    "read_bandwidth": "byte/second",
    "write_bandwidth": "byte/second",
    "sustained_read": "byte/second",
    "sustained_write": "byte/second",
    "both_ways": "byte/second",
    "latency": "second",
    "per_chunk": "second",
    "chunk_tokens": "1",
}


@dataclass(frozen=True)
class Piece:
    """Measured bandwidth of copies of one size, in byte and byte/second."""

    size_bytes: float
    bytes_per_s: float
    source: str


@dataclass(frozen=True)
class Tier:
    """A tier as its file states it. Bandwidths are of one GPU, drive, port or node, as ``per`` says.

    ``read_bandwidth`` and ``write_bandwidth`` are peaks, ``sustained_...`` measured, ``both_ways`` the sum of both
    directions at once. ``wire``: what it is read over. ``shared``: one store serves all instances. ``on_link``: it is
    read through the ports that hand-overs use, where those are of its wire. ``per_rank``: every tensor-parallel rank
    stores what it holds, so that what ranks hold alike is stored as often.
    """

    name: str
    title: str
    kind: str
    per: str
    wire: str
    shared: bool
    on_link: bool
    per_rank: bool
    piece: str | None
    values: Mapping[str, Sourced] = field(hash=False)
    absent: Mapping[str, str] = field(hash=False)
    pieces: tuple[Piece, ...] = ()

    def value(self, key: str) -> float | None:
        """Return a value in SI; None where it is absent (``absent`` says why)."""
        found = self.values.get(key)
        return None if found is None else found.value

    @property
    def chunk_tokens(self) -> int | None:
        """Tokens that the software keeps together; None where unknown."""
        found = self.value("chunk_tokens")
        return None if found is None else int(found)

    def used(self, direction: str) -> Sourced | None:
        """Return the bandwidth to count with, ``read`` or ``write``: measured, else the peak; None where neither."""
        return self.values.get(f"sustained_{direction}") or self.values.get(f"{direction}_bandwidth")

    def why_absent(self, key: str) -> str:
        """Say why a value is absent."""
        return self.absent.get(key, "its file does not state it")

    def bandwidth_of_pieces(self, size_bytes: float) -> float | None:
        """Return the bandwidth of copies of this size: between measured sizes the time of a copy is a line.

        None below the smallest size that was measured; beyond the largest it stays.
        """
        if not self.pieces or size_bytes < self.pieces[0].size_bytes:
            return None
        for low, high in itertools.pairwise(self.pieces):
            if size_bytes <= high.size_bytes:
                first, last = low.size_bytes / low.bytes_per_s, high.size_bytes / high.bytes_per_s
                share = (size_bytes - low.size_bytes) / (high.size_bytes - low.size_bytes)
                return size_bytes / (first + share * (last - first))
        return self.pieces[-1].bytes_per_s


def tier_names() -> tuple[str, ...]:
    """Return the names of the packaged tiers."""
    return resource_names(HARDWARE, TIERS)


def load_tier(name_or_path: str | Path) -> Tier:
    """Return a packaged tier, or that of a TOML file. Raises InputError with all problems of the file."""
    source = locate(name_or_path, HARDWARE, TIERS, "tier")
    reader = Reader(load_toml(source), str(source))
    words = ("name", "title", "kind", "per", "wire", "shared", "on_link", "per_rank")
    reader.keys((*words, "values", "sources"), ("absent", "pieces", "piece"))
    values, absent = sourced_values(reader, SCHEMA, (), explained=tuple(SCHEMA), may_be_zero=("latency",))
    whole_count(reader, values, "chunk_tokens")
    for direction in ("read", "write"):
        not_above(
            reader,
            values,
            f"sustained_{direction}",
            f"{direction}_bandwidth",
            "sustained cannot exceed peak",
        )
    _check_both_ways(reader, values)
    tier = Tier(
        name=reader.text("name"),
        title=reader.text("title"),
        kind=reader.choice("kind", KINDS),
        per=reader.choice("per", PER),
        wire=reader.choice("wire", WIRES),
        shared=_flag(reader, "shared"),
        on_link=_flag(reader, "on_link"),
        per_rank=_flag(reader, "per_rank"),
        piece=reader.choice("piece", PIECES) or None,
        values=values,
        absent=absent,
        pieces=_pieces(reader, values),
    )
    reader.close()
    return tier


def _flag(reader: Reader, key: str) -> bool:
    found = reader.table.get(key, False)
    if not isinstance(found, bool):
        reader.note(f"{reader.name(key)}: {found!r} is not true or false")
    return found is True


def _check_both_ways(reader: Reader, values: Mapping[str, Sourced]) -> None:
    both = values.get("both_ways")
    peaks = [values[key].value for key in ("read_bandwidth", "write_bandwidth") if key in values]
    if both and len(peaks) == 2 and both.value > sum(peaks):
        reader.note(f"values.both_ways: {both.text!r} exceeds the peaks of both directions together")
    for key in ("sustained_read", "sustained_write"):
        one = values.get(key)
        if both and one and both.value < one.value:
            reader.note(
                f"values.both_ways: {both.text!r} is less than one direction alone, {key} {one.text!r}"
            )


def _pieces(reader: Reader, values: Mapping[str, Sourced]) -> tuple[Piece, ...]:
    """Read the measured bandwidths by size, smallest first."""
    rows = reader.table.get("pieces", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        reader.note("pieces: expected tables [[pieces]], each with size, bandwidth and source")
        return ()
    sources, found = reader.sub("sources").table, list[Piece]()
    peak = values.get("read_bandwidth")
    for number, row in enumerate(rows, 1):
        each = Reader(row, reader.where, path=f"pieces[{number}]", problems=reader.problems)
        each.keys(("size", "bandwidth", "source"))
        cited = each.text("source")
        if cited and cited not in sources:
            each.note(f"{each.name('source')}: {cited!r} is not in [sources]")
        size, rate = each.quantity("size", "byte"), each.quantity("bandwidth", "byte/second")
        if peak and rate > peak.value:
            each.note(f"{each.name('bandwidth')}: exceeds values.read_bandwidth, {peak.text!r}")
        if size and any(size == piece.size_bytes for piece in found):
            each.note(f"{each.name('size')}: another of pieces has that size; state each size once")
        found.append(Piece(size, rate, str(sources.get(cited, cited))))
    return tuple(sorted(found, key=lambda piece: piece.size_bytes))
