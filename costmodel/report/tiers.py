"""What KV tiers gain, as lines and a table: for a prompt that hits, and for the fleet."""

from __future__ import annotations

from collections.abc import Sequence

from ..decision.tier_results import ReuseGain
from ..units import format_si
from .page import Table, table

GAINS = {
    "strategy": "strategy",
    "hit_share": "prompts that read",
    "hit_tokens": "tokens a read",
    "read_s": "read alone",
    "recompute_s": "computed alone",
    "per_hit_gain": "gain a hit",
    "gpu_s_without": "GPU-s without",
    "gpu_s_with": "GPU-s with",
    "fleet_gain": "gain of GPU-s",
    "capacity_gain": "of capacity",
    "ttft_without_s": "mean TTFT without",
    "ttft_with_s": "mean TTFT with",
    "ttft_gain": "gain of TTFT",
    "rate_gain": "of requests/s",
}
_FLEET = {
    "fleet_gain": "GPU-s",
    "capacity_gain": "capacity",
    "ttft_gain": "mean TTFT",
    "rate_gain": "requests/s",
}


def gains(found: Sequence[ReuseGain]) -> Table:
    """Return the gains of each strategy."""
    return table(found, GAINS)


def lines(found: Sequence[ReuseGain]) -> list[str]:
    """Say what a hit gains, under the first strategy in which there is one, and what the fleet does under each."""
    hit = next((one for one in found if one.per_hit_gain is not None), None)
    if hit is None or hit.read_s is None or hit.recompute_s is None or hit.hit_share is None:
        return ["KV tiers: no prompt reads a prefix from them"]
    told = (
        f"KV tiers: {hit.hit_share:.0%} of the prompts read {hit.hit_tokens:,.0f} tokens in "
        f"{format_si(hit.read_s, 'second')}, computed in {format_si(hit.recompute_s, 'second')}: "
        f"{hit.per_hit_gain:.3g}x a hit"
    )
    fleet = [f"{one.strategy} {_fleet(one)}" for one in found if _fleet(one)]
    return [told + (f"; the fleet: {'; '.join(fleet)}" if fleet else "")]


def _fleet(one: ReuseGain) -> str:
    values = {name: getattr(one, name) for name in _FLEET}
    return ", ".join(f"{_FLEET[name]} {value:.2f}x" for name, value in values.items() if value is not None)
