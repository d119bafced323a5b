"""Result files of all known formats, told apart by their content, as records."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..inputs.traces.files import opened
from ..inputs.traces.layouts import MEASURED
from ..inputs.traces.results import RUN
from ..inputs.traces.stage_logs import has_stages
from ..records.record import Record
from . import aiperf, guidellm, inferencex, prometheus, sglang_bench, startup, transfers, vllm_bench
from .documents import LONGEST, Entry, Fields, entries_of, object_of
from .requests import read_requests
from .sheet import Sheet

#: Fields that only one of the two clients writes; their older results have in common the one below.
_SGLANG, _VLLM, _CLIENTS = (
    "total_output_tokens_retokenized",
    ("model_id", "tokenizer_id", "num_prompts"),
    "request_throughput",
)
#: How an object of each format is told, and read.
_OBJECTS: dict[str, tuple[Callable[[Fields], bool], Callable[[Sheet, str], Record]]] = {
    sglang_bench.FORM: (lambda fields: _SGLANG in fields, sglang_bench.read_sglang),
    vllm_bench.FORM: (lambda fields: any(key in fields for key in _VLLM), vllm_bench.read_vllm),
    "AIPerf or GenAI-Perf": (aiperf.is_summary, aiperf.read_aiperf),
    inferencex.FORM: (inferencex.is_row, inferencex.read_inferencex),
}
#: Characters in which a start-up log has told what it is: engines write much before, in the order of 10,000.
_HEAD = 2_000_000
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]])")
_KNOWN = (
    "results of vllm bench serve, SGLang's bench_serving, AIPerf, GenAI-Perf, GuideLLM or InferenceX; logs of requests "
    "with measured times; tables of copies (bytes, time_ms); start-up logs or /metrics of vLLM and SGLang"
)


def is_result(path: str | Path) -> bool:
    """Say whether a file is a result of a known format; False where it cannot be read."""
    try:
        return bool(read_results(path))
    except InputError:
        return False


def is_start(path: str | Path) -> bool:
    """Say whether a file is the log of an engine's start; False where it cannot be read."""
    try:
        with opened(Path(path)) as file:
            text = file.read(_HEAD)
    except InputError:
        return False
    return not _JSON.match(text) and startup.is_log(text)


def is_metrics(path: str | Path) -> bool:
    """Say whether a file holds /metrics of a server; False where it cannot be read."""
    try:
        with opened(Path(path)) as file:
            return prometheus.is_metrics(file.read(_HEAD))
    except InputError:
        return False


def is_copies(path: str | Path) -> bool:
    """Say whether a file is a table of copies, by its header; False where it cannot be read."""
    try:
        with opened(Path(path)) as file:
            first = file.readline(10_000)
    except InputError:
        return False
    return transfers.is_table(_header(first))


def read_results(path: str | Path) -> tuple[Record, ...]:
    """Return the runs of a result file, plain or gzip, each as a record with what it states and what was measured.

    Raises InputError for a file that cannot be read, is of no known format, is cut short or contradicts itself, with
    every problem of the first bad run.
    """
    where, name = str(path), Path(path).name
    text = _text(Path(path))
    found = _records(text, where, name, Path(path))
    if not any(record.figures for record in found):
        why = "; ".join(dict.fromkeys(warning for record in found for warning in record.warnings))
        raise InputError(f"holds no measured figure{': ' + why if why else ''}", where=where)
    return tuple(found)


def _records(text: str, where: str, name: str, path: Path) -> list[Record]:
    first = text.lstrip().partition("\n")[0]
    if _JSON.match(text):
        if aiperf.is_request_line(first) or has_stages(object_of(first)):
            return read_requests(path, name)
        found = [record for entry in entries_of(text, where) for record in _of_entry(entry, where, name)]
        return (
            found
            if len(found) < 2
            else [replace(each, rows={RUN: str(n)}) for n, each in enumerate(found, 1)]
        )
    if startup.is_log(text):
        return [startup.read_startup(text, where, name)]
    if prometheus.is_metrics(text):
        return prometheus.read_metrics(text, where, name)
    header = _header(first[:10_000])
    if transfers.is_table(header):
        return transfers.read_transfers(text, where, name)
    if not set(MEASURED).isdisjoint(header):
        return read_requests(path, name)
    if text.lstrip().startswith("["):
        entries_of(text, where)  # says what is wrong with it
    raise InputError(f"is no result of a known format; expected {_KNOWN}", where=where)


def _header(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line]), [])]


def _text(path: Path) -> str:
    with opened(path) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise InputError(f"is longer than {LONGEST:,} characters; results are shorter", where=str(path))
    if not text.strip():
        raise InputError(f"is empty; expected {_KNOWN}", where=str(path))
    return text


def _of_entry(entry: Entry, where: str, name: str) -> list[Record]:
    if guidellm.is_report(entry.fields):
        benchmarks = guidellm.benchmarks_of(entry)
        return [
            guidellm.read_guidellm(entry.fields, Sheet(one.fields, where, one.at), name) for one in benchmarks
        ]
    read = _reader(entry.fields, where, entry.at)
    return [read(Sheet(entry.fields, where, entry.at), name)]


def _reader(fields: Fields, where: str, at: str) -> Callable[[Sheet, str], Record]:
    """Return the reader of an object. Raises InputError where it has the marks of two formats, or of none."""
    found = {form: read for form, (told, read) in _OBJECTS.items() if told(fields)}
    prefix = f"{at}: " if at else ""
    if len(found) > 1:
        raise InputError(
            f"{prefix}has fields of {' and of '.join(found)}; expected a result of one tool", where=where
        )
    if found:
        return next(iter(found.values()))
    if _CLIENTS in fields:
        return vllm_bench.read_vllm
    keys = ", ".join(list(fields)[:6]) or "nothing"
    raise InputError(
        f"{prefix}is JSON of an unknown kind (it holds {keys[:120]}); expected {_KNOWN}", where=where
    )
