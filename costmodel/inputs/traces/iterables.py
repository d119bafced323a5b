"""Requests from Python objects, with the checks of a file's rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...errors import InputError
from ..workload import LONGEST, Request
from .checks import Checks, Names
from .clocks import LATEST_S, Seconds
from .reading import Notes

_NAMES = Names("arrival_s", "prompt_tokens", "output_tokens", cached="cached_tokens")
_WHERE = "requests"


def requests_of(rows: Iterable[Request | Sequence[float]]) -> Iterator[Request]:
    """Yield requests of Requests, or of tuples (arrival in s, prompt tokens, output tokens[, cached tokens]).

    Prompt tokens of a tuple count the cached ones. Raises InputError naming the first bad row by its number,
    with all its problems.
    """
    checks = Checks(_WHERE, _NAMES, Seconds(), Notes())
    number = 0
    for number, row in enumerate(rows, 1):
        at = f"request {number}"
        if isinstance(row, Request):
            _check_blocks(row, at)
            values: Sequence[float] = (row.arrival_s, row.isl, row.output_tokens, row.cached_tokens)
        else:
            values = row
        request = _plain(values, checks.previous) or _careful(values, at, checks)
        checks.previous = request.arrival_s
        yield row if isinstance(row, Request) else request
    if number == 0:
        raise InputError("there is no request", where=_WHERE)


def _plain(values: Sequence[float], previous: float) -> Request | None:
    """Return the request of ordinary numbers, None where any needs a careful look."""
    if not isinstance(values, tuple) or len(values) not in (3, 4):
        return None
    arrival, prompt, output, cached = values if len(values) == 4 else (*values, 0)
    if not (type(prompt) is type(output) is type(cached) is int and type(arrival) in (int, float)):
        return None
    if not (previous <= arrival <= LATEST_S and 0 <= cached < prompt <= LONGEST and 1 <= output <= LONGEST):
        return None
    return Request(float(arrival), prompt - cached, cached, output)


def _careful(values: Sequence[float], at: str, checks: Checks) -> Request:
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) not in (3, 4):
        raise InputError(
            f"{at}: {values!r} is no Request and no (arrival_s, prompt_tokens, output_tokens[, cached_tokens])",
            where=_WHERE,
        )
    cells = dict(
        zip(("arrival_s", "prompt_tokens", "output_tokens", "cached_tokens"), map(str, (*values, 0)))
    )
    request = checks.request(at, cells)
    assert request is not None  # nothing is skipped here
    return request


def _check_blocks(row: Request, at: str) -> None:
    if row.blocks and not 0 < row.block_tokens * len(row.blocks) < row.isl + row.block_tokens:
        problem = f"{len(row.blocks)} blocks of {row.block_tokens} tokens, but {row.isl} prompt tokens"
        raise InputError(f"{at}: {problem}", where=_WHERE)
