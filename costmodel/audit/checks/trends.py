"""Series: what a metric's growth with tokens, bytes, clients or a burst says of fixed parts and rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from .. import words
from ..case import Case
from ..finding import HOLDS, INCONSISTENT, SUSPICIOUS, Finding, Inversion
from ..runs import Series
from ..subject import Unknown

#: Largest relative miss of a line through a series that still counts as one.
STRAIGHT = 0.15
#: Largest relative miss of a line that still says something.
NO_LINE = 0.5
#: Below this share of the growth that work explains, a TTFT does not follow its prompt.
FLAT = 0.3


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return constant, slope and largest relative miss of the line with the least relative squares.

    >>> constant, slope, miss = line([(1, 12.0), (2, 14.0), (4, 18.0)])
    >>> round(constant, 6), round(slope, 6), round(miss, 6)
    (10.0, 2.0, 0.0)
    """
    weights = [1 / y**2 for _, y in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points))
    slope = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points)) / spread
    constant = mean_y - slope * mean_x
    return constant, slope, max(abs((constant + slope * x) / y - 1) for x, y in points)


def invert_series(case: Case) -> Iterator[Inversion]:
    """Fit a line to each series that has a physical one, and say what its constant and slope mean."""
    for series in case.series:
        meaning = _MEANINGS.get((series.metric, series.varies))
        points = [(x, figure.value) for x, figure in series.points]
        if meaning is None or any(value <= 0 for _, value in points):
            continue
        constant, slope, miss = line(points)
        if miss > NO_LINE:
            continue
        yield from meaning(case, series, constant, slope, miss)


def _told(series: Series, constant: float, slope: float, miss: float) -> str:
    per = {"input_tokens": "a token", "payload": "a byte", "concurrency": "a client", "burst": "a prompt",
           "descriptors": "a descriptor"}.get(series.varies, series.varies)  # fmt: skip
    return (
        f"{len(series.points)} points: {words.seconds(constant)} + {words.seconds(slope, 4)} {per}, "
        f"at most {miss:.0%} off"
    )


def _copies(case: Case, series: Series, constant: float, slope: float, miss: float) -> Iterator[Inversion]:
    """A copy is latency and bytes over a bandwidth."""
    told = _told(series, constant, slope, miss)
    yield Inversion(
        "latency_s", constant, series.names, told, constant >= 0, "the part of a copy that no byte takes"
    )
    if slope <= 0:
        reason = "times do not grow with the bytes"
        yield Inversion("effective_bytes_per_s", None, series.names, told, None, "", reason)
        return
    each = 1.0
    if series.varies == "input_tokens":
        subject = case.subject(series.run, series.points[-1][1])
        try:
            each = (subject.kv_bytes(8192) - subject.kv_bytes(4096)) / 4096
        except Unknown as why:
            yield Inversion("effective_bytes_per_s", None, series.names, told, None, "", str(why))
            return
        told += f"; {each:,.0f} B a token"
    rate = each / slope
    yield Inversion(
        "effective_bytes_per_s",
        rate,
        series.names,
        told,
        None,
        f"bytes beyond it move at {words.rate(rate)}",
    )


def _prefill(case: Case, series: Series, constant: float, slope: float, miss: float) -> Iterator[Inversion]:
    told = _told(series, constant, slope, miss)
    yield Inversion("fixed_s", constant, series.names, told, None, "the part that no token takes")
    if slope > 0:
        yield Inversion(
            "tokens_per_s",
            1 / slope,
            series.names,
            told,
            None,
            f"prompts are computed at {1 / slope:,.0f} tokens/s",
        )


def _clients(case: Case, series: Series, constant: float, slope: float, miss: float) -> Iterator[Inversion]:
    """Clients of a closed loop that wait for each other's prompts: TTFT grows by one prompt's service a client."""
    if slope <= 0:
        return
    told = _told(series, constant, slope, miss)
    said = f"prompts are served one after the other, {words.seconds(slope)} each"
    yield Inversion("service_s", slope, series.names, told, None, said)
    figure = series.points[-1][1]
    subject = case.subject(series.run, figure)
    tokens = series.run.number("input_tokens", figure)
    gpus = subject.machine.most_per_prompt
    if not tokens or not gpus:
        return
    try:
        least = subject.prefill(int(tokens), 0, gpus)
    except Unknown:
        return
    over = slope - least.seconds
    arithmetic = f"{words.seconds(slope)} - ({least.arithmetic})"
    yield Inversion("overhead_s", over, series.names, arithmetic, over >= 0,
                    f"{over / slope:.0%} of a prompt's service is not its work at peak")  # fmt: skip


def _burst(case: Case, series: Series, constant: float, slope: float, miss: float) -> Iterator[Inversion]:
    """Prompts that arrive together and are served in turns: their mean TTFT grows by half a service each."""
    if slope > 0:
        told = _told(series, constant, slope, miss)
        said = f"a prompt of the burst takes {words.seconds(2 * slope)}: mean TTFT = constant + N / 2 of it"
        yield Inversion("service_s", 2 * slope, series.names, told, None, said)


def _descriptors(
    case: Case, series: Series, constant: float, slope: float, miss: float
) -> Iterator[Inversion]:
    told = _told(series, constant, slope, miss)
    yield Inversion(
        "per_descriptor_s", slope, series.names, told, slope >= 0, "each separate region adds so much"
    )


_Meaning = Callable[[Case, Series, float, float, float], Iterator[Inversion]]
_MEANINGS: dict[tuple[str, str], _Meaning] = {
    ("kv_transfer_time", "payload"): _copies,
    ("kv_transfer_time", "input_tokens"): _copies,
    ("kv_transfer_time", "descriptors"): _descriptors,
    ("handover_time", "descriptors"): _descriptors,
    ("prefill_time", "input_tokens"): _prefill,
    ("ttft", "input_tokens"): _prefill,
    ("ttft", "concurrency"): _clients,
    ("ttft", "burst"): _burst,
}


def check_growth(case: Case) -> Iterator[Finding]:
    """A prompt's time grows at least as its products do: where it hardly grows, prompts were not computed whole."""
    for series in case.series:
        if series.varies != "input_tokens" or series.metric not in ("prefill_time", "ttft"):
            continue
        (short, first), (long, last) = series.points[0], series.points[-1]
        subject = case.subject(series.run, last)
        gpus = subject.machine.most_per_prompt
        try:
            work = [subject.prefill(int(tokens), 0, gpus or 1).seconds for tokens in (short, long)]
        except Unknown:
            continue
        grown, must = last.value - first.value, work[1] - work[0]
        if gpus is None or must <= 0:
            continue
        told = (
            f"from {short:,.0f} to {long:,.0f} tokens {words.seconds(grown)}, at peak {words.seconds(must)}"
        )
        if grown >= must:
            said = "times grow by no less than the work of the longer prompts"
            yield Finding("growth_with_tokens", HOLDS, series.names, said, told)
        else:
            grade = INCONSISTENT if grown < FLAT * must else SUSPICIOUS
            said = f"times grow by {max(grown, 0) / must:.0%} of what the longer prompts' work takes at peak rates"
            yield Finding("growth_with_tokens", grade, series.names, said, told)


#: Growth of TTFT over that of clients, as exponents, within which prompts queue for one server.
_PROPORTIONAL = (0.75, 1.25)
#: Multiple of a prompt's work at peak from which its service is overhead.
_OVERHEAD = 5.0


def check_serial(case: Case) -> Iterator[Finding]:
    """TTFT in proportion to the clients of a closed loop: prompts are served one at a time, each in the slope."""
    for series in case.series:
        if (series.metric, series.varies) != ("ttft", "concurrency") or series.run.number("arrival_rate"):
            continue
        (few, first), (many, last) = series.points[0], series.points[-1]
        if many < 4 * max(few, 1) or not 0 < first.value < last.value:
            continue
        exponent = math.log(last.value / first.value) / math.log(many / max(few, 1))
        if _PROPORTIONAL[0] <= exponent <= _PROPORTIONAL[1]:
            yield _serial(case, series, exponent)


def _serial(case: Case, series: Series, exponent: float) -> Finding:
    points = [(x, figure.value) for x, figure in series.points]
    service = line(points)[1]
    told = f"{len(points)} points: clients to the power of {exponent:.2g}, {words.seconds(service)} a client"
    said = f"prompts are computed one after the other, {words.seconds(service)} each"
    figure = series.points[-1][1]
    subject, tokens = case.subject(series.run, figure), series.run.number("input_tokens", figure)
    try:
        least = subject.prefill(int(tokens or 0), 0, subject.machine.most_per_prompt or 0) if tokens else None
    except (Unknown, ZeroDivisionError):
        least = None
    if least is None or service <= 0:
        return Finding("serial_prefill", HOLDS, series.names, said, told)
    ratio, told = service / least.seconds, f"{told}; {least.arithmetic}"
    if ratio < _OVERHEAD:
        return Finding(
            "serial_prefill", HOLDS, series.names, f"{said}, {ratio:.3g} times their work at peak", told
        )
    said += f", {ratio:.3g} times their work at peak: overhead of a request dominates, not FLOPs"
    return Finding("serial_prefill", SUSPICIOUS, series.names, said, told)
