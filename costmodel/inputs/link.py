"""What carries a KV copy: the link (bandwidth and latency of the wire) and the connector (software on it)."""

from __future__ import annotations

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
    value_of,
    whole_count,
)
from ..errors import InputError, unknown
from ..units import Dimension

LINKS = "links"
CONNECTORS = "connectors"
KINDS = ("nvlink", "pcie", "infiniband", "ethernet", "efa")
PER = ("gpu", "port", "adapter")
BLOCK_RULES = ("ceil", "floor_plus_one")

LINK_SCHEMA: dict[str, Dimension] = {
    "bandwidth": "byte/second",
    "sustained_bandwidth": "byte/second",
    "latency": "second",
    "adapters_per_node": "1",
}
CONNECTOR_SCHEMA: dict[str, Dimension] = {
    "latency": "second",
    "bandwidth_share": "1",
    "per_descriptor": "second",
    "control": "second",
}


@dataclass(frozen=True)
class Link:
    """A wire, one direction; figures are of one GPU, port or adapter, as ``per`` says."""

    name: str
    title: str
    kind: str
    per: str
    values: Mapping[str, Sourced] = field(hash=False)
    absent: Mapping[str, str] = field(hash=False)

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Peak bandwidth of one GPU, port or adapter, in byte/second."""
        return self.values["bandwidth"].value

    @property
    def sustained_bytes_per_s(self) -> float | None:
        """Measured bandwidth of the same, in byte/second; None where unknown (``absent`` says why)."""
        return _value(self.values, "sustained_bandwidth")

    @property
    def latency_s(self) -> float | None:
        """Latency of a small message in seconds; None where unknown (``absent`` says why)."""
        return _value(self.values, "latency")

    @property
    def adapters_per_node(self) -> int | None:
        """Adapters of a node, for links sold by the node; None elsewhere."""
        found = _value(self.values, "adapters_per_node")
        return None if found is None else int(found)


@dataclass(frozen=True)
class Connector:
    """Software that copies KV blocks: how it rounds to blocks and what it adds to the wire.

    ``fitted_mape`` and ``held_out_mape`` are fractions, None where the fit had no such part.
    """

    name: str
    title: str
    block_tokens: int
    block_rule: str
    values: Mapping[str, Sourced] = field(hash=False)
    absent: Mapping[str, str] = field(hash=False)
    fitted_mape: float | None
    held_out_mape: float | None

    def get(self, key: str) -> float:
        """Return a value in SI. Raises InputError for an absent one (with the reason) or an unknown key."""
        if key not in CONNECTOR_SCHEMA:
            raise InputError(unknown("connector value", key, CONNECTOR_SCHEMA))
        return value_of(self.name, self.values, self.absent, key)

    @property
    def latency_s(self) -> float:
        """Fixed latency of a copy in seconds. Raises InputError where unknown."""
        return self.get("latency")

    @property
    def bandwidth_share(self) -> float:
        """Share of the link's peak that copies reach, in (0, 1]. Raises InputError where unknown."""
        return self.get("bandwidth_share")

    @property
    def per_descriptor_s(self) -> float | None:
        """Time per descriptor (separate memory region) in seconds; None where unknown."""
        return _value(self.values, "per_descriptor")

    @property
    def control_s(self) -> float | None:
        """Control time of a hand-over in seconds; None where unknown."""
        return _value(self.values, "control")


def _value(values: Mapping[str, Sourced], key: str) -> float | None:
    found = values.get(key)
    return None if found is None else found.value


def link_names() -> tuple[str, ...]:
    """Return the names of the packaged links."""
    return resource_names(HARDWARE, LINKS)


def load_link(name_or_path: str | Path) -> Link:
    """Return a packaged link, or that of a TOML file. Raises InputError with all problems of the file."""
    source = locate(name_or_path, HARDWARE, LINKS, "link")
    reader = Reader(load_toml(source), str(source))
    reader.keys(("name", "title", "kind", "per", "values", "sources"), ("absent",))
    values, absent = sourced_values(reader, LINK_SCHEMA, ("bandwidth",), may_be_zero=("latency",))
    whole_count(reader, values, "adapters_per_node")
    not_above(reader, values, "sustained_bandwidth", "bandwidth", "sustained cannot exceed peak")
    link = Link(
        name=reader.text("name"),
        title=reader.text("title"),
        kind=reader.choice("kind", KINDS),
        per=reader.choice("per", PER),
        values=values,
        absent=absent,
    )
    reader.close()
    return link


def connector_names() -> tuple[str, ...]:
    """Return the names of the packaged connectors."""
    return resource_names(HARDWARE, CONNECTORS)


def load_connector(name_or_path: str | Path) -> Connector:
    """Return a packaged connector, or that of a TOML file. Raises InputError with all its problems."""
    source = locate(name_or_path, HARDWARE, CONNECTORS, "connector")
    reader = Reader(load_toml(source), str(source))
    reader.keys(("name", "title", "block_tokens", "block_rule", "values", "sources"), ("absent", "error"))
    may_be_zero = ("latency", "per_descriptor", "control")
    explained = ("latency", "bandwidth_share")
    values, absent = sourced_values(
        reader, CONNECTOR_SCHEMA, (), explained=explained, may_be_zero=may_be_zero
    )
    share = values.get("bandwidth_share")
    if share and share.value > 1:
        reader.note(f"values.bandwidth_share: {share.text!r} is not in (0, 1]")
    error = reader.sub("error")
    error.keys((), ("fitted_mape", "held_out_mape"))
    connector = Connector(
        name=reader.text("name"),
        title=reader.text("title"),
        block_tokens=reader.whole("block_tokens", low=1),
        block_rule=reader.choice("block_rule", BLOCK_RULES),
        values=values,
        absent=absent,
        fitted_mape=error.fraction("fitted_mape"),
        held_out_mape=error.fraction("held_out_mape"),
    )
    reader.close()
    return connector
