"""Results that are JSON: one document, or one a line; of several, the one that is asked for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from ...errors import InputError
from .jsonl import Record, record_of
from .reading import Reading

#: What ``select`` calls a run of a file that holds several, counted from 1.
RUN = "run"


def results_of(text: str, where: str) -> list[Record]:
    """Return the objects of a JSON document or of JSON lines. Raises InputError for anything else."""
    first, _, rest = text.partition("\n")
    if rest.strip() and first.rstrip().endswith("}"):
        numbered = enumerate(text.split("\n"), 1)
        return [record_of(line, number, where) for number, line in numbered if line.strip()]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", where=where) from None
    runs = found if isinstance(found, list) else [found]
    if not runs or not all(isinstance(run, dict) for run in runs):
        raise InputError("is JSON without an object; expected a result of a benchmark", where=where)
    return runs


def chosen(runs: Sequence[Record], how: Reading, where: str) -> tuple[Record, Reading]:
    """Return the run that ``how`` selects by its number, and the rest of what it asks.

    Raises InputError where there are several and none is asked for, or none of that number.
    """
    asked = how.select.get(RUN)
    rest = replace(how, select={name: text for name, text in how.select.items() if name != RUN})
    if asked is None and len(runs) == 1:
        return runs[0], rest
    if asked is None:
        raise InputError(f"holds {len(runs):,} runs; select one, as in {RUN}=1", where=where)
    if not asked.isdecimal() or len(asked) > 9 or not 1 <= int(asked) <= len(runs):
        raise InputError(f"holds {len(runs):,} runs, and none is number {asked[:20]!r}", where=where)
    return runs[int(asked) - 1], rest
