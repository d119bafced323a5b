"""From replays to plans: every figure of a deployment, and what the closed form missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..inputs.flags import Decided, engine_settings
from ..inputs.prices import Price
from ..inputs.workload import Workload
from ..serving.deployment import Topology
from ..units import format_si
from .closed import Closed
from .headroom import Headroom
from .options import PlanOptions
from .search import Held
from .space import Layout
from .trials import Trial, Trials

#: Points by which closed form and replay may differ without a word.
_ALIKE = 0.03


@dataclass(frozen=True)
class Facts:
    """What plans are made of besides their replays."""

    workload: Workload
    closed: Closed
    trials: Trials
    options: PlanOptions
    prices: Mapping[str, Price]
    kv_dtype: str | None


def plan_fields(facts: Facts, held: Held, name: str, found_by: str, room: Headroom) -> dict[str, object]:
    """Return the fields of a plan; ``room``: what it carries beyond the given rate."""
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
    return found | _rates(facts, held, room) | _costs(facts, layout, topology)


def misses(held: Held, workload: Workload) -> str:
    """Say which SLO a plan misses, and by how much."""
    worst, slo = held.worst, workload.slo
    lost = "with spares down, " if worst is not held.trial else ""
    if worst.reason:
        return f"{lost}{worst.reason}"
    which = {"ttft": _slo("TTFT", slo.ttft_s), "tpot": _slo("TPOT", slo.tpot_s)}.get(
        worst.slo or "", "the SLOs"
    )
    if worst.attained is None:
        return f"{lost}misses {which}: cut short at {worst.missing:.1f} times as many late requests as may be"
    points = 100 * (slo.attainment - worst.attained)
    return f"{lost}attains {worst.attained:.1%}, {points:.1f} points short, mostly by {which}"


def _slo(name: str, seconds: float | None) -> str:
    return name if seconds is None else f"{name} <= {format_si(seconds, 'second')}"


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


def _rates(facts: Facts, held: Held, room: Headroom) -> dict[str, object]:
    rate = None if room.factor is None else facts.workload.rate * room.factor
    return {
        "goodput_per_gpu_per_s": None if rate is None else rate / held.sized.layout.gpus(held.sized.topology),
        "headroom": room.factor,
        "headroom_reason": room.reason,
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
