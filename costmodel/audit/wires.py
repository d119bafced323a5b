"""The wire of a copy, as a report's words for links mean it: bandwidth one way, and how it is made up."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..inputs.link import link_names, load_link
from ..records import Figure
from ..records.figures import in_si
from . import words
from .runs import Run
from .subject import Subject, Unknown

#: Most that an adapter carries, Gb/s one way (its makers' data sheets), where a report names it and no rate.
ADAPTERS = {"connectx-5": 100, "connectx-6": 200, "connectx-7": 400, "bluefield-3": 400, "connectx-8": 800}
#: Generations of links by the words for them, and the packaged links that they are.
_GENERATIONS = (
    (r"\bHDR(?:200)?(?!\d)", "ib-hdr"),
    (r"\bNDR(?:400)?(?!\d)", "ib-ndr"),
    (r"nvlink\s*(?:gen\s*)?([345])(?:\.0)?\b", "nvlink{}"),
    (r"pcie?\s*(?:gen\s*)?([345])(?:\.0)?\b(?!\s*x\s*[1248]\b)", "pcie{}-x16"),
    (r"pcie?[^,;]*gen\s*([345])\b", "pcie{}-x16"),
)
_BITS = r"(\d+(?:\.\d+)?)\s*-?G(?:b|bps|bit|bit/s|b/s|bE|ig)\b"
_BYTES = r"(\d+(?:\.\d+)?)\s*([GMT]i?B(?:/s|ps))"


@dataclass(frozen=True)
class Wire:
    """Bandwidth of a copy one way, byte/s, and how it is made up."""

    bytes_per_s: float
    said: str


def wire_of(run: Run, subject: Subject, figure: Figure) -> Wire:
    """Return the wire that a report states. Raises Unknown where it states none that is known."""
    ports, claimed = run.number("nics", figure), run.number("link_bandwidth", figure)
    if claimed:
        told = words.rate(claimed)
        return Wire(claimed * (ports or 1), f"{ports:g} x {told}" if ports else told)
    stated = str(figure.conditions.get("link") or run.conditions.get("link") or "")
    text = stated or str(run.conditions.get("hardware") or "")
    found = _rated(text, ports) or _named(text, ports)
    if found is None and stated:
        found = _of_gpu(stated, subject)
    if found is None:
        told = (
            f"no bandwidth is known of {stated!r}" if stated else "the link and its bandwidth are not stated"
        )
        raise Unknown(told)
    return _of_ranks(found, stated, subject)


def _of_ranks(wire: Wire, stated: str, subject: Subject) -> Wire:
    """Wires that each GPU has: the ranks of an instance send their parts at once."""
    ranks = subject.machine.most_per_prompt if subject.machine.per_prefill else None
    each = re.search(r"(?i)(?:per|each|every|/)\s*GPU|nvlink|nvswitch", stated)
    if not each or not ranks or ranks < 2:
        return wire
    return Wire(wire.bytes_per_s * ranks, f"{ranks} ranks x {wire.said}")


def _rated(text: str, ports: float | None) -> Wire | None:
    """A wire with its rate in bits a second, and how many of them: 4x400G IB, 200 Gbps, 25 GB/s."""
    counted = re.search(r"(\d+)\s*[x×]\s*(\d+)\s*-?G(?:b|bps|bit|bE|bit/s|b/s|ig)?\b", text)
    single = re.search(_BITS, text)
    if counted:
        number, gigabits = int(counted[1]), float(counted[2])
    elif single:
        number, gigabits = int(ports or 1), float(single[1])
    else:
        size = None if re.search(r"(?i)nvlink|pcie|hbm", text) else re.search(_BYTES, text)
        if size is None:
            return None
        each = in_si(float(size[1]), size[2].replace("ps", "/s"), None)[0]
        return Wire(each * (ports or 1), f"{ports or 1:g} x {size[0]}" if ports else size[0])
    return Wire(number * gigabits * 0.125e9, f"{number} x {gigabits:g} Gb/s")


def _named(text: str, ports: float | None) -> Wire | None:
    """A wire by the name of an adapter, of a packaged link, or of a generation of links."""
    adapter = re.search(rf"(?i)(?:(\d+)\s*[x×]\s*)?({'|'.join(ADAPTERS)})", text)
    if adapter:
        number, gigabits = int(adapter[1] or ports or 1), ADAPTERS[adapter[2].lower()]
        return Wire(number * gigabits * 0.125e9, f"{number} x {adapter[2]}, at most {gigabits} Gb/s each")
    name = re.sub(r"[\s_]+", "-", text.strip().lower())
    if name not in link_names():
        name = next((_filled(link, found) for link, found in _generations(text)), "")
    if name not in link_names():
        return None
    link, before = load_link(name), re.match(r"\s*(\d{1,2})\s*[x×]\s", text)
    number = int(before[1]) if before else int(ports or 1)
    return Wire(link.bandwidth_bytes_per_s * number, f"{number} x {link.title}")


def _generations(text: str) -> list[tuple[str, re.Match[str]]]:
    searched = [(link, re.search(rf"(?i){pattern}", text)) for pattern, link in _GENERATIONS]
    return [(link, found) for link, found in searched if found]


def _filled(link: str, found: re.Match[str]) -> str:
    return link.format(*found.groups())


def _of_gpu(text: str, subject: Subject) -> Wire | None:
    """The GPU's own NVLink or PCIe, where a report says no more of it."""
    for pattern, key, name in (
        (r"(?i)nvlink|nvswitch|mnnvl", "nvlink_bandwidth", "NVLink"),
        (r"(?i)pcie", "pcie_bandwidth", "PCIe"),
    ):
        if re.search(pattern, text):
            found = subject.gpu.values.get(key)
            if found is None:
                raise Unknown(f"{subject.gpu.name} states no {key}")
            return Wire(found.value, f"{name} of {subject.gpu.name}, {words.rate(found.value)} one way")
    return None
