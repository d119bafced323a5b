"""The verdict in words: what to do, why, and the settings to paste."""

from __future__ import annotations

from collections.abc import Sequence

from ..serving.deployment import Deployment
from ..serving.strategies import CHUNKED, COLOCATED, Rule, RuleKind, Strategy
from .bands import Bands
from .results import StrategyResult
from .verdict import NONE_STABLE, TOO_CLOSE, Verdict

POOLED = (COLOCATED.name, CHUNKED.name)


def action(
    verdict: Verdict,
    deployment: Deployment,
    rule: Rule,
    results: Sequence[StrategyResult],
    strategies: Sequence[Strategy],
    bands: Bands,
) -> str:
    """Return what to do, as one sentence."""
    if verdict.verdict == NONE_STABLE:
        return _unstable(results)
    if verdict.best is None:
        return f"cannot rank the strategies: {verdict.reason}"
    topology, count = deployment.topology, deployment.topology.instances
    budget = deployment.settings.token_budget
    words = {
        "colocated": f"pool all {count} instances, whole prompts before decodes",
        "chunked": f"pool all {count} instances, chunk prompts to a token budget of {budget}",
        "disaggregated": f"keep {topology}, prefill every prompt on the prefill GPUs",
        "deflected": f"keep {topology}, prefill on decode GPUs {_deflect(rule)}",
    }
    if verdict.verdict != TOO_CLOSE:
        return words[verdict.best]
    if {verdict.best, verdict.runner_up} == {"disaggregated", "deflected"}:
        return f"keep {topology}; whether to prefill on decode GPUs {_deflect(rule)} is within the error"
    return (
        f"{verdict.best} and {verdict.runner_up} lie within the error; to settle it measure "
        f"{_measure(verdict, strategies, bands)}; until then {words[verdict.best]}"
    )


def _deflect(rule: Rule) -> str:
    if rule.kind is RuleKind.THRESHOLD:
        return f"below {rule.threshold:,} uncached tokens"
    return f"when the {rule.kind.value} estimate says so (alpha {rule.alpha:g}, beta {rule.beta:g})"


def _measure(verdict: Verdict, strategies: Sequence[Strategy], bands: Bands) -> str:
    """Name the operator kind whose error moves the margin most."""
    pair = [bands.delays(s) for s in strategies if s.name in (verdict.best, verdict.runner_up)]
    first, second = pair
    if first is None or second is None:
        return "step times on this GPU"
    return f"{bands.widest([a / b for a, b in zip(first, second, strict=True)])} on this GPU"


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


def settings(deployment: Deployment, threshold: float | None) -> dict[str, str]:
    """Return the settings to paste, under each project's own names; the threshold in uncached tokens.

    Names: vLLM engine arguments; NVIDIA Dynamo, conditional disaggregation (docs.nvidia.com/dynamo, v1.6);
    llm-d, prefix-based-pd-decider.
    """
    lines = {"vllm": f"--max-num-batched-tokens {deployment.settings.token_budget}"}
    if threshold is not None:
        lines["dynamo"] = f"eff_isl_threshold={round(threshold)}"
        lines["llm-d"] = f"nonCachedTokens={round(threshold)}"
    return lines
