"""The main question with its options: which strategy on these GPUs, for this workload."""

from __future__ import annotations

from dataclasses import replace

from ..decision.at_once import AtOnce
from ..decision.comparison import REQUESTS, Options
from ..decision.recommend import recommend
from ..decision.results import Recommendation
from ..errors import InputError, unknown
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.scenario import Scenario
from ..serving.step import step_times
from ..serving.strategies import CHUNKED, COLOCATED, DISAGGREGATED, Rule, deflected

METHODS = ("auto", "closed", "replay")


def ask_recommend(
    scenario: Scenario,
    workload: Workload,
    options: Options | None = None,
    *,
    method: str = "auto",
    rule: Rule | None = None,
) -> Recommendation:
    """Return the verdict for a scenario and a workload.

    ``method``: replay follows every request; closed answers at once, with means and what percentiles of TTFT it can
    vouch for; auto takes closed where that answers all that is asked, else replay. Raises InputError for bad names or
    values, NoAnswerError where nothing fits.
    """
    own = options or Options()
    if own.requests is not None and own.requests < 1:
        raise InputError(f"--requests must be at least 1, not {own.requests}")
    if not 1 <= own.probe <= 1000:
        raise InputError(f"--probe must lie in 1 .. 1000, not {own.probe}")
    if method not in METHODS:
        raise InputError(unknown("--method", method, METHODS))
    deployment = scenario.deployment()
    why = _why_replay(deployment, workload, own, rule) if method == "auto" else None
    chosen = method if method != "auto" else "closed" if why is None else "replay"
    answer = recommend(deployment, workload, replace(own, method=chosen), rule=rule)
    told = (*_of_the_trace(workload, chosen, own), _told(workload, chosen, own, why))
    return replace(answer, about=replace(answer.about, assumptions=(*answer.about.assumptions, *told)))


def _why_replay(
    deployment: Deployment, workload: Workload, options: Options, rule: Rule | None
) -> str | None:
    """Say what the closed form does not answer of a comparison; None where it answers all of it."""
    if options.requests is not None:
        return "--requests asks for a replay"
    if workload.slo.given:
        return "goodput needs the SLOs of each request"
    deployment.need_split()
    form = AtOnce(deployment, workload, step_times(deployment.kinds))
    for strategy in (COLOCATED, CHUNKED, DISAGGREGATED, deflected(rule)):
        why = form.refusal(strategy)
        if why is not None and form.means(strategy).stable:
            return f"{strategy.name}: {why}"
    return None


def _of_the_trace(workload: Workload, method: str, options: Options) -> tuple[str, ...]:
    """Say how many requests of a trace the figures rest on."""
    if not workload.requests:
        return ()
    if method == "closed":
        return (f"trace: {workload.chosen}; means over an even pick",)
    kept = len(workload.requests)
    return (f"trace: {workload.chosen}; {min(options.requests or kept, kept):,} evaluated",)


def _told(workload: Workload, method: str, options: Options, why: str | None) -> str:
    """Say which evaluator answered, and why the closed form did not where it might have."""
    if method == "closed":
        return "closed form: means, and percentiles of TTFT where it can vouch for them; no goodput"
    count = options.requests or len(workload.requests) or REQUESTS
    told = f"replay of {count:,} requests at the given rate, {options.probe:,} a probe of goodput, seed {options.seed}"
    return told if why is None else f"{told}; no closed form: {why}"
