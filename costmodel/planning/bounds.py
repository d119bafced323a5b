"""Why nothing will do: no room for the model, an SLO below what physics allows, or below a request alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..evaluate.summary import quantile
from ..families import read_model
from ..inputs.hardware import load_gpu
from ..inputs.model import Model
from ..inputs.parameters import loaded_dtype
from ..inputs.workload import Request, Workload
from ..memory.fewest import layouts_for
from ..serving.bound import step_bound
from ..serving.instance import InstanceKind, default_cache_dtype
from ..serving.scenario import Scenario
from ..serving.step import StepTimes
from ..serving.work import Chunk
from ..units import format_si
from .space import Space, Unit, of_the_degree

#: Requests that stand for all of them.
_POINTS = 64


def no_room(scenario: Scenario, space: Space, workload: Workload) -> str:
    """Say that the model fits nothing that may be tried, and how many GPUs it would take."""
    model = read_model(scenario.model) if isinstance(scenario.model, str) else scenario.model
    longest = max(r.isl + r.output_tokens for r in workload.typical(_POINTS))
    told, fits = [], True
    for hardware in dict.fromkeys(name for name, _ in space.refused):
        degrees = [degree for name, degree in space.refused if name == hardware]
        split = [degree for degree in degrees if not of_the_degree(scenario.model, degree)]
        tp = max(split or degrees)
        fits = fits and not split
        found = _fewest(model, hardware, longest, scenario)
        told.append(f"{hardware}: {found} (TP{tp}: {space.refused[hardware, tp]})")
    lead = "cannot be split as --tp says" if fits else "fits no instance that may be tried"
    return f"{model.name} {lead}. " + "; ".join(told)


def _fewest(model: Model, hardware: str, tokens: int, scenario: Scenario) -> str:
    """Say how many GPUs hold a model with a sequence of so many tokens."""
    dtype = loaded_dtype(model) if scenario.dtype is None else scenario.dtype
    cache = default_cache_dtype(model, dtype) if scenario.kv_dtype is None else scenario.kv_dtype
    found = layouts_for(
        model, load_gpu(hardware), 1, tokens, kv_dtype=cache, dtype=scenario.dtype, settings=scenario.engine
    )
    if not found:
        return f"nothing of up to 8 stages of 8 GPUs holds it with a sequence of {tokens:,} tokens"
    first = found[0]
    stages = f" in {first.pp} stages" if first.pp > 1 else ""
    gpus = f"{first.gpus} GPU" + ("s" if first.gpus > 1 else "")
    return f"with a sequence of {tokens:,} tokens it takes {gpus}, TP{first.tp}{stages}"


def too_tight(workload: Workload, units: Sequence[Unit], constant: float) -> str | None:
    """Say that an SLO is below its physical bound, or below a request's own time alone; None where none is."""
    slo, requests = workload.slo, workload.typical(_POINTS)
    share = slo.attainment
    kinds = [unit.deployment.prefill for unit in units]
    times = {kind: StepTimes(kind) for kind in kinds}

    def fastest(seconds: Callable[[InstanceKind, Request], float]) -> tuple[float, InstanceKind]:
        """Return what this share of the requests stays within on the fastest kind, and that kind."""
        found = [(quantile(sorted(seconds(kind, r) for r in requests), share), kind) for kind in kinds]
        return min(found, key=lambda pair: pair[0])

    if slo.ttft_s is not None:
        at, kind = fastest(_prefill_bound)
        if slo.ttft_s < at:
            tokens = quantile(sorted(r.uncached_tokens for r in requests), share)
            return (
                f"TTFT <= {_s(slo.ttft_s)} is below its physical bound: {share:.0%} of the prompts have "
                f"up to {tokens:,} tokens to compute, whose FLOPs take {_s(at)} at the peak of {kind.label()}, "
                "the fastest tried"
            )
    if slo.tpot_s is not None:
        at, kind = fastest(_decode_bound)
        if slo.tpot_s < at:
            return (
                f"TPOT <= {_s(slo.tpot_s)} is below its physical bound: the fewest bytes of a decode step, "
                f"of {share:.0%} of the requests, take up to {_s(at)} at the bandwidth of {kind.label()}, "
                "the fastest tried"
            )
    if slo.ttft_s is not None:
        at, kind = fastest(lambda k, r: constant + times[k].prefill(r.uncached_tokens, r.cached_tokens))
        if slo.ttft_s < at:
            return _alone("TTFT", slo.ttft_s, share, at, kind)
    if slo.tpot_s is not None:
        at, kind = fastest(
            lambda k, r: times[k].decode(1, r.isl + r.output_tokens / 2) if r.output_tokens > 1 else 0.0
        )
        if slo.tpot_s < at:
            return _alone("TPOT", slo.tpot_s, share, at, kind)
    return None


def _alone(name: str, limit: float, share: float, at: float, kind: InstanceKind) -> str:
    return (
        f"{name} <= {_s(limit)} is above its physical bound but below a request's own time alone: {share:.0%} of the "
        f"requests take up to {_s(at)} on an idle {kind.label()}, the fastest tried"
    )


def _prefill_bound(kind: InstanceKind, request: Request) -> float:
    return step_bound(kind, (Chunk(request.uncached_tokens, request.cached_tokens),), 1, 0, 0.0).compute_s


def _decode_bound(kind: InstanceKind, request: Request) -> float:
    if request.output_tokens < 2:
        return 0.0
    return step_bound(kind, (), 0, 1, request.isl + request.output_tokens / 2).memory_s


def _s(seconds: float) -> str:
    return format_si(seconds, "second")
