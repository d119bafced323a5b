"""What moves P95 TTFT: the strategy evaluated again with one input moved. Share is not leverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..evaluate import summary
from ..evaluate.closed import ClosedForm
from ..evaluate.replay import replay
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import Strategy
from ..serving.table import StepTable
from .comparison import Comparison
from .results import Elasticity

#: Requests of each evaluation; the same for all, so that their noise is common.
SAMPLE = 1000
_STEP = 1.1


@dataclass(frozen=True)
class Case:
    """One input moved: its name, by how much, and the deployment, workload and step times that result."""

    name: str
    step: str
    deployment: Deployment
    workload: Workload
    times: dict[InstanceKind, StepTimes]


def cases(compare: Comparison, strategy: Strategy) -> Iterator[Case]:
    """Yield the inputs to move: step speed, copy bandwidth, rate, token budget by 10 %, and one instance more."""
    deployment, workload, times = compare.deployment, compare.workload, compare.times
    path, settings, topology = deployment.path, deployment.settings, deployment.topology
    faster = {
        kind: t.with_factors(dict.fromkeys(kind.efficiency.operators, 1 / _STEP)) for kind, t in times.items()
    }
    wider = replace(path, bandwidth_override=path.bandwidth_bytes_per_s * _STEP)
    bigger = replace(settings, token_budget=round(settings.token_budget * _STEP))
    yield Case("step speed", "+10 %", deployment, workload, faster)
    yield Case("copy bandwidth", "+10 %", replace(deployment, path=wider), workload, times)
    yield Case("arrival rate", "+10 %", deployment, workload.at_rate(workload.rate * _STEP), times)
    yield Case("token budget", "+10 %", replace(deployment, settings=bigger), workload, times)
    if strategy.pooled:
        more = replace(topology, decode=topology.decode + 1)
        yield Case("instances", "+1", deployment.with_topology(more), workload, times)
    else:
        more = replace(topology, prefill=topology.prefill + 1)
        yield Case("prefill instances", "+1", deployment.with_topology(more), workload, times)


def elasticities(compare: Comparison, strategy: Strategy) -> list[Elasticity]:
    """Return the relative change of P95 TTFT (of its mean by closed form) for each input moved."""
    closed = compare.options.method == "closed"
    statistic = "ttft_mean" if closed else "ttft_p95"
    here = Case("", "", compare.deployment, compare.workload, compare.times)
    base = _ttft(here, strategy, closed, compare.options.seed)
    found = []
    for case in cases(compare, strategy):
        value = _ttft(case, strategy, closed, compare.options.seed)
        if base is None or value is None:
            found.append(Elasticity(case.name, case.step, None, statistic, "no stable answer on one side"))
        else:
            found.append(Elasticity(case.name, case.step, value / base - 1, statistic))
    return found


def _ttft(case: Case, strategy: Strategy, closed: bool, seed: int) -> float | None:
    means = ClosedForm(case.deployment, case.workload, case.times, 16).means(strategy)
    if closed or not means.stable:
        return means.ttft_s
    requests = case.workload.sample(SAMPLE, seed)
    tables = {kind: StepTable(kind, times.factors) for kind, times in case.times.items()}
    run = replay(strategy, case.deployment, requests, case.workload.slo, tables)
    return summary.quantile(sorted(r.ttft for r in run.finished), 0.95)
