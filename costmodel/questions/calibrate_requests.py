"""From a log of requests to the step times of the engine that served them, and how well they predict the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import date as calendar
from pathlib import Path

from ..answer import About
from ..errors import InputError
from ..evaluate.fit_steps import errors, fit_steps
from ..evaluate.logged import Replayed, pairs, replay_log
from ..inputs.step_times import StepFit, Steps
from ..inputs.traces import runs_of
from ..measured.write import write_whole
from ..measured.write_steps import file_name, steps_toml
from ..serving.affine import AffineSteps, fastest_steps
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..whole.engines import engine_of
from ..whole.logs import Asked, Log, deployment_of, read_run, stack_of
from .calibrate import OTHER_SUFFIXES, SUFFIX, make_folder

SCHEMA = "costmodel.calibrate-requests/1"
#: Multiple of what peak rates allow about which parameters are searched.
GUESS = 2.0
#: Held-out errors above this are warned of.
POOR = 0.1
#: Held-out error of a median above which step times describe something else, and are not written: half as long again.
NONSENSE = 1.5
PLANNED = "a step is planned while the one before it runs, so that an arrival misses one"
UNPLANNED = "a step is planned when the one before it has ended"


@dataclass(frozen=True)
class CalibrateRequestsAnswer:
    """Step times of each run with their errors, and the files that were written."""

    schema: str
    date: str
    runs: tuple[StepFit, ...]
    files: tuple[str, ...]
    about: About


def ask_calibrate_requests(
    path: str | Path,
    asked: Asked | None = None,
    *,
    select: Mapping[str, str] | None = None,
    start: str | Path | None = None,
    source: str | None = None,
    output: str | Path | None = None,
    date: str | None = None,
) -> CalibrateRequestsAnswer:
    """Fit step times to the first half of each run of a log and predict the second; ``output`` writes them.

    ``select``: only runs with these texts by column. ``start``: the engine's start-up log, which says what ``asked``
    does not: model, TP, token budget, sequences, tokens of the KV pool, version. ``source``: where the log is from,
    by default its name.

    Raises InputError for a log that cannot be read, too few measured requests, an engine that neither the logs nor
    ``asked`` describe, logs of two engines, a missing scipy, or an ``output`` that cannot hold what there is;
    NoAnswerError where the model or a request fits no GPU.
    """
    day, runs = date or calendar.today().isoformat(), runs_of(path, select)
    engine = engine_of(path, runs, start)
    told = engine.fill(asked or Asked())
    logs = [read_run(path, run) for run in runs]
    made = [deployment_of(run, told, str(path)) for run in runs]
    stacks = [stack_of(run, told) for run in runs]
    paths = [] if output is None else _paths(Path(output), made, stacks)
    fits, warnings, assumed = [], [*engine.warnings], [_counted(log.queued) for log in logs]
    for log, deployment, stack, run in zip(logs, made, stacks, runs):
        steps, fitted, held_out, replayed = _fit(log, deployment)
        found = _answer(log, deployment, stack, day, source or Path(path).name, steps, fitted, held_out)
        fits.append(found)
        assumed.append(_pool(found, deployment, told))
        warnings += _warnings(found, log, replayed, run, told)
    warnings += [f"{file} was there and is replaced" for file in paths if file.exists()]
    if output is not None:
        _sensible(fits, path)
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


def _guess(log: Log, deployment: Deployment) -> Steps:
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


def _fit(log: Log, deployment: Deployment) -> tuple[Steps, dict[str, float], dict[str, float], Replayed]:
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
    log: Log,
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
    found: StepFit, log: Log, replayed: Replayed, run: Mapping[str, str], asked: Asked
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


def _sensible(fits: Sequence[StepFit], path: str | Path) -> None:
    """Raise InputError for step times that describe something else, mostly another model, GPU, TP or unit."""
    problems = [
        f"{found.model}, {found.gpu}, TP{found.tp}: held out, {name} is off by {error:+.0%}; model, GPU, TP, engine or "
        "units are not what they seem, so nothing is written"
        for found in fits
        for name, error in found.held_out.items()
        if name.endswith("_p50") and not 1 / NONSENSE <= 1 + error <= NONSENSE
    ]
    if problems:
        raise InputError(problems, where=str(path))


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
