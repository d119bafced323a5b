"""From figures to a verdict: which strategy, by what margin, how sure, and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..serving.band import spread
from ..serving.strategies import DEFLECTED, Strategy
from .bands import Bands
from .goodput import RESOLUTION
from .results import StrategyResult

#: Mean delays below this, in seconds, are rounding: the accounts of a request add up to no better.
_NO_DELAY = 1e-9
#: Margin below which a verdict without a band is too close: few bands of margins are wider.
UNKNOWN = 1.3
TOO_CLOSE, NONE_STABLE = "too_close_to_call", "none_stable"


@dataclass(frozen=True)
class Verdict:
    """The verdict, its objective, and the margin (at least 1) of the best over the second with its band."""

    verdict: str
    objective: str
    best: str | None
    runner_up: str | None
    margin: float | None
    margin_low: float | None
    margin_high: float | None
    reason: str | None


def objective_of(results: Sequence[StrategyResult]) -> str:
    """Goodput where it was searched and is not 0 for all, else mean delay."""
    return "goodput_per_gpu" if any(r.goodput_per_gpu_per_s for r in results) else "mean_delay"


def judge(results: Sequence[StrategyResult], strategies: Sequence[Strategy], bands: Bands) -> Verdict:
    """Rank the stable strategies and band the margin of the best over the second."""
    objective = objective_of(results)
    stable = [r for r in results if r.stable and _score(r, objective) is not None and not same_as_split(r)]
    if not stable:
        if any(r.stable for r in results):
            reason = next(r.reason for r in results if r.stable) or "no objective can be computed"
            return Verdict(TOO_CLOSE, objective, None, None, None, None, None, reason)
        return Verdict(
            NONE_STABLE, objective, None, None, None, None, None, "no strategy is stable at this rate"
        )
    ranked = sorted(stable, key=lambda r: _score(r, objective) or 0.0, reverse=objective == "goodput_per_gpu")
    best = ranked[0]
    if len(ranked) < 2:
        reason = no_rival(sum(r.stable and not same_as_split(r) for r in results), objective)
        return Verdict(best.name, objective, best.name, None, None, None, None, reason)
    second = ranked[1]
    top, next_best = _score(best, objective), _score(second, objective)
    assert top is not None and next_best is not None
    if min(top, next_best) <= (_NO_DELAY if objective == "mean_delay" else 0):
        reason = no_ratio(top) if objective == "mean_delay" else "the second has no goodput"
        return Verdict(best.name, objective, best.name, second.name, None, None, None, reason)
    margin = top / next_best if objective == "goodput_per_gpu" else next_best / top
    by_name = {s.name: s for s in strategies}
    moved = _moved(by_name[best.name], by_name[second.name], best, second, objective, bands)
    errors = [_noise(r, objective) for r in (best, second)]
    if None in errors:
        why = "the sample is too small to know its own error; raise --requests and --probe"
        return Verdict(TOO_CLOSE, objective, best.name, second.name, margin, None, None, why)
    noise = [margin * (1 + error) for error in errors if error is not None]
    if moved is None:
        why = "no means at every moved step time, and bands rest on them"
        close = margin / spread(margin, noise) <= UNKNOWN
        verdict = TOO_CLOSE if close else best.name
        return Verdict(verdict, objective, best.name, second.name, margin, None, None, why)
    factor = spread(margin, [margin * m for m in moved] + noise)
    verdict = TOO_CLOSE if margin / factor <= 1 else best.name
    return Verdict(verdict, objective, best.name, second.name, margin, margin / factor, margin * factor, None)


def no_rival(stable: int, objective: str) -> str:
    """Say why the best strategy has no second: of ``stable`` ones it alone has what they are ranked by."""
    if stable < 2:
        return "only one strategy is stable at this rate"
    what = "mean delay" if objective == "mean_delay" else "goodput"
    return f"no other stable strategy has a {what}"


def no_ratio(delay: float) -> str:
    """Say why a second mean delay cannot be told as a multiple of the best, in seconds."""
    return "the best delay is 0" if abs(delay) <= _NO_DELAY else "the best delay is less than 0"


def same_as_split(result: StrategyResult) -> bool:
    """Say whether a deflected strategy keeps no prompt local: then it is plain disaggregation, not a rival."""
    return result.name == DEFLECTED.name and result.local_share == 0


def _score(result: StrategyResult, objective: str) -> float | None:
    return result.goodput_per_gpu_per_s if objective == "goodput_per_gpu" else result.mean_delay_s


def _noise(result: StrategyResult, objective: str) -> float | None:
    """Relative error of a score from the finite sample: its standard error, and the search's resolution.

    None where the sample is too small to know; 0 for a closed form, which has no sample.
    """
    if objective == "mean_delay":
        return 0.0 if result.method == "closed" else result.mean_delay_sampling
    sampling = result.goodput_sampling
    return None if sampling is None else math.hypot(sampling, RESOLUTION - 1)


def _moved(
    best: Strategy, second: Strategy, a: StrategyResult, b: StrategyResult, objective: str, bands: Bands
) -> list[float] | None:
    """Return the ratio of the two at each moved step time over the nominal one; None without closed form."""
    if objective == "mean_delay":
        first, other = bands.delays(best), bands.delays(second)
    else:
        gpus = bands.gpus
        first = bands.rates(best, (a.goodput_per_gpu_per_s or 0.0) * gpus, a.goodput_binding)
        other = bands.rates(second, (b.goodput_per_gpu_per_s or 0.0) * gpus, b.goodput_binding)
    if first is None or other is None:
        return None
    ratios = [x / y for x, y in zip(first, other)]
    return [ratio / ratios[0] for ratio in ratios[1:]]
