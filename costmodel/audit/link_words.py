"""What words for a link say: the rate of a port, how many ports, whether the rate is of all or counts both ways."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..records.wording import spelled

#: Most that an adapter carries, Gb/s one way (its makers' data sheets), where a report names it and no rate.
ADAPTERS = {"connectx-5": 100, "connectx-6": 200, "connectx-7": 400, "bluefield-3": 400, "connectx-8": 800}
#: Gb/s of an InfiniBand port of four lanes, by generation; the longer names are of two lanes.
GENERATIONS = {"FDR": 56, "EDR": 100, "HDR100": 100, "HDR": 200, "NDR200": 200, "NDR": 400, "XDR": 800}
#: Gb/s from which a rate is that of a node: no port carries as much.
_NO_PORT = 1600
_RATE = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*-?(?:(?P<bits>[TG])(?:b(?:ps|it/s|its/s|it|/s|/sec|E)?|igabit(?:/s)?|E)?"
    r"|(?P<bytes>[TGM])i?B(?:/s|ps|/sec))(?![\w/])"
)
_ADAPTER = re.compile(r"(?i)(?:\bCX|ConnectX)[\s-]?([5-8])\b|\bB(?:lue)?F(?:ield)?[\s-]?3\b")
_GENERATION = re.compile(rf"\b(HDR100|HDR200|NDR200|NDR400|EDR100|{'|'.join(GENERATIONS)})\b")
_NOUN = re.compile(r"(?i)\b(?:NICs?|ports?|HCAs?|rails?|adapters?|links?|uplinks?)\b")
_NET = re.compile(r"(?i)\b(?:infiniband|IB|RoCE(?:v2)?|RDMA|ethernet|GbE|EFA|TCP)\b|\d+GbE")
_BOTH = re.compile(r"(?i)bi-?dir|both[\s-]+(?:ways|directions)|duplex|aggregate of both|in \+ out")
_ONE_WAY = re.compile(
    r"(?i)per[\s-]direction|one[\s-](?:way|direction)|each[\s-](?:way|direction)|uni-?dir|/dir"
)
_WHOLE = re.compile(
    r"(?i)\btotal|aggregate|\bin all\b|combined|altogether|per (?:node|instance|server)|/node"
)
_PER_GPU = re.compile(r"(?i)(?:per|each|every|a|/)\s*(?:GPU|rank)\b")
_OF_NODE = re.compile(r"(?i)\b(\d{1,2})\s*(?:x\s*)?GPUs?\s*(?:per|/|a)\s*(?:node|server|host)")
_WORD = r"(?:(?!nodes?\b|GPUs?\b|servers?\b|hosts?\b|instances?\b)[A-Za-z][A-Za-z-]*\s+){0,3}?"
_BEFORE = re.compile(rf"(?<![\w.])(\d{{1,3}})\s*(?:x\s*)?{_WORD}(?:RATE(\d)|PORT|NOUN|NET)")
_AFTER = re.compile(r"(?:RATE(\d)|PORT|NOUN|NET)[\s,(]*x\s*(\d{1,3})\b")


@dataclass(frozen=True)
class Said:
    """What words say of a link. ``rate``: byte/s as written, with its ``told``; ``count``: of what has that rate.

    ``port``: the rate is by its words that of one port, or may be; ``whole``: it is that of all ports together.
    """

    rate: float | None = None
    told: str = ""
    count: int | None = None
    port: bool = False
    whole: bool = False
    both: bool = False
    one_way: bool = False
    per_gpu: bool = False
    of_node: int | None = None


def link_said(text: str) -> Said:
    """Return what words say of a link; a rate that they do not give is that of the adapter or generation named.

    >>> link_said("8x ConnectX-7 400Gb/s NDR InfiniBand per node").count, link_said("EDR 100G").told
    (8, '100 Gb/s')
    """
    plain = re.sub(r"(?<=\d)\s*x\s*(?=\d)", " x ", re.sub(r"[*×]", "x", spelled(text)))
    rates = [_rate(found) for found in _RATE.finditer(plain)]
    count, chosen = _count(plain)
    rate, told = rates[chosen] if chosen < len(rates) else rates[0] if rates else _named(plain)
    port = bool(
        _ADAPTER.search(plain) or _GENERATION.search(plain) or _NOUN.search(plain) or _NET.search(plain)
    )
    no_port = rate is not None and rate * 8e-9 >= _NO_PORT and told.endswith("b/s")
    whole = no_port or bool(_WHOLE.search(plain) and rates and count is None)
    of_node = _OF_NODE.search(plain)
    return Said(
        rate, told, count, port, whole, bool(_BOTH.search(plain)), bool(_ONE_WAY.search(plain)),
        bool(_PER_GPU.search(plain)), int(of_node[1]) if of_node else None,
    )  # fmt: skip


def _rate(found: re.Match[str]) -> tuple[float, str]:
    value = float(found[1])
    prefix = found["bits"] or found["bytes"]
    scale = {"T": 1e12, "G": 1e9, "M": 1e6}[prefix] / (8 if found["bits"] else 1)
    return value * scale, f"{value:g} {prefix}{'b' if found['bits'] else 'B'}/s"


def _named(text: str) -> tuple[float | None, str]:
    """The rate of the adapter or generation that words name, of one port."""
    adapter, generation = _ADAPTER.search(text), _GENERATION.search(text)
    if adapter:
        name = f"ConnectX-{adapter[1]}" if adapter[1] else "BlueField-3"
        gigabits = ADAPTERS[name.lower()]
        return gigabits * 0.125e9, f"{name}, at most {gigabits} Gb/s each"
    if generation:
        key = generation[1] if generation[1] in GENERATIONS else generation[1][:3]
        return GENERATIONS[key] * 0.125e9, f"InfiniBand {key}, {GENERATIONS[key]} Gb/s each"
    return None, ""


def _count(text: str) -> tuple[int | None, int]:
    """How many ports words count, and the place of the rate that the number stands at."""
    places = iter(range(100))
    masked = _RATE.sub(lambda _: f" RATE{min(next(places), 9)} ", text)
    for pattern, name in ((_ADAPTER, "PORT"), (_GENERATION, "NET"), (_NOUN, "NOUN"), (_NET, "NET")):
        masked = pattern.sub(f" {name} ", masked)
    masked = re.sub(r"\s+", " ", masked)
    before, after = _BEFORE.search(masked), _AFTER.search(masked)
    if before:
        return int(before[1]), int(before[2] or 0)
    return (int(after[2]), int(after[1] or 0)) if after else (None, 0)
