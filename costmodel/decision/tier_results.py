"""What an answer says of KV tiers: field names are JSON keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TierResult:
    """What was read from a KV tier and written to it: tokens a request, and the busiest port's share of time.

    Writes take no request's time; from ``write_use`` 1 on the tier cannot keep what is written. ``unheld``:
    prompts whose stated prefix it has no room for even once, so that they compute it.
    """

    name: str
    shared: bool
    capacity_tokens: float
    reads: int
    read_tokens: int
    written_tokens: int
    read_use: float
    write_use: float
    unheld: int = 0


@dataclass(frozen=True)
class ReuseGain:
    """What the tiers gain under one strategy: ratios of without to with them, above 1 where they gain.

    ``hit_share``: requests that read a prefix, of ``hit_tokens`` on average. ``per_hit_gain``: what a hit saves, its
    prefill without the read less that with it (``recompute_s``), over the read (``read_s``), all alone.
    ``fleet_gain``: GPU-seconds of work a request at the same load; where GPUs have time to spare, decodes take up some
    of what prompts no longer need, in smaller batches. ``capacity_gain``: offered work over capacity, hence the rates
    at capacity. ``ttft_gain``: mean TTFT. ``rate_gain``: requests served a second with over without, in a closed loop.
    """

    strategy: str
    hit_share: float | None = None
    hit_tokens: float | None = None
    recompute_s: float | None = None
    read_s: float | None = None
    per_hit_gain: float | None = None
    per_hit_reason: str | None = None
    gpu_s_without: float | None = None
    gpu_s_with: float | None = None
    fleet_gain: float | None = None
    fleet_reason: str | None = None
    capacity_gain: float | None = None
    capacity_reason: str | None = None
    ttft_without_s: float | None = None
    ttft_with_s: float | None = None
    ttft_gain: float | None = None
    ttft_reason: str | None = None
    rate_gain: float | None = None


@dataclass(frozen=True)
class Reuse:
    """Gains of each strategy, and what the requests without tiers are."""

    strategies: tuple[ReuseGain, ...]
    without: str
