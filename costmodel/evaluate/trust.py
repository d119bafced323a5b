"""Whether the closed form may give percentiles of TTFT, and if not, why: where it may not, replay can.

What it does not follow: load that varies, queues for the link, memory and seats that run short, what a router sees at
the moment it decides, and prompts that fall into step with each other. docs/validation/queueing.md measures what
is left where it answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.strategies import RuleKind, Strategy
from .closed import Means
from .line import Line, waits_of
from .means import TIER
from .prompts import moments
from .stations import at_times

#: Utilisation beyond which a small error of a service time moves the wait too far; that of the link beyond
#: which copies wait for each other.
_MOST, _LINK = 0.95, 0.3
#: Share of mean TTFT that waiting for the link, or for a tier's port, may take.
_LINK_WAIT = 0.06
#: Gaps, over their mean, that are none, and the share of such gaps that a trace may have.
_AT_ONCE, _TIES = 1e-6, 0.05
#: Departure from 1 of the probabilities of waits, beyond which their lattice failed.
_LOST = 0.02
#: Decodes over what memory and seats allow, beyond which steps cannot be told by the mean batch: beside prompts, apart.
_CROWDED, _DECODES = 0.7, 0.85
#: Squared variation of service below which prompts are alike, and prompts a step from which those keep step.
_ALIKE, _TOGETHER = 0.05, 1.5
#: Variation of gaps from which alike prompts come in waves over several instances.
_WAVES = 1.5
#: What sharing steps saves of the work, times the variation of gaps: from here on its mean says too little.
_SAVED = 0.2
#: What decodes that come and go add to a prompt's time, over the spare capacity, from which on the mean batch misleads.
_SWING = 0.18
#: Share of a line's prompts that wait, below which its waits do not matter.
_LITTLE = 0.03


def refusal(deployment: Deployment, workload: Workload, strategy: Strategy, means: Means) -> str | None:
    """Return why the closed form gives no percentile of TTFT for a strategy; None where it does."""
    if means.reason is not None:
        return means.reason
    return next(_reasons(deployment, workload, strategy, means), None)


def _reasons(deployment: Deployment, workload: Workload, strategy: Strategy, means: Means) -> Iterator[str]:
    settings, rule = deployment.settings, strategy.rule
    loads = {load.role: load.utilisation for load in means.loads}
    if rule is not None and rule.kind is not RuleKind.THRESHOLD:
        yield f"{rule.label} decides by the state at each arrival; the closed form knows the mean state alone"
    if settings.lag:
        yield "an engine that plans a step ahead (--lag) seats an arrival one step later, which no formula here has"
    for load in means.loads:
        waiting = means.read_wait_s / means.ttft_s if means.ttft_s else 0.0
        if load.role.startswith(TIER) and (load.utilisation > _LINK or waiting > _LINK_WAIT):
            yield f"{load.role} is used to {load.utilisation:.2f}: reads queue, and only their mean wait is known"
    if any(request.blocks for request in workload.requests):
        yield "what a prefix cache holds at each arrival is not known beforehand"
    if strategy.pooled and deployment.prefill is not deployment.decode:
        yield "a router sends fewer prompts to the slower of unlike instances; the closed form shares them out evenly"
    if workload.gaps and sum(gap < _AT_ONCE for gap in workload.gaps) > _TIES * len(workload.gaps):
        yield "many requests of the trace arrive at the same time: its gaps depend on each other"
    if means.utilisation > _MOST:
        yield f"at utilisation {means.utilisation:.2f} a small error of a step time moves the wait too far"
    waits = means.accounts["link"] / means.ttft_s if means.accounts and means.ttft_s else 0.0
    if loads.get("link", 0.0) > _LINK or waits > _LINK_WAIT:
        yield f"the link is used to {loads['link']:.2f}: copies queue for it, and only their mean wait is known"
    yield from _of_the_decodes(workload, strategy, means)
    for line in means.lines:
        yield from _of_the_line(line)


def _of_the_decodes(workload: Workload, strategy: Strategy, means: Means) -> Iterator[str]:
    """Decodes near what memory and seats allow, on average or, two standard deviations above it, at times."""
    more = at_times(means.batch, workload.arrivals.cv**2) / means.batch if means.batch else 0.0
    most = means.crowding * more
    if means.crowding > (_CROWDED if strategy.pooled else _DECODES) or most > 1:
        yield (
            f"decodes come to {means.crowding:.2f} of what memory and seats allow, at times to {most:.2f}: their "
            "number, and with it the steps of prompts, cannot be told by the mean"
        )


def _of_the_line(line: Line) -> Iterator[str]:
    service, cv = moments(line.takes, line.weights), math.sqrt(line.gaps.scv)
    used, found = line.gaps.rate * service.mean / line.servers, waits_of(line)
    if abs(found.total - 1) > _LOST:
        yield "gaps and lengths take so few values that their waits cannot be told apart"
    if found.waiting < _LITTLE:
        return
    if service.scv < _ALIKE:
        if line.together >= _TOGETHER:
            yield "prompts of one length that share steps fall into step with each other"
        elif line.servers > 1 and cv > _WAVES:
            yield "prompts of one length in bursts come in waves over the instances of a pool"
    saved = 1 - service.mean / moments(line.alone, line.weights).mean
    if line.behind and saved * max(1.0, cv) > _SAVED:
        yield f"crowds of short prompts share steps, which saves {saved:.0%} on average and varies with the crowd"
    if line.swing > _SWING * (1 - used):
        yield (
            f"prompts take {line.swing:.0%} longer beside as many decodes as run at times; at utilisation {used:.2f} "
            "that moves the wait too far"
        )
