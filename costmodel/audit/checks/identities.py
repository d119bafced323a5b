"""Identities that any run obeys, whatever the engine: E2E from its parts, Little's law, rates from one another."""

from __future__ import annotations

from collections.abc import Iterator

from ...records import Figure
from ...units import format_si
from ..case import MEANS, Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding
from ..runs import Run, named
from .definitions import DEFINITIONS, GAPS, definition_of, tokens_of, whole_of

#: Relative difference up to which an identity of means holds; beyond ``_APART`` the figures contradict each other.
_CLOSE, _APART = 0.03, 0.10


def check_e2e(case: Case) -> Iterator[Finding]:
    """E2E of means as TTFT and TPOT make it by the stated definition: medians and percentiles do not add up."""
    for run in case.runs:
        ttft, e2e, gap = run.get("ttft", *MEANS), run.get("e2e", *MEANS), _gap(run)
        osl = tokens_of(run, "output")
        if not (ttft and e2e and gap and osl) or osl <= 1 or not e2e.value:
            continue
        stated = definition_of(run)
        made = whole_of(ttft.value, gap.value, osl, stated or GAPS)
        parts, total = f"{_s(ttft)} and {osl:g} x {_s(gap)}", format_si(made.seconds, "second")
        sum_ = f"{parts}: {made.told} = {total} against {_s(e2e)}"
        of = named((ttft, gap, e2e))
        found = compared_with("e2e_identity", of, made.seconds / e2e.value, made.told, "E2E", sum_)
        other = None if stated or found.grade == HOLDS else _defined_otherwise(ttft, gap, e2e, osl)
        if other:
            said = f"{found.said}; TPOT as {other} fits: its definition is not stated"
            found = Finding("e2e_identity", SUSPICIOUS, of, said, sum_)
        yield found


def _gap(run: Run) -> Figure | None:
    return run.get("tpot", *MEANS) or run.get("itl", *MEANS)


def _defined_otherwise(ttft: Figure, gap: Figure, e2e: Figure, osl: float) -> str | None:
    """The other definition of TPOT by which means agree."""
    for definition in DEFINITIONS[1:]:
        if abs(whole_of(ttft.value, gap.value, osl, definition).seconds / e2e.value - 1) <= _CLOSE:
            return definition
    return None


def mean_e2e(run: Run) -> tuple[float, str, tuple[Figure, ...]] | None:
    """Mean E2E of a run, as stated or from TTFT and TPOT, and how it came about."""
    e2e = run.get("e2e", *MEANS)
    if e2e is not None:
        return e2e.value, _s(e2e), (e2e,)
    ttft, gap, osl = run.get("ttft", *MEANS), _gap(run), tokens_of(run, "output")
    if ttft is None or gap is None or osl is None:
        return None
    made = whole_of(ttft.value, gap.value, osl, definition_of(run) or GAPS)
    return made.seconds, f"({made.told} = {format_si(made.seconds, 'second', 4)})", (ttft, gap)


def check_littles_law(case: Case) -> Iterator[Finding]:
    """Requests under way = requests finished a second x mean E2E; a closed loop never has more than its clients."""
    for run in case.runs:
        found, rate = mean_e2e(run), finished(run)
        if found is None or rate is None:
            continue
        e2e, told, figures = found
        per_s, from_, rate_figures = rate
        under_way = per_s * e2e
        of = named((*rate_figures, *figures))
        arithmetic = f"{from_} x {told} = {under_way:.4g}"
        flight = run.get("requests_in_flight")
        clients = run.number("concurrency")
        if flight is not None:
            of = (*of, flight.name)
            yield compared_with(
                "littles_law",
                of,
                under_way / flight.value,
                "rate x E2E",
                "requests under way",
                f"{arithmetic} against {flight.value:.4g}",
            )
        elif clients:
            yield _clients(of, under_way, clients, arithmetic)


def _clients(of: tuple[str, ...], under_way: float, clients: float, arithmetic: str) -> Finding:
    told, share = f"{arithmetic} against {clients:g} clients", under_way / clients
    if share > 1.05:
        grade = IMPOSSIBLE if share > 1.15 else INCONSISTENT
        return Finding(
            "littles_law", grade, of, f"{under_way:.4g} requests under way of {clients:g} clients", told
        )
    if share < 0.7:
        said = f"{share:.0%} of the clients were waiting for an answer: the loop was not kept full, or the run ramps"
        return Finding("littles_law", SUSPICIOUS, of, said, told)
    return Finding("littles_law", HOLDS, of, f"rate x E2E is {share:.0%} of the clients", told)


def finished(run: Run) -> tuple[float, str, tuple[Figure, ...]] | None:
    """Return the requests finished a second, stated or from tokens a second, and how they came about."""
    rate = run.get("request_throughput")
    if rate is not None and not rate.per_gpu:
        return rate.value, f"{rate.value:.4g}/s", (rate,)
    isl, osl = tokens_of(run, "input"), tokens_of(run, "output")
    for metric, each in (
        ("output_throughput", osl),
        ("input_throughput", isl),
        ("total_throughput", isl + osl if isl and osl else None),
    ):
        tokens = run.get(metric)
        if tokens is not None and each and not tokens.per_gpu:
            return tokens.value / each, f"{tokens.value:.4g} / {each:g} /s", (tokens,)
    return None


def check_rates(case: Case) -> Iterator[Finding]:
    """Tokens a second = requests a second x tokens of a request; a run's requests over its duration."""
    for run in case.runs:
        rate, duration = run.get("request_throughput"), run.get("duration")
        isl, osl, count = tokens_of(run, "input"), tokens_of(run, "output"), run.number("requests")
        total = None if isl is None or osl is None else isl + osl
        for metric, each in (
            ("output_throughput", osl),
            ("input_throughput", isl),
            ("total_throughput", total),
        ):
            tokens = run.get(metric)
            if tokens is None or not each or tokens.per_gpu or tokens.value <= 0:
                continue
            if rate is not None and not rate.per_gpu:
                told = f"{rate.value:.4g}/s x {each:g} tokens = {rate.value * each:.5g} against {tokens.value:.5g}/s"
                yield compared_with(
                    "rates",
                    named((rate, tokens)),
                    rate.value * each / tokens.value,
                    "requests x tokens",
                    metric,
                    told,
                )
            elif duration is not None and count:
                counted = count * each / duration.value
                told = f"{count:g} x {each:g} tokens / {_s(duration)} = {counted:.5g} against {tokens.value:.5g}/s"
                yield compared_with(
                    "rates",
                    named((duration, tokens)),
                    count * each / duration.value / tokens.value,
                    "tokens over duration",
                    metric,
                    told,
                )
        if rate is not None and duration is not None and count and rate.value:
            told = f"{count:g} requests / {_s(duration)} = {count / duration.value:.4g}/s against {rate.value:.4g}/s"
            yield compared_with(
                "rates",
                named((rate, duration)),
                count / duration.value / rate.value,
                "requests over duration",
                "requests a second",
                told,
            )


def compared_with(check: str, of: tuple[str, ...], ratio: float, left: str, right: str, told: str) -> Finding:
    """Return the finding that two sides of an identity, ``ratio`` apart, agree or do not."""
    off = abs(ratio - 1)
    if off <= _CLOSE:
        return Finding(check, HOLDS, of, f"{left} agrees with {right} ({ratio - 1:+.1%})", told)
    grade = SUSPICIOUS if off <= _APART else INCONSISTENT
    return Finding(check, grade, of, f"{left} is {ratio:.3g} times {right}", told)


def _s(figure: Figure) -> str:
    return format_si(figure.value, "second", 4)
