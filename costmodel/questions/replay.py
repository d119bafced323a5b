"""A trace or a workload, request by request, under one strategy or several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..answer import About
from ..decision import provenance
from ..decision.advice import POOLED
from ..decision.comparison import Comparison, Options, Progress, silent, with_splitting
from ..decision.constant import system_threshold
from ..decision.replayed import NOISY, Player, Replayed, Sinks, Source
from ..decision.reuse import full_tiers, told_without, unheld
from ..errors import InputError, unknown
from ..inputs.load import Load, shaped
from ..inputs.traces import Reading, Trace, check_trace, could_be_cached, requests_of, trace_workload
from ..inputs.traces.reading import Notes
from ..inputs.workload import Request, Slo, Workload, with_misses
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.scenario import Scenario
from ..serving.strategies import STRATEGIES, Rule, RuleKind, Strategy, deflected
from ..serving.table import StepTable, step_tables
from ..units import format_si
from .workload import check_hits

SCHEMA = "costmodel.replay/1"
#: Requests drawn of a workload that is no trace.
DRAWN = 10_000
#: Requests of a load in which a cached prefix is looked for.
_LOOKED_AT = 10_000
NAMES = tuple(strategy.name for strategy in STRATEGIES)
SYSTEM = "system"


@dataclass(frozen=True)
class ReplayAnswer:
    """Strategies replayed over the same requests; times in seconds.

    ``strategies``: one entry each, with the keys of ``recommend``. ``best``: least mean delay of those that keep up,
    None where none does.
    """

    schema: str
    trace: str
    arrivals: str
    model: str
    hardware: str
    topology: str
    gpus: int
    slo_ttft_s: float | None
    slo_tpot_s: float | None
    best: str | None
    strategies: tuple[Replayed, ...]
    about: About

    @property
    def answered(self) -> bool:
        """False where no strategy keeps up."""
        return any(result.stable for result in self.strategies)


@dataclass(frozen=True)
class SingleReplay(Replayed):
    """One strategy replayed: its figures at the top, with what was replayed."""

    schema: str = SCHEMA
    trace: str = ""
    arrivals: str = ""
    model: str = ""
    hardware: str = ""
    topology: str = ""
    gpus: int = 0
    slo_ttft_s: float | None = None
    slo_tpot_s: float | None = None
    about: About = field(default_factory=About)

    @property
    def answered(self) -> bool:
        """False where the strategy cannot keep up."""
        return self.stable

    @property
    def strategies(self) -> tuple[Replayed, ...]:
        """The one strategy."""
        return (self,)

    @property
    def best(self) -> str | None:
        """Its name, where it keeps up."""
        return self.name if self.stable else None


Answer = ReplayAnswer | SingleReplay
#: Opens what is written beside the answer, for a strategy of a deployment.
Outputs = Callable[[Strategy, Deployment], Sinks]


def ask_replay(
    trace: str | Path | Workload | Iterable[Request],
    scenario: Scenario,
    strategies: Sequence[str] = ("all",),
    *,
    slo: Slo | None = None,
    load: Load | None = None,
    reading: Reading | None = None,
    reuse: bool = True,
    hit_rate: float | None = None,
    concurrency: int | None = None,
    rule: Rule | str | None = None,
    transient: bool = False,
    exact: bool = False,
    outputs: Outputs | None = None,
    tables: Callable[[InstanceKind], StepTable] | None = None,
    progress: Progress = silent,
) -> Answer:
    """Replay a trace under strategies on a scenario's GPUs.

    Parameters
    ----------
    trace: a file in any format that :mod:`costmodel.inputs.traces` reads, a workload to draw from, or requests.
    strategies: names, or "all". rule: of the deflected strategy; default: Kairos with the copy in its estimate;
        "system": the threshold that counts whom a prompt delays, at the load that it causes itself.
    load: arrivals other than the trace's own. concurrency: clients of a closed loop instead.
    reuse: whether instances keep prefixes whose blocks the trace names. hit_rate: share of the requests that find
        their stated cached tokens. transient: percentiles also where a strategy
        cannot keep up. exact: keep every value for exact quantiles. outputs: opens files for each strategy.
    tables: step times to use instead of those of the GPU's efficiencies.

    Raises InputError for bad names, values or rows, NoAnswerError where a request fits no instance.
    """
    deployment = scenario.deployment()
    shape, goals = load or Load(), slo or (trace.slo if isinstance(trace, Workload) else Slo())
    _check_together(trace, strategies, shape, reading, concurrency, rule)
    notes = Notes()
    read = replace(reading or Reading(), timed=concurrency is None)
    if rule == SYSTEM:
        rule = _system(deployment, trace, shape, read)
    assert not isinstance(rule, str)
    chosen = _chosen(strategies, rule)
    if not all(strategy.pooled for strategy in chosen):
        deployment.need_split()
    if not isinstance(trace, str | Path | Workload) and len(chosen) > 1:
        trace = list(trace)  # every strategy needs them
    name, requests, told = _requests(trace, shape, read, notes, reuse=reuse, open_loop=concurrency is None)
    if hit_rate is not None:
        requests = _hitting(requests, hit_rate, shape.seed)
    once = not isinstance(trace, str | Path | Workload | list)
    source = Source(name, requests, goals, concurrency, transient, exact, once)
    found = {kind: tables(kind) for kind in deployment.kinds} if tables else step_tables(deployment.kinds)
    player = Player(deployment, source, found, progress, forecast=tables is None)
    results = [_play(player, strategy, outputs) for strategy in chosen]
    arrivals = f"closed loop of {concurrency} clients" if concurrency else told
    about = _about(deployment, chosen, results, notes, arrivals, reuse=reuse)
    return _answer(deployment, name, arrivals, goals, results, about)


def _check_together(
    trace: object,
    strategies: Sequence[str],
    load: Load,
    reading: Reading | None,
    concurrency: int | None,
    rule: Rule | str | None,
) -> None:
    """Check what only makes sense beside something else. Raises InputError."""
    if concurrency is not None and (load.rate or load.speedup or load.process != "trace"):
        raise InputError(
            "--concurrency closes the loop: clients set the arrivals; drop --rate, --speedup and --arrivals"
        )
    if rule is not None and not {"deflected", "all"} & set(strategies):
        raise InputError("--rule, --alpha and --beta are of the deflected strategy; add --strategy deflected")
    if reading is not None and (reading.sessions or reading.select) and not isinstance(trace, str | Path):
        raise InputError("--sessions and --select are of trace files")


def _play(player: Player, strategy: Strategy, outputs: Outputs | None) -> Replayed:
    """Replay one strategy with its files open."""
    sinks = outputs(strategy, player.deployment) if outputs else Sinks()
    with sinks.stack:
        return player.play(strategy, sinks)


def _system(
    deployment: Deployment, trace: str | Path | Workload | Iterable[Request], load: Load, reading: Reading
) -> Rule:
    """Return the rule of the system threshold. Raises InputError where there is none."""
    deployment.need_split()
    if isinstance(trace, Workload):
        workload = trace
    elif isinstance(trace, str | Path):
        workload = trace_workload(trace, Slo(), how=reading)
    else:
        raise InputError("--rule system needs a trace file or a workload: its load sets the threshold")
    rate = load.rate or workload.rate * (load.speedup or 1.0)
    tokens = system_threshold(Comparison(deployment, workload.at_rate(rate), Options()))
    if tokens is None:
        raise InputError("--rule system: local prefill is cheaper at every length here, or nothing is stable")
    return Rule(RuleKind.THRESHOLD, threshold=round(tokens))


def _chosen(names: Sequence[str], rule: Rule | None) -> list[Strategy]:
    known = {**{s.name: s for s in STRATEGIES}, "deflected": deflected(rule)}
    wanted = list(NAMES) if "all" in names else list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise InputError(unknown("strategy", name, (*NAMES, "all")))
    return [known[name] for name in wanted]


def _requests(
    trace: str | Path | Workload | Iterable[Request],
    load: Load,
    reading: Reading,
    notes: Notes,
    *,
    reuse: bool,
    open_loop: bool,
) -> tuple[str, Callable[[], Iterable[Request]], str]:
    """Return the name of a trace, its requests afresh at each call, and how they arrive, in words."""
    if isinstance(trace, Workload):
        return _drawn(trace, load)
    if not isinstance(trace, str | Path):
        return "requests", _iterated(trace, load, reuse=reuse, open_loop=open_loop), _told(load)
    path, own_rate = Path(trace), None
    if reuse and not reading.sessions and next(iter(Trace(path, reading))).blocks:
        reading = replace(reading, prefix="infinite")  # what any cache could hold: the ideal's cached prefix
    if open_loop and (load.rate or load.process != "trace" or load.repeat > 1):
        own_rate = check_trace(path, reading).rate

    def rows() -> Iterable[Request]:
        notes.skipped.clear()
        notes.unread.clear()
        source = Trace(path, reading, notes)
        return _cut(shaped(source, load, own_rate) if open_loop else _limited(source, load), reuse)

    return path.name, rows, _told(load)


def _iterated(
    trace: Iterable[Request], load: Load, *, reuse: bool, open_loop: bool
) -> Callable[[], Iterable[Request]]:
    """Requests of an iterable: of a list as often as asked, else in one pass and, but for hashes, constant memory."""

    def rows() -> Iterable[Request]:
        again = isinstance(trace, list) or load.repeat > 1
        known = could_be_cached(requests_of(trace)) if reuse else requests_of(trace)
        checked = list(known) if again else known
        rate = _rate(checked) if isinstance(checked, list) else None
        return _cut(shaped(checked, load, rate) if open_loop else _limited(checked, load), reuse)

    return rows


def _limited(source: Iterable[Request], load: Load) -> Iterable[Request]:
    return chain.from_iterable(islice(source, load.limit) for _ in range(load.repeat))


def _cut(requests: Iterable[Request], reuse: bool) -> Iterable[Request]:
    """Leave out the blocks of prompts where no prefix is kept."""
    if reuse:
        return requests
    return (r._replace(blocks=(), block_tokens=0) if r.blocks else r for r in requests)


def _drawn(workload: Workload, load: Load) -> tuple[str, Callable[[], Iterable[Request]], str]:
    if load.speedup or load.process != "trace" or load.repeat > 1:
        raise InputError(
            "--speedup, --arrivals and --repeat change a trace; a workload has arrivals of its own: pass --rate"
        )
    moved = workload.at_rate(load.rate) if load.rate else workload
    count = load.limit or DRAWN
    told = f"{format_si(moved.rate, '1/second')} requests, CV {moved.arrivals.cv:g}, {count:,} drawn"
    return workload.name, lambda: moved.stream(count, load.seed), told


def _hitting(
    requests: Callable[[], Iterable[Request]], hit_rate: float, seed: int
) -> Callable[[], Iterable[Request]]:
    """Let requests find their cached tokens with this probability. Raises InputError where there are none to find."""
    if not 0 <= hit_rate <= 1:
        raise InputError(f"--hit-rate must lie in 0 .. 1, not {hit_rate:g}")
    check_hits(list(islice(requests(), _LOOKED_AT)))
    return lambda: with_misses(requests(), hit_rate, seed)


def _rate(requests: Sequence[Request]) -> float | None:
    span = requests[-1][0] - requests[0][0] if requests else 0.0
    return (len(requests) - 1) / span if span > 0 else None


def _told(load: Load) -> str:
    """Say how requests arrive."""
    words = "as recorded" if load.process == "trace" else f"{load.process} gaps"
    if load.cv is not None:
        words += f" of CV {load.cv:g}"
    if load.rate is not None:
        words += f" at {load.rate:g} requests/s"
    if load.speedup is not None:
        words += f", {load.speedup:g} times as fast"
    if load.repeat > 1:
        words += f", {load.repeat} times over"
    return words + (f", the first {load.limit:,}" if load.limit else "")


def _about(
    deployment: Deployment,
    strategies: Sequence[Strategy],
    results: Sequence[Replayed],
    notes: Notes,
    arrivals: str,
    *,
    reuse: bool,
) -> About:
    settings, rules = deployment.settings, [s.rule for s in strategies if s.rule]
    blocks = (
        "prefixes whose blocks the trace names are kept by instances, least recently used forgotten first"
    )
    lines = [
        f"arrivals: {arrivals}",
        *([f"trace: {notes.format}; {notes.told()}"] if notes.told() else []),
        *provenance.serving_assumptions(deployment, rules[0] if rules else None),
        *([f"where no blocks are named, {provenance.held(deployment)}"] if deployment.held != "both" else []),
        *provenance.tier_assumptions(deployment),
        *([told_without(deployment)] if deployment.tiers else []),
        blocks if reuse else "no prefix is kept",
        "a step is planned while the one before it runs"
        if settings.lag
        else "steps are planned when they begin",
        "the run starts empty, and all its requests count",
    ]
    warned = [*deployment.decode.model.warnings, *provenance.tier_warnings(deployment)]
    warned += unheld(deployment, [result.tiers for result in results])
    for result in results:
        if result.reason:
            warned.append(f"{result.name}: {result.reason}")
        elif result.utilisation > NOISY and result.rate_per_s:
            warned.append(
                f"{result.name}: {result.utilisation:.0%} utilised: percentiles of one run are noisy; mind the interval"
            )
        warned += [f"{result.name}: {text}" for text in full_tiers(result.tiers)]
        if result.unfinished and result.stable:
            warned.append(f"{result.name}: {result.unfinished:,} requests did not finish and are in no mean")
    sources = provenance.hardware_sources(deployment)
    return About(tuple(lines), sources, provenance.not_modelled(deployment), tuple(warned))


def _answer(
    deployment: Deployment, name: str, arrivals: str, slo: Slo, results: Sequence[Replayed], about: About
) -> Answer:
    shared: dict[str, Any] = {
        "trace": name,
        "arrivals": arrivals,
        "model": deployment.decode.model.name,
        "hardware": provenance.hardware_label(deployment),
        "topology": str(deployment.topology),
        "gpus": deployment.gpus,
        "slo_ttft_s": slo.ttft_s,
        "slo_tpot_s": slo.tpot_s,
        "about": about,
    }
    full = [r for r in with_splitting(results, POOLED) if isinstance(r, Replayed)]
    if len(full) == 1:
        own = {f.name: getattr(full[0], f.name) for f in fields(Replayed)}
        return SingleReplay(**own, **shared)
    ranked = [r for r in full if r.stable and r.mean_delay_s is not None]
    best = min(ranked, key=lambda r: r.mean_delay_s or 0.0).name if ranked else None
    return ReplayAnswer(SCHEMA, best=best, strategies=tuple(full), **shared)
