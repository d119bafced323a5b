"""Accounts of a figure: what the requests behind it spent their time on, in seconds that add up to it."""

from __future__ import annotations

from ..evaluate.summary import ttft_stages
from ..evaluate.timeline import Record
from .causes import CAUSES, WAITS, Causes
from .detail import percent_of
from .replays import Played

#: What a request takes alone: no account of the ledger.
ALONE = ("prefill_s", "decode_s")
#: What each account is, for a sentence.
MEANING = {
    "prefill_s": "the prompt computed alone",
    "decode_s": "decoding alone",
    "queue_s": "waiting in line for prefill",
    "admission_s": "waiting for memory, a sequence slot or a seat on the decode side",
    "stretch_s": "chunks, decodes and prompts beside the prompt",
    "link_s": "waiting for a link that is busy with other copies",
    "handover_s": "the copy and its control",
    "load_s": "reading a cached prefix from a slower tier",
    "stalls_s": "prompts of others in decode steps, or between them",
    "gathering_s": "decoding in one batch with others",
    "recompute_s": "KV computed again after preemptions",
    "transfer_s": "the copy, measured",
    "front_end_s": "between the client's sending and the engine's queue",
    "rest_s": "what no measured stage holds",
}
#: Share of all requests, on either side of a percentile, that stand for it, and the fewest.
_NEAR, _FEWEST = 0.02, 5


def accounts_of(played: Played, measure: str, word: str, first_token: str) -> dict[str, float]:
    """Return mean seconds of each account: of all requests, or of those near a percentile, scaled to it.

    ``measure``: ttft, tpot or e2e; accounts of TPOT are seconds a token. Nothing where no request has the measure.
    """
    near = requests_about(played, measure, word)
    target = played.value(measure, word)
    if not near or target is None:
        return {}
    made = [_parts(record, offset, measure, first_token) for record, offset in near]
    names = dict.fromkeys(key for parts in made for key in parts)
    means = {key: sum(parts.get(key, 0.0) for parts in made) / len(made) for key in names}
    total = sum(means.values())
    scale = 1.0 if word == "mean" or total <= 0 else target / total  # means add up as they are
    return {key: value * scale for key, value in means.items()}


def requests_about(played: Played, measure: str, word: str) -> list[tuple[Record, float]]:
    """Return the requests behind a statistic: all, or those near a percentile; and seconds that do not count."""
    offsets = played.offsets or (0.0,) * len(played.records)
    made = [
        (value, record, offset)
        for record, offset in zip(played.records, offsets)
        if (value := _value(record, offset, measure)) is not None
    ]
    share = percent_of(word)
    if share is not None and made:
        made.sort(key=lambda each: each[0])
        width = max(_NEAR * len(made), _FEWEST / 2)
        middle = share * (len(made) - 1)
        made = made[max(0, round(middle - width)) : round(middle + width) + 1]
    return [(record, offset) for _, record, offset in made]


def causes_of(played: Played, causes: Causes, measure: str, word: str) -> dict[str, dict[str, float]]:
    """Return the shares of each cause in the accounts of waits, of the requests behind a statistic."""
    found: dict[str, dict[str, float]] = {}
    near = requests_about(played, measure, word)
    for account in WAITS if measure != "tpot" else ():
        sums = dict.fromkeys(CAUSES, 0.0)
        for record, offset in near:
            counted = max(0.0, offset - record.constant)
            for name, seconds in causes.of(record, account, counted).items():
                sums[name] += seconds
        total = sum(sums.values())
        if total > 0:
            found[account] = {name: seconds / total for name, seconds in sums.items()}
    return found


def _value(record: Record, offset: float, measure: str) -> float | None:
    if measure == "tpot":
        return record.tpot
    return (record.ttft if measure == "ttft" else record.e2e) - offset


def _parts(record: Record, offset: float, measure: str, first_token: str) -> dict[str, float]:
    """The accounts of a request's measure."""
    if measure == "tpot":
        gaps = record.request.output_tokens - 1
        return {key: value / gaps for key, value in _decode(record, first_token).items()}
    stages = ttft_stages(record, first_token)
    if offset:  # counted from when the engine takes notice: neither its constant nor the wait until then
        stages["prefill_s"] -= record.constant
        stages["queue_s"] -= offset - record.constant
    if measure == "e2e":
        for key, value in _decode(record, first_token).items():
            stages[key] = stages.get(key, 0.0) + value
    return stages


def _decode(record: Record, first_token: str) -> dict[str, float]:
    """Accounts between the first and the last token; they add up to that time."""
    found = {
        "decode_s": record.ideal_decode,
        "stalls_s": record.stalls,
        "gathering_s": record.gathering,
        "recompute_s": record.recompute - record.redone,
    }
    if record.route == "remote" and first_token == "prefill":
        found |= {"admission_s": record.seating, "link_s": record.link, "handover_s": record.handover}
    return found


def leading(accounts: dict[str, float]) -> list[tuple[str, float]]:
    """Return the accounts beyond what a request takes alone, the largest first."""
    return sorted(((k, v) for k, v in accounts.items() if k not in ALONE), key=lambda each: -each[1])
