"""The GPUs that a report means: which, how many, how they are split. Read from words; nothing is added to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..data import Sourced
from ..inputs.hardware import DTYPES, SCHEMA, Gpu, load_gpu, packaged_name
from .figures import in_si
from .record import Stated
from .wording import counted_in, nodes_in, plain_words, without_instances

_SPLIT = re.compile(r"[,;()+/]|\bwith\b|\beach\b|\band\b|\bper\b|\bof\b", re.IGNORECASE)
_TOPOLOGY = re.compile(r"(?<![A-Za-z0-9])(\d{1,3})\s*[Pp]\s*:?\s*(\d{1,3})\s*[Dd](?![A-Za-z0-9])")
_NODES = re.compile(r"(\d{1,4})\s+(prefill|decode)?\s*nodes?\b", re.IGNORECASE)
_PLURAL = re.compile(
    r"\b(cluster|nodes|servers|fleet|gpus|several|multiple|pods?|rack|nvl\d+)\b", re.IGNORECASE
)
#: A number with its x, before words that may stand between it and a name ("8x virtualized NVIDIA").
_COUNTED = re.compile(
    r"(?i)(\d{1,4})\s*[x×]\s*(?:(?!nodes?\b|servers?\b|hosts?\b|pods?\b|with\b|of\b)[a-z][\w-]*\s*){1,4}$"
)
#: Words or numbers of several GPUs whose number was not read: one is not meant then.
_SEVERAL = re.compile(
    r"(?i)(?<!pcie )(?<![\w.])\d+\s*[x×]|\b\d+-way\b|\bcards\b|\bboards\b|\bpair\b|\bdual\b|\bx\s?(?!16\b)\d{1,3}\b"
)
#: What may stand between a number and the name of a GPU.
_BETWEEN = ("x", "×", "*", "nvidia", "amd", "google", "node", "nodes")
MOST_GPUS = 100_000
_ONE_MEANT = "one is meant"


@dataclass(frozen=True)
class Machine:
    """What runs: ``gpu`` None where it is not stated or not known, with the ``reason``.

    ``gpus``: all of them; ``per_prefill`` and ``per_decode``: those of one instance; ``prefill`` and ``decode``:
    instances (``decode`` 0: one pool). None: not stated. ``said``: how the words were read.
    """

    gpu: Gpu | None = None
    reason: str | None = None
    gpus: int | None = None
    per_prefill: int | None = None
    per_decode: int | None = None
    prefill: int | None = None
    decode: int | None = None
    said: tuple[str, ...] = ()

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
    text = " ".join(str(conditions[key]) for key in ("hardware", "topology") if key in conditions)
    named = str(conditions.get("hardware") or conditions.get("prefill_hardware") or "")
    gpu, count, reason, read = _gpu(named, plain_words(named))
    if count is None and (rented := without_instances(named)) != named:
        gpu, count, reason, read = _gpu(named, plain_words(rented))
    said = list(read)
    if gpu is not None and count is None:
        count = counted_in(named)
    if gpu is None and named:
        gpu = _as_stated(named, conditions)
        count = _number_before(re.split(r"\s*[x×]\s*|\s+", named)[:1]) if gpu else None
        said += (
            [f"{named!r} is not packaged: peaks and memory are those that the report states"] if gpu else []
        )
        reason = None if gpu else reason
    prefill, decode = _instances(conditions, text)
    degrees = _degrees(conditions, text)
    per_prefill, per_decode = degrees
    gpus = _count(conditions, "gpus")
    if gpus is None and prefill is not None and per_prefill and (per_decode or not decode):
        gpus = prefill * per_prefill + (decode or 0) * (per_decode or 0)
    if gpus is None and count is not None:
        gpus = count * _machines(conditions, named, prefill, decode)
    if gpus is None and gpu is not None and per_prefill and not decode:
        gpus = per_prefill * (_count(conditions, "instances") or 1)
        said.append(f"{gpus} GPUs: one instance of {per_prefill}" if gpus == per_prefill else f"{gpus} GPUs")
    if (
        gpus is None
        and gpu is not None
        and not decode
        and not _PLURAL.search(named)
        and not _SEVERAL.search(named)
        and "nodes" not in conditions
    ):
        gpus = 1
        said.append(f"{named!r} states no number of GPUs: {_ONE_MEANT}")
    return Machine(gpu, reason, gpus, per_prefill, per_decode, prefill, decode, tuple(said))


@lru_cache(maxsize=1024)
def _gpu(written: str, text: str) -> tuple[Gpu | None, int | None, str | None, tuple[str, ...]]:
    """The GPU of a text in plain words, how many of them it names, or why none is known."""
    if not text:
        return None, None, "no hardware is stated", ()
    found: dict[str, int | None] = {}
    for part in (text, *_SPLIT.split(text)):
        for name, count in _named(part):
            if found.get(name) is None:
                found[name] = count
        if part is text and found:
            break
    if not found:
        for part in _SPLIT.split(text):
            found |= dict(_named(part))
    if not found:
        return None, None, f"{written!r} names no GPU that is packaged (costmodel show hardware)", ()
    if len(found) > 1:
        return None, None, f"{written!r} names several GPUs: {', '.join(found)}", ()
    name, count = next(iter(found.items()))
    total = _sum_of_pools(text, name) or count
    return load_gpu(name), total, None, (f"{written!r} is read as {name}",)


def _as_stated(text: str, conditions: Mapping[str, Stated]) -> Gpu | None:
    """A GPU that is not packaged, of what the report says of one; None where it says neither peak nor bandwidth."""
    found: dict[str, Sourced] = {}
    for key, names, dimension in (
        ("peak_flops", tuple(f"peak_{dtype}" for dtype in DTYPES), "flop/second"),
        ("memory_bandwidth", ("memory_bandwidth",), "byte/second"),
        ("memory", ("memory",), "byte"),
    ):
        value = conditions.get(key)
        if not isinstance(value, int | float):
            value = _in_brackets(text, dimension)
        for name in names if value else ():
            found[name] = Sourced(float(value or 0), f"{value:.6g}", "as the report states it")
    if not found.keys() & {"peak_bf16", "memory_bandwidth"}:
        return None
    bare = re.sub(r"^\s*\d+\s*[x×]\s*|\(.*", "", text).strip() or text
    return Gpu(
        bare,
        text,
        "not packaged",
        None,
        found,
        dict.fromkeys(set(SCHEMA) - set(found), "the report does not state it"),
    )


def _in_brackets(text: str, dimension: str) -> float | None:
    """A quantity of a dimension among words such as (864 GB/s, 119.5 TFLOP/s)."""
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+(?:/s)?)", text):
        value, own = in_si(float(number), unit, None)
        if own == dimension and not (dimension == "byte" and value < 1e9):
            return value
    return None


def _named(text: str) -> list[tuple[str, int | None]]:
    """GPUs that a text names, each with the number before or after it."""
    words = re.sub(r"(?<![A-Za-z])(\d+)\s*[x×](?=\s*[A-Za-z\d])", r"\1 x ", text)
    words = re.sub(r"(?i)\bdgx[\s-]", "", words)
    words = re.sub(r"(?i)(\d{2,3})\s*(?:g|gb|gib)\b", r"\1GB", words)
    tokens = re.split(r"[\s,;()+/]+", words.strip())
    found: list[tuple[str, int | None]] = []
    place = 0
    while place < len(tokens):
        for width in range(min(5, len(tokens) - place), 0, -1):
            name = _packaged(" ".join(tokens[place : place + width]))
            if name is not None:
                found.append((name, _number_before(tokens[:place]) or _number_after(tokens[place + width :])))
                place += width - 1
                break
        place += 1
    return found


def _packaged(text: str) -> str | None:
    bare = re.sub(r"(?i)[-_]?x\d{1,3}$", "", text)
    for candidate in (text, bare, re.sub(r"(?i)\bhbm\w*$", "", bare).strip()):
        name = packaged_name(candidate) if candidate else None
        if name is not None:
            return name
    size = re.fullmatch(r"(?i)(.+?)[\s-](\d{2,3})gb", bare)
    name = packaged_name(size[1]) if size else None
    if size and name is not None and _holds(name, float(size[2])):
        return name
    return None


def _holds(name: str, gigabytes: float) -> bool:
    """Whether a GPU is sold with so many GB."""
    return abs(load_gpu(name).get("memory") / gigabytes / 2**30 - 1) < 0.08


def _number_before(tokens: list[str]) -> int | None:
    """The product of numbers right before a name: 2 nodes x 4, 2x8, 8 x, 16."""
    number, expects = 1, False
    seen = False
    for token in reversed(tokens):
        if re.fullmatch(r"[x×*]", token, re.IGNORECASE) or token.lower() in (
            "nvidia",
            "amd",
            "nodes",
            "node",
            "google",
            "dgx",
        ):
            expects = True
            continue
        digits = re.fullmatch(r"(\d{1,4})", token)
        if not digits or (seen and not expects):
            break
        number, seen, expects = number * int(digits[1]), True, False
    if not seen:
        far = _COUNTED.search(" ".join(tokens))
        number, seen = (int(far[1]), True) if far else (1, False)
    return number if seen and number <= MOST_GPUS else None


def _number_after(tokens: list[str]) -> int | None:
    """The number after a name: H100 x8, H100 x 8."""
    text = " ".join(tokens[:4])
    found = re.match(r"(?:\d+GB\s+|SXM\d?\s+)*[x×*]\s*(\d{1,4})\b", text, re.IGNORECASE)
    if found:
        return int(found[1])
    return 2 if tokens[:1] and tokens[0].lower() == "pair" else None


def _sum_of_pools(text: str, name: str) -> int | None:
    """8xH200 + 8xH200: GPUs of both."""
    counts = [
        next((count for found, count in _named(part) if found == name), None) for part in text.split("+")
    ]
    if len(counts) < 2 or any(count is None for count in counts):
        return None
    return sum(count for count in counts if count is not None)


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


def _machines(conditions: Mapping[str, Stated], text: str, prefill: int | None, decode: int | None) -> int:
    """How many times the number beside the GPU's name counts: it may be that of a node."""
    words = nodes_in(text)
    if re.search(r"nodes?\s*[x×]|in (total|all)", text, re.IGNORECASE):
        return 1
    if words or re.search(r"per node|each node|nodes? (of|with)|a node|/node", text, re.IGNORECASE):
        nodes = _count(conditions, "nodes") or words
        if nodes is None and prefill is not None and decode:
            nodes = prefill + decode
        return nodes or 1
    return 1


def _count(conditions: Mapping[str, Stated], key: str) -> int | None:
    value = conditions.get(key)
    return int(value) if isinstance(value, int | float) and 1 <= value <= MOST_GPUS else None
