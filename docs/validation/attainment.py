"""Attainment and TPOT by closed form against replays of drawn cases: docs/validation/attainment.md.

    python docs/validation/attainment.py > docs/validation/attainment.md

Takes some minutes where replay is not compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice
from random import Random

from tabulate import tabulate

from costmodel.evaluate import summary
from costmodel.evaluate.attained import attained, few
from costmodel.evaluate.closed import ClosedForm
from costmodel.evaluate.ideal import Ideal
from costmodel.evaluate.pace import Tpot
from costmodel.evaluate.replay import replay
from costmodel.evaluate.trust import refusal
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload
from costmodel.serving.deployment import Deployment, Settings
from costmodel.serving.scenario import Scenario
from costmodel.serving.step import step_times
from costmodel.serving.strategies import (
    CHUNKED,
    COLOCATED,
    DISAGGREGATED,
    Rule,
    RuleKind,
    Strategy,
    deflected,
)
from costmodel.serving.table import step_tables

CASES, REQUESTS, SEED = 60, 4000, 7
THRESHOLD = deflected(Rule(RuleKind.THRESHOLD, threshold=1000))
#: Shares of requests within each SLO, where the attainment is asked for.
SHARES = (0.8, 0.9, 0.97)


@dataclass(frozen=True)
class Case:
    """What a replay and the closed form say: errors of attainment by share, and of P90 TPOT."""

    strategy: str
    declined: str | None
    points: tuple[float, ...]
    tpot_p90: float


def drawn(random: Random) -> tuple[Deployment, Strategy, Workload]:
    """A deployment, a strategy and a load at random."""
    strategy = random.choice([COLOCATED, CHUNKED, DISAGGREGATED, THRESHOLD])
    topology = f"{random.randint(1, 4)}P{random.randint(1, 4)}D"
    if strategy.pooled:
        topology = random.choice(["1", "2", "4", "7"])
    scenario = Scenario(
        random.choice(["Llama-3.1-8B", "deepseek-ai/DeepSeek-V2-Lite"]),
        random.choice(["a100-sxm-80gb", "h100-sxm"]),
        topology,
        settings=Settings(token_budget=random.choice([512, 2048, 8192])),
    )
    sigma = (0.3, 0.8, 1.1)
    prompts = Lengths(random.choice([500, 1500, 4000]), random.choice(sigma), 16, 30000)
    outputs = Lengths(random.choice([20, 60, 200, 500]), random.choice(sigma), 2, 4000)
    arrivals = Arrivals(1.0, random.choice([0.7, 1, 1, 1, 1.5, 2.5]))
    workload = Workload("drawn", arrivals, prompts, 0, outputs, Slo(1.0, 0.05), "")
    deployment, wanted = scenario.deployment(), random.uniform(0.35, 0.85)
    return deployment, strategy, workload.at_rate(rate_at(deployment, strategy, workload, wanted))


def rate_at(deployment: Deployment, strategy: Strategy, workload: Workload, wanted: float) -> float:
    """The rate at which the busiest pool is used so much."""
    times = step_times(deployment.kinds)
    low, high = 1e-3, 1e4
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        used = ClosedForm(deployment, workload.at_rate(middle), times, 8).means(strategy).utilisation
        low, high = (middle, high) if used < wanted else (low, middle)
    return low


def measured(deployment: Deployment, strategy: Strategy, workload: Workload) -> Case | None:
    """Replay a case, the closed form beside it at SLOs that its own requests put to the test; None: unstable."""
    form = ClosedForm(deployment, workload, step_times(deployment.kinds), 64)
    means = form.means(strategy)
    if means.decodes is None:
        return None
    tables = step_tables(deployment.kinds)
    requests = workload.sample(REQUESTS, 1)
    run = replay(strategy, deployment, requests, workload.slo, tables, Ideal(list(tables.values())))
    done = summary.settled(run.records)
    ttft = sorted(record.ttft for record in done)
    tpot = sorted(record.tpot for record in done if record.tpot is not None)
    points = []
    for share in SHARES:
        half = 1 - (1 - share) / 2
        slo = Slo(summary.quantile(ttft, half), summary.quantile(tpot, half))
        found = attained(means, form.requests, replace(workload, slo=slo), deployment.request_latency)
        points.append(found.both - summary.attainment(done, slo))
    closed = Tpot(means.decodes, form.requests, means.late).quantile(0.9)
    declined = refusal(deployment, workload, strategy, means) or few(means, workload)
    return Case(strategy.name, declined, tuple(points), closed / summary.quantile(tpot, 0.9) - 1)


def cases() -> list[Case]:
    """All drawn cases."""
    random = Random(SEED)
    found = (measured(*drawn(random)) for _ in count())
    return list(islice((case for case in found if case), CASES))


def spread(values: Sequence[float]) -> list[str]:
    """Median, P90 and largest absolute value, and the mean, as percentages."""
    sizes = sorted(abs(value) for value in values)
    told = [summary.quantile(sizes, 0.5), summary.quantile(sizes, 0.9), sizes[-1], summary.mean(values)]
    return [f"{100 * value:.1f}" for value in told[:3]] + [f"{100 * told[3]:+.1f}"]


def rows(found: Sequence[Case], of: Callable[[Case], float]) -> list[list[str]]:
    """A row for each strategy, one for all, and one for the cases that are declined."""
    told = []
    for name in (*dict.fromkeys(case.strategy for case in found), "all"):
        values = [of(case) for case in found if not case.declined and name in (case.strategy, "all")]
        if values:
            told.append([name, str(len(values)), *spread(values)])
    declined = [of(case) for case in found if case.declined]
    return [*told, ["declined", str(len(declined)), *spread(declined)]]


def page(found: Sequence[Case]) -> str:
    """The page."""
    heads = ("cases", "number", "median", "P90", "largest", "mean, signed")
    parts = [INTRO, "## P90 TPOT, per cent\n", table(rows(found, lambda case: case.tpot_p90), heads)]
    for number, share in enumerate(SHARES):
        said = f"## Attainment of both SLOs, points, each met by about {100 * (1 - (1 - share) / 2):.1f} %\n"
        parts += [said, table(rows(found, lambda case: case.points[number]), heads)]  # noqa: B023
    return "\n".join(parts)


def table(lines: list[list[str]], heads: Sequence[str]) -> str:
    """A table."""
    return str(tabulate(lines, heads, tablefmt="github", disable_numparse=True)) + "\n"


INTRO = f"""\
# Attainment by closed form

`costmodel plan` sizes deployments by closed form and confirms them by replay. Here the closed form is held against \
replays, request by request, that share its step times: this says nothing of how well those match a GPU.

TTFT is a distribution ([queueing.md](queueing.md)). TPOT is one, too \
([pace.py](../../costmodel/evaluate/pace.py)): how many decode together is the law of a shared processor, widened by \
bursts; a request decodes among the average of that number over its own stay; prompts that stop decodes are a delay \
busy period, behind those that already wait. A request meets both SLOs with the product of its chances: given the \
lengths, its wait says nothing of its pace. It declines where [trust.py](../../costmodel/evaluate/trust.py) does, and \
where less than one request decodes at a time on an instance.

{CASES} cases at random: two models on A100 and H100, four strategies (deflection below 1,000 tokens), 1 to 8 \
instances, budgets of 512 to 8,192 tokens, prompts of 500 to 4,000 and outputs of 20 to 500 tokens (log-normal, sigma \
0.3 to 1.1), utilisation 0.35 to 0.85, variation of gaps 0.7 to 2.5; {REQUESTS:,} requests each. The SLOs are \
quantiles of the replay itself, where attainment is most sensitive: TPOTs are often within a few per cent of each \
other, so that an error of one per cent in TPOT can be ten points of attainment. Made by \
`python docs/validation/attainment.py`.
"""

if __name__ == "__main__":
    print(page(cases()), end="")
