"""Lengths of prompts and outputs: a condition where all are the same, else words and a mean."""

from __future__ import annotations

from collections.abc import Sequence

from .sheet import Sheet

#: The side of a request, the condition of its length, and the one in words.
SIDES = {"input": ("input_tokens", "input_length"), "output": ("output_tokens", "output_length")}


def state_lengths(sheet: Sheet, side: str, key: str, lengths: Sequence[int]) -> None:
    """State the lengths of all requests; none of them, nothing."""
    if not lengths:
        return
    tokens, words = SIDES[side]
    low, high, mean = min(lengths), max(lengths), sum(lengths) / len(lengths)
    if low == high:
        sheet.state(tokens, low, key)
    else:
        sheet.state(words, f"{low:,} to {high:,} tokens, mean {mean:,.0f}", key)
    sheet.figure(tokens, key, mean, "tokens", "mean", text=f"mean of {len(lengths):,} {key}")


def state_mean(sheet: Sheet, side: str, key: str, total: int | None, requests: int | None) -> None:
    """State the mean length, of which only a total is known."""
    tokens, words = SIDES[side]
    if total is None or not requests or tokens in sheet.conditions or words in sheet.conditions:
        return
    mean = total / requests
    sheet.state(words, f"mean {mean:,.10g} tokens; the result does not say how they vary", key)
    sheet.figure(tokens, key, mean, "tokens", "mean", text=f"{total:,} tokens of {requests:,} requests")
