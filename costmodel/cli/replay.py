"""``costmodel replay``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import InputError
from ..inputs.load import PROCESSES
from ..serving.strategies import STRATEGIES
from .options import (
    MOST_SEED,
    Known,
    Quantity,
    Whole,
    answers,
    option,
    tokens_option,
)
from .progress import Progress
from .recommend import BUDGET, take_budget, take_rule
from .scenario import RATE, VARIATION, deployment_options, take_scenario, tier_options

if TYPE_CHECKING:
    from ..decision.replayed import Sinks
    from ..serving.deployment import Deployment
    from ..serving.strategies import Strategy

NAMES = (*(strategy.name for strategy in STRATEGIES), "all")
RULE = "Rule of the deflected strategy: kairos (default), kairos-printed, threshold:N, busy:N:Q (Dynamo) or system."


def models() -> list[str]:
    """Return the packaged models, to complete names."""
    from ..families import packaged_models

    return list(packaged_models())


@click.command("replay")
@click.argument("trace", type=click.Path())
@option("--model", type=Known("MODEL", models), required=True, help="A packaged name or a config.json.")
@option(
    "--strategy", type=click.Choice(NAMES), multiple=True, default=("all",), help="Repeat it for several."
)
@deployment_options()
@tier_options()
@tokens_option("--token-budget", BUDGET)
@tokens_option("--chunk", "The same: the prefill tokens of a step are what decodes leave of it.")
@option("--rule", help=RULE)
@option(
    "--alpha", type=Quantity("1"), help="Kairos: a deflected TTFT may be this multiple of the remote one."
)
@option("--beta", type=Quantity("1"), help="Kairos: share of the TPOT SLO that a mixed step may take.")
@option("--rate", type=RATE, help="Mean arrival rate: scales the gaps, or sets that of --arrivals.")
@option("--speedup", type=Quantity("1"), help="Play the trace so many times as fast.")
@option(
    "--arrivals",
    type=click.Choice(PROCESSES),
    default="trace",
    help="Gaps of a process in place of the trace's.",
)
@option("--cv", type=VARIATION, help="Coefficient of variation of gamma or Weibull gaps.")
@option("--on-share", type=Quantity("1"), help="onoff: share of the time with arrivals.")
@option("--on-period", type=Quantity("second"), help="onoff: mean length of a burst.")
@option(
    "--concurrency", type=Whole(10**6), help="Close the loop: so many clients, each waits for its answer."
)
@option("--requests", type=Whole(10**9), help="Replay the first N requests only; of a workload, draw N.")
@option("--repeat", type=Whole(10**6), default=1, help="Play the trace so many times over.")
@option("--seed", type=Whole(MOST_SEED, least=0), default=1, help="Of drawn arrivals and lengths.")
@click.option("--sessions", is_flag=True, help="A later turn of a session finds the earlier ones cached.")
@click.option("--no-reuse", is_flag=True, help="Keep no prefixes, even where the trace names its blocks.")
@option("--select", help="Rows of one run of a log: column=value[,column=value].")
@option("--step-times", type=click.Path(), help="Step times that calibrate fitted to an engine's log.")
@option("--slo-ttft", type=Quantity("second", bare_below=300), help="TTFT objective, such as 2s.")
@option("--slo-tpot", type=Quantity("second", bare_below=5), help="TPOT objective, such as 50ms.")
@click.option("--transient", is_flag=True, help="Percentiles of this very load, even where it is too much.")
@click.option(
    "--exact", is_flag=True, help="Exact quantiles of long traces: memory grows by 100 bytes a request."
)
@option("--requests-csv", type=click.Path(), help="Write each request's timestamps and ledger.")
@option(
    "--timeline",
    type=click.Path(),
    help="Write a timeline for Perfetto or chrome://tracing (.json, .json.gz).",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@answers("replay")
def command(trace: str, model: str, strategy: tuple[str, ...], **options: Any) -> object:
    """Replay TRACE, request by request, under each strategy on the same GPUs.

    TRACE is a file (the project's CSV, Azure, BurstGPT, Mooncake or AIPerf JSONL, logs of vLLM and AIPerf; .gz too) or
    the name of a packaged workload, from which requests are drawn. Exit code 1: no strategy keeps up.

    \b
    Examples:
      costmodel replay azure2023_conv.csv --model Llama-3.1-8B --hardware h100-sxm --strategy chunked --chunk 512
      costmodel replay hphd --model deepseek-ai/DeepSeek-V2-Lite --hardware a100-sxm-80gb --slo-ttft 2s
    """
    from ..questions.replay import ask_replay

    rule = _rule(options.pop("rule"), options.pop("alpha"), options.pop("beta"))
    scenario = take_scenario(model, options, token_budget=take_budget(options))
    if options["no_reuse"] and (scenario.offload or scenario.reuse):
        raise InputError("--no-reuse keeps no prefixes, which --offload and --reuse keep in tiers: pass one")
    names = tuple(strategy)
    progress = Progress(silent=options["quiet"])
    try:
        return ask_replay(
            _played(trace),
            scenario,
            names,
            slo=_slo(options),
            load=_load(options),
            reading=_reading(options),
            reuse=not options["no_reuse"],
            hit_rate=options["hit_rate"],
            concurrency=options["concurrency"],
            rule=rule,
            transient=options["transient"],
            exact=options["exact"],
            tables=step_times(options["step_times"]),
            outputs=_outputs(options, several=len(names) > 1 or "all" in names),
            progress=progress,
        )
    finally:
        progress.done()


def _rule(text: str | None, alpha: float | None, beta: float | None) -> Any:
    """The project's own threshold follows from the load; all others are stated."""
    if text != "system":
        return take_rule(text, alpha, beta)
    if (alpha, beta) != (None, None):
        raise InputError("--alpha and --beta are settings of Kairos; the system threshold has none")
    return text


def _played(trace: str) -> Any:
    """A file where there is one, else a packaged workload."""
    from ..workloads import load_workload, workload_names

    if not Path(trace).exists() and trace in workload_names():
        return load_workload(trace)
    return trace


def _slo(options: dict[str, Any]) -> Any:
    from ..inputs.workload import Slo

    given = options["slo_ttft"], options["slo_tpot"]
    return None if given == (None, None) else Slo(*given)


def _load(options: dict[str, Any]) -> Any:
    from ..inputs.load import Load

    return Load(
        rate=options["rate"],
        speedup=options["speedup"],
        process=options["arrivals"],
        cv=options["cv"],
        on_share=options["on_share"],
        on_period_s=options["on_period"],
        seed=options["seed"],
        limit=options["requests"],
        repeat=options["repeat"],
    )


def _reading(options: dict[str, Any]) -> Any:
    from ..inputs.traces import Reading

    return Reading(sessions=options["sessions"], select=read_pairs(options["select"]))


def step_times(path: str | None) -> Any:
    """Return what makes step times of an instance from a file of them."""
    if path is None:
        return None
    from ..inputs.step_times import load_steps
    from ..serving.affine import affine_steps

    fit = load_steps(path)
    return lambda kind: affine_steps(kind, fit)


def read_pairs(text: str | None) -> dict[str, str]:
    """Read column=value pairs."""
    found = {}
    for part in (text or "").split(",") if text else ():
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise InputError(f"--select {text!r}: write column=value[,column=value]")
        found[name.strip()] = value.strip()
    return found


def _outputs(options: dict[str, Any], *, several: bool) -> Any:
    """Return what opens the files for a strategy; with several strategies, its name goes into theirs."""
    table, timeline = options["requests_csv"], options["timeline"]
    if table is None and timeline is None:
        return None

    def opened(strategy: Strategy, deployment: Deployment) -> Sinks:
        from ..decision.replayed import Sinks
        from ..inputs.workload import Slo
        from ..report.perfetto import instance_names, perfetto
        from ..report.requests_csv import requests_csv

        sinks = Sinks()
        if table is not None:
            path = _named(table, strategy.name if several else "")
            sinks.records.append(sinks.stack.enter_context(requests_csv(path, _slo(options) or Slo())))
        if timeline is not None:
            path = _named(timeline, strategy.name if several else "")
            trace = sinks.stack.enter_context(perfetto(path, instance_names(strategy, deployment)))
            sinks.records.append(trace.add)
            sinks.busy.append(trace.busy)
        return sinks

    return opened


def _named(path: str, strategy: str) -> Path:
    """``out.csv`` of one strategy among several is ``out.chunked.csv``."""
    found = Path(path)
    if not strategy:
        return found
    stem, dot, endings = found.name.partition(".")
    return found.with_name(f"{stem}.{strategy}{dot}{endings}")
