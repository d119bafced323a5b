"""Where the verdict flips, and what moves P95 TTFT: share is not leverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..evaluate.closed import ClosedForm
from ..inputs.workload import Workload
from ..serving.deployment import Deployment
from ..serving.instance import InstanceKind
from ..serving.step import StepTimes
from ..serving.strategies import Strategy
from .breakeven import UNKNOWNS, advantage, numeric_root
from .operating import LONGEST, SHORTEST, Operating
from .results import Flip

Times = dict[InstanceKind, StepTimes]
_POINTS = 8


class Landscape:
    """Best strategy by closed-form mean delay as one input moves and the others stay."""

    def __init__(
        self, deployment: Deployment, workload: Workload, times: Times, strategies: Sequence[Strategy]
    ) -> None:
        self.deployment, self.workload, self.times = deployment, workload, times
        self.strategies = strategies

    def best(self, deployment: Deployment, workload: Workload) -> str | None:
        """Return the stable strategy with the least mean delay, None when none is stable."""
        form = ClosedForm(deployment, workload, self.times, _POINTS)
        delays = {s.name: form.means(s).delay_s for s in self.strategies}
        known = {name: delay for name, delay in delays.items() if delay is not None}
        return min(known, key=lambda name: known[name]) if known else None

    def flip(
        self, name: str, unit: str, at: float, low: float, high: float, best: Callable[[float], str | None]
    ) -> Flip:
        """Return the nearest value, in ratio, at which another strategy becomes the best."""
        if self.workload.bursty:
            return Flip(name, unit, at, None, None, low, high, "no closed-form means for a load that varies")
        here = best(at)
        if here is None:
            return Flip(name, unit, at, None, None, low, high, "no strategy is stable here")
        found = []
        for end in (low, high):
            edge = _first_change(best, here, at, end)
            if edge is not None:
                found.append(edge)
        if not found:
            reason = f"never within {low:.3g} .. {high:.3g}"
            return Flip(name, unit, at, None, None, low, high, reason, here)
        value, to = min(found, key=lambda pair: abs(math.log(pair[0] / at)))
        return Flip(name, unit, at, value, to or "none stable", low, high, None, here)

    def all(self) -> list[Flip]:
        """Return the flips of copy bandwidth, rate, burstiness and token budget."""
        deployment, workload = self.deployment, self.workload
        path, settings = deployment.path, deployment.settings
        bandwidth = path.bandwidth_bytes_per_s

        def by_bandwidth(x: float) -> str | None:
            return self.best(replace(deployment, path=replace(path, bandwidth_override=x)), workload)

        def by_rate(x: float) -> str | None:
            return self.best(deployment, workload.at_rate(x))

        def by_cv(x: float) -> str | None:
            return self.best(deployment, replace(workload, arrivals=replace(workload.arrivals, cv=x)))

        def by_budget(x: float) -> str | None:
            moved = replace(settings, token_budget=max(32, 32 * round(x / 32)))
            return self.best(replace(deployment, settings=moved), workload)

        rate, cv, budget = workload.rate, max(workload.arrivals.cv, 0.05), float(settings.token_budget)
        return [
            self.flip(
                "copy bandwidth", "bytes_per_s", bandwidth, bandwidth / 1000, bandwidth * 100, by_bandwidth
            ),
            self.flip("arrival rate", "per_s", rate, rate / 16, rate * 4, by_rate),
            self.flip("burstiness (CV)", "1", cv, min(0.1, cv), max(1.41, cv), by_cv),
            self.flip("token budget", "tokens", budget, min(256.0, budget), max(16384.0, budget), by_budget),
        ]


def _first_change(
    best: Callable[[float], str | None], here: str, at: float, end: float, steps: int = 4
) -> tuple[float, str | None] | None:
    """Scan from ``at`` towards ``end`` in even ratios and bisect the first change of the best strategy."""
    if at == end:
        return None
    inner = at
    for i in range(1, steps + 1):
        outer = at * (end / at) ** (i / steps)
        if best(outer) != here:
            for _ in range(5):
                middle = math.sqrt(inner * outer)
                inner, outer = (middle, outer) if best(middle) == here else (inner, middle)
            return outer, best(outer)
        inner = outer
    return None


def local_flips(point: Operating, constant: float | None) -> list[Flip]:
    """Return where local and remote prefill change places: by uncached prompt, running decodes and chunk.

    ``constant``: the threshold that the answer recommends, which is the flip of the uncached prompt.
    """
    values = point.values
    sides = ("remote prefill", "local prefill")
    now, other = sides if advantage(values) > 0 else sides[::-1]
    flips = []
    for word, name, unit, low, high in (
        ("tokens", "uncached prompt", "tokens", SHORTEST, LONGEST),
        ("batch", "running decodes", "per_instance", 0.01, 4096.0),
        ("chunk", "chunk", "tokens", 16.0, 65536.0),
    ):
        at = values[UNKNOWNS[word][0]]
        if not point.observed:
            flips.append(Flip(name, unit, at, None, None, low, high, point.note))
            continue
        root = numeric_root(word, values, low, high)
        found = constant if word == "tokens" and constant else root.value
        value = found or None  # remote prefill that pays from 0 tokens on pays everywhere
        to, reason = (None, root.regime) if value is None else (other, None)
        flips.append(Flip(name, unit, at, value, to, low, high, reason, now))
    return flips
