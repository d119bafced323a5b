"""A trace as a workload: its first requests, replayed at their own rate, and whether its load varies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path

from ...errors import InputError
from ..workload import Arrivals, Request, Slo, Workload, unknown
from .reader import read_trace
from .reading import Notes, Reading
from .reuse import could_be_cached

#: Requests that ``recommend`` keeps of a trace: an hour or so, a second or two for each strategy.
EVALUATED = 20_000
_CLOSEST_S = 1e-9
#: Mean gaps of the windows over which work is counted, of a busy stretch, and the fewest windows that tell something.
_WINDOW, _STRETCH, _FEWEST = 300, 100, 3
#: Dispersion of even arrivals, from those that fall on either side of a window's edge.
_EDGES = 0.01
#: Gaps that stand for those of a trace in closed forms.
_GAPS = 1000


def trace_workload(
    path: str | Path, slo: Slo, count: int = EVALUATED, how: Reading | None = None
) -> Workload:
    """Return a workload that replays the first ``count`` requests of a trace at their own rate.

    Where the trace names blocks and nobody says how to read it, cached tokens are those that a cache without bound
    would hold, so that the ideal knows of them; evaluators find what theirs hold.

    Only those are kept; the rest is still read, so that a bad row is found. Raises InputError for fewer
    than two requests or a trace in which all arrive at once.
    """
    notes = Notes()
    rows = read_trace(path, how or Reading(), notes)
    kept = tuple(islice(rows, count))
    if how is None and notes.has_blocks:
        kept = tuple(could_be_cached(kept))
    total = len(kept) + sum(1 for _ in rows)
    span = kept[-1].arrival_s - kept[0].arrival_s
    if len(kept) < 2 or span < len(kept) * _CLOSEST_S:
        raise InputError("needs at least two requests at different times", where=str(path))
    part = "all" if total == len(kept) else f"the first {len(kept):,}"
    others = f"; {notes.told()}" if notes.told() else ""
    return recorded_workload(Path(path).name, kept, slo, f"{part} of {total:,} requests of {path}{others}")


def recorded_workload(name: str, requests: Sequence[Request], slo: Slo, chosen: str) -> Workload:
    """Return a workload that replays these requests, two or more at different times, at their own rate.

    ``chosen`` says where they come from.
    """
    gaps = [b.arrival_s - a.arrival_s for a, b in pairwise(requests)]
    mean = (requests[-1].arrival_s - requests[0].arrival_s) / len(gaps)
    cv = math.sqrt(sum((g - mean) ** 2 for g in gaps) / len(gaps)) / mean
    return Workload(
        name=name,
        arrivals=Arrivals(1 / mean, cv),
        uncached=None,
        cached_tokens=0,
        output=None,
        slo=slo,
        chosen=chosen,
        requests=tuple(requests),
        peak=busiest(requests) if varies(requests) else 0.0,
        gaps=gap_quantiles(gaps),
    )


def gap_quantiles(gaps: Sequence[float]) -> tuple[float, ...]:
    """Return up to ``_GAPS`` gaps that stand for all, over their mean: means of equal parts in order of size."""
    ordered, count = sorted(gaps), min(_GAPS, len(gaps))
    mean = sum(gaps) / len(gaps)
    ends = [i * len(ordered) // count for i in range(count + 1)]
    parts = [ordered[a:b] for a, b in pairwise(ends)]
    return tuple(sum(part) / len(part) / mean for part in parts)


def varies(requests: Sequence[Request]) -> bool:
    """Say whether the load of a trace varies more than its gaps and lengths explain.

    True where the squared variation of gaps exceeds 2, or where the dispersion of work (uncached tokens, all of
    named blocks) over windows of 300 mean gaps exceeds 1.5 times what independent arrivals and lengths would give.
    Then no formula from means and variations describes the queue. Fewer than three windows: True, nothing shown.
    """
    gap_scv = _scv([b.arrival_s - a.arrival_s for a, b in pairwise(requests)])
    work, sums = [float(unknown(r).uncached_tokens) for r in requests], _work(requests, _WINDOW)
    if gap_scv > 2 or len(sums) < _FEWEST:
        return True
    mean_work = sum(work) / len(work)
    mean_sum = sum(sums) / len(sums)
    variance = sum((s - mean_sum) ** 2 for s in sums) / (len(sums) - 1)
    return variance / (mean_sum * mean_work) > 1.5 * (gap_scv + _scv(work)) + _EDGES


def busiest(requests: Sequence[Request]) -> float:
    """Return the work of the busiest stretch of ``_STRETCH`` mean gaps over the mean; infinite of a short trace."""
    sums = _work(requests, _STRETCH)
    if len(sums) < _FEWEST * _WINDOW // _STRETCH:
        return math.inf
    return max(sums) * len(sums) / sum(sums)


def _work(requests: Sequence[Request], gaps: int) -> list[float]:
    """Uncached tokens that arrive in windows of so many mean gaps, whole windows only."""
    first, last = requests[0].arrival_s, requests[-1].arrival_s
    window = gaps * (last - first) / (len(requests) - 1)
    start, sums = 0.0, [0.0]
    for request in requests:
        while request.arrival_s - first >= start + window:  # from 0: late on the clock, floats are coarse
            start += window
            sums.append(0.0)
        sums[-1] += unknown(request).uncached_tokens
    return sums[:-1]  # the last window is cut short


def _scv(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / len(values) / mean**2 if mean > 0 else 0.0
