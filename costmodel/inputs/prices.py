"""What GPUs cost by the hour: dated prices of public clouds, and prices of one's own in their place."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from ..data import HARDWARE, load_toml, package_files
from ..errors import InputError, unknown
from .hardware import gpu_names

_FILE = "prices.toml"
GIVEN = "given"


@dataclass(frozen=True)
class Price:
    """US dollars for an hour of one GPU on demand; ``date``: the day it was read (ISO), empty where it was given."""

    gpu: str
    usd_per_hour: float
    provider: str
    date: str
    source: str


@lru_cache(maxsize=1)
def load_prices() -> tuple[Price, ...]:
    """Return the packaged prices in the order of their file. Raises InputError with every problem of it."""
    source = package_files(HARDWARE).joinpath(_FILE)
    found: list[Price] = []
    problems: list[str] = []
    for number, table in enumerate(load_toml(source).get("price", ()), 1):
        here = f"price {number}"
        missing = [key for key in ("provider", "date", "source", "usd_per_gpu_hour") if key not in table]
        if missing:
            problems.append(f"{here}: no {', '.join(missing)}")
            continue
        day = table["date"]
        if not isinstance(day, date):
            problems.append(f"{here}.date: {day!r} is not a date such as 2026-11-09")
            continue
        for gpu, value in table["usd_per_gpu_hour"].items():
            problem = _problem(gpu, value, gpu_names())
            if problem:
                problems.append(f"{here}: {problem}")
                continue
            found.append(Price(gpu, float(value), table["provider"], day.isoformat(), table["source"]))
    if problems:
        raise InputError(problems, where=str(source))
    return tuple(found)


def providers() -> tuple[str, ...]:
    """Return the providers whose prices are packaged."""
    return tuple(dict.fromkeys(price.provider for price in load_prices()))


def price_of(gpu: str, provider: str | None = None) -> Price | None:
    """Return the price of a GPU at a provider (None: the first that lists it); None where nobody does.

    Raises InputError for a provider whose prices are not packaged.
    """
    if provider is not None and provider not in providers():
        known = f"(known: {', '.join(providers())}; or pass --price GPU=USD)"
        raise InputError(unknown("provider", provider, providers(), remedy=known))
    listed = (price for price in load_prices() if price.gpu == gpu and provider in (None, price.provider))
    return next(listed, None)


def prices_for(
    gpus: Iterable[str], provider: str | None = None, given: Mapping[str, float] | None = None
) -> dict[str, Price]:
    """Return a price for each GPU that has one: ``given`` ones first (US dollars an hour), then those of one provider.

    Without ``provider``: the first that lists every GPU left, so that they compare; where none does, for each GPU the
    first that lists it.
    """
    own = given or {}
    found = {gpu: Price(gpu, usd, GIVEN, "", "--price") for gpu, usd in own.items()}
    left = [gpu for gpu in dict.fromkeys(gpus) if gpu not in found]
    names = [provider] if provider else [None, *providers()]
    whole = next((name for name in names if name and all(price_of(gpu, name) for gpu in left)), provider)
    for gpu in left:
        price = price_of(gpu, whole)
        if price is not None:
            found[gpu] = price
    return found


def parse_prices(texts: Iterable[str], gpus: Collection[str] | None = None) -> dict[str, float]:
    """Return the prices written as GPU=USD_PER_HOUR. ``gpus``: names that may be priced, the packaged ones by default.

    Raises InputError for all that are not written so.
    """
    known = gpu_names() if gpus is None else tuple(gpus)
    found: dict[str, float] = {}
    problems = []
    for text in texts:
        gpu, sign, amount = (part.strip() for part in text.partition("="))
        try:
            value: Any = float(amount)
        except ValueError:
            value = None
        if not sign or value is None:
            problems.append(f"--price {text!r}: write GPU=USD_PER_HOUR, such as h100-sxm=2.50")
            continue
        problem = _problem(gpu, value, known)
        if problem:
            problems.append(f"--price {text!r}: {problem}")
        elif gpu in found:
            problems.append(f"--price {text!r}: {gpu} has a price already, {found[gpu]:g}")
        found[gpu] = value
    if problems:
        raise InputError(problems)
    return found


def _problem(gpu: str, value: Any, known: Collection[str]) -> str | None:
    if gpu not in known:
        return unknown("GPU", gpu, known)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        return f"{value!r} US dollars an hour for {gpu}; expected a number of at least 0"
    return None
