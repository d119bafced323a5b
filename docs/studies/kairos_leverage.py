"""Is a small share of TTFT small leverage? Shares beside elasticities."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from common import Rows, table
from kairos_mechanisms import AT, MECHANISMS, PLACES, nearest
from kairos_runs import NONE, Knobs, loaded, p95, play, prefill_s, stages

from costmodel.evaluate.summary import mean
from costmodel.formulas.waiting import md1_execution_share, md1_ttft_elasticity
from costmodel.inputs.workload import Arrivals, Lengths, Slo, Workload

REQUESTS, SEED_REQUESTS, SEEDS = 6000, 2000, (1, 2, 3)
LOADS = (0.3, 0.5, 0.7, 0.8, 0.9)
#: All prefill steps take a tenth less.
FASTER = 0.9


class Leverage(NamedTuple):
    """Execution share of TTFT, and elasticity of TTFT to the prefill steps: of the mean and of P95."""

    mean_share: float
    mean_elasticity: float
    p95_share: float
    p95_elasticity: float


def elasticity(before: float, after: float) -> float:
    """Relative change over that of the steps, as logarithms."""
    return math.log(after / before) / math.log(FASTER)


@cache
def leverage(
    workload: Workload,
    knobs: Knobs = NONE,
    *,
    topology: str = "2P2D",
    count: int = REQUESTS,
    seed: int = 1,
) -> Leverage:
    """The same requests with prefill steps as they are, and a tenth shorter."""
    runs = []
    for factor in (1.0, FASTER):
        run = play(workload, knobs, prefill_factor=factor, count=count, topology=topology, seed=seed)
        runs.append([stages(record, knobs) for record in run.finished])
    means, tails = [mean([sum(s) for s in run]) for run in runs], [p95(map(sum, run)) for run in runs]
    work = [s.execution for s in runs[0]]
    return Leverage(mean(work) / means[0], elasticity(*means), p95(work) / tails[0], elasticity(*tails))


def one_server(load: float) -> Workload:
    """What M/D/1 describes: prompts of one length on one prefill instance, one output token."""
    tokens = 8192
    fixed, one = Lengths(tokens, 0), Lengths(1, 0)
    return Workload("one length", Arrivals(load / prefill_s(tokens)), fixed, 0, one, Slo(), "by this page")


def closed_arc(load: float) -> float:
    """M/D/1's elasticity over a whole tenth: mean TTFT is service over its share of it."""
    after = FASTER / md1_execution_share(FASTER * load)
    return elasticity(1 / md1_execution_share(load), float(after))


def leverage_rows() -> Rows:
    """By load: M/D/1's closed forms, the replay of what they describe, and hphd."""
    rows: Rows = []
    for load in LOADS:
        single, mixed = leverage(one_server(load), topology="1P1D"), leverage(loaded("hphd", load))
        rows.append((f"{load:g}", f"{float(md1_execution_share(load)):.0%}",
                     f"{float(md1_ttft_elasticity(load)):.1f}", f"{closed_arc(load):.1f}",
                     f"{single.mean_share:.0%}", f"{single.mean_elasticity:.1f}",
                     f"{mixed.mean_share:.0%}", f"{mixed.mean_elasticity:.1f}",
                     f"{mixed.p95_share:.0%}", f"{mixed.p95_elasticity:.1f}"))  # fmt: skip
    return rows


def mechanism_found() -> dict[str, tuple[float, list[float]]]:
    """Mean share and each seed's elasticity of P95 TTFT: plain queueing, then each mechanism at hphd and at lpld."""
    cases = [("hphd, 0.9: plain queueing", "hphd", 0.9, NONE)]
    cases += [
        (f"{name}, {load:g}: {label}", name, load, nearest(mechanism, name, load))
        for name, load in (AT, PLACES[0])
        for mechanism, (label, *_) in MECHANISMS.items()
    ]
    found = {}
    for label, name, load, knobs in cases:
        each = [leverage(loaded(name, load), knobs, count=SEED_REQUESTS, seed=seed) for seed in SEEDS]
        found[label] = mean([own.p95_share for own in each]), [own.p95_elasticity for own in each]
    return found


def mechanism_leverage() -> Rows:
    """Share and leverage where a mechanism makes up the hand-over, and where plain queueing makes up TTFT."""
    return [
        (label, f"{share:.0%}", ", ".join(f"{value:.2f}" for value in values))
        for label, (share, values) in mechanism_found().items()
    ]


def span(values: Iterable[float]) -> str:
    """Least to most."""
    ordered = sorted(values)
    return f"{ordered[0]:.2f} to {ordered[-1]:.2f}"


def leverage_section() -> str:
    """Shares and elasticities side by side."""
    header = ("load", "M/D/1: share", "elasticity", "over a tenth", "replayed: share", "over a tenth",
              "hphd, mean: share", "over a tenth", "hphd, P95: share", "over a tenth")  # fmt: skip
    busiest = leverage(loaded("hphd", LOADS[-1]))
    _, *found = mechanism_found().values()
    hphd, (copies, serial, seats) = found[:3], (values for _, values in found[3:])
    at_hphd = span(value for _, values in hphd for value in values)
    shares = [share for share, _ in hphd]
    mechanisms = "case", "execution's share of P95", "elasticity of P95, by seed"
    return f"""## Is optimising prefill kernels misdirected?

That it is misdirected follows from a small share of execution only if the share measures leverage. Elasticity, the \
leverage, is by how many per cent TTFT falls when all prefill steps take one per cent less: at a point (closed form of \
M/D/1, the queue with Poisson arrivals, one server and services of one length), and over a whole tenth, as a ratio of \
logarithms (closed form, and the same {REQUESTS:,} requests replayed with steps at 0.9). *Replayed* is what M/D/1 \
describes: one prefill GPU, one length.

{table(leverage_rows(), header)}

Share and elasticity move against each other: where execution is a fifth of P95 TTFT, prefill that is 10% faster \
takes {1 - FASTER**busiest.p95_elasticity:.0%} off it (hphd at {LOADS[-1]:g}: 1 - {FASTER:g}^\
{busiest.p95_elasticity:.1f}), because the queue is made of \
execution, too. Near capacity the exact figure depends on the sample. Where a mechanism makes the hand-over long:

{table(mechanism_leverage(), mechanisms)}

So it depends on what the rest is. Where it is a queue for prefill, the small share is a sign of large leverage, and \
optimising prefill is not misdirected. Where copies are slow side by side and nearly all (lpld), leverage is as small \
as the share ({span(copies)}), and it is misdirected. For the other two mechanisms at lpld three seeds do not say: \
{span(serial)} (serial) and {span(seats)} (admission), most likely because waits near saturation scatter. At hphd \
with a slow hand-over shares of {min(shares):.0%} to {max(shares):.0%} have elasticities of {at_hphd}, all above the \
share. The share alone does not say which.
"""
