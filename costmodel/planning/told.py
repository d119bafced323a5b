"""From replays to plans: every figure of a deployment, and what the closed form missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..evaluate.attained import Shares
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
#: What the closed form takes for granted of each SLO.
_WHY = {
    "TTFT": "likely waits, which it takes as those of one queue in its long run",
    "TPOT": "likely batches, which it takes as even over instances and independent of prompts that wait",
}


@dataclass(frozen=True)
class Facts:
    """What plans are made of besides their replays."""

    workload: Workload
    closed: Closed
    trials: Trials
    options: PlanOptions
    prices: Mapping[str, Price]
    kv_dtype: str | None


def plan_fields(facts: Facts, held: Held, name: str, found_by: str, room: Headroom) -> dict[str, Any]:
    """Return the fields of a plan; ``room``: what it carries beyond the given rate."""
    layout, topology = held.sized.layout, held.sized.topology
    shares, trial = facts.closed.shares(layout, topology), held.trial
    refused = facts.closed.refusal(layout, topology)
    load = facts.closed.means(layout, topology).utilisation
    varying = facts.workload.too_bursty(load)
    known = None if varying else shares.both
    gap = None if known is None or trial.attained is None else known - trial.attained
    spares = [one.attained for one in held.spares]
    spared = None if not spares or None in spares else min(s for s in spares if s is not None)
    cut = trial.reason or ("the replay was cut short, sure to miss" if trial.attained is None else None)
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
        "attainment_replayed_reason": cut,
        "attainment_spare_replayed": spared,
        "attainment_spare_replayed_reason": None if spared is not None else _spared(held, facts.options.spare),
        "difference": gap,
        "difference_reason": cut or (refused if gap is None else _difference(gap, refused, trial, shares, load)),
        "ttft_p50_s": trial.ttft_p50_s,
        "ttft_p95_s": trial.ttft_p95_s,
        "ttft_at_target_s": trial.ttft_at_target_s,
        "ttft_reason": cut,
        "tpot_p50_s": trial.tpot_p50_s,
        "tpot_at_target_s": trial.tpot_at_target_s,
        "tpot_reason": cut or ("no request has a second token" if trial.tpot_p50_s is None else None),
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


def _spared(held: Held, spare: int) -> str:
    """Say why there is no attainment with spares down."""
    if not spare:
        return "no instance may be down (--spare)"
    return (
        "the replay with spares down was cut short, sure to miss"
        if held.trial.met
        else "it misses with all of them"
    )


def _difference(gap: float, refused: str | None, trial: Trial, shares: Shares, load: float) -> str | None:
    """Say why closed form and replay differ, where they do by more than three points."""
    if abs(gap) <= _ALIKE:
        return None
    if refused is not None:
        return refused
    if trial.preempted_share:
        return f"{trial.preempted_share:.1%} of the requests are preempted, which the closed form does not follow"
    if trial.sampling is not None and abs(gap) < 2 * trial.sampling:
        return "within two standard errors of the replay"
    pairs = {"TTFT": (shares.ttft, trial.ttft_share), "TPOT": (shares.tpot, trial.tpot_share)}
    apart = {name: abs(own - (seen or 0.0)) for name, (own, seen) in pairs.items()}
    which = max(apart, key=lambda name: apart[name])
    if apart[which] <= _ALIKE:
        return "each SLO is met as often: the closed form takes late prompts and slow decodes as independent"
    own, seen = pairs[which]
    met = f"{which} is met by {own:.1%} in closed form, {seen or 0.0:.1%} in the replay"
    return f"{met}, at load {load:.2f}: {_WHY[which]}"


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


def _rates(facts: Facts, held: Held, room: Headroom) -> dict[str, Any]:
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
            "usd_per_million_reason": reason,
        }
    outputs, tokens = mean_tokens(facts.workload)
    millions = facts.workload.rate * 3600 / 1e6
    return {
        "usd_per_hour": usd,
        "usd_per_hour_reason": None,
        "usd_per_million_output_tokens": usd / (millions * outputs),
        "usd_per_million_tokens": usd / (millions * tokens),
        "usd_per_million_reason": None,
    }


def mean_tokens(workload: Workload) -> tuple[float, float]:
    """Mean output tokens of a request, and all its tokens, cached ones included."""
    requests = workload.requests or workload.typical(512)
    outputs = sum(r.output_tokens for r in requests) / len(requests)
    return outputs, outputs + sum(r.isl for r in requests) / len(requests)
