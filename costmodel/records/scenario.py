"""Conditions that a report states inside its words on the scenario, or as options of the engine."""

from __future__ import annotations

import re

from .flags import of_activations, stated_by_options
from .record import Stated

_CACHE = re.compile(
    r"(?:no\s+)?prefix[\s-]cach\w*\s*(?:is\s+|was\s+)?(?:off|disabled|on|enabled)\b|no\s+prefix[\s-]cach\w*"
    r"|\b(?:cold|warm|flushed|cleared)\s+(?:prefix[\s-])?cache\b",
    re.IGNORECASE,
)
_CONCURRENCY = re.compile(
    r"(?:max[\s-])?concurrency\s*(?:of|=|:)?\s*(\d{1,6})\b|\b(\d{1,6})\s+concurrent\b", re.IGNORECASE
)
#: Arrivals that are no process: every request is sent at the start.
AT_ONCE = re.compile(
    r"all at once|at once|simultaneous|(?:rate|qps)\W*(?:is\s+)?(?:inf|infinit\w*)\b|^inf$", re.IGNORECASE
)
#: Conditions that say what a cache held.
_CACHED = {"cache_state", "cached_tokens", "cached_share"}
_VERSION = re.compile(r"(?<=[A-Za-z])[\s=@(-]+v?(\d+\.\d+(?:[.+-]?\w+)*)\)?", re.IGNORECASE)
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


def _options(stated: dict[str, Stated]) -> None:
    """Options of the engine state what nothing else does, and the weights' dtype beside that of activations."""
    for condition, value in stated_by_options(stated).items():
        if condition == "cache_state" and _CACHED & stated.keys():
            continue
        if condition == "dtype" and condition in stated and of_activations(stated[condition]):
            stated[condition] = value
        stated.setdefault(condition, value)


def _at_once(stated: dict[str, Stated]) -> None:
    """Requests that are all sent at once, with no limit on clients, are a burst of them."""
    count, arrivals = stated.get("requests"), str(stated.get("arrival_process", ""))
    if count and AT_ONCE.search(arrivals) and not {"burst", "concurrency", "arrival_rate"} & stated.keys():
        stated["burst"] = count


def told_in_words(stated: dict[str, Stated]) -> None:
    """Add what only the words on scenario and engine, or its options, state: cache, clients, batch, version.

    >>> stated = {"scenario": "1P1D, prefix cache off, concurrency 16"}
    >>> told_in_words(stated)
    >>> stated["cache_state"], stated["concurrency"]
    ('prefix cache off', 16)
    """
    words = str(stated.get("scenario", ""))
    cache = _CACHE.search(words)
    if cache and not _CACHED & stated.keys():
        stated["cache_state"] = cache[0]
    _options(stated)
    _version(stated)
    _at_once(stated)
    clients, batch = _CONCURRENCY.search(words), _BATCH.search(words)
    if clients and "concurrency" not in stated:
        stated["concurrency"] = int(clients[1] or clients[2])
    if batch and "batch" not in stated:
        stated["batch"] = int(batch[1])
