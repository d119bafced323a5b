"""The engine that served a log of requests, as its start-up log and the result itself describe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError
from ..inputs.hardware import gpu_named
from ..records.record import Record, Stated
from ..results import read_results
from ..results.starts import CURE, contradictions
from .logs import Asked
from .stacks import engine_word

#: Columns of a log that say what a condition of a start-up log does.
_COLUMNS = {
    "model": "model",
    "tp": "tp",
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_seqs": "max_num_seqs",
    "engine_version": "vllm",
    "hardware": "gpu",
}
_RUN = "run"


@dataclass(frozen=True)
class Engine:
    """What files say of an engine: conditions, tokens of its KV pool (None: not stated), and the file of each."""

    conditions: Mapping[str, Stated]
    kv_tokens: int | None = None
    warnings: tuple[str, ...] = ()

    def fill(self, asked: Asked) -> Asked:
        """Return what was asked for, and from the files what was not."""
        told = self.conditions
        return replace(
            asked,
            model=asked.model or _text(told.get("model")),
            hardware=asked.hardware or _gpu(told.get("hardware")),
            tp=asked.tp or _whole(told.get("tp")),
            token_budget=asked.token_budget or _whole(told.get("max_num_batched_tokens")),
            max_seqs=asked.max_seqs or _whole(told.get("max_num_seqs")),
            kv_tokens=asked.kv_tokens or self.kv_tokens,
            stack=asked.stack or _stack(told),
        )


def engine_of(log: str | Path, runs: Sequence[Mapping[str, str]], start: str | Path | None) -> Engine:
    """Return what a result, and a start-up log beside it, say of the engine.

    Raises InputError for a start-up log that cannot be read, that is of another engine than the log, or of one whose
    step times are not modelled.
    """
    if start is None:
        return Engine(_result_says(log, runs[0])) if _is_json(runs) else Engine({})
    (record,) = read_results(start)
    for run in runs:
        _check_same(record, _log_says(log, run), log)
    _check_modelled(record, start)
    told = {**(_result_says(log, runs[0]) if _is_json(runs) else {}), **record.conditions}
    if any("gpu" in run for run in runs):
        told.pop("hardware", None)
    return Engine(told, _kv_tokens(record), _warnings(record, start))


def _is_json(runs: Sequence[Mapping[str, str]]) -> bool:
    """Whether a log is no table, whose columns say what the engine was."""
    return all(set(run) <= {_RUN} for run in runs)


def _result_says(log: str | Path, run: Mapping[str, str]) -> Mapping[str, Stated]:
    """Return the conditions of the run of a result; none where it is a bare log, or is wrong: its reader says how."""
    try:
        found = read_results(log)
    except InputError:
        return {}
    place = int(run.get(_RUN, "1")) - 1 if run.get(_RUN, "1").isdecimal() else 0
    return found[place].conditions if 0 <= place < len(found) else {}


def _log_says(log: str | Path, run: Mapping[str, str]) -> Mapping[str, Stated]:
    columns = {name: run[column] for name, column in _COLUMNS.items() if column in run}
    return columns or _result_says(log, run)


def _check_same(start: Record, log: Mapping[str, Stated], where: str | Path) -> None:
    problems = contradictions(start, log)
    if problems:
        raise InputError([*problems[:-1], f"{problems[-1]}: {CURE}"], where=str(where))


def _check_modelled(start: Record, where: str | Path) -> None:
    problems = [
        f"{name} is {start.conditions[name]}: {why}"
        for name, why in (
            ("pp", "layers are spread over pipeline stages, which step times do not model"),
            ("instances", "several engines served, and the log does not tell which served a request"),
        )
        if int(start.conditions.get(name, 1)) > 1
    ]
    if problems:
        raise InputError(problems, where=str(where))


def _warnings(start: Record, where: str | Path) -> tuple[str, ...]:
    said = [f"{where}: {warning}" for warning in start.warnings]
    for name in ("dtype", "kv_dtype"):
        kind = start.conditions.get(name)
        if kind is not None and kind not in ("bfloat16", "float16"):
            said.append(
                f"{where}: {name} is {kind}; the bounds of step times are those of the checkpoint's dtypes"
            )
    return tuple(said)


def _kv_tokens(start: Record) -> int | None:
    """Tokens of the KV pool: of several engines' the least; of blocks where only they are told."""
    found = {figure.metric: figure.value for figure in start.figures}
    block = start.conditions.get("block_size")
    if "kv_cache_tokens" in found:
        return int(found["kv_cache_tokens"])
    if "kv_cache_blocks" in found and isinstance(block, int):
        return int(found["kv_cache_blocks"]) * block
    return None


def _stack(told: Mapping[str, Stated]) -> str | None:
    version, engine = told.get("engine_version"), told.get("engine")
    return f"{engine_word(str(engine))}-{version}" if engine and version else None


def _gpu(told: Stated | None) -> str | None:
    try:
        return gpu_named(str(told)).name if told else None
    except InputError:
        return None


def _text(told: Stated | None) -> str | None:
    return None if told is None else str(told)


def _whole(told: Stated | None) -> int | None:
    return told if isinstance(told, int) else None
