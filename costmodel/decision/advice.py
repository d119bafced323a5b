"""The verdict in words: what to do, why, and the settings to paste."""

from __future__ import annotations

from collections.abc import Sequence

from ..inputs.flags import knobs
from ..serving.band import WHOLE
from ..serving.deployment import Deployment
from ..serving.strategies import CHUNKED, COLOCATED, DEFLECTED, Rule, RuleKind, Strategy
from .bands import COPY, Bands
from .comparison import Comparison
from .results import Split, StrategyResult
from .verdict import NONE_STABLE, TOO_CLOSE, Verdict

POOLED = (COLOCATED.name, CHUNKED.name)
#: Another split is proposed when its closed-form mean delay is below this share of the given one's.
_BETTER_SPLIT = 0.9


def action(
    verdict: Verdict,
    compare: Comparison,
    rule: Rule,
    results: Sequence[StrategyResult],
    strategies: Sequence[Strategy],
    splits: Sequence[Split],
) -> str:
    """Return what to do, as one sentence."""
    if verdict.verdict == NONE_STABLE:
        return _unstable(results)
    if verdict.best is None:
        return f"cannot rank the strategies: {verdict.reason}"
    words = _missed(results) + _words(verdict.best, compare.deployment, rule, splits)
    if verdict.verdict != TOO_CLOSE:
        return words
    pair = f"{verdict.best} and {verdict.runner_up}"
    if {verdict.best, verdict.runner_up} == {"disaggregated", "deflected"}:
        keep = _missed(results) + _keep(compare.deployment, splits)
        return f"{keep}; whether to prefill on decode GPUs {_deflect(rule)} is within the error"
    if verdict.margin_low is None:
        return f"{pair} are too close for this sample, and no band is known; until more is: {words}"
    measure = _measure(verdict, strategies, compare.bands)
    return f"{pair} lie within the error; to settle it measure {measure}; until then {words}"


def _words(best: str, deployment: Deployment, rule: Rule, splits: Sequence[Split]) -> str:
    count = deployment.topology.instances
    budget = deployment.settings.token_budget
    pooled = {
        "colocated": f"pool all {count} instances, whole prompts before decodes",
        "chunked": f"pool all {count} instances, chunk prompts to a token budget of {budget}",
    }
    if best in pooled:
        return pooled[best]
    keep = _keep(deployment, splits)
    if best == "disaggregated":
        return f"{keep}, prefill every prompt on the prefill GPUs"
    return f"{keep}, prefill on decode GPUs {_deflect(rule)}"


def _keep(deployment: Deployment, splits: Sequence[Split]) -> str:
    """Keep the split, or take another one of the same GPUs that is clearly better by closed form."""
    better = [s for s in splits if s.delay_ratio is not None and s.delay_ratio < _BETTER_SPLIT]
    if not better:
        return f"keep {deployment.topology}"
    split = min(better, key=lambda s: s.delay_ratio or 1.0)
    ratio = f"{split.delay_ratio:.2f} x the mean delay of {deployment.topology}, by closed form"
    return f"split as {split.topology} ({ratio})"


def _missed(results: Sequence[StrategyResult]) -> str:
    """Say first that no strategy meets the SLOs at any rate, where that is so."""
    tried = [r for r in results if r.goodput_per_gpu_per_s is not None]
    if tried and all(r.goodput_per_gpu_per_s == 0 for r in tried):
        return "no strategy meets the SLOs at any rate; by mean delay "
    return ""


def _deflect(rule: Rule) -> str:
    if rule.kind is RuleKind.BUSY:
        return f"up to {rule.threshold:,} uncached tokens or while {rule.queue} prompts wait"
    if rule.kind is RuleKind.THRESHOLD:
        return f"below {rule.threshold:,} uncached tokens"
    return f"when the {rule.kind.value} estimate says so (alpha {rule.alpha:g}, beta {rule.beta:g})"


#: What is no operator of a GPU, and how to measure it.
_TO_MEASURE = {
    WHOLE: "whole steps of this engine on this GPU (a stack: --stack)",
    COPY: "the KV copy over this link (costmodel calibrate)",
}


def _measure(verdict: Verdict, strategies: Sequence[Strategy], bands: Bands) -> str:
    """Name the operator kind whose error moves the margin most."""
    pair = [bands.delays(s) for s in strategies if s.name in (verdict.best, verdict.runner_up)]
    first, second = pair
    if first is None or second is None:
        return "step times on this GPU"
    widest = bands.widest([a / b for a, b in zip(first, second, strict=True)])
    return _TO_MEASURE.get(widest, f"{widest} on this GPU")


def _unstable(results: Sequence[StrategyResult]) -> str:
    least = min(results, key=lambda r: r.utilisation)
    pool = max(least.pools, key=lambda p: p.utilisation)
    return (
        f"no strategy is stable: even {least.name} is offered {least.utilisation:.2f} times its capacity; "
        f"{pool.missing_instances:.1f} more {pool.role} instances are missing"
    )


def why(results: Sequence[StrategyResult]) -> dict[str, float | None]:
    """Return what the copy and splitting the GPUs cost when disaggregated, and interference when pooled.

    Mean seconds a request; the pooled strategy is the one with less mean delay.
    """
    split = next(r for r in results if r.name == "disaggregated")
    pooled = [r for r in results if r.name in POOLED and r.mean_delay_s is not None]
    better = min(pooled, key=lambda r: r.mean_delay_s or 0.0) if pooled else None
    return {
        "copy_s": split.copy_s,
        "splitting_s": split.splitting_s,
        "interference_s": better.interference_s if better else None,
    }


def settings(deployment: Deployment, best: str | None, threshold: float | None, rule: Rule) -> dict[str, str]:
    """Return the settings to paste for the strategy, under each project's own names.

    The threshold in uncached tokens goes to routers that disaggregate by it. Kairos' own rule is in no released
    router: the constants are the nearest to it.
    """
    if best is None:
        return {}
    tokens = None if threshold is None else round(threshold)
    lines = knobs(best, token_budget=deployment.settings.token_budget, threshold_tokens=tokens)
    if best == DEFLECTED.name and rule.kairos:
        lines["kairos"] = f"alpha={rule.alpha:g} beta={rule.beta:g}"
    return lines
