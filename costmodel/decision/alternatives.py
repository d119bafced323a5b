"""What else the same GPUs could do: other integer splits, and prompts that the decode pool can absorb."""

from __future__ import annotations

from ..evaluate.closed import ClosedForm
from ..formulas.chunking import deflectable_tokens_per_s
from ..serving.chunk_cap import Cap, largest_chunk
from ..serving.strategies import Rule, Strategy
from ..serving.work import Chunk
from .comparison import Comparison
from .operating import Operating
from .results import Split


def splits(compare: Comparison, strategy: Strategy) -> list[Split]:
    """Return the other integer splits of the same GPUs under a strategy, by closed form."""
    base = compare.means(strategy).delay_s
    found = []
    for topology in compare.deployment.splits():
        moved = compare.deployment.with_topology(topology)
        means = ClosedForm(moved, compare.workload, compare.times, 16).means(strategy)
        worst = max(means.loads, key=lambda load: load.utilisation)
        delay = means.delay_s
        found.append(
            Split(
                topology=str(topology),
                strategy=strategy.name,
                stable=means.stable,
                utilisation=means.utilisation,
                busiest_pool=worst.role,
                mean_delay_s=delay,
                delay_ratio=delay / base if delay is not None and base else None,
                reason=means.reason,
            )
        )
    return found


def deflectable(
    compare: Comparison, point: Operating, rule: Rule
) -> tuple[float | None, float | None, str | None]:
    """Return prompt tokens/s that the decode pool absorbs with every mixed step inside the TPOT SLO.

    Also their share of the offered prompt tokens; None with the reason where no TPOT SLO limits a step.
    """
    limit = compare.workload.slo.tpot_s
    if limit is None:
        return None, None, "no TPOT SLO limits the mixed step"
    if not point.observed:
        return None, None, point.note
    deployment = compare.deployment
    times, form = compare.times[deployment.decode], compare.bands.at_load[0]
    batch = round(point.values["batch"])
    context, half = round(batch * form.context), round(point.values["uncached"]) // 2
    budget = deployment.settings.token_budget
    cap = Cap(rule.beta * limit, rule.candidates)
    chunk = largest_chunk(times, cap, budget, half, batch, context, budget)
    if chunk is None:
        return 0.0, 0.0, "even the smallest chunk takes a mixed step beyond the TPOT SLO"
    step = times.step((Chunk(chunk, half),), 0, batch, context)
    found = float(deflectable_tokens_per_s(deployment.topology.decode, chunk, step))
    return found, found / (compare.workload.rate * point.values["uncached"]), None
