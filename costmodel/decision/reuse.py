"""What KV tiers gain: for a prompt that hits, and for the whole fleet, on the same requests with and without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..evaluate.means import Means
from ..evaluate.stated import reads_of
from ..evaluate.tiers import holds
from ..evaluate.timeline import PrefixUse
from ..inputs.workload import Request, Workload, missed, unknown
from ..serving.deployment import Deployment
from ..serving.step import StepTimes
from ..serving.strategies import Role, Strategy
from ..units import format_si
from .tier_results import ReuseGain, TierResult

#: Why there is no gain of capacity.
NO_CAPACITY = "offered work over capacity is known of stated prefixes alone, in an open loop, by recommend"
#: Parts of GPU-seconds in which GPUs work.
_WORK = ("prefill_s", "decode_s", "mixed_s", "recompute_s")


@dataclass(frozen=True)
class Seen:
    """One run: mean TTFT, GPU-seconds of each kind a request, requests a second, offered work over
    capacity by closed form; ``reason`` why TTFT is none."""

    ttft_s: float | None
    gpu_s: Mapping[str, float] | None
    rate_per_s: float | None = None
    reason: str | None = None
    load: float | None = None

    @property
    def work_s(self) -> float | None:
        """GPU-seconds of work a request."""
        return None if self.gpu_s is None else sum(self.gpu_s[name] for name in _WORK)


def cold(deployment: Deployment, request: Request) -> Request:
    """Return a request as it is without tiers: a stated prefix that lay in them is computed."""
    return missed(request) if deployment.held == "store" and not request.blocks else request


def cold_workload(deployment: Deployment, workload: Workload) -> Workload:
    """Return a workload as it is without tiers."""
    return replace(workload, hit_rate=0.0) if deployment.held == "store" else workload


def told_without(deployment: Deployment) -> str:
    """Say what is compared with."""
    stated = "; a prefix of unknown blocks is then computed" if deployment.held == "store" else ""
    return f"the same requests on the same GPUs without the tiers: prefixes in GPU memory alone{stated}"


def places(found: PrefixUse) -> dict[str, float] | None:
    """Return the shares of prompt tokens found in GPU memory, read from each tier, and computed."""
    parts: dict[str, int] = {"hbm": found.memory_tokens}
    parts |= {f"tier {use.name}": use.read_tokens for use in found.tiers}
    parts["computed"] = found.computed_tokens
    total = sum(parts.values())
    return {name: tokens / total for name, tokens in parts.items()} if total else None


def tier_results(deployment: Deployment, found: PrefixUse) -> tuple[TierResult, ...]:
    """Return what each tier did."""
    return tuple(
        TierResult(
            tier.name,
            tier.shared,
            tier.capacity_tokens,
            use.reads,
            use.read_tokens,
            use.written_tokens,
            use.read_use,
            use.write_use,
            use.unheld,
        )
        for tier, use in zip(deployment.tiers, found.tiers)
    )


def gain(strategy: str, found: PrefixUse, requests: int, bare: Seen, full: Seen) -> ReuseGain:
    """Return what tiers gain from two runs of ``requests`` requests, without and with them."""
    read_s = found.alone_s / found.hits if found.hits else None
    tokens = sum(use.read_tokens for use in found.tiers) / found.hits if found.hits else None
    recompute = found.saved_s / found.hits if found.hits else None
    reason = bare.reason or full.reason
    work = bare.work_s, full.work_s
    return ReuseGain(
        strategy,
        hit_share=found.hits / requests if requests else None,
        hit_tokens=tokens,
        recompute_s=recompute,
        read_s=read_s,
        per_hit_gain=_ratio(recompute, read_s),
        per_hit_reason=None if found.hits else "no prompt read a prefix",
        gpu_s_without=work[0],
        gpu_s_with=work[1],
        fleet_gain=_ratio(*work),
        fleet_reason=None if None not in work else "not all requests were followed",
        capacity_gain=_ratio(bare.load, full.load),
        capacity_reason=None if None not in (bare.load, full.load) else NO_CAPACITY,
        ttft_without_s=bare.ttft_s,
        ttft_with_s=full.ttft_s,
        ttft_gain=_ratio(bare.ttft_s, full.ttft_s),
        ttft_reason=reason,
        rate_gain=_ratio(full.rate_per_s, bare.rate_per_s),
    )


def places_at_once(
    deployment: Deployment, workload: Workload, times: StepTimes, means: Means, *, pooled: bool
) -> dict[str, float] | None:
    """Return ``places`` of stated prefixes; None of blocks, and where that depends on which side computes a prompt."""
    requests, weights = workload.weighed()
    apart = deployment.held in ("prefill", "decode") and not pooled and means.local_share > 0
    if apart or any(request.blocks for request in requests):
        return None
    reads = reads_of(deployment, Role.SHARED if pooled else Role.PREFILL, times, requests)
    total = sum(w * request.isl for w, request in zip(weights, requests))
    seen = list(zip(weights, reads.requests, reads.seconds))
    read = sum(w * r.cached_tokens for w, r, seconds in seen if seconds > 0)
    computed = sum(w * r.uncached_tokens for w, r, _ in seen)
    found = {"hbm": (total - read - computed) / total}
    found |= {f"tier {tier.name}": 0.0 for tier in deployment.tiers}
    if deployment.tiers:
        found[f"tier {deployment.tiers[0].name}"] = read / total
    return found | {"computed": computed / total}


def offered_writes(deployment: Deployment, workload: Workload) -> list[str]:
    """Say which tiers take fewer writes than split instances offer, of stated prefixes; none where blocks say more."""
    requests, weights = workload.weighed()
    if any(request.blocks for request in requests):
        return []
    fits = [r if holds_stated(deployment, r) else missed(r) for r in requests]
    computed = sum(w * r.uncached_tokens for w, r in zip(weights, fits)) / len(requests)
    tokens = workload.rate * computed / deployment.topology.prefill
    uses = {t.name: tokens * t.bytes_per_token / t.write_bytes_per_s for t in deployment.tiers}
    return [
        f"tier {name} is offered {use:.2f} times the writes that it takes, by each prefill instance"
        for name, use in uses.items()
        if use >= 1
    ]


def gain_at_once(
    deployment: Deployment,
    workload: Workload,
    strategy: Strategy,
    times: StepTimes,
    sides: tuple[Means, Means],
) -> ReuseGain:
    """Return what tiers gain by closed form: of a stated prefix, and of mean TTFT without and with them."""
    role = Role.SHARED if strategy.pooled else Role.PREFILL
    requests, weights = workload.weighed()
    reads = reads_of(deployment, role, times, [unknown(request) for request in requests])
    hits = [(w, r, s) for w, r, s in zip(weights, reads.requests, reads.seconds) if s > 0]
    share = sum(w for w, _, _ in hits)

    def mean(values: Iterable[float]) -> float | None:
        return sum(w * value for (w, _, _), value in zip(hits, values)) / share if hits else None

    read, tokens = mean(s for _, _, s in hits), mean(r.cached_tokens for _, r, _ in hits)
    recompute = mean(
        times.prefill(r.isl, 0) - times.prefill(r.uncached_tokens, r.cached_tokens) for _, r, _ in hits
    )
    ttfts = sides[0].ttft_s, sides[1].ttft_s
    why = (
        None
        if None not in ttfts
        else "no mean TTFT on one side: that load has no steady state, or no closed form"
    )
    return ReuseGain(
        strategy.name,
        hit_share=share / len(requests),
        hit_tokens=tokens,
        recompute_s=recompute,
        read_s=read,
        per_hit_gain=_ratio(recompute, read),
        per_hit_reason=None if hits else "no prompt reads a prefix",
        fleet_reason="GPU-seconds need an evaluation request by request: --method replay",
        capacity_gain=_ratio(sides[0].utilisation, sides[1].utilisation),
        ttft_without_s=ttfts[0],
        ttft_with_s=ttfts[1],
        ttft_gain=_ratio(*ttfts),
        ttft_reason=why,
    )


def holds_stated(deployment: Deployment, request: Request) -> bool:
    """Say whether a stated prefix that lies in the first tier fits there at all."""
    stated = deployment.held == "store" and request.cached_tokens and not request.blocks
    return not stated or holds(deployment.tiers[0], request.cached_tokens)


def unheld_at_once(deployment: Deployment, workload: Workload) -> list[str]:
    """Say that stated prefixes do not fit the tier that they are said to lie in; none where they do."""
    stated = workload.requests or workload.weighed()[0]
    lost = [r.cached_tokens for r in stated if not holds_stated(deployment, r)]
    return [f"{no_room(deployment)} stated prefixes of up to {max(lost):,} tokens: computed"] if lost else []


def unheld(deployment: Deployment, results: Sequence[tuple[TierResult, ...]]) -> list[str]:
    """Say the same of what was followed request by request."""
    most = max((tiers[0].unheld for tiers in results if tiers), default=0)
    return [f"{no_room(deployment)} the stated prefixes of {most:,} prompts: computed"] if most else []


def no_room(deployment: Deployment) -> str:
    """Begin to say that the first tier is too small."""
    tier = deployment.tiers[0]
    return f"tier {tier.name}, {format_si(tier.capacity_bytes, 'byte', binary=True)}, has no room at all for"


def full_tiers(results: tuple[TierResult, ...]) -> list[str]:
    """Say which tiers are written to faster than they take it."""
    return [
        f"tier {one.name} is offered {one.write_use:.2f} times the writes that it takes: it would drop some, "
        "and fewer prompts would hit"
        for one in results
        if one.write_use >= 1
    ]


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None
