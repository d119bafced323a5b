"""The page of ``costmodel plan``: the best plan, the others beside it, what binds and what a change buys."""

from __future__ import annotations

from collections.abc import Sequence

from ..planning.results import Change, Plan, PlanAnswer
from ..units import format_si
from .page import Block, Heading, Page, Table, shown, table

BINDING = {
    "role": "one fewer",
    "topology": "then",
    "attainment_replayed": "attainment",
    "slo": "missed",
    "cause": "for want of",
    "reason": "remark",
}
DETAILS = {
    "found_by": "found by",
    "attainment_replayed_reason": "no attainment because",
    "attainment_spare_replayed": "attainment with spares down",
    "attainment_closed_reason": "closed form doubts",
    "difference_reason": "differs because",
    "ttft_p50_s": "TTFT, P50",
    "ttft_p95_s": "TTFT, P95",
    "ttft_at_target_s": "TTFT at the target",
    "tpot_p50_s": "TPOT, P50",
    "tpot_at_target_s": "TPOT at the target",
    "headroom_reason": "headroom: remark",
    "usd_per_million_tokens": "USD per million tokens, prompts included",
}


def page(answer: PlanAnswer, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds more figures of every plan."""
    blocks: list[Block] = [_terms(answer)]
    if answer.infeasible_reason:
        blocks.append(answer.infeasible_reason)
    if answer.objective_reason:
        blocks.append(answer.objective_reason)
    if answer.plans:
        blocks += [Heading("Plans, best first"), _plans(answer)]
        if any(plan.attainment_closed_reason for plan in answer.plans):
            blocks.append("?: what the closed form cannot vouch for, or does not have; --detail says why")
        blocks += [f"{plan.name}: {plan.misses}" for plan in answer.plans if plan.misses]
    blocks += [text for text in (band_told(answer), margin_told(answer)) if text]
    if answer.pareto:
        known = all(plan.headroom is not None for plan in answer.plans if plan.feasible)
        by = "cost, GPUs and headroom" if known else "cost and GPUs"
        blocks.append(f"No other beats in {by} at once: {'; '.join(answer.pareto)}")
    if answer.binding:
        blocks += [Heading("What binds: the best plan with one instance fewer"), _binding(answer)]
    if answer.changes:
        blocks += [Heading("What one change would make of it, by closed form"), _changes(answer.changes)]
    best = next((plan for plan in answer.plans if plan.feasible), None)
    if best:
        blocks += [Heading("Settings of the best plan"), _settings(best)]
    extra = tuple(_details(answer.plans)) if detail else ()
    return Page(_title(answer, best), tuple(blocks), answer.about, extra=extra)


def _title(answer: PlanAnswer, best: Plan | None) -> str:
    if best is None:
        return f"No plan for {answer.model} meets the SLOs"
    cost = "" if best.usd_per_hour is None else f", {best.usd_per_hour:,.2f} USD/h"
    return f"{answer.model}: {told(best)}, {_gpus(best.gpus)}{cost}"


def told(plan: Plan) -> str:
    """A plan in words."""
    one = f"{plan.decode_hardware} TP{plan.decode_tp}"
    if plan.strategy in ("colocated", "chunked"):
        budget = f" (budget {plan.token_budget:,})" if plan.strategy == "chunked" else ""
        return f"{plan.strategy}{budget}, {plan.prefill_instances} x {one}"
    first = f"{plan.prefill_hardware} TP{plan.prefill_tp}"
    rule = (
        ""
        if plan.threshold_tokens is None
        else f" (below {plan.threshold_tokens:,} tokens, budget {plan.token_budget:,})"
    )
    return f"{plan.strategy}{rule}, {plan.prefill_instances} x {first} + {plan.decode_instances} x {one}"


def _terms(answer: PlanAnswer) -> str:
    slos = [
        f"{name} <= {format_si(value, 'second')}"
        for name, value in (("TTFT", answer.slo_ttft_s), ("TPOT", answer.slo_tpot_s))
        if value is not None
    ]
    spare = f", with {answer.spare} of any role down" if answer.spare else ""
    return (
        f"{answer.workload} at {format_si(answer.rate_per_s, '1/second')}, {', '.join(slos)} at "
        f"{answer.attainment_target:.0%}{spare}, at most {_gpus(answer.max_gpus)}; {answer.layouts:,} layouts of "
        f"{', '.join(answer.hardware)} by closed form, {answer.replays} replays; by {answer.objective}."
    )


def band_told(answer: PlanAnswer) -> str:
    """Say what the best plan's layout takes where step times are off, and whether the plan holds at longer ones."""
    band = answer.band
    if band is None:
        return ""
    low, high = (
        _size(*figures)
        for figures in (
            (band.gpus_low, band.usd_per_hour_low, band.low_reason),
            (band.gpus_high, band.usd_per_hour_high, band.high_reason),
        )
    )
    why = band.attainment_if_slower_reason or ""
    attained = (
        f"{_share(band.attainment_if_slower)} attained" if band.attainment_if_slower is not None else why
    )
    return (
        f"Step times may be off by a factor of {band.step_time_factor:.2f}. The best plan's layout takes {low} at "
        f"shorter ones, {high} at longer ones; as it is, it {'holds' if band.holds_if_slower else 'does NOT hold'} at "
        f"longer ones ({attained})."
    )


def _size(gpus: int | None, usd: float | None, reason: str | None) -> str:
    if gpus is None:
        return f"an unknown number ({reason})"
    return _gpus(gpus) + ("" if usd is None else f" ({usd:,.2f} USD/h)")


def margin_told(answer: PlanAnswer) -> str:
    """Say what the next best kind of plan costs beside the best, and whether it may overtake it."""
    if answer.margin is None:
        return f"No margin: {answer.margin_reason}." if answer.margin_reason else ""
    band = "" if answer.margin_low is None else f" ({answer.margin_low:.2f} .. {answer.margin_high:.2f})"
    reason = f": {answer.margin_reason}" if answer.margin_reason else ""
    known = "; whether it may reach the best is not known" if answer.too_close is None else ""
    close = "; too close to call" if answer.too_close else known
    what = "USD/h" if answer.objective == "cost" else "GPUs"
    times = f"{answer.margin:.2f}{band} times the {what}"
    return f"The next kind of plan, {answer.runner_up}, takes {times}{close}{reason}."


def _plans(answer: PlanAnswer) -> Table:
    rows = tuple(
        (
            told(plan) + (" [DistServe]" if plan.found_by == "distserve" else ""),
            str(plan.gpus),
            "-" if plan.usd_per_hour is None else f"{plan.usd_per_hour:,.2f}",
            "-"
            if plan.usd_per_million_output_tokens is None
            else f"{plan.usd_per_million_output_tokens:,.2f}",
            _share(plan.attainment_closed) + (" ?" if plan.attainment_closed_reason else ""),
            _share(plan.attainment_replayed, plan.attainment_replayed_sampling),
            _headroom(plan),
            "yes" if plan.feasible else "NO",
        )
        for plan in answer.plans
    )
    headers = ("plan", "GPUs", "USD/h", "USD/M out", "closed", "replayed", "headroom", "holds")
    return Table(headers, rows, (False, True, True, True, True, True, True, False))


def _headroom(plan: Plan) -> str:
    if plan.headroom is None:
        return "-"
    return f">= {plan.headroom:,.0f} x" if plan.headroom_reason else f"{plan.headroom:.2f} x"


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def _share(value: float | None, error: float | None = None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if error is None else f"{100 * value:.1f} +- {100 * error:.1f} %"


def _binding(answer: PlanAnswer) -> Table:
    rows = tuple(
        (row.role, row.topology, _share(row.attainment_replayed), row.slo or "-", row.cause, row.reason or "")
        for row in answer.binding
    )
    return Table(tuple(BINDING.values()), rows, (False, False, True, False, False, False))


def _changes(changes: Sequence[Change]) -> Table:
    rows = tuple(
        (
            change.name,
            change.topology or "-",
            "-" if change.gpus is None else str(change.gpus),
            _saved(change.gpus_saved, "{:+d}"),
            "-" if change.usd_per_hour is None else f"{change.usd_per_hour:,.2f}",
            _saved(change.usd_per_hour_saved, "{:+,.2f}"),
            change.reason or "",
        )
        for change in changes
    )
    headers = ("change", "instances", "GPUs", "saved", "USD/h", "saved", "remark")
    return Table(headers, rows, (False, False, True, True, True, True, False))


def _saved(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value + 0)


def _settings(plan: Plan) -> Table:
    rows = tuple((one.engine, line) for one in plan.settings for line in one.lines)
    return Table(("engine", "set"), rows, (False, False))


def _details(plans: Sequence[Plan]) -> list[Block]:
    rows = tuple(
        (label, *(shown(key, getattr(plan, key)) for plan in plans)) for key, label in DETAILS.items()
    )
    headers = ("", *(plan.name for plan in plans))
    notes = table(
        [{"engine": one.engine, "note": note} for plan in plans[:1] for one in plan.settings for note in one.notes],
        {"engine": "engine", "note": "note"},
    )  # fmt: skip
    return [
        Heading("Every plan"),
        Table(headers, rows, (False, *(True for _ in plans))),
        Heading("Notes on the settings"),
        notes,
    ]
