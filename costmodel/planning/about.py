"""What a plan rests on: assumptions, sources, what is not modelled, and warnings."""

from __future__ import annotations

from ..answer import About
from ..decision.provenance import hardware_sources, not_modelled, prefix_assumptions, serving_assumptions
from ..serving.deployment import Deployment
from .search import SLACK, Held
from .space import no_threshold
from .told import Facts


def about(facts: Facts, best: Held | None) -> About:
    """Return what the best plan rests on; of no plan, the workload alone."""
    workload = f"workload {facts.workload.name}: {facts.workload.chosen}"
    if best is None:
        return About(sources=(workload,))
    layout, topology = best.sized.layout, best.sized.topology
    deployment = layout.at(topology)
    prices = (
        f"price of {price.gpu}, {price.provider} {price.date}: {price.source}"
        for price in facts.prices.values()
    )
    return About(
        (
            *prefix_assumptions(deployment, facts.workload),
            *serving_assumptions(deployment, layout.strategy.rule),
            f"sizes from closed-form attainment, {SLACK:.0%} below the target at first; a plan holds where a replay "
            f"attains the target (seed {facts.options.seed})",
            "closed form: a request meets both SLOs with the product of its chances, given its lengths; within 3 "
            "points of a replay in half of all cases, 10 in nine of ten (docs/validation/attainment.md)",
            "headroom: by closed form, moved by its difference from the replay at the given rate",
            "changes: one at a time, the best plan's layout sized again by closed form, not replayed",
            "band: all step times times one factor; each kind of operator and the whole step at its edge, by what that "
            "adds to the GPU time of a mean request, combined by root-sum-square; copies and tiers as they are",
            "sizes at moved step times: by closed form, as the plan's difference from its own size there; by replays "
            "where it cannot vouch; the next kind of plan at the same factor, of other GPUs also each alone",
            *_costs(deployment),
            *_left_out(facts),
        ),
        (*hardware_sources(deployment), workload, *prices),
        not_modelled(deployment),
        tuple(_warnings(facts, best, deployment)),
    )


def _left_out(facts: Facts) -> list[str]:
    lacking = no_threshold(facts.workload, facts.options)
    return [] if lacking is None else [f"deflected left out: {lacking}"]


def _costs(deployment: Deployment) -> list[str]:
    """Say what costs leave out, and as whose pools of two kinds see a tier."""
    said = ["cost: GPUs alone, on demand; no network, storage or discount"]
    if deployment.tiers:
        said[0] += "; KV tiers cost nothing"
    if deployment.tiers and deployment.prefill is not deployment.decode:
        said.append("both pools read KV tiers as prefill instances do")
    return said


def _warnings(facts: Facts, best: Held, deployment: Deployment) -> list[str]:
    warnings = list(deployment.decode.model.warnings)
    worst, target = best.worst, facts.workload.slo.attainment
    if worst.attained is not None and worst.attained - (worst.sampling or 0.0) < target:
        warnings.append(
            f"the best plan attains {worst.attained:.1%} +- {worst.sampling or 0.0:.1%}: within one standard "
            "error of the target (more --requests settle it)"
        )
    if facts.trials.capped:
        warnings.append(
            "requests stay longer than a replay of 20,000 takes to fill the instances: attainment may be too high"
        )
    return warnings
