"""The main question with its options: which strategy on these GPUs, for this workload."""

from __future__ import annotations

from dataclasses import replace

from ..decision.comparison import REQUESTS, Options
from ..decision.recommend import recommend
from ..decision.results import Recommendation
from ..errors import InputError
from ..inputs.workload import Workload
from ..serving.scenario import Scenario
from ..serving.strategies import Rule

#: What can be asked for, and the evaluator that answers.
METHODS = {"auto": "replay", "replay": "replay", "closed": "closed"}


def ask_recommend(
    scenario: Scenario,
    workload: Workload,
    options: Options | None = None,
    *,
    method: str = "auto",
    rule: Rule | None = None,
) -> Recommendation:
    """Return the verdict for a scenario and a workload.

    ``method``: auto and replay follow every request, closed answers at once with means. Raises InputError for bad
    names or values, NoAnswerError where nothing fits.
    """
    own = options or Options()
    if own.requests is not None and own.requests < 1:
        raise InputError(f"--requests must be at least 1, not {own.requests}")
    if not 1 <= own.probe <= 1000:
        raise InputError(f"--probe must lie in 1 .. 1000, not {own.probe}")
    answer = recommend(scenario.deployment(), workload, replace(own, method=METHODS[method]), rule=rule)
    told = (*_of_the_trace(workload, method, own), _told(workload, method, own))
    return replace(answer, about=replace(answer.about, assumptions=(*answer.about.assumptions, *told)))


def _of_the_trace(workload: Workload, method: str, options: Options) -> tuple[str, ...]:
    """Say how many requests of a trace the figures rest on."""
    if not workload.requests:
        return ()
    if method == "closed":
        return (f"trace: {workload.chosen}; means over an even pick",)
    kept = len(workload.requests)
    return (f"trace: {workload.chosen}; {min(options.requests or kept, kept):,} evaluated",)


def _told(workload: Workload, method: str, options: Options) -> str:
    """Say which evaluator answered."""
    if method == "closed":
        return "closed form: means only, no percentile and no goodput"
    count = options.requests or len(workload.requests) or REQUESTS
    return f"replay of {count:,} requests at the given rate, {options.probe:,} a probe of goodput, seed {options.seed}"
