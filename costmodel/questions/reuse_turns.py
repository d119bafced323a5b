"""A conversation, by the place where its prefix is kept between turns: what prefill computes, what is copied."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from ..formulas import reuse as book
from .reuse_times import NEEDS_GPU, Times

PREFILL, ONE_WAY, BOTH_WAYS, STORE, NOWHERE = (
    "prefill instance",
    "decode instance, copies to it alone",
    "decode instance, copies both ways",
    "store",
    "nowhere",
)
MOST_TURNS = 1000


@dataclass(frozen=True)
class PlaceRow:
    """A conversation of all its turns: tokens that prefill computes, and KV bytes that cross, each byte once.

    ``prefill_s``: the prefills alone, one after the other. ``to_prefill_bytes`` come back from decode or out of the
    store, ``stored_bytes`` are written to it.
    """

    place: str
    computed_tokens: int
    prefill_s: float | None
    prefill_reason: str | None
    to_decode_bytes: float
    to_prefill_bytes: float
    stored_bytes: float


def turn_rows(
    times: Times, bytes_per_token: float, turns: int, new: int, answer: int
) -> tuple[PlaceRow, ...]:
    """Return a row for each place. Raises InputError for more turns than are followed."""
    if turns > MOST_TURNS:
        raise InputError(f"--turns {turns:,}: at most {MOST_TURNS:,} are followed")
    nothing = int(book.turns_computed_nothing_kept(turns, new, answer))
    kept = int(book.turns_computed_all_kept(turns, new))
    half = int(book.turns_computed_prefill_side(turns, new, answer))
    whole = float(book.turns_copied_whole(turns, new, answer, bytes_per_token))
    fresh = float(book.turns_copied_new(turns, new, bytes_per_token))
    back = float(book.turns_copied_back(turns, new, answer, bytes_per_token))
    stored = float(book.turns_stored(turns, new, answer, bytes_per_token))
    before = [turn * (new + answer) for turn in range(turns)]
    all_found = _seconds(times, [(new, held) for held in before])
    none_found = _seconds(times, [(held + new, 0) for held in before])
    prompts = _seconds(times, [(new + answer, held - answer) if held else (new, 0) for held in before])
    why = NEEDS_GPU if all_found is None else None
    return (
        PlaceRow(PREFILL, half, prompts, why, whole, 0.0, 0.0),
        PlaceRow(ONE_WAY, nothing, none_found, why, fresh, 0.0, 0.0),
        PlaceRow(BOTH_WAYS, kept, all_found, why, fresh, back, 0.0),
        PlaceRow(STORE, kept, all_found, why, whole, back, stored),
        PlaceRow(NOWHERE, nothing, none_found, why, whole, 0.0, 0.0),
    )


def _seconds(times: Times, prefills: list[tuple[int, int]]) -> float | None:
    """Add up prefills of so many tokens over so many; None without step times."""
    found = [times.prefill_s(tokens, prefix) for tokens, prefix in prefills]
    return None if None in found else sum(each for each in found if each is not None)
