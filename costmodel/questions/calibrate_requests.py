"""From a log of requests to the step times of the engine that served them, and how well they predict the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date as calendar
from pathlib import Path
from typing import NamedTuple

from ..answer import About
from ..errors import InputError, shorten
from ..evaluate.fit_steps import errors, fit_steps
from ..evaluate.logged import Replayed, Times, from_queued, measured, pairs, replay_log
from ..inputs.hardware import gpu_named
from ..inputs.step_times import StepFit, Steps
from ..inputs.traces import LoggedRequest, read_log, runs_of
from ..inputs.workload import Request
from ..measured.points import NOT_STATED
from ..measured.write import write_whole
from ..measured.write_steps import file_name, steps_toml
from ..memory.settings import EngineSettings
from ..serving.affine import AffineSteps, fastest_steps
from ..serving.deployment import Deployment, Settings, Topology
from ..serving.instance import InstanceKind
from ..serving.scenario import Scenario
from .calibrate import OTHER_SUFFIXES, SUFFIX, make_folder

SCHEMA = "costmodel.calibrate-requests/1"
#: Measured requests that a log must have: fewer say little of a P95.
FEWEST = 40
#: Multiple of what peak rates allow about which parameters are searched.
GUESS = 2.0
#: Held-out errors above this are warned of.
POOR = 0.1
PLANNED = "a step is planned while the one before it runs, so that an arrival misses one"
UNPLANNED = "a step is planned when the one before it has ended"


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


@dataclass(frozen=True)
class CalibrateRequestsAnswer:
    """Step times of each run with their errors, and the files that were written."""

    schema: str
    date: str
    runs: tuple[StepFit, ...]
    files: tuple[str, ...]
    about: About


class _Log(NamedTuple):
    """A run of a log: its requests with the times measured of them."""

    where: str
    requests: list[Request]
    times: list[Times | None]
    queued: bool


def ask_calibrate_requests(
    path: str | Path,
    asked: Asked | None = None,
    *,
    select: Mapping[str, str] | None = None,
    source: str | None = None,
    output: str | Path | None = None,
    date: str | None = None,
) -> CalibrateRequestsAnswer:
    """Fit step times to the first half of each run of a log and predict the second; ``output`` writes them.

    ``select``: only runs with these texts by column. ``source``: where the log is from, by default its name.

    Raises InputError for a log that cannot be read, too few measured requests, an engine that neither the log nor
    ``asked`` describes, a missing scipy, or an ``output`` that cannot hold what there is; NoAnswerError where
    the model or a request fits no GPU.
    """
    day, told = date or calendar.today().isoformat(), asked or Asked()
    runs = runs_of(path, select)
    logs = [_read(path, run) for run in runs]
    made = [_deployment(run, told, str(path)) for run in runs]
    stacks = [_stack(run, told) for run in runs]
    paths = [] if output is None else _paths(Path(output), made, stacks)
    fits, warnings, assumed = [], list[str](), [_counted(log.queued) for log in logs]
    for log, deployment, stack, run in zip(logs, made, stacks, runs):
        steps, fitted, held_out, replayed = _fit(log, deployment)
        found = _answer(log, deployment, stack, day, source or Path(path).name, steps, fitted, held_out)
        fits.append(found)
        assumed.append(_pool(found, deployment, told))
        warnings += _warnings(found, log, replayed, run, told)
    warnings += [f"{file} was there and is replaced" for file in paths if file.exists()]
    if output is not None:
        make_folder(Path(output))
        write_whole({file: steps_toml(found).encode() for file, found in zip(paths, fits)})
    return CalibrateRequestsAnswer(
        schema=SCHEMA,
        date=day,
        runs=tuple(fits),
        files=tuple(map(str, paths)),
        about=About(
            assumptions=tuple(dict.fromkeys((*_ASSUMED, PLANNED if told.lag else UNPLANNED, *assumed))),
            sources=tuple(dict.fromkeys(found.source for found in fits)),
            not_modelled=(
                "prefix hits that the log does not tell, speculative decoding, clients and front ends",
            ),
            warnings=tuple(warnings),
        ),
    )


_ASSUMED = (
    "parameters minimise the soft-L1 of the logarithm of replayed over measured TTFT, TPOT and E2E of the first half "
    "of the requests by arrival; of the second half only arrivals and lengths are seen",
    "steps take at least what peak rates allow for weights, cached tokens and attention in the checkpoint's dtypes",
    "one instance serves a run: first come first served, prompts in chunks beside decodes, KV taken token by token, "
    "the last to come preempted and computed again",
)


def _read(path: str | Path, run: Mapping[str, str]) -> _Log:
    """Read a run. Raises InputError where too little of it was measured."""
    log: list[LoggedRequest] = list(read_log(path, run))
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
    return _Log(str(path), [logged.request for logged in log], times, queued)


def _deployment(run: Mapping[str, str], asked: Asked, where: str) -> Deployment:
    """Return the instance that served a run. Raises InputError naming what neither the log nor an option says."""
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


def _stack(run: Mapping[str, str], asked: Asked) -> str:
    return asked.stack or (f"vllm-{run['vllm']}" if run.get("vllm") else NOT_STATED)


def _guess(log: _Log, deployment: Deployment) -> Steps:
    """Return step times of the right size: twice what peak rates allow, or a part of the fitted half's typical gap.

    Small models are far from their peak rates: launching kernels and sampling take longer than reading weights.
    """
    seen, settings = log.times[: len(log.requests) // 2], deployment.settings
    gaps = sorted(times.tpot_s for times in seen if times is not None and times.tpot_s is not None)
    gap = gaps[len(gaps) // 2] if gaps else 0.0
    fastest = fastest_steps(deployment.prefill)
    least = Steps(gap / 2, gap / 10 / settings.max_seqs, 0.0, gap / 2 / settings.token_budget, 0.0)
    return Steps(*(max(GUESS * peak, part) for peak, part in zip(astuple(fastest), astuple(least))))


def _least(kind: InstanceKind) -> Steps:
    """Return what no step is faster than. Rows of products take no time where a step waits for their weights."""
    return replace(fastest_steps(kind), sequence_s=0.0, prompt_token_s=0.0)


def _fit(log: _Log, deployment: Deployment) -> tuple[Steps, dict[str, float], dict[str, float], Replayed]:
    """Return step times fitted to the first half, the errors of both halves, and the replay of the whole run."""
    half, kind = len(log.requests) // 2, deployment.prefill
    guess = _guess(log, deployment)
    base = AffineSteps(kind, guess)

    def replayed(steps: Steps, first: int) -> Replayed:
        return replay_log(deployment, base.with_steps(steps), log.requests, log.queued, first)

    found = fit_steps(lambda steps: replayed(steps, half), log.times[:half], guess, _least(kind))
    whole = replayed(found, len(log.requests))
    times = whole.times()
    fitted, held_out = (
        errors(pairs(times[:half], log.times[:half])),
        errors(pairs(times[half:], log.times[half:])),
    )
    return found, fitted, held_out, whole


def _answer(
    log: _Log,
    deployment: Deployment,
    stack: str,
    day: str,
    source: str,
    steps: Steps,
    fitted: Mapping[str, float],
    held_out: Mapping[str, float],
) -> StepFit:
    kind, pool, settings = deployment.prefill, deployment.prefill_pool, deployment.settings
    half = len(log.requests) // 2
    return StepFit(
        model=kind.model.name,
        gpu=kind.gpu.name,
        tp=kind.tp,
        stack=stack,
        date=day,
        source=source,
        steps=steps,
        requests=sum(time is not None for time in log.times[:half]),
        held_out_requests=sum(time is not None for time in log.times[half:]),
        ttft_from="queued" if log.queued else "sent",
        token_budget=settings.token_budget,
        max_seqs=settings.max_seqs,
        kv_tokens=int(pool.pool_bytes / max(1, pool.sequence.most_per_token)),
        lag=settings.lag,
        fitted=fitted,
        held_out=held_out,
    )


def _counted(queued: bool) -> str:
    if queued:
        return (
            "TTFT and E2E count from when the engine queued a request, in the replay the end of the step under way at "
            "its arrival"
        )
    return "TTFT and E2E count from a request's sending, with whatever client, network and front end add"


def _pool(found: StepFit, deployment: Deployment, asked: Asked) -> str:
    basis = "as given" if asked.kv_tokens else f"by the memory model of {deployment.prefill_pool.engine}"
    return f"{found.model}: a KV pool of {found.kv_tokens:,} tokens, {basis}"


def _warnings(
    found: StepFit, log: _Log, replayed: Replayed, run: Mapping[str, str], asked: Asked
) -> list[str]:
    said, name = [], f"{found.model}, {found.gpu}, TP{found.tp}"
    assumed = [
        f"{option} {value:,}"
        for option, column, given, value in (
            ("--token-budget", "max_num_batched_tokens", asked.token_budget, found.token_budget),
            ("--max-seqs", "max_num_seqs", asked.max_seqs, found.max_seqs),
            ("--tp", "tp", asked.tp, found.tp),
        )
        if given is None and column not in run
    ]
    if assumed:
        said.append(
            f"{name}: the log does not say how the engine ran; taken for granted: {', '.join(assumed)}"
        )
    left = len(log.times) - found.requests - found.held_out_requests
    if left:
        said.append(f"{name}: {left:,} requests lack times and are only replayed")
    if replayed.preempted:
        said.append(
            f"{name}: {replayed.preempted:,} preemptions: the size of the KV pool counts (--kv-tokens)"
        )
    poor = [key for key, error in found.held_out.items() if abs(error) > POOR]
    if poor:
        said.append(
            f"{name}: held out, more than {POOR:.0%} off in {', '.join(poor)}: these times do not predict"
        )
    return said


def _paths(output: Path, made: Sequence[Deployment], stacks: Sequence[str]) -> list[Path]:
    """Return where the step times of each run go. Raises InputError where they cannot go there."""
    if output.suffix == SUFFIX:
        if len(made) > 1:
            raise InputError(
                f"--output {output}: the log holds {len(made)} runs; pass a folder, or select one with --select"
            )
        return [output]
    if output.suffix in OTHER_SUFFIXES:
        raise InputError(
            f"--output {output}: a file of step times ends in {SUFFIX}; a folder takes one for each run"
        )
    kinds = [deployment.prefill for deployment in made]
    found = [
        output / file_name(kind.model.name, kind.gpu.name, kind.tp, stack)
        for kind, stack in zip(kinds, stacks)
    ]
    twice = sorted({path.name for path in found if found.count(path) > 1})
    if twice:
        raise InputError(
            f"--output {output}: several runs would be written to {', '.join(twice)}; select one"
        )
    return found
