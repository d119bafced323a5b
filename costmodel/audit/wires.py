"""The wire of a copy, as a report's words for links mean it: bandwidth one way, and how it is made up."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..inputs.link import Link, link_names, load_link
from ..records import Figure
from . import words
from .link_words import Said, link_said
from .runs import Run
from .subject import Subject, Unknown

#: Links between GPUs: their words, and the GPU's own bandwidth of them.
_OF_GPU = (
    (re.compile(r"(?i)nvlink|nvswitch|mnnvl|\bNVL\d"), "nvlink_bandwidth", "NVLink"),
    (re.compile(r"(?i)\bpci"), "pcie_bandwidth", "PCIe"),
)
_NVLINK = re.compile(r"(?i)nvlink\s*(?:gen\s*)?([345])(?:\.0)?\b(?!\s*[TGM]i?B)")
_PCIE = re.compile(r"(?i)pci-?e?[^,;\d]*(?:gen\s*)?([345])(?:\.0)?\b(?:\s*[x×]\s*(\d{1,2})\b)?")
_BETWEEN = re.compile(r"(?i)nvlink|nvswitch|infinity fabric|xgmi")
#: GPUs of a node, where an instance spans several and a report counts ports of one.
_NODEFUL = 8


@dataclass(frozen=True)
class Wire:
    """Bandwidth of a copy one way, byte/s, and how it is made up; ``sure``: whether no port may be left out of it."""

    bytes_per_s: float
    said: str
    sure: bool = True


def wire_of(run: Run, subject: Subject, figure: Figure) -> Wire:
    """Return the wire that a report states. Raises Unknown where it states none that is known."""
    ports, claimed = run.number("nics", figure), run.number("link_bandwidth", figure)
    if claimed:
        told = words.rate(claimed)
        return Wire(claimed * (ports or 1), f"{ports:g} x {told}" if ports else told)
    stated = str(figure.conditions.get("link") or run.conditions.get("link") or "")
    hardware = str(run.conditions.get("hardware") or "")
    for text in [stated] if stated else _of_links(hardware):
        found = wire_in(text, subject, int(ports) if ports else None)
        if found is not None:
            return found
    told = f"no bandwidth is known of {stated!r}" if stated else "the link and its bandwidth are not stated"
    raise Unknown(told)


def _of_links(hardware: str) -> list[str]:
    """Parts of words for hardware that give the rate of a link: "H100 pair, 400 Gbps InfiniBand"."""
    parts = re.split(r"[,;()]", hardware)
    return [part for part in parts if re.search(r"(?i)\d\s*[GT](?:bps|bit|b/s|bE|B/s)|infiniband|RoCE", part)]


def wire_in(text: str, subject: Subject, ports: int | None = None) -> Wire | None:
    """Return the wire of words for a link; None where they give no bandwidth that is known."""
    said = link_said(text)
    own = _own(text, subject, said)
    if own is not None:
        return _of_ranks(own, text, said, subject)
    exact = _exact(text)
    if exact is not None:
        return _of_link(exact, ports)
    if said.rate is None:
        return None
    return _of_ranks(_of_ports(said, ports, subject, text), text, said, subject)


def _exact(text: str) -> Link | None:
    """The packaged link of that name."""
    name = re.sub(r"[\s_]+", "-", text.strip().lower())
    return load_link(name) if name in link_names() else None


def _of_link(link: Link, ports: int | None) -> Wire:
    """A packaged link: its ports as stated, else all adapters that a node is sold with, else one."""
    number = ports or link.adapters_per_node
    return Wire(
        link.bandwidth_bytes_per_s * (number or 1), f"{number or 1} x {link.title}", number is not None
    )


def _one_way(said: Said) -> tuple[float, str]:
    """The rate one way, and how it is told."""
    if said.both and said.rate:
        return said.rate / 2, f"{said.told} of both directions, {words.rate(said.rate / 2)} one way"
    return said.rate or 0.0, said.told


def _of_ports(said: Said, ports: int | None, subject: Subject, text: str) -> Wire:
    """The rate of a port as often as there are ports; where their number is not said, of one port."""
    rate, told = _one_way(said)
    number = None if said.whole else said.count or ports
    machine = subject.machine
    if (
        number
        and machine.per_prefill
        and machine.per_prefill > _NODEFUL
        and re.search(r"(?i)per node|/node", text)
    ):
        nodes = -(-machine.per_prefill // _NODEFUL)
        return Wire(rate * number * nodes, f"{nodes} nodes x {number} x {told}")
    if number or said.whole or said.per_gpu or not said.port:
        return Wire(rate * (number or 1), f"{number} x {told}" if number else told)
    if (machine.per_prefill or machine.gpus or 0) in (1, 2) and not (machine.per_prefill or 0) > 1:
        return Wire(rate, f"1 x {told}")
    return Wire(rate, f"1 x {told}, the number of ports not stated", False)


def _own(text: str, subject: Subject, said: Said) -> Wire | None:
    """NVLink or PCIe: of the generation named, else the GPU's own, and no more than words give one way."""
    for pattern, key, name in _OF_GPU:
        if not pattern.search(text):
            continue
        known = _generation(text) or _of_board(subject, key, name)
        rate, told = _one_way(said)
        plain = bool(rate) and "B/s" in said.told
        if known is None and not plain:
            raise Unknown(_no_link(subject, key))
        if known is None or (plain and rate <= known.bytes_per_s):
            return Wire(rate, told, known is not None or said.both or said.one_way)
        return known
    return None


def _generation(text: str) -> Wire | None:
    nvlink, pcie = _NVLINK.search(text), _PCIE.search(text)
    name = f"nvlink{nvlink[1]}" if nvlink else f"pcie{pcie[1]}-x16" if pcie else ""
    if name not in link_names():
        return None
    link, lanes = load_link(name), int(pcie[2]) if pcie and pcie[2] else 16
    if lanes in (1, 2, 4, 8):
        return Wire(link.bandwidth_bytes_per_s * lanes / 16, f"{lanes} of 16 lanes of {link.title}")
    return Wire(link.bandwidth_bytes_per_s, f"1 x {link.title}")


def _of_board(subject: Subject, key: str, name: str) -> Wire | None:
    try:
        found = subject.gpu.values.get(key)
    except Unknown:
        return None
    return (
        Wire(found.value, f"{name} of {subject.gpu.name}, {words.rate(found.value)} one way")
        if found
        else None
    )


def _no_link(subject: Subject, key: str) -> str:
    return f"{subject.gpu.name} states no {key}"


def _of_ranks(wire: Wire, text: str, said: Said, subject: Subject) -> Wire:
    """Wires that each GPU has: the ranks of an instance send their parts at once."""
    if not said.per_gpu and not _BETWEEN.search(text):
        return wire
    machine = subject.machine
    ranks = machine.most_per_prompt if machine.per_prefill else said.of_node
    if ranks is None:
        alone = (machine.gpus or 0) in (1, 2)
        return wire if alone else replace(wire, said=f"{wire.said}, of one GPU", sure=False)
    return Wire(wire.bytes_per_s * ranks, f"{ranks} ranks x {wire.said}", wire.sure) if ranks > 1 else wire
