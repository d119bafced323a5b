"""From replays to plans: every figure of a deployment, and what the closed form missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..inputs.flags import Decided, engine_settings
from ..inputs.prices import Price
from ..inputs.workload import Workload
from ..serving.deployment import Topology
from .closed import Closed
from .options import PlanOptions
from .search import Held
from .sizing import Sizing
from .space import Layout
from .trials import Trial, Trials

#: Points by which closed form and replay may differ without a word.
_ALIKE = 0.03
#: How narrowly the highest rate is found.
_NARROW = 1.01
#: Rates tried of a load for which only replays answer.
_TRIES = 5


@dataclass(frozen=True)
class Facts:
    """What plans are made of besides their replays."""

    workload: Workload
    closed: Closed
    trials: Trials
    options: PlanOptions
    prices: Mapping[str, Price]
    kv_dtype: str | None


def plan_fields(facts: Facts, held: Held, name: str, found_by: str, headroom: bool) -> dict[str, object]:
    """Return the fields of a plan; ``headroom``: look for the highest rate, too."""
    layout, topology = held.sized.layout, held.sized.topology
    closed, trial = facts.closed.shares(layout, topology).both, held.trial
    refused = facts.closed.refusal(layout, topology)
    varying = facts.workload.too_bursty(facts.closed.means(layout, topology).utilisation)
    known = None if varying else closed
    gap = None if known is None or trial.attained is None else known - trial.attained
    spares = [one.attained for one in held.spares]
    found: dict[str, object] = {
        "name": name,
        "found_by": found_by,
        "feasible": held.met,
        "misses": None if held.met else misses(held, facts.workload),
        "strategy": layout.strategy.name,
        "prefill_hardware": layout.prefill.hardware,
        "decode_hardware": layout.decode.hardware,
        "prefill_tp": layout.prefill.tp,
        "decode_tp": layout.decode.tp,
        "prefill_instances": topology.prefill,
        "decode_instances": topology.decode,
        "topology": str(topology),
        "gpus": layout.gpus(topology),
        "token_budget": layout.budget,
        "threshold_tokens": layout.threshold,
        "attainment_closed": known,
        "attainment_closed_reason": refused,
        "attainment_replayed": trial.attained,
        "attainment_replayed_sampling": trial.sampling,
        "attainment_spare_replayed": None if not spares or None in spares else min(s for s in spares if s is not None),
        "difference": gap,
        "difference_reason": _difference(gap, refused, trial),
        "ttft_p50_s": trial.ttft_p50_s,
        "ttft_p95_s": trial.ttft_p95_s,
        "ttft_at_target_s": trial.ttft_at_target_s,
        "tpot_p50_s": trial.tpot_p50_s,
        "tpot_at_target_s": trial.tpot_at_target_s,
        "settings": engine_settings(_decided(facts, layout, topology)),
    }  # fmt: skip
    found |= _rates(facts, held) if headroom else _no_rates("the plan does not hold")
    return found | _costs(facts, layout, topology)


def misses(held: Held, workload: Workload) -> str:
    """Say which SLO a plan misses, and by how much."""
    worst, slo = held.worst, workload.slo
    lost = "with spares down, " if worst is not held.trial else ""
    if worst.reason:
        return f"{lost}{worst.reason}"
    which = {"ttft": f"TTFT <= {slo.ttft_s} s", "tpot": f"TPOT <= {slo.tpot_s} s"}.get(
        worst.slo or "", "the SLOs"
    )
    if worst.attained is None:
        return f"{lost}misses {which}: cut short at {worst.missing:.1f} times as many late requests as may be"
    points = 100 * (slo.attainment - worst.attained)
    return f"{lost}attains {worst.attained:.1%}, {points:.1f} points short, mostly by {which}"


def _difference(gap: float | None, refused: str | None, trial: Trial) -> str | None:
    """Say why closed form and replay differ, where they do by more than three points."""
    if gap is None or abs(gap) <= _ALIKE:
        return None
    if refused is not None:
        return refused
    if trial.preempted_share:
        return f"{trial.preempted_share:.1%} of the requests are preempted, which the closed form does not follow"
    if trial.sampling is not None and abs(gap) < 2 * trial.sampling:
        return "within two standard errors of the replay"
    return (
        "no condition known: the closed form takes decodes as spread evenly over the instances, and their number as "
        "independent of the prompts that wait"
    )


def _decided(facts: Facts, layout: Layout, topology: Topology) -> Decided:
    return Decided(
        strategy=layout.strategy.name,
        prefill_tp=layout.prefill.tp,
        decode_tp=layout.decode.tp,
        prefill_instances=topology.prefill,
        decode_instances=topology.decode,
        token_budget=layout.budget,
        max_seqs=layout.decode.deployment.settings.max_seqs,
        kv_dtype=facts.kv_dtype,
        threshold_tokens=layout.threshold,
    )


# --- rates -------------------------------------------------------------------------------------------


def _no_rates(reason: str) -> dict[str, object]:
    return {"goodput_per_gpu_per_s": None, "headroom": None, "headroom_reason": reason}


def _rates(facts: Facts, held: Held) -> dict[str, object]:
    """Highest rate over the given one: by the closed form, moved by what it missed of the replay at the given rate."""
    layout, topology = held.sized.layout, held.sized.topology
    worst = held.worst
    if worst.attained is None:
        return _no_rates("a replay was cut short")
    if facts.workload.too_bursty(facts.closed.means(layout, topology).utilisation):
        return _no_rates("the load varies over time: the closed form has no attainment at another rate")
    sizing = Sizing(facts.closed, 0.0, facts.options.spare)
    target = facts.workload.slo.attainment
    goal = max(0.0, min(1 - 1e-6, target + sizing.attained(layout, topology) - worst.attained))

    def reaches(factor: float) -> bool:
        closed = facts.closed.under(facts.workload.at_rate(facts.workload.rate * factor))
        return Sizing(closed, goal, facts.options.spare).attained(layout, topology) >= goal

    low, high = 1.0, 1.0
    while high < 1e3 and reaches(high := high * 1.25):
        low = high
    while high / low > _NARROW:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if reaches(middle) else (low, middle)
    rate = facts.workload.rate * low
    return {
        "goodput_per_gpu_per_s": rate / layout.gpus(topology),
        "headroom": low,
        "headroom_reason": None,
    }


# --- costs -------------------------------------------------------------------------------------------


def _costs(facts: Facts, layout: Layout, topology: Topology) -> dict[str, object]:
    usd = layout.usd_per_hour(topology)
    if usd is None:
        names = dict.fromkeys(unit.hardware for unit in (layout.prefill, layout.decode))
        lacking = [name for name in names if name not in facts.prices]
        reason = f"no price of {' and '.join(lacking)}: pass --price {lacking[0]}=USD"
        return {
            "usd_per_hour": None,
            "usd_per_hour_reason": reason,
            "usd_per_million_output_tokens": None,
            "usd_per_million_tokens": None,
        }
    outputs, tokens = mean_tokens(facts.workload)
    millions = facts.workload.rate * 3600 / 1e6
    return {
        "usd_per_hour": usd,
        "usd_per_hour_reason": None,
        "usd_per_million_output_tokens": usd / (millions * outputs),
        "usd_per_million_tokens": usd / (millions * tokens),
    }


def mean_tokens(workload: Workload) -> tuple[float, float]:
    """Mean output tokens of a request, and all its tokens, cached ones included."""
    requests = workload.requests or workload.typical(512)
    outputs = sum(r.output_tokens for r in requests) / len(requests)
    return outputs, outputs + sum(r.isl for r in requests) / len(requests)
