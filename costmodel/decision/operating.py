"""The operating point of the threshold: what the inequality's parameters are for a deployment and a load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..evaluate.closed import ClosedForm, Means
from ..evaluate.timeline import Record, Run
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import DISAGGREGATED, Role, Rule, RuleKind, Strategy, deflected
from ..serving.work import Chunk
from .breakeven import Root, Values, numeric_root

#: Longest prompt looked at for a threshold, in uncached tokens.
LONGEST = 131072.0
SHORTEST = 1e-6
#: Quantiles of the lengths on which the self-consistent threshold rests.
QUANTILES = 32


@dataclass(frozen=True)
class Operating:
    """Parameter values of the inequality, and where each of the load-dependent ones comes from."""

    values: Values
    observed: bool
    note: str

    def selfish(self) -> Values:
        """The same values as shipped routers compare them: nobody waits behind this prompt."""
        return {**self.values, "queued_prefill": 0.0, "queued_decode": 0.0}


def prefill_line(times: StepTimes, chunk: int) -> tuple[float, float]:
    """Return (a0, a) of prefill alone, a0 + a u, from a quarter of a chunk to a whole one."""
    short, whole = _ends(chunk)
    slope = (times.prefill(whole) - times.prefill(short)) / (whole - short)
    return times.prefill(whole) - slope * whole, slope


def _ends(chunk: int) -> tuple[int, int]:
    """A quarter of a chunk and a whole one, at least 1 and 2 tokens."""
    return max(1, chunk // 4), max(2, chunk)


def piggyback(times: StepTimes, chunk: int, batch: float, context: float) -> tuple[float, float]:
    """Return (p, p0): the shares of a and a0 that a mixed step beside ``batch`` decodes hides.

    From the excess of mixed over decode-only steps at a quarter of a chunk and at a whole one. Below one
    running decode there is something to ride on only that share of the time.
    """
    running = max(1, round(batch))
    fixed, slope = prefill_line(times, chunk)
    cached = running * context
    base = times.decode(running, cached)
    short, whole = _ends(chunk)
    excess = [times.step((Chunk(c, 0),), 1, running, cached) - base for c in (short, whole)]
    rise = (excess[1] - excess[0]) / (whole - short)
    present = min(1.0, batch)
    hidden_fixed = 1 - (excess[1] - rise * whole) / fixed if fixed > 0 else 0.0
    return present * (1 - rise / slope), present * hidden_fixed


def operating_point(
    deployment: Deployment,
    workload: Workload,
    times: dict[InstanceKind, StepTimes],
    *,
    closed: ClosedForm | None = None,
    strategy: Strategy = DISAGGREGATED,
    overrides: Values | None = None,
) -> Operating:
    """Return the inequality's values at the load that ``strategy`` sees.

    Wait, batch and queue factors are closed-form means; where the load has none they are those of an idle
    deployment, ``observed`` is False and the note says why. ``overrides`` replace single values.
    """
    form = closed or ClosedForm(deployment, workload, times)
    means = form.means(strategy)
    given = overrides or {}
    chunk = int(given.get("chunk", deployment.settings.token_budget))
    batch = given.get("batch", means.batch or 0.0)
    fixed, slope = prefill_line(times[deployment.prefill], chunk)
    hidden, hidden_fixed = piggyback(times[deployment.decode], chunk, batch, form.context)
    seen = max(1.0, batch)
    # A step is under way, and lengthened by a chunk, only while somebody decodes.
    step = min(1.0, batch) * times[deployment.decode].decode_smooth(seen, seen * form.context)
    prompt = form.mean([r.uncached_tokens for r in form.requests])
    path = deployment.path
    per_token = path.wire_bytes(round(prompt)) / round(prompt)
    # What layers hide during prefill costs nothing: at the mean prompt, the share of the copy that is exposed.
    alone = times[deployment.prefill].prefill(round(prompt))
    exposed = path.exposed_s(round(prompt), alone) / path.wire_s(round(prompt))
    rate = path.bandwidth_bytes_per_s * path.connector.bandwidth_share / exposed
    values = {
        "uncached": prompt,
        "chunk": float(chunk),
        "prefill_fixed": fixed,
        "prefill_per_token": slope,
        "decode_step": step,
        "piggyback": hidden,
        "piggyback_fixed": hidden_fixed,
        "decode_weight": 1.0,
        "batch": batch,
        "control": path.control_s,
        "latency": path.latency_s * exposed + prefix_seconds(deployment, form, times, exposed),
        "kv_bytes_per_token": per_token,
        "link_bytes_per_s": rate,
    }
    values |= _queues(deployment, workload, means)
    values |= given
    if given.keys() >= {"wait", "batch"}:
        return Operating(values, True, f"the wait and running decodes seen at {workload.rate:.3g} requests/s")
    if means.reason:
        return Operating(values, False, f"no closed-form wait: {means.reason}")
    note = f"closed-form means of {means.strategy} at {workload.rate:.3g} requests/s"
    return Operating(values, True, note)


def prefix_seconds(
    deployment: Deployment, form: ClosedForm, times: dict[InstanceKind, StepTimes], exposed: float
) -> float:
    """Mean seconds that a cached prefix of unknown blocks adds to remote prefill, less those it adds to a local one.

    It is computed where it does not lie, and copied where the decode side lacks it; ``exposed`` share of a copy. A
    read from a tier takes as long on either side. No length of the uncached part changes these seconds.
    """
    path, each = deployment.path, []
    for request in form.requests:
        computed, cached, found = request.uncached_tokens, request.cached_tokens, 0.0
        each.append(found)
        if not cached:
            continue
        if deployment.held in ("prefill", "decode"):
            lacks = deployment.decode if deployment.held == "prefill" else deployment.prefill
            again = times[lacks].prefill(request.isl, 0) - times[lacks].prefill(computed, cached)
            found += again if deployment.held == "decode" else -again
        if deployment.copies_prefix:
            found += exposed * (path.wire_s(request.isl) - path.wire_s(computed))
        each[-1] = found
    return form.mean(each)


def measured_load(run: Run, done: Sequence[Record], deployment: Deployment, rate: float) -> Values:
    """Return wait, running decodes and queue factor of a disaggregated run, over its requests ``done``.

    The batch is Little's law: arrivals at an instance times the time that requests spend decoding. The queue
    factor is that of one M/G/1 server with the measured wait and busy share.
    """
    wait = sum(r.queue for r in done) / len(done)
    batch = rate / deployment.topology.decode * sum(r.end - r.d0 for r in done) / len(done)
    busy = next(use.busy_share for use in run.pools if use.role == Role.PREFILL.value)
    behind = rate / deployment.topology.prefill * wait / (1 - busy)
    return {"wait": wait, "batch": batch, "queued_prefill": behind}


def _queues(deployment: Deployment, workload: Workload, means: Means) -> Values:
    """Wait at the prefill pool, and how many prompts wait behind one per second of service it adds.

    One M/G/1 server: rate x mean wait / (1 - utilisation), of one instance.
    """
    if means.prefill_wait_s is None:
        return {"wait": 0.0, "queued_prefill": 0.0, "queued_decode": 0.0}
    busy = {load.role: load.utilisation for load in means.loads}
    rate = workload.rate * (1 - means.local_share) / deployment.topology.prefill
    behind = rate * means.prefill_wait_s / (1 - busy["prefill"])
    return {"wait": means.prefill_wait_s, "queued_prefill": behind, "queued_decode": 0.0}


def threshold(values: Values) -> Root:
    """Return the smallest number of uncached tokens from which remote prefill pays, by numbers alone."""
    return numeric_root("tokens", values, SHORTEST, LONGEST)


def self_consistent(
    deployment: Deployment,
    workload: Workload,
    times: dict[InstanceKind, StepTimes],
    overrides: Values | None = None,
) -> tuple[float | None, str]:
    """Return the system threshold at the load that this very threshold produces, and how it was found.

    A longer threshold keeps more prompts local: the prefill pool waits less and the decode pool more, so the
    threshold that follows falls. Bisected to 1 % of where they cross; None with the reason where the closed
    form has no answer. Lengths count as ``QUANTILES``, so that what follows falls in steps, and may cross in one.
    """
    if workload.bursty:
        return None, "no closed-form means for a load that varies"
    form = ClosedForm(deployment, workload, times, points=QUANTILES)

    def follows(current: float) -> float:
        """Threshold that follows from the load under a threshold; 0 or infinite where a pool is overloaded."""
        strategy = deflected(Rule(RuleKind.THRESHOLD, threshold=round(current)))
        means = form.means(strategy)
        if means.reason is not None:
            busiest = max(means.loads, key=lambda load: load.utilisation)
            return 0.0 if busiest.role == Role.DECODE.value else math.inf
        point = operating_point(
            deployment, workload, times, closed=form, strategy=strategy, overrides=overrides
        )
        found = threshold(point.values).value
        return math.inf if found is None else found

    low, high = 1.0, LONGEST
    if follows(high) >= high:
        return None, "local prefill is cheaper at every length, even with every prompt local"
    if follows(low) <= low:
        return 0.0, "remote prefill pays at every length"
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if follows(middle) > middle else (low, middle)
    return math.sqrt(low * high), "fixed point of closed-form means"
