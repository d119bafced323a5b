"""``costmodel recommend``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from .options import MOST_REQUESTS, MOST_SEED, Quantity, Whole, answers, model_argument, option, tokens_option
from .progress import Progress
from .scenario import (
    TIER_OPTIONS,
    deployment_options,
    later_options,
    take_scenario,
    take_workload,
    tier_options,
    workload_options,
)

RULE = "Rule of deflection: kairos, kairos-printed, threshold:N or busy:N:Q; default: the better on a trial."
BUDGET = (
    "All tokens of a mixed step (vLLM's --max-num-batched-tokens); decodes take theirs first; default 2048."
)
METHOD = "replay: request by request; closed: at once, from formulas; auto: closed where it answers all, else replay."


@click.command("recommend")
@model_argument()
@deployment_options()
@tokens_option("--token-budget", BUDGET)
@tokens_option("--chunk", "The same: the prefill tokens of a step are what decodes leave of it.")
@workload_options()
@option("--rule", help=RULE)
@option(
    "--alpha", type=Quantity("1"), help="Kairos: a deflected TTFT may be this multiple of the remote one."
)
@option("--beta", type=Quantity("1"), help="Kairos: share of the TPOT SLO that a mixed step may take.")
@option("--method", type=click.Choice(("auto", "closed", "replay")), default="auto", help=METHOD)
@option(
    "--requests",
    type=Whole(MOST_REQUESTS),
    help="Requests evaluated at the given rate; default 2,000, or all of a trace.",
)
@option(
    "--probe",
    type=Whole(1000),
    default=600,
    help="Requests of one probe of the goodput search, at most 1,000.",
)
@option("--seed", type=Whole(MOST_SEED, least=0), default=1, help="Fixes lengths and gaps.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@tier_options()
@later_options(*TIER_OPTIONS)
@answers("recommend", explain=True)
def command(
    model: str, rule: str | None, alpha: float | None, beta: float | None, method: str, **options: Any
) -> object:
    """Is the copy of MODEL's KV cheaper than the interference it replaces, on these GPUs, for this workload?

    Compares colocated, chunked, disaggregated and deflected serving at equal GPU count. Exit code 1: none of
    them is stable at the given rate.

    \b
    Examples:
      costmodel recommend deepseek-ai/DeepSeek-V2-Lite --hardware a100-sxm-80gb --topology 2P2D \\
        --link ib-hdr --workload hphd
      costmodel recommend Llama-3.1-8B --hardware h100-sxm --topology 1P1D --link nvlink4 \\
        --isl 4096 --osl 256 --rate 4 --slo-ttft 1s --slo-tpot 40ms --method closed
    """
    from ..decision.comparison import Options
    from ..questions.recommend import ask_recommend

    workload = take_workload(options)
    scenario = take_scenario(model, options, token_budget=take_budget(options))
    progress = Progress(silent=options["quiet"])
    own = Options(
        requests=options["requests"], probe=options["probe"], seed=options["seed"], progress=progress
    )
    try:
        return ask_recommend(scenario, workload, own, method=method, rule=take_rule(rule, alpha, beta))
    finally:
        progress.done()


def take_budget(options: dict[str, Any]) -> int | None:
    """Remove --token-budget and --chunk and return the one that is given."""
    from ..errors import InputError

    budget, chunk = options.pop("token_budget"), options.pop("chunk")
    if None not in (budget, chunk) and budget != chunk:
        raise InputError(
            f"--chunk {chunk} and --token-budget {budget}: pass one; a chunk is what decodes leave of the budget"
        )
    found: int | None = chunk if budget is None else budget
    return found


def take_rule(text: str | None, alpha: float | None, beta: float | None) -> Any:
    """Return the rule; alpha or beta alone mean Kairos with the copy in its estimate."""
    from ..errors import InputError
    from ..serving.strategies import RuleKind, parse_rule

    settings = {"alpha": alpha, "beta": beta}
    given: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
    if text is None and not given:
        return None
    found = parse_rule(RuleKind.KAIROS.value if text is None else text)
    if given and not found.kairos:
        raise InputError(f"--{' and --'.join(given)}: settings of Kairos; a threshold has none")
    return replace(found, **given)
