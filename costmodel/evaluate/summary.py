"""From a run to figures: percentiles with confidence intervals, stages of P95 TTFT, ledger, GPU-seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..inputs.workload import Slo
from .timeline import ACCOUNTS, PoolUse, Record, Run

#: Two-sided 95 % quantile of Student's t with 7 degrees of freedom: eight batches of a run.
_BATCHES, _T7 = 8, 2.365
_FEWEST = 20


def quantile(ordered: Sequence[float], share: float) -> float:
    """Sample quantile: the smallest value with at least ``share`` of the sample at or below it."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return sum(values) / len(values)


def settled(records: Sequence[Record]) -> list[Record]:
    """Return the finished requests between warm-up and drain: without the first fifth and the last twentieth."""
    count = len(records)
    return [r for r in records[count // 5 : count - count // 20] if r.finished]


@dataclass(frozen=True)
class Stages:
    """P95 TTFT and the stages that add up to it, and by how much the mean stages were scaled to do so."""

    ttft_s: float
    stages: dict[str, float]
    scale: float


def ttft_stages(record: Record, first_token: str) -> dict[str, float]:
    """Return the stages of one request's TTFT; they add up to it."""
    stages = {
        "queue_s": record.queue,
        "load_s": record.load,
        "prefill_s": record.ideal_prefill + record.constant,
        "stretch_s": record.stretch,
        "recompute_s": record.redone,
        "admission_s": record.admission,
    }
    if record.route == "remote" and first_token != "prefill":
        stages["admission_s"] += record.seating
        stages["link_s"] = record.link
        stages["handover_s"] = record.handover
    return {"link_s": 0.0, "handover_s": 0.0} | stages


def around_p95(count: int) -> tuple[int, int, int]:
    """Return the ranks, from 0, of P94, P95 and P96 of a sample, the outer two moved to hold at least 5."""
    low, at, high = (max(0, math.ceil(share * count) - 1) for share in (0.94, 0.95, 0.96))
    while high - low + 1 < min(5, count):
        low, high = max(0, low - 1), min(count - 1, high + 1)
    return low, at, high


def scaled(ttft_s: float, means: dict[str, float]) -> Stages:
    """Return mean stages scaled to add up to a TTFT."""
    total = sum(means.values())
    scale = ttft_s / total if total else 1.0
    return Stages(ttft_s, {key: v * scale for key, v in means.items()}, scale)


def p95_stages(records: Sequence[Record], first_token: str) -> Stages:
    """Return P95 TTFT with the mean stages of the requests at P94 to P96 (at least the 5 nearest), scaled."""
    ordered = sorted(records, key=lambda r: r.ttft)
    low, at, high = around_p95(len(ordered))
    near = [ttft_stages(r, first_token) for r in ordered[low : high + 1]]
    return scaled(ordered[at].ttft, {key: mean([stages[key] for stages in near]) for key in near[0]})


def stage_percentiles(records: Sequence[Record], first_token: str) -> dict[str, float]:
    """Return the P95 of each stage on its own. They do not add up."""
    stages = [ttft_stages(r, first_token) for r in records]
    return {key: quantile(sorted(s[key] for s in stages), 0.95) for key in stages[0]}


def p95_interval(records: Sequence[Record]) -> float | None:
    """Half-width of the 95 % confidence interval of P95 TTFT, from eight consecutive batches of the run.

    None below 20 requests a batch.
    """
    error = _batch_error([r.ttft for r in records], lambda part: quantile(sorted(part), 0.95))
    return None if error is None else _T7 * error


def mean_ledger(records: Sequence[Record]) -> dict[str, float]:
    """Return the mean seconds of each account, of the ideal and of E2E; accounts add up to E2E - ideal."""
    ledger = {f"{name}_s": mean([r.account(name) for r in records]) for name in ACCOUNTS}
    return ledger | {"ideal_s": mean([r.ideal for r in records]), "e2e_s": mean([r.e2e for r in records])}


def attainment(records: Sequence[Record], slo: Slo) -> float:
    """Share of all requests that finished and met every SLO."""
    return sum(r.finished and slo.met(r.ttft, r.tpot) for r in records) / len(records)


def attainment_error(records: Sequence[Record], slo: Slo) -> float | None:
    """Standard error of attainment, from batches; None below 40 requests."""
    return _mean_error([float(r.finished and slo.met(r.ttft, r.tpot)) for r in records])


def delay_error(records: Sequence[Record]) -> float | None:
    """Standard error of the mean delay, from batches; None below 40 requests."""
    return _mean_error([r.delay for r in records])


def _mean_error(values: Sequence[float]) -> float | None:
    """Standard error of a mean: from eight consecutive batches, of small samples as if independent."""
    error = _batch_error(values, mean)
    if error is not None or len(values) < 2 * _FEWEST:
        return error
    centre = mean(values)
    return math.sqrt(sum((v - centre) ** 2 for v in values) / (len(values) - 1) / len(values))


def _batch_error(values: Sequence[float], statistic: Callable[[Sequence[float]], float]) -> float | None:
    size = len(values) // _BATCHES
    if size < _FEWEST:
        return None
    parts = [statistic(values[i * size : (i + 1) * size]) for i in range(_BATCHES)]
    centre = mean(parts)
    return math.sqrt(sum((v - centre) ** 2 for v in parts) / (_BATCHES - 1) / _BATCHES)


def gpu_seconds(run: Run) -> dict[str, float]:
    """GPU-seconds a request of a run: see :func:`gpu_seconds_of`."""
    done = run.finished
    return gpu_seconds_of(run.pools, len(done), sum(r.ideal_prefill for r in done))


def gpu_seconds_of(pools: Sequence[PoolUse], count: int, ideal_prefill_s: float) -> dict[str, float]:
    """GPU-seconds a request: prefill alone, decode, what mixing and chunking add to them, and idle pools.

    ``count`` requests finished, whose prompts take ``ideal_prefill_s`` alone, all together. ``mixed_s`` is negative
    where prompts that ride on decode steps cost less than alone. The parts add up to the GPU time of the whole run.
    """
    per_gpu = [(use, use.gpus / use.instances) for use in pools]
    decode = sum((use.decode_s + use.mixed_decode_s) * gpus for use, gpus in per_gpu)
    prompts = sum((use.prefill_s + use.mixed_s - use.mixed_decode_s) * gpus for use, gpus in per_gpu)
    gpus = max(gpus for _, gpus in per_gpu)
    alone = ideal_prefill_s * gpus
    redone = sum(use.recompute_s * gpus for use, gpus in per_gpu)
    parts = {"prefill_s": alone, "decode_s": decode}
    parts |= {"mixed_s": prompts - redone - alone, "recompute_s": redone}
    for use, width in per_gpu:
        parts[f"idle_{use.role}_s"] = (use.span_s * use.instances - use.busy_s) * width
    return {key: value / count for key, value in parts.items()}


def group(ledger: dict[str, float], recomputed_prefix_s: float = 0.0) -> dict[str, float]:
    """Fold the ledger into copy, interference, stranding and sharing.

    The part of stretch that computes a prefix which the ideal has cached is nobody's interference: it stands apart.
    """
    return {
        "copy_s": ledger["link_s"] + ledger["handover_s"] + ledger["load_s"],
        "interference_s": ledger["stretch_s"] - recomputed_prefix_s + ledger["stalls_s"],
        "recomputed_prefix_s": recomputed_prefix_s,
        "stranding_s": ledger["queue_s"] + ledger["admission_s"],
        "sharing_s": ledger["gathering_s"],
    }
