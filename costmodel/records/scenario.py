"""Conditions that a report states inside its words on the scenario, or as options of the engine."""

from __future__ import annotations

import re

from .record import Stated

#: Options that turn the prefix cache off.
_OFF = re.compile(
    r"--no-enable-prefix-caching|--disable-radix-cache|enable[_-]prefix[_-]caching[=\s]+(?:false|0)",
    re.IGNORECASE,
)
_CACHE = re.compile(
    r"(?:no\s+)?prefix[\s-]cach\w*\s*(?:is\s+|was\s+)?(?:off|disabled|on|enabled)\b|no\s+prefix[\s-]cach\w*"
    r"|\b(?:cold|warm|flushed|cleared)\s+(?:prefix[\s-])?cache\b",
    re.IGNORECASE,
)
_CONCURRENCY = re.compile(
    r"(?:max[\s-])?concurrency\s*(?:of|=|:)?\s*(\d{1,6})\b|\b(\d{1,6})\s+concurrent\b", re.IGNORECASE
)
_VERSION = re.compile(r"(?<=[A-Za-z])[\s=@-]+v?(\d+\.\d+(?:[.+-]?\w+)*)", re.IGNORECASE)
_BATCH = re.compile(r"\bbatch(?:[\s-]size)?\s*(?:of|=|:)?\s*(\d{1,5})\b", re.IGNORECASE)


def _version(stated: dict[str, Stated]) -> None:
    """An engine named with its version: "vLLM 0.6.3.post1", "TGI v2.0 with a patch"."""
    engine = str(stated.get("engine", ""))
    found = _VERSION.search(engine)
    if not found or "engine_version" in stated:
        return
    stated["engine_version"] = found[1]
    if found.end() == len(engine):
        stated["engine"] = engine[: found.start()].strip()


def told_in_words(stated: dict[str, Stated]) -> None:
    """Add what only the words on scenario and engine, or its options, state: cache, clients, batch, version.

    >>> stated = {"scenario": "1P1D, prefix cache off, concurrency 16"}
    >>> told_in_words(stated)
    >>> stated["cache_state"], stated["concurrency"]
    ('prefix cache off', 16)
    """
    words, flags = str(stated.get("scenario", "")), str(stated.get("engine_flags", ""))
    cache = _CACHE.search(words)
    if "cache_state" not in stated and not {"cached_tokens", "cached_share"} & stated.keys():
        if cache:
            stated["cache_state"] = cache[0]
        elif _OFF.search(flags):
            stated["cache_state"] = "prefix cache off"
    _version(stated)
    clients, batch = _CONCURRENCY.search(words), _BATCH.search(words)
    if clients and "concurrency" not in stated:
        stated["concurrency"] = int(clients[1] or clients[2])
    if batch and "batch" not in stated:
        stated["batch"] = int(batch[1])
