"""What an answer rests on: assumptions, sources of the constants used, what is not modelled, warnings."""

from __future__ import annotations

from collections.abc import Sequence

from ..evaluate.means import TIER, pool_label
from ..inputs.model import Recurrent
from ..inputs.workload import Workload
from ..serving.band import told_of, used_kinds
from ..serving.deployment import Deployment
from ..serving.instance import FitUsed, InstanceKind, fits_used
from ..serving.memory import GIB, KvPool
from ..serving.strategies import Rule
from ..serving.tiers import KvTier
from ..units import format_si
from .bands import errors
from .results import StrategyResult
from .reuse import full_tiers, offered_writes, unheld_at_once
from .verdict import same_as_split

ROUTINGS = {
    "shortest": "prompts go to the instance with fewest prompt tokens pending, hand-overs to the one with least KV",
    "round-robin": "prompts and hand-overs go to the instances in turns",
    "prefix": "prompts go where the fewest tokens are left to compute, cached ones not counted; hand-overs to the "
    "instance with least KV",
}

HELD = {
    "both": "the cached prefix lies on both sides: only uncached tokens are computed and copied",
    "prefill": "the cached prefix lies on the prefill side: the copy carries the whole prompt, and a prompt kept on "
    "the decode side is computed whole",
    "decode": "the cached prefix lies on the decode side: prefill computes the whole prompt, and the copy carries "
    "uncached tokens",
    "store": "the cached prefix lies in {tier}: it is read where the prompt is computed, and the copy carries the "
    "whole prompt",
}


def hardware_label(deployment: Deployment) -> str:
    """Name the GPUs of a deployment."""
    prefill, decode = deployment.prefill, deployment.decode
    if prefill is decode:
        return f"{deployment.gpus} x {prefill.gpu.name}" + (f", TP{prefill.tp}" if prefill.tp > 1 else "")
    topology = deployment.topology
    return f"{topology.prefill} x {prefill.label()} + {topology.decode} x {decode.label()}"


def assumptions(deployment: Deployment, workload: Workload, rule: Rule, point: str) -> tuple[str, ...]:
    """Return one sentence for each assumption behind a comparison."""
    return (
        *prefix_assumptions(deployment, workload),
        *serving_assumptions(deployment, rule),
        f"threshold at {point}",
        "bands, flips and splits rest on closed-form means (their own error: docs/validation/closed_form.md)",
        "each evaluation starts empty; figures at the given rate leave out the first fifth and the last twentieth"
        " of drawn requests, goodput probes count all",
    )


def prefix_assumptions(deployment: Deployment, workload: Workload) -> tuple[str, ...]:
    """Return one sentence for each assumption about cached tokens and the KV tiers that hold them."""
    cold = workload.cached_tokens == 0 and all(r.cached_tokens == 0 for r in workload.requests)
    return (
        _cached(deployment, workload, cold=cold),
        *(
            [f"{workload.hit_rate:.3g} of all requests find their cached tokens, the others none"]
            if workload.hit_rate < 1
            else []
        ),
        *tier_assumptions(deployment),
    )


def _cached(deployment: Deployment, workload: Workload, *, cold: bool) -> str:
    """Say what of prompts is cached."""
    if any(request.blocks for request in workload.requests):
        return (
            "prefixes whose blocks the trace names are kept; the ideal has what a cache without bound would hold, "
            "closed forms none"
        )
    return "cold cache" if cold else held(deployment)


def held(deployment: Deployment) -> str:
    """Say where cached tokens of unknown blocks lie."""
    first = deployment.tiers[0].name if deployment.tiers else ""
    return HELD[deployment.held].format(tier=f"tier {first}")


def tier_assumptions(deployment: Deployment) -> tuple[str, ...]:
    """Return one sentence for each assumption about KV tiers; none where there are none."""
    if not deployment.tiers:
        return ()
    settings = deployment.settings
    return (
        *(_tier(tier) for tier in deployment.tiers),
        *deployment.tiers_told,
        "a prompt joins its queue when its prefix has been read; reads of an instance from one tier take turns, those "
        "of a prompt from several tiers go at the same time unless both cross the ports of hand-overs; memory for "
        "them is taken with the prompt's own",
        "what is computed is written to every tier when its prefill ends, in no time; where a tier is full, what was "
        "least recently used is forgotten",
        "a preempted request finds what it had read in GPU memory again",
        "prefixes in tiers are read whenever found"
        if settings.load == "always"
        else "a prefix is read only where that is faster than to compute it, both alone",
    )


def _tier(tier: KvTier) -> str:
    owner = "shared by all instances" if tier.shared else "an instance"
    port = ", by the ports of hand-overs" if tier.on_link else ""
    room = (
        f"{format_si(tier.capacity_bytes, 'byte', binary=True)} ({tier.capacity_tokens:,.0f} tokens) {owner}"
    )
    return f"KV tier {tier.name}: {room}, read at {format_si(tier.read_bytes_per_s, 'byte/second')} an instance{port}"


def serving_assumptions(deployment: Deployment, rule: Rule | None) -> tuple[str, ...]:
    """Return one sentence for each assumption about how requests are served."""
    settings, path = deployment.settings, deployment.path
    port = "" if path.link.per == "gpu" else f" {path.link.per}"
    lines = [
        f"token 1 from {'the prefill side' if settings.first_token == 'prefill' else 'the decode side'}"
        + (", which recomputes the last prompt token" if settings.first_token == "recompute" else ""),
        f"{path.nics} x {path.link.title}{port} an instance, {path.overlap} copy by {path.connector.name} "
        f"at {path.connector.bandwidth_share:.0%} of {format_si(path.bandwidth_bytes_per_s, 'byte/second')}",
        "control time of a hand-over not stated: 0 s"
        if path.control_s == 0
        else (f"control {format_si(path.control_s, 'second')} a hand-over"),
        f"token budget {settings.token_budget}, also for whole prompts that share a prefill step; "
        f"at most {settings.max_seqs} sequences an instance",
        "KV grows with the output; where the pool is full, the last request to enter is preempted and recomputed"
        if settings.grows
        else "memory for prompt and output reserved at admission: no preemption",
        f"KV pool of {deployment.decode_pool.pool_bytes / GIB:.2f} GiB a GPU, by {deployment.decode_pool.engine}: "
        f"{deployment.decode_pool.memory_share:.0%} of GPU memory, "
        f"{deployment.decode_pool.kept_bytes / GIB:.2f} GiB of it outside weights and KV",
        *dict.fromkeys(note for pool in _pools(deployment) for note in pool.notes),
        ROUTINGS[settings.routing],
        *([_deflection(rule)] if rule else []),
        *(told_of(kind) for kind in dict.fromkeys((deployment.prefill, deployment.decode)) if kind.stack),
        *(_efficiency(kind) for kind in dict.fromkeys((deployment.prefill, deployment.decode))),
        *(note for kind in dict.fromkeys((deployment.prefill, deployment.decode)) for note in kind.notes()),
    ]
    return tuple(lines)


def _deflection(rule: Rule) -> str:
    if not rule.kairos:
        return f"deflection by {rule.label}"
    return (
        f"deflection by {rule.label}, alpha {rule.alpha:g}, beta {rule.beta:g}, "
        "one deflected prefill a decode instance"
    )


def _efficiency(kind: InstanceKind) -> str:
    """Say whose fits price the steps of an instance, how many of each stack, and with which errors they count."""
    used = fits_used(kind, used_kinds(kind))
    counts: dict[str, dict[str, int]] = {}
    for fit in used:
        stacks = counts.setdefault(fit.borrowed or fit.hardware, {})
        stacks[fit.stack] = stacks.get(fit.stack, 0) + 1
    told = [
        f"{gpu}{'' if gpu == kind.gpu.name else ' (borrowed)'}: "
        + ", ".join(f"{stack} {count}" for stack, count in stacks.items())
        for gpu, stacks in counts.items()
    ]
    shown = sorted({f"{fit.error:.0%}" for fit in used}, key=lambda text: int(text[:-1]))
    return f"efficiencies of {'; '.join(told)}; errors {shown[0]} to {shown[-1]}"


def efficiencies(deployment: Deployment) -> tuple[FitUsed, ...]:
    """Return the fits behind the step times of both pools, each once."""
    kinds = dict.fromkeys((deployment.prefill, deployment.decode))
    return tuple(dict.fromkeys(fit for kind in kinds for fit in fits_used(kind, used_kinds(kind))))


def _pools(deployment: Deployment) -> tuple[KvPool, ...]:
    return tuple(dict.fromkeys((deployment.prefill_pool, deployment.decode_pool)))


def sources(deployment: Deployment, workload: Workload) -> tuple[str, ...]:
    """Return the source of every constant used, once each."""
    return (*hardware_sources(deployment), f"workload {workload.name}: {workload.chosen}")


def hardware_sources(deployment: Deployment) -> tuple[str, ...]:
    """Return the sources of model, GPUs, fits, link, connector and engine, once each."""
    lines = [f"model {deployment.decode.model.name}: {deployment.decode.model.source}"]
    used = errors(deployment)
    for kind in dict.fromkeys((deployment.prefill, deployment.decode)):
        for key in (f"peak_{kind.product_dtype}", "memory_bandwidth", "memory_visible", "memory", "sm_count"):
            value = kind.gpu.values.get(key)
            if value is not None:
                lines.append(f"{kind.gpu.name} {key} {value.text}: {value.source}")
        for name, fit in kind.efficiency.operators.items():
            if name in used:
                owner = fit.borrowed or kind.gpu.name
                lines.append(f"{name} fit, {owner}, {fit.stack or kind.efficiency.stack}: {fit.source}")
        if kind.stack:
            lines.append(f"stack {kind.stack.stack}: {kind.stack.source}")
    path = deployment.path
    for owner, values in ((path.link.name, path.link.values), (path.connector.name, path.connector.values)):
        lines += [f"{owner} {key} {value.text}: {value.source}" for key, value in values.items()]
    lines += [f"KV tier {text}" for text in deployment.tiers_sources]
    lines += [f"KV pool: {text}" for pool in _pools(deployment) for text in pool.sources]
    return tuple(dict.fromkeys(lines))


def not_modelled(deployment: Deployment) -> tuple[str, ...]:
    """Return what the figures leave out."""
    tiers = (
        "what reads and writes of a KV tier take of each other",
        "memory that a read takes before its prompt is in",
    )
    left = [
        *(() if deployment.decode.stack else ("front end, tokenising and scheduling (--stack)",)),
        "collectives and copies sharing a wire",
        "speculative decoding",
        *(tiers if deployment.tiers else ()),
    ]
    if deployment.path.connector.per_descriptor_s is None:
        left.append("cost of single descriptors (inside the connector's measured bandwidth)")
    if not deployment.decode_pool.engine.startswith("vLLM"):
        left.append(f"scheduling of {deployment.decode_pool.engine}: steps are formed as vLLM forms them")
    kinds = {
        type(mixer) for kind in (deployment.prefill, deployment.decode) for mixer, _ in kind.model.mixers
    }
    if Recurrent in kinds:
        left.insert(0, "kernels of recurrent layers were not measured: attention's fits stand in for them")
    return tuple(left)


def warnings(
    deployment: Deployment, workload: Workload, results: Sequence[StrategyResult]
) -> tuple[str, ...]:
    """Return what a reader should know before trusting a figure."""
    lines = [*deployment.decode.model.warnings, *_beyond_context(deployment, workload)]
    lines += [*tier_warnings(deployment), *unheld_at_once(deployment, workload)]
    if not any(result.tiers for result in results):
        lines += offered_writes(deployment, workload)
    for result in results:
        lines += [f"{result.name}: {text}" for text in full_tiers(result.tiers)]
        if same_as_split(result):
            lines.append(
                "deflected keeps no prompt local here: it is plain disaggregation and not ranked apart"
            )
        for pool in result.pools:
            if pool.utilisation >= 1:
                missing = f", {pool.missing_instances:.1f} instances are missing"
                lines.append(
                    f"{result.name}: the {pool_label(pool.role)} is offered {pool.utilisation:.2f} times its capacity"
                    f"{'' if pool.role.startswith(TIER) else missing}"
                )
            elif pool.utilisation > 0.9:
                name = pool_label(pool.role)
                lines.append(
                    f"{result.name}: the {name} is {pool.utilisation:.0%} utilised; percentiles are noisy"
                )
    for kind in dict.fromkeys((deployment.prefill, deployment.decode)):
        lenders = {fit.borrowed for fit in fits_used(kind, used_kinds(kind))}
        if None not in lenders:
            named = " and ".join(sorted(lender for lender in lenders if lender))
            lines.append(f"{kind.gpu.name} has no fits of its own: those of {named} stand in")
    return tuple(lines)


def tier_warnings(deployment: Deployment) -> tuple[str, ...]:
    """Return what a reader should know of the bandwidths of KV tiers."""
    return tuple(dict.fromkeys(said for tier in deployment.tiers for said in tier.warned))


def _beyond_context(deployment: Deployment, workload: Workload) -> list[str]:
    longest = max(request.isl + request.output_tokens for request in workload.typical())
    limit = deployment.decode.model.max_context
    if limit is None:
        return [f"{deployment.decode.model.name} states no context length: not checked"]
    if longest <= limit:
        return []
    return [f"requests of up to {longest:,} tokens exceed the model's context of {limit:,}"]
