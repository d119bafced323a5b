"""The answer of ``plan``: field names are JSON keys. SI units; None with a reason."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import About
from ..inputs.flags import EngineSettings
from ..inputs.prices import Price


@dataclass(frozen=True)
class Plan:
    """One deployment. ``attainment_closed`` is the closed form's, ``attainment_replayed`` a replay's with its standard
    error ``_sampling`` (None: cut short, sure to miss); with spares, ``attainment_spare_replayed`` is that of the worst
    loss. ``headroom``: highest rate that still attains the target, over the given one. ``misses``: which SLO, and by
    how much, where the plan is not feasible. ``found_by``: the search, or DistServe's placement.
    """

    name: str
    found_by: str
    feasible: bool
    misses: str | None
    strategy: str
    prefill_hardware: str
    decode_hardware: str
    prefill_tp: int
    decode_tp: int
    prefill_instances: int
    decode_instances: int
    topology: str
    gpus: int
    token_budget: int
    threshold_tokens: int | None
    attainment_closed: float | None
    attainment_closed_reason: str | None
    attainment_replayed: float | None
    attainment_replayed_sampling: float | None
    attainment_replayed_reason: str | None
    attainment_spare_replayed: float | None
    attainment_spare_replayed_reason: str | None
    difference: float | None
    difference_reason: str | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    ttft_at_target_s: float | None
    ttft_reason: str | None
    tpot_p50_s: float | None
    tpot_at_target_s: float | None
    tpot_reason: str | None
    goodput_per_gpu_per_s: float | None
    headroom: float | None
    headroom_reason: str | None
    usd_per_hour: float | None
    usd_per_hour_reason: str | None
    usd_per_million_output_tokens: float | None
    usd_per_million_tokens: float | None
    usd_per_million_reason: str | None
    settings: tuple[EngineSettings, ...]


@dataclass(frozen=True)
class Binding:
    """What breaks with one instance of a role fewer (and the spares down): attainment, and what late requests missed.

    Role "rate" is the plan itself at a higher rate. ``slo``: ttft, tpot or stability;
    ``cause``: that pool's compute, its KV memory, or its seats.
    """

    role: str
    topology: str
    attainment_replayed: float | None
    slo: str | None
    cause: str
    reason: str | None = None


@dataclass(frozen=True)
class Change:
    """A single change and what it buys: the best plan's strategy and GPUs, sized again by closed form.

    ``gpus_saved`` and ``usd_per_hour_saved`` are negative where it costs more. ``topology`` is None where the closed
    form takes another number of instances for the plan as it is than a replay: the difference alone is told.
    """

    name: str
    topology: str | None
    gpus: int | None
    gpus_saved: int | None
    usd_per_hour: float | None
    usd_per_hour_saved: float | None
    reason: str | None = None


@dataclass(frozen=True)
class PlanBand:
    """What the best plan's layout takes where all step times are off by ``step_time_factor``: shorter ones the ``low``
    figures, longer ones the ``high`` ones. None with a reason: dollars without a price, the rest by ``low_reason`` and
    ``high_reason``. ``attainment_if_slower``: of the plan as it is (the spares down), replayed at the longer ones.
    """

    step_time_factor: float
    topology_low: str | None
    topology_high: str | None
    gpus_low: int | None
    gpus_high: int | None
    usd_per_hour_low: float | None
    usd_per_hour_high: float | None
    low_reason: str | None
    high_reason: str | None
    holds_if_slower: bool
    attainment_if_slower: float | None
    attainment_if_slower_reason: str | None


@dataclass(frozen=True)
class PlanMargin:
    """What the next best plan of another kind (strategy and GPUs) costs over the best one, by the objective.

    ``margin_low`` and ``margin_high``: the same ratio at moved step times. ``too_close``: the next best may reach it.
    """

    runner_up: str | None = None
    margin: float | None = None
    margin_low: float | None = None
    margin_high: float | None = None
    margin_reason: str | None = None
    too_close: bool | None = None


@dataclass(frozen=True)
class PlanAnswer:
    """Deployments that meet the SLOs, best first, then those that a replay refused.

    ``pareto``: names of plans that no other beats in cost, GPUs and headroom (where all have one) at once. ``band``: of
    the best plan; ``margin`` and what follows are those of :class:`PlanMargin`.
    """

    schema: str
    model: str
    workload: str
    rate_per_s: float
    slo_ttft_s: float | None
    slo_tpot_s: float | None
    attainment_target: float
    hardware: tuple[str, ...]
    link: str
    objective: str
    objective_reason: str | None
    spare: int
    max_gpus: int
    plans: tuple[Plan, ...]
    band: PlanBand | None
    runner_up: str | None
    margin: float | None
    margin_low: float | None
    margin_high: float | None
    margin_reason: str | None
    too_close: bool | None
    pareto: tuple[str, ...]
    binding: tuple[Binding, ...]
    changes: tuple[Change, ...]
    infeasible_reason: str | None
    prices: tuple[Price, ...]
    layouts: int
    replays: int
    about: About

    @property
    def answered(self) -> bool:
        """True where a plan holds."""
        return any(plan.feasible for plan in self.plans)
