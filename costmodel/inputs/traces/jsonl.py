"""Traces with a JSON object a line: Mooncake's, AIPerf's and GenAI-Perf's input traces, Bailian's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...errors import InputError
from ..workload import Request
from .checks import NO_TIMES, Checks, Names
from .clocks import Seconds
from .reading import INFINITE, NO_HASHES, Notes, Reading
from .reuse import InfiniteCache, Sessions

BLOCKS = "hash_ids"
Record = Mapping[str, object]


@dataclass(frozen=True)
class Dialect:
    """A format: its keys, the unit of its times, the tokens of a block that a hash stands for."""

    name: str
    names: Names
    per_second: float
    block_tokens: int


#: Times in ms, blocks of 512 tokens: Mooncake's release, whose keys AIPerf and GenAI-Perf took over.
MOONCAKE = Dialect(
    "Mooncake JSONL",
    Names("timestamp", "input_length", "output_length", session="session_id", ident="request_id"),
    per_second=1000,
    block_tokens=512,
)
#: Times in s, blocks of 16 tokens; a turn names the turn before it.
BAILIAN = Dialect(
    "Bailian JSONL",
    Names("timestamp", "input_length", "output_length", session="parent_chat_id", ident="chat_id"),
    per_second=1,
    block_tokens=16,
)
#: Prompts as text: how many tokens they are depends on a tokenizer.
_PROMPTS = ("text_input", "messages", "payload")


def record_of(line: str, number: int, where: str) -> Record:
    """Return the JSON object of a line. Raises InputError naming the line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number}: not JSON: {error}", where=where) from None
    if not isinstance(record, dict):
        raise InputError(f"line {number}: expected a JSON object, not {type(record).__name__}", where=where)
    return record


def text_of(value: object) -> str:
    """Return a JSON value as the checks of numbers read it: whole floats as whole numbers."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return (
        str(value)
        if isinstance(value, int | float | str) and not isinstance(value, bool)
        else json.dumps(value)
    )


def jsonl_requests(lines: Iterator[str], where: str, how: Reading, notes: Notes) -> Iterator[Request]:
    """Yield the requests of a JSONL trace. Raises InputError at the first bad line."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    sheet: _Lines | None = None
    for number, line in numbered:
        record = record_of(line, number, where)
        sheet = sheet or _Lines(record, where, how, notes)
        yield sheet.request(record, number)
    if sheet is None:
        raise InputError("is empty", where=where)


class _Lines:
    """A JSONL trace that is being read; its first record says which dialect it is."""

    def __init__(self, first: Record, where: str, how: Reading, notes: Notes) -> None:
        self._where = where
        self._dialect = BAILIAN if "chat_id" in first else MOONCAKE
        names = self._dialect.names
        if how.select:
            raise InputError("has no columns to select rows by", where=where)
        if how.prefix == INFINITE and BLOCKS not in first:
            raise InputError(f"{NO_HASHES} ({BLOCKS})", where=where)
        if how.sessions and names.session not in first:
            raise InputError(f"has no {names.session}, which sessions need", where=where)
        notes.format = self._dialect.name
        notes.has_blocks, notes.has_sessions = BLOCKS in first, names.session in first
        notes.unread += [key for key in first if key not in {*vars(names).values(), BLOCKS}]
        self._checks = Checks(where, names, Seconds(self._dialect.per_second), notes, timed=how.timed)
        self._block_tokens = how.block_tokens or self._dialect.block_tokens
        self._cache = InfiniteCache() if how.prefix == INFINITE else None
        self._sessions = Sessions() if how.sessions else None
        self._roots: dict[str, str] = {}

    def request(self, record: Record, number: int) -> Request:
        """Return the request of a line."""
        self._check_prompt(record, number)
        cells = {key: text_of(value) for key, value in record.items() if key != BLOCKS and value is not None}
        request = self._checks.request(f"line {number}", cells)
        assert request is not None  # these formats skip nothing
        if record.get(BLOCKS):
            blocks = self._blocks(record, request.isl, number)
            request = request._replace(blocks=blocks, block_tokens=self._block_tokens)
        if self._cache is not None:
            return self._cache.serve(request)
        return request if self._sessions is None else self._sessions.turn(request, self._session(cells))

    def _check_prompt(self, record: Record, number: int) -> None:
        texts = [key for key in _PROMPTS if key in record]
        if texts and self._dialect.names.prompt not in record:
            problem = f"{texts[0]} has no number of tokens; add {self._dialect.names.prompt}"
            raise InputError(f"line {number}: {problem}", where=self._where)
        if "delay" in record and self._dialect.names.arrival not in record and self._checks.timed:
            problem = "delay counts from the answer to the turn before, whose time no trace holds"
            raise InputError(f"line {number}: {problem}: {NO_TIMES}", where=self._where)

    def _blocks(self, record: Record, prompt: int, number: int) -> tuple[int, ...]:
        blocks = record[BLOCKS]
        if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
            raise InputError(f"line {number}: {BLOCKS} is not a list of whole numbers", where=self._where)
        most = -(-prompt // self._block_tokens)
        if len(blocks) > most:
            raise InputError(
                f"line {number}: {len(blocks)} {BLOCKS}, but {prompt} prompt tokens fill {most} blocks of "
                f"{self._block_tokens} tokens; say how many tokens a block has",
                where=self._where,
            )
        return tuple(blocks)

    def _session(self, cells: Mapping[str, str]) -> str:
        session = cells.get(self._dialect.names.session, "")
        if self._dialect is not BAILIAN:
            return session
        own = cells.get("chat_id", "")
        root = self._roots[own] = self._roots.get(session, own)
        return root
