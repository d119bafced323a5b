"""From the statistics of a run to the figures of a strategy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..evaluate import summary
from ..evaluate.closed import PoolLoad
from ..evaluate.tally import Totals
from ..evaluate.timeline import PoolUse
from ..serving.deployment import Deployment
from ..serving.strategies import Role
from .results import PoolResult


def figures(totals: Totals, rate: float, deployment: Deployment, *, slo: bool) -> dict[str, Any]:
    """Return fields of a ``StrategyResult`` by name; ``rate`` of the counted requests, requests/s.

    ``slo``: whether there are objectives to attain. Nothing is returned of a run in which no request counts.
    """
    ledger, ttft, tpot = totals.ledger, totals.ttft, totals.tpot
    stages, delay = totals.ttft_p95_stages, totals.delay
    if ledger is None or ttft is None or stages is None or delay is None:
        return {}
    error, held = totals.delay_error, totals.held_byte_s or 0.0
    share = totals.attainment if slo else None
    found: dict[str, Any] = {
        "counted": totals.counted,
        "local_share": totals.local_share,
        "attainment": share,
        "good_requests_per_s": None if share is None else share * rate,
        "mean_delay_s": delay.mean_s,
        "mean_delay_sampling": None if error is None or delay.mean_s <= 0 else error / delay.mean_s,
        "ttft_mean_s": ttft.mean_s,
        "ttft_p50_s": ttft.p50_s,
        "ttft_p95_s": stages.ttft_s,
        "ttft_p95_ci_s": totals.ttft_p95_ci_s,
        "ttft_p99_s": ttft.p99_s,
        "ttft_p95_stages": stages.stages,
        "stage_scale": stages.scale,
        "tpot_reason": None if tpot else "one output token: no gap between tokens",
        "ledger": ledger,
        "kv_held_byte_s": held,
        "kv_held_bytes": held * rate,
        "kv_pool_bytes": pool_bytes(deployment),
        **grouped(ledger, totals.recomputed_prefix_s or 0.0),
    }
    if tpot:
        found |= {"tpot_mean_s": tpot.mean_s, "tpot_p50_s": tpot.p50_s, "tpot_p99_s": tpot.p99_s}
    return found


def grouped(ledger: dict[str, float], recomputed_prefix_s: float) -> dict[str, Any]:
    """Return the ledger folded into copy, interference, stranding, sharing and prefixes that are computed again."""
    return dict(summary.group(ledger, recomputed_prefix_s))


def pool_bytes(deployment: Deployment) -> float:
    """KV memory of all GPUs."""
    return sum(pool.pool_bytes * kind.gpus for kind, pool in deployment.pool(Role.SHARED))


def pools(loads: Sequence[PoolLoad], uses: Sequence[PoolUse]) -> tuple[PoolResult, ...]:
    """Return the load of each pool, and what its GPUs did where they were followed."""
    by_role = {use.role: use for use in uses}
    rows = []
    for load in loads:
        use = by_role.get(load.role)
        rows.append(
            PoolResult(
                role=load.role,
                instances=load.instances,
                utilisation=load.utilisation,
                missing_instances=load.missing_instances,
                busy_share=use.busy_share if use else None,
                mfu=use.mfu if use else None,
                mbu=use.mbu if use else None,
            )
        )
    return tuple(rows)
