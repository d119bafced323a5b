"""Result files of all known formats, told apart by their content, as records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..errors import InputError
from ..inputs.traces.files import opened
from ..records.record import Record
from . import sglang_bench, startup, vllm_bench
from .documents import LONGEST, Entry, Fields, entries_of
from .sheet import Sheet

#: Fields by which a format of JSON objects is known: each of its objects has one of them.
_MARKS: dict[str, tuple[str, ...]] = {
    sglang_bench.FORM: ("total_output_tokens_retokenized",),
    vllm_bench.FORM: ("model_id", "tokenizer_id", "num_prompts"),
}
#: A field that both clients write, by which the older results of either are known.
_CLIENTS = "request_throughput"
_READERS: dict[str, Callable[[Sheet, str], Record]] = {
    sglang_bench.FORM: sglang_bench.read_sglang,
    vllm_bench.FORM: vllm_bench.read_vllm,
}
#: Characters by which a file is recognised before all of it is read.
_HEAD = 200_000
_KNOWN = (
    "results of vllm bench serve and SGLang's bench_serving, start-up logs of vLLM, SGLang and TensorRT-LLM"
)


def is_result(path: str | Path) -> bool:
    """Say whether a file is a result of a known format; False where it cannot be read."""
    try:
        return bool(read_results(path))
    except InputError:
        return False


def read_results(path: str | Path) -> tuple[Record, ...]:
    """Return the runs of a result file, plain or gzip, each as a record with what it states and what was measured.

    Raises InputError for a file that cannot be read, is of no known format, is cut short or contradicts itself, with
    every problem of the first bad run.
    """
    where, name = str(path), Path(path).name
    text = _text(Path(path))
    if text.lstrip().startswith(("{", "[")) and not startup.is_log(text[:_HEAD]):
        found = [_of_entry(entry, where, name) for entry in entries_of(text, where)]
    elif startup.is_log(text):
        found = [startup.read_startup(text, where, name)]
    else:
        raise InputError(f"is no result of a known format; expected {_KNOWN}", where=where)
    if not any(record.figures for record in found):
        why = "; ".join(dict.fromkeys(warning for record in found for warning in record.warnings))
        raise InputError(f"holds no measured figure{': ' + why if why else ''}", where=where)
    return tuple(found)


def _text(path: Path) -> str:
    with opened(path) as file:
        text = file.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise InputError(f"is longer than {LONGEST:,} characters; results are shorter", where=str(path))
    if not text.strip():
        raise InputError(f"is empty; expected {_KNOWN}", where=str(path))
    return text


def _of_entry(entry: Entry, where: str, name: str) -> Record:
    sheet = Sheet(entry.fields, where, entry.at)
    return _READERS[_form(entry.fields, where, entry.at)](sheet, name)


def _form(fields: Fields, where: str, at: str) -> str:
    """Return the format of an object. Raises InputError where it has the marks of two, or of none."""
    marks = {form: [key for key in keys if key in fields] for form, keys in _MARKS.items()}
    found = {form: keys[0] for form, keys in marks.items() if keys}
    prefix = f"{at}: " if at else ""
    if len(found) > 1:
        both = " and ".join(f"{form} ({key})" for form, key in found.items())
        raise InputError(f"{prefix}has fields of {both}; expected a result of one tool", where=where)
    if found:
        return next(iter(found))
    if _CLIENTS in fields:
        return vllm_bench.FORM
    keys = ", ".join(list(fields)[:6]) or "nothing"
    raise InputError(
        f"{prefix}is JSON of an unknown kind (it holds {keys[:120]}); expected {_KNOWN}", where=where
    )
