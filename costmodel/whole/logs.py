"""Logs of requests: a run's requests with the times measured of them, and the instance that served it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError, shorten
from ..evaluate.logged import Times, from_queued, measured
from ..inputs.hardware import gpu_named
from ..inputs.stack import Stack
from ..inputs.traces import LoggedRequest, Notes, read_log
from ..inputs.workload import Request
from ..measured.points import NOT_STATED
from ..memory.settings import EngineSettings
from ..serving.deployment import Deployment, Settings, Topology
from ..serving.scenario import Scenario

#: Measured requests that a log must have: fewer say little of a P95.
FEWEST = 40


@dataclass(frozen=True)
class Asked:
    """What a user says of an engine whose log does not; None: the log says it, or the default stands.

    ``kv_tokens``: tokens of its KV pool, by default those of the memory model. ``lag``: it plans a step ahead.
    """

    model: str | None = None
    hardware: str | None = None
    tp: int | None = None
    token_budget: int | None = None
    max_seqs: int | None = None
    kv_tokens: int | None = None
    lag: bool = True
    stack: str | None = None


class Log(NamedTuple):
    """A run of a log: its requests with the times measured of them."""

    where: str
    requests: list[Request]
    times: list[Times | None]
    queued: bool


def read_run(path: str | Path, run: Mapping[str, str]) -> Log:
    """Read a run. Raises InputError where too little of it was measured."""
    log = _read(path, run)
    queued = from_queued(log)
    times = [measured(logged, queued) for logged in log]
    half, name = len(log) // 2, " (" + ", ".join(f"{k}={v}" for k, v in run.items()) + ")" if run else ""
    least = min(sum(time is not None for time in part) for part in (times[:half], times[half:]))
    if least < FEWEST // 2:
        raise InputError(
            f"{len(log):,} requests{name}, of which one half has {least:,} with TTFT and with E2E or TPOT "
            f"(ttft_s or ttft_from_queued_s, e2e_s or e2e_from_queued_s, tpot_s); expected {FEWEST // 2} in each "
            "half at least: log more requests, with these times",
            where=str(path),
        )
    return Log(str(path), [logged.request for logged in log], times, queued)


def _read(path: str | Path, run: Mapping[str, str]) -> list[LoggedRequest]:
    """Read a run. Raises InputError for one without times of arrival, too, with what to do."""
    try:
        return list(read_log(path, run))
    except InputError:
        notes = Notes()
        list(read_log(path, run, notes, timed=False))  # else says what is wrong with it
        if notes.has_arrivals:
            raise
    why = ", which SGLang's client never saves" if "SGLang" in notes.format else ""
    raise InputError(
        f"has no times of arrival{why}: step times are fitted by replaying requests as they came. Measure with a "
        "client that saves them (vllm bench serve --save-result --save-detailed speaks to any server), or write a CSV "
        "with arrival_s; check and replay take this file as it is",
        where=str(path),
    )


def deployment_of(run: Mapping[str, str], asked: Asked, where: str, stack: Stack | None = None) -> Deployment:
    """Return the instance that served a run; ``stack``: what its engine adds to its operators.

    Raises InputError naming what neither the log nor an option says.
    """
    model = asked.model or run.get("model")
    missing = [
        f"does not say the {what}: pass {option}"
        for what, option, value in (
            ("model", "--model", model), ("GPU", "--hardware", asked.hardware or run.get("gpu")),
        )
        if not value
    ]  # fmt: skip
    if missing or model is None:
        raise InputError(missing, where=where)
    default = Settings()
    settings = Settings(
        _whole(run, "max_num_batched_tokens", asked.token_budget, default.token_budget, where),
        _whole(run, "max_num_seqs", asked.max_seqs, default.max_seqs, where),
        lag=asked.lag,
    )
    made = Scenario(
        model,
        asked.hardware or gpu_named(run["gpu"]).name,
        topology="1P1D",
        tp=_whole(run, "tp", asked.tp, 1, where),
        engine=EngineSettings(max_num_seqs=settings.max_seqs, max_num_batched_tokens=settings.token_budget),
        settings=settings,
        stack=stack,
    ).deployment()
    pool = made.prefill_pool
    if asked.kv_tokens is not None:
        pool = replace(pool, pool_bytes=float(asked.kv_tokens * pool.sequence.most_per_token))
    return replace(made, topology=Topology(1, 0), prefill_pool=pool)


def _whole(run: Mapping[str, str], column: str, given: int | None, default: int, where: str) -> int:
    text = run.get(column)
    if given is not None or text is None:
        return default if given is None else given
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise InputError(f"{column} {shorten(text)!r} is not a whole number of at least 1", where=where)
    return int(text)


def stack_of(run: Mapping[str, str], asked: Asked) -> str:
    return asked.stack or (f"vllm-{run['vllm']}" if run.get("vllm") else NOT_STATED)
