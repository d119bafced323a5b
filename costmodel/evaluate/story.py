"""Why a request was slow: its ledger in a sentence, the largest parts first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..units import format_si
from .summary import ttft_stages
from .timeline import ACCOUNTS, Record

#: Share of the delay that may go unnamed, and share of the whole time below which nothing shows in 3 digits.
_UNNAMED, _UNSEEN = 0.1, 0.001


@dataclass(frozen=True)
class Story:
    """One request, seconds, and what took it that long.

    ``text`` names the accounts that make up 90 % of its delay, and how long it computed; parts that are left
    out are smaller.
    """

    index: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    ttft_s: float
    e2e_s: float
    text: str


def ttft_story(record: Record, first_token: str) -> Story:
    """Explain a finished request's TTFT by its stages. ``first_token``: where that comes from."""
    stages = {name.removesuffix("_s"): value for name, value in ttft_stages(record, first_token).items()}
    prefill = {"stretch": ("prefill", stages.pop("prefill"))}
    return _story(record, "TTFT", record.ttft, stages, prefill)


def e2e_story(record: Record) -> Story:
    """Explain a finished request's E2E by its accounts."""
    computed = {"stretch": ("prefill", record.ideal_prefill), "gathering": ("decode", record.ideal_decode)}
    accounts = {name: record.account(name) for name in ACCOUNTS}
    return _story(record, "E2E", record.e2e, accounts, computed)


def _story(
    record: Record,
    name: str,
    total: float,
    accounts: Mapping[str, float],
    computed: Mapping[str, tuple[str, float]],
) -> Story:
    """Tell ``accounts`` of ``total`` seconds; ``computed``: what alone takes how long, by the account of the rest."""
    delays = _parted(record, accounts)
    named = _named(delays, total)
    parts = [(value, _words(record, key, value)) for key, value in named.items() if key not in computed]
    for key, (work, alone) in computed.items():
        if not alone:
            continue
        taken = alone + delays[key]
        beside = f" (alone {_time(alone)})" if key in named else ""
        parts.append((taken, f"{work} {_time(taken)}{beside}"))
    parts.sort(reverse=True)
    request = record.request
    size = f"{request.isl:,} + {request.output_tokens:,} tokens"
    told = ", ".join(text for _, text in parts)
    return Story(
        record.index,
        request.arrival_s,
        request.isl,
        request.output_tokens,
        record.ttft,
        record.e2e,
        f"request {record.index} ({size}): {name} {_time(total)}; {told}",
    )


def _parted(record: Record, accounts: Mapping[str, float]) -> dict[str, float]:
    """Tell the waits apart that admission adds: before prefill, for memory elsewhere, for a step once copied."""
    parted, elsewhere = dict(accounts), accounts["admission"] - record.admission
    if elsewhere:
        memory = record.reserved - record.p1
        parted |= {"admission": record.admission, "memory": memory, "step": elsewhere - memory}
    return parted


def _named(delays: Mapping[str, float], total: float) -> dict[str, float]:
    """Return the largest delays, either way, until what is left of their sum is small."""
    left = sum(delays.values())
    small = max(_UNNAMED * abs(left), _UNSEEN * total)
    named = {}
    for key, value in sorted(delays.items(), key=lambda delay: -abs(delay[1])):
        if abs(left) <= small:
            break
        named[key] = value
        left -= value
    return named


def _words(record: Record, key: str, seconds: float) -> str:
    time = _time(seconds)
    if key == "queue":
        return f"waited {time} {_behind(record)}"
    if key == "recompute":
        return f"{time} to compute again after {_counted(record.preempted, 'preemption')}"
    return _WORDS[key].format(time)


_WORDS = {
    "admission": "held back {} for memory or a seat before prefill",
    "memory": "{} for memory on the decode side",
    "step": "{} until a decode step began once copied",
    "load": "{} to load its cached prefix",
    "link": "{} for a busy link",
    "handover": "copy {}",
    "stalls": "{} in stalls by prefills of others",
}


def _behind(record: Record) -> str:
    if not record.ahead:
        return "for its first step"
    return f"behind {_counted(record.ahead, 'prompt')} with {record.ahead_tokens:,} tokens to compute"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    return format_si(seconds, "second")
