"""The answer of ``recommend``: field names are JSON keys. SI units; None with a reason."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import About
from ..serving.instance import FitUsed
from .tier_results import Reuse, TierResult


@dataclass(frozen=True)
class PoolResult:
    """A pool of a strategy: offered work over capacity, and what its GPUs did with their time."""

    role: str
    instances: int
    utilisation: float
    missing_instances: float
    busy_share: float | None
    mfu: float | None
    mbu: float | None


@dataclass(frozen=True)
class StrategyResult:
    """One strategy on the GPUs at hand. Times in seconds, means over finished requests.

    ``ttft_p95_stages`` add up to ``ttft_p95_s``; ``stage_scale`` is the factor that made the mean stages of
    the requests around P95 do so. ``ledger`` adds up to ``e2e_s - ideal_s``; ``recomputed_prefix_s`` is the part of
    its stretch that computes, alone, a prefix which the ideal has cached, and is left out of ``interference_s`` and
    ``splitting_s``. ``*_ci`` are half-widths of
    95 % confidence intervals; ``*_sampling`` relative standard errors of the finite sample. ``kv_held_bytes``:
    KV that waits for its hand-over on both sides, on average, of the ``kv_pool_bytes`` of all GPUs. ``reason``
    says why figures are None, ``ttft_reason`` why percentiles of TTFT are. ``hit_rate_tokens``: shares of prompt tokens
    found in GPU memory, read from each tier, and computed; ``tiers``: what was read and written there.
    """

    name: str
    stable: bool
    utilisation: float
    pools: tuple[PoolResult, ...]
    method: str
    rule: str | None = None
    requests: int = 0
    finished: int = 0
    counted: int = 0
    local_share: float | None = None
    goodput_per_gpu_per_s: float | None = None
    goodput_low_per_gpu_per_s: float | None = None
    goodput_high_per_gpu_per_s: float | None = None
    band_reason: str | None = None
    goodput_binding: str | None = None
    goodput_sampling: float | None = None
    goodput_reason: str | None = None
    good_requests_per_s: float | None = None
    attainment: float | None = None
    mean_delay_s: float | None = None
    mean_delay_sampling: float | None = None
    ttft_mean_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p95_low_s: float | None = None
    ttft_p95_high_s: float | None = None
    ttft_p95_ci_s: float | None = None
    ttft_reason: str | None = None
    ttft_p99_s: float | None = None
    ttft_p95_stages: dict[str, float] | None = None
    ttft_stage_p95_not_additive: dict[str, float] | None = None
    stage_scale: float | None = None
    tpot_reason: str | None = None
    tpot_mean_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_p99_s: float | None = None
    tpot_p99_low_s: float | None = None
    tpot_p99_high_s: float | None = None
    ledger: dict[str, float] | None = None
    copy_s: float | None = None
    interference_s: float | None = None
    recomputed_prefix_s: float | None = None
    stranding_s: float | None = None
    sharing_s: float | None = None
    splitting_s: float | None = None
    splitting_reason: str | None = None
    kv_held_byte_s: float | None = None
    kv_held_bytes: float | None = None
    kv_pool_bytes: float | None = None
    gpu_s: dict[str, float] | None = None
    hit_rate_tokens: dict[str, float] | None = None
    tiers: tuple[TierResult, ...] = ()
    reason: str | None = None

    @property
    def ttft_p95_parts(self) -> dict[str, float] | None:
        """The stages of P95 TTFT, folded as the ledger is; they add up just the same."""
        stages = self.ttft_p95_stages
        if stages is None:
            return None
        return {
            "queue": stages["queue_s"],
            "prefill": stages["prefill_s"],
            "stretch": stages["stretch_s"] + stages["recompute_s"],
            "copy": stages["link_s"] + stages["handover_s"] + stages["load_s"],
            "admission": stages["admission_s"],
        }


@dataclass(frozen=True)
class Split:
    """Another integer split of the same GPUs: stable or not, and its mean delay against the given one's."""

    topology: str
    strategy: str
    stable: bool
    utilisation: float
    busiest_pool: str
    mean_delay_s: float | None
    delay_ratio: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Flip:
    """Where the verdict (or local against remote prefill) changes when one input moves.

    ``now`` is best at ``at`` and ``to`` beyond ``flips_at``, both in ``unit``. ``flips_at`` None: not within
    ``low`` .. ``high``, or ``reason``.
    """

    name: str
    unit: str
    at: float | None
    flips_at: float | None
    to: str | None
    low: float
    high: float
    reason: str | None = None
    now: str | None = None


@dataclass(frozen=True)
class Elasticity:
    """Relative change of P95 TTFT when an input grows by ``step`` (0.1: +10 %)."""

    name: str
    step: str
    ttft_p95_change: float | None
    statistic: str = "ttft_p95"
    reason: str | None = None


@dataclass(frozen=True)
class Recommendation:
    """The verdict with its margin and band, and everything it rests on."""

    schema: str
    verdict: str
    action: str
    objective: str
    margin: float | None
    margin_low: float | None
    margin_high: float | None
    margin_reason: str | None
    runner_up: str | None
    model: str
    hardware: str
    topology: str
    gpus: int
    link: str
    workload: str
    rate_per_s: float
    slo_ttft_s: float | None
    slo_tpot_s: float | None
    attainment_target: float
    method: str
    why: dict[str, float | None]
    strategies: tuple[StrategyResult, ...]
    splits: tuple[Split, ...]
    splits_reason: str | None
    deflectable_tokens_per_s: float | None
    deflectable_share: float | None
    deflectable_reason: str | None
    break_even: object
    flips: tuple[Flip, ...]
    elasticities: tuple[Elasticity, ...]
    settings: dict[str, str]
    efficiencies: tuple[FitUsed, ...]
    about: About
    reuse: Reuse | None = None

    @property
    def answered(self) -> bool:
        """False where no strategy is stable."""
        return self.verdict != "none_stable"
