"""Results of the clients of vLLM and SGLang: lists with an entry for each request."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import InputError
from .checks import Names
from .jsonl import Record, text_of
from .logs import FAILED, Entry, LoggedRequest, gaps_of, in_order, number_at
from .reading import Notes, Reading

_LISTS = Names("start_times", "input_lens", "output_lens")
#: What the server told of each request's wait, where it does.
_QUEUE = "server_queue_times"


def is_bench(result: Record) -> bool:
    """Say whether an object is a result of one of the clients."""
    return not {"input_lens", "request_throughput"}.isdisjoint(result)


def bench_log(result: Record, where: str, how: Reading, notes: Notes) -> Iterator[LoggedRequest]:
    """Yield the requests of what ``vllm bench serve --save-result --save-detailed`` writes, or SGLang's
    ``bench_serving --output-details``, which has no times of arrival.

    Raises InputError where the lists of single requests are missing or of different lengths.
    """
    sglang = "total_output_tokens_retokenized" in result
    notes.format = "SGLang benchmark result" if sglang else "vLLM benchmark result"
    lists = {key: value for key, value in result.items() if isinstance(value, list)}
    missing = [name for name in (_LISTS.prompt, _LISTS.output) if name not in lists]
    if missing:
        option = "--output-details" if sglang else "--save-detailed"
        problem = f"has no {' and no '.join(missing)}: save the result with {option}"
        raise InputError(problem, where=where)
    count = len(lists[_LISTS.prompt])
    read = [
        key
        for key in (*vars(_LISTS).values(), "ttfts", "itls", "latencies", "errors", _QUEUE)
        if key in lists
    ]
    uneven = [key for key in read if len(lists[key]) != count]
    if uneven:
        problems = [f"{key} has {len(lists[key])} entries, {_LISTS.prompt} {count}" for key in uneven]
        raise InputError(problems, where=where)
    entries = []
    for i in range(count):
        row = {key: lists[key][i] for key in read}
        if row.pop("errors", None):
            notes.skip(FAILED)
        else:
            entries.append(_entry(f"request {i + 1}", row, where))
    return in_order(entries, _LISTS, 1.0, where, how, notes)


def _entry(at: str, row: Record, where: str) -> Entry:
    gaps = row.get("itls")
    if not isinstance(gaps, list | None):
        raise InputError(f"{at}: itls is not a list of times", where=where)
    ttft = number_at(at, "ttfts", row.get("ttfts"), where)
    e2e = number_at(at, "latencies", row.get("latencies"), where)
    if e2e is None and ttft is not None and gaps is not None:
        e2e = ttft + sum(number_at(at, "itls", gap, where) or 0.0 for gap in gaps)
    cells = {name: text_of(row[name]) for name in (_LISTS.prompt, _LISTS.output)}
    after = gaps_of(cells[_LISTS.output])
    tpot = (e2e - ttft) / after if e2e is not None and ttft is not None and after > 0 else None
    start = number_at(at, _LISTS.arrival, row.get(_LISTS.arrival), where)
    queue = number_at(at, _QUEUE, row.get(_QUEUE), where)
    return Entry(at, start, cells, {"ttft_s": ttft, "e2e_s": e2e, "tpot_s": tpot, "queue_s": queue})
