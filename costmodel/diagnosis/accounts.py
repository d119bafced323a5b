"""Accounts of a figure: what the requests behind it spent their time on, in seconds that add up to it."""

from __future__ import annotations

from collections.abc import Sequence

from ..evaluate.summary import ttft_stages
from ..evaluate.timeline import Record
from .detail import percent_of
from .replays import Played

#: What a request takes alone: no account of the ledger.
ALONE = ("prefill_s", "decode_s")
#: What each account is, for a sentence.
MEANING = {
    "prefill_s": "the prompt computed alone",
    "decode_s": "decoding alone",
    "queue_s": "waiting for prompts that came before",
    "admission_s": "waiting for memory, a sequence slot or a seat on the decode side",
    "stretch_s": "chunks, decodes and prompts beside the prompt",
    "link_s": "waiting for a link that is busy with other copies",
    "handover_s": "the copy and its control",
    "load_s": "reading a cached prefix from a slower tier",
    "stalls_s": "prompts of others in decode steps, or between them",
    "gathering_s": "decoding in one batch with others",
    "recompute_s": "KV computed again after preemptions",
    "transfer_s": "the copy, measured",
    "rest_s": "what no measured stage holds",
}
#: Share of all requests, on either side of a percentile, that stand for it, and the fewest.
_NEAR, _FEWEST = 0.02, 5


def accounts_of(played: Played, measure: str, word: str, first_token: str) -> dict[str, float]:
    """Return mean seconds of each account: of all requests, or of those near a percentile, scaled to it.

    ``measure``: ttft, tpot or e2e; accounts of TPOT are seconds a token. Nothing where no request has the measure.
    """
    offsets = played.offsets or (0.0,) * len(played.records)
    made = [
        (value, parts)
        for record, offset in zip(played.records, offsets)
        for value, parts in [_parts(record, offset, measure, first_token)]
        if value is not None
    ]
    target = played.value(measure, word)
    near = _near(made, word) if made else []
    if not near or target is None:
        return {}
    names = dict.fromkeys(key for _, parts in near for key in parts)
    means = {key: sum(parts.get(key, 0.0) for _, parts in near) / len(near) for key in names}
    total = sum(means.values())
    scale = 1.0 if word == "mean" or total <= 0 else target / total  # means add up as they are
    return {key: value * scale for key, value in means.items()}


def _parts(
    record: Record, offset: float, measure: str, first_token: str
) -> tuple[float | None, dict[str, float]]:
    """The measure of a request, and its accounts."""
    if measure == "tpot":
        gaps = record.request.output_tokens - 1
        return record.tpot, {k: v / gaps for k, v in _decode(record, first_token).items()} if gaps > 0 else {}
    stages = ttft_stages(record, first_token)
    if offset:  # counted from when the engine takes notice: neither its constant nor the wait until then
        stages["prefill_s"] -= record.constant
        stages["queue_s"] -= offset - record.constant
    if measure == "ttft":
        return record.ttft - offset, stages
    for key, value in _decode(record, first_token).items():
        stages[key] = stages.get(key, 0.0) + value
    return record.e2e - offset, stages


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


def _near(
    made: Sequence[tuple[float, dict[str, float]]], word: str
) -> Sequence[tuple[float, dict[str, float]]]:
    share = percent_of(word)
    if share is None:
        return made
    ordered = sorted(made, key=lambda each: each[0])
    width = max(_NEAR * len(ordered), _FEWEST / 2)
    middle = share * (len(ordered) - 1)
    low, high = max(0, round(middle - width)), min(len(ordered), round(middle + width) + 1)
    return ordered[low:high]


def leading(accounts: dict[str, float]) -> list[tuple[str, float]]:
    """Return the accounts beyond what a request takes alone, the largest first."""
    return sorted(((k, v) for k, v in accounts.items() if k not in ALONE), key=lambda each: -each[1])
