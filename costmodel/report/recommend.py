"""The page of ``costmodel recommend``: its first screen, and everything else as tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..decision.results import Elasticity, Flip, Recommendation
from ..formulas import BOOK
from ..formulas.threshold import local_cost, remote_advantage, remote_cost
from .flips import STATISTICS, amount, change, flips_at, sides, unknowns
from .page import Block, Code, Heading, Page, Table, facts, shown, table
from .screen import beside_table, levers, margin, screen, terms, unstable, verdict, why
from .step import FITS
from .strategies import comparison, heading
from .tiers import gains

#: Topics of the formula book from which a comparison is computed.
TOPICS = (
    "work",
    "moe",
    "operators",
    "roofline",
    "gemm",
    "prefill",
    "decode",
    "mixed",
    "latent",
    "chunking",
    "kv",
    "memory",
    "transfer",
    "waiting",
    "threshold",
)
_ROUNDING_S = 1e-11
THRESHOLDS = {
    "selfish": "for the prompt's own time alone",
    "system": "with those it delays",
    "at_observed_load": "the same, at the load of plain disaggregation",
    "self_consistent": "at the load that it causes itself",
}
FIGURES = {
    "requests": "requests",
    "finished": "finished",
    "local_share": "prompts kept where they decode",
    "attainment": "attainment at the given rate",
    "good_requests_per_s": "good requests",
    "goodput_binding": "goodput ends by",
    "goodput_reason": "no goodput because",
    "ttft_mean_s": "TTFT, mean",
    "ttft_p50_s": "TTFT, P50",
    "ttft_p95_s": "TTFT, P95",
    "ttft_p95_ci_s": "TTFT, P95: sampling error, 95 %",
    "ttft_p99_s": "TTFT, P99",
    "tpot_mean_s": "TPOT, mean",
    "tpot_p50_s": "TPOT, P50",
    "tpot_p99_s": "TPOT, P99",
    "stage_scale": "scale of P95 stages",
    "splitting_s": "splitting: queue, admission and stretch beyond the better pool's",
    "kv_held_bytes": "KV held for hand-over, mean",
    "reason": "not shown because",
}
DICTIONARIES = {
    "Ledger: mean seconds a request": "ledger",
    "Stages of P95 TTFT: these add up": "ttft_p95_stages",
    "P95 of each stage on its own: these do not add up": "ttft_stage_p95_not_additive",
    "GPU-seconds a request": "gpu_s",
}
SPLITS = {
    "topology": "split",
    "strategy": "strategy",
    "stable": "stable",
    "utilisation": "busiest pool's load",
    "busiest_pool": "busiest pool",
    "mean_delay_s": "mean delay",
    "delay_ratio": "x the given split's",
}
POOLS = {
    "role": "pool",
    "instances": "instances",
    "utilisation": "offered / capacity",
    "missing_instances": "missing instances",
    "busy_share": "busy",
    "mfu": "MFU",
    "mbu": "MBU",
}


def page(answer: Recommendation, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds every figure of every strategy."""
    first, *loud = *unstable(answer.strategies), verdict(answer)
    blocks: list[Block] = [*loud, f"{margin(answer)} {terms(answer)}", why(answer)]
    blocks += [Heading("Strategies"), comparison(answer), *beside_table(answer)]
    if levers(answer):
        blocks += [Heading("What flips the better mean delay"), _flips(answer.flips)]
    if answer.elasticities:
        blocks += [Heading(f"What moves {STATISTICS[answer.elasticities[0].statistic]}")]
        blocks += [_levers(answer.elasticities)]
    blocks += [f"Unknown: {reason}" for reason in unknowns([*answer.flips, *answer.elasticities])]
    if answer.settings:
        blocks += [Heading("Settings"), Table((), tuple(answer.settings.items()), (False, False))]
    extra = tuple(_details(answer)) if detail else ()
    return Page(first, tuple(blocks), answer.about, screen=screen(answer), extra=extra)


def explained(answer: Recommendation) -> list[Block]:
    """Return the inequality behind the threshold, and the formulas of the book that a comparison uses."""
    topics = (
        (topic, ", ".join(f.name for f in BOOK.values() if f.__module__.endswith(f".{topic}")))
        for topic in TOPICS
    )
    return [
        Heading("The threshold: remote prefill pays where the difference is positive"),
        *(Code(formula.latex(), "latex") for formula in (local_cost, remote_cost, remote_advantage)),
        Heading("Formulas behind the figures (costmodel explain NAME)"),
        Table(("topic", "formulas"), tuple(topics), (False, False)),
    ]


def _flips(flips: Sequence[Flip]) -> Table:
    rows = tuple(
        (flip.name, "-" if flip.at is None else amount(flip.at, flip.unit), flips_at(flip), sides(flip))
        for flip in flips
    )
    return Table(("input", "you are at", "flips at", "better now->then"), rows, (False,) * 4)


def _levers(levers: Sequence[Elasticity]) -> Table:
    rows = tuple((f"{lever.name} {lever.step}", change(lever)) for lever in levers)
    return Table(("input", "by"), rows, (False, True))


def _details(answer: Recommendation) -> list[Block]:
    results = answer.strategies
    names = tuple(heading(answer, result) for result in results)
    fields = tuple(
        (label, *(shown(key, getattr(r, key)) for r in results))
        for key, label in FIGURES.items()
        if any(getattr(r, key) is not None for r in results)
    )
    blocks: list[Block] = [Heading("Every figure"), _columns(names, fields)]
    for title, key in DICTIONARIES.items():
        blocks += _dictionary(title, names, [getattr(result, key) for result in results])
    for result in results:
        blocks += [Heading(f"Pools of {result.name}", 3), table(result.pools, POOLS)]
    if answer.reuse:
        told = f"Compared with {answer.reuse.without}."
        blocks += [Heading("What KV tiers gain"), gains(answer.reuse.strategies), told]
    blocks += [Heading("Other splits, by closed-form means"), table(answer.splits, SPLITS)]
    blocks += [Heading("Thresholds, uncached tokens"), facts(answer.break_even, THRESHOLDS)]
    blocks += [Heading("Efficiencies"), table(answer.efficiencies, {"hardware": "GPU", **FITS})]
    return blocks


def _dictionary(title: str, names: tuple[str, ...], values: Sequence[dict[str, float] | None]) -> list[Block]:
    keys = list(dict.fromkeys(key for value in values for key in value or ()))
    rows = tuple(
        (key.removesuffix("_s").replace("_", " "), *(_seconds((value or {}).get(key)) for value in values))
        for key in keys
    )
    return [Heading(title), _columns(names, rows)] if rows else []


def _seconds(value: float | None) -> str:
    """Return a time; what is left of adding up doubles is zero."""
    return shown("time_s", 0.0 if value is not None and abs(value) < _ROUNDING_S else value)


def _columns(names: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    return Table(("", *names), rows, (False, *(True for _ in names)))
