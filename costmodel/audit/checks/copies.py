"""Times of KV copies against the wire: faster than it can be, or so slow that bandwidth is not the cause."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...inputs.link import link_names, load_link
from ...records import Figure
from ...units import format_si
from ..case import Case
from ..finding import HOLDS, IMPOSSIBLE, INCONSISTENT, SUSPICIOUS, Finding, Inversion, not_computable
from ..runs import Run
from ..subject import Subject, Unknown
from ..wires import Wire, wire_of
from ..written import SLACK, rounding

FASTER, ABOVE = "faster_than_wire", "far_above_wire"
#: Times of a copy: its own, and those that hold one.
COPY, WITH_COPY = ("kv_transfer_time",), ("handover_time",)
#: Multiples of the wire's time beyond which a slower wire is no explanation, and beyond which none of it is.
FAR, BEYOND = 10.0, 100.0
#: Share of a wire's rate below which a copy does not use it.
_SLIVER = 0.02
#: Words for a rate that counts both directions.
_BOTH = re.compile(r"(?i)bi-?direction|both[\s-]+(?:ways|directions)|duplex|aggregate of both")
#: Seconds up to which a copy's fixed costs (latency, descriptors, set-up) are its usual part.
USUAL = 0.02


def payload_of(run: Run, subject: Subject, figure: Figure) -> tuple[float, str]:
    """Return the bytes of a copy, stated or of the prompt's KV, each byte once. Raises Unknown."""
    stated = run.number("payload", figure)
    if stated:
        return stated, format_si(stated, "byte")
    regions, each = run.number("descriptors", figure), run.number("descriptor_bytes", figure)
    if regions and each:
        return regions * each, f"{regions:,.0f} x {format_si(each, 'byte')}"
    size = run.get("kv_bytes")
    if size is not None:
        return size.value, format_si(size.value, "byte")
    tokens = run.number("input_tokens", figure)
    if not tokens:
        raise Unknown("neither bytes nor prompt tokens of the copy are stated")
    found = subject.kv_bytes(int(tokens))
    return found, f"{tokens:,.0f} tokens, {format_si(found, 'byte', 4)}"


def check_copies(case: Case) -> Iterator[Finding]:
    """Compare times and bandwidths of copies with the stated wire."""
    for run, figure in case.each(*COPY, *WITH_COPY):
        subject = case.subject(run, figure)
        try:
            size, told = payload_of(run, subject, figure)
            wire = wire_of(run, subject, figure)
        except Unknown as why:
            yield not_computable(FASTER, (figure.name,), f"{figure.metric} {figure.text}", str(why))
            yield from _without_wire(case, run, figure)
            continue
        least = size / wire.bytes_per_s
        arithmetic = f"{told} / {wire.said} = {format_si(least, 'second')} against {figure.text}"
        yield _against(figure, figure.value / least, arithmetic, wire.sure)
    yield from _bandwidths(case)


def slack(figure: Figure) -> float:
    """Return by how much a figure may miss the wire and still be at it: its rounding, of at most 1 %."""
    return min(rounding(figure), 0.01) + SLACK


def _against(figure: Figure, ratio: float, told: str, sure: bool) -> Finding:
    of, told_of = (figure.name,), f"{figure.metric} {figure.text}"
    if ratio * (1 + slack(figure)) < 1:
        said = f"{told_of} is {ratio:.0%} of the wire's time"
        return _faster(of, said, told, sure)
    if ratio >= FAR and figure.value <= USUAL:
        said = f"{told_of} is {ratio:,.0f} times the wire's time: fixed costs of a copy, not bandwidth"
        return Finding(FASTER, HOLDS, of, said, told)
    if ratio >= FAR:
        grade = INCONSISTENT if ratio >= BEYOND else SUSPICIOUS
        said = (
            f"{told_of} is {ratio:,.0f} times the wire's time: bandwidth cannot be the cause; "
            "a wait for the link, the decode side or the software is"
        )
        return Finding(ABOVE, grade, of, said, told)
    return Finding(
        FASTER, HOLDS, of, f"{figure.metric} {figure.text} is {ratio:.3g} times the wire's time", told
    )


def _faster(of: tuple[str, ...], said: str, told: str, sure: bool) -> Finding:
    """More than the wire carries: impossible only where no port may be left out of it."""
    if sure:
        return Finding(FASTER, IMPOSSIBLE, of, said, told)
    return Finding(FASTER, SUSPICIOUS, of, f"{said}; ports that are not stated would explain it", told)


def _without_wire(case: Case, run: Run, figure: Figure) -> Iterator[Finding]:
    """No link is stated: what the slowest one packaged would take says whether any can be the cause."""
    subject = case.subject(run, figure)
    try:
        size, told = payload_of(run, subject, figure)
    except Unknown:
        return
    slowest = min((load_link(name) for name in link_names()), key=lambda link: link.bandwidth_bytes_per_s)
    least = size / slowest.bandwidth_bytes_per_s
    if figure.value < FAR * least:
        return
    arithmetic = f"{told} / {slowest.title} = {format_si(least, 'second')} against {figure.text}"
    said = (
        f"{figure.metric} {figure.text} is {figure.value / least:,.0f} times what even {slowest.title} takes: "
        "no link's bandwidth is the cause"
    )
    yield Finding(
        ABOVE,
        INCONSISTENT if figure.value >= BEYOND * least else SUSPICIOUS,
        (figure.name,),
        said,
        arithmetic,
    )


def _bandwidths(case: Case) -> Iterator[Finding]:
    for run, figure in case.each("kv_transfer_bandwidth"):
        subject = case.subject(run, figure)
        try:
            wire = wire_of(run, subject, figure)
        except Unknown as why:
            yield not_computable(FASTER, (figure.name,), f"{figure.metric} {figure.text}", str(why))
            continue
        share = figure.value / wire.bytes_per_s
        most = f"{wire.said} = {format_si(wire.bytes_per_s, 'byte/second')}"
        told = f"{format_si(figure.value, 'byte/second')} / ({most}) = {share:.1%}"
        both = bool(_BOTH.search(f"{figure.name} {figure.note or ''} {run.text('scenario')}"))
        if share > (2 if both else 1) * (1 + slack(figure)):
            said = f"{figure.text} is more than the wire carries {'both ways' if both else 'one way'}"
            if not both and share <= 2:
                said += "; both ways together it carries as much"
            yield _faster((figure.name,), said, told, wire.sure)
        elif share < _SLIVER:
            said = f"{figure.text} is {share:.2%} of the wire's rate: another path, or costs of each region, make it"
            yield Finding("far_below_wire", SUSPICIOUS, (figure.name,), said, told)
        elif both:
            said = f"{figure.text} is {share / 2:.0%} of the wire's rate both ways"
            yield Finding(FASTER, HOLDS, (figure.name,), said, told)
        else:
            yield Finding(
                FASTER, HOLDS, (figure.name,), f"{figure.text} is {share:.0%} of the wire's rate", told
            )


def invert_copies(case: Case) -> Iterator[Inversion]:
    """Say which bandwidth, which prompt or which overhead a time of a copy amounts to."""
    for run, figure in case.each(*COPY, *WITH_COPY):
        subject, of = case.subject(run, figure), (figure.name,)
        try:
            size, told = payload_of(run, subject, figure)
        except Unknown as why:
            yield Inversion("effective_bytes_per_s", None, of, None, None, "", str(why))
            continue
        rate = size / figure.value if figure.value > 0 else float("inf")
        try:
            wire = wire_of(run, subject, figure)
        except Unknown as why:
            yield Inversion(
                "effective_bytes_per_s", rate, of, f"{told} / {figure.text}", None, _rate(rate), str(why)
            )
            continue
        yield Inversion(
            "effective_bytes_per_s",
            rate,
            of,
            f"{told} / {figure.text}",
            rate <= wire.bytes_per_s,
            _rate(rate),
        )
        over = figure.value - size / wire.bytes_per_s
        if over > 0:
            yield Inversion("overhead_s", over, of, f"{figure.text} - {told} / {wire.said}", True,
                            f"{format_si(over, 'second')} are not the wire")  # fmt: skip
        yield from _tokens(subject, run, figure, wire)


def _rate(rate: float) -> str:
    return f"an effective bandwidth of {format_si(rate, 'byte/second')}"


def _tokens(subject: Subject, run: Run, figure: Figure, wire: Wire) -> Iterator[Inversion]:
    """The prompt whose KV would take this long at the wire's rate."""
    try:
        each = subject.kv_bytes(2) - subject.kv_bytes(1)
    except Unknown:
        return
    if each <= 0:
        return
    tokens = figure.value * wire.bytes_per_s / each
    stated = run.number("input_tokens", figure)
    longest = _longest(subject)
    plausible = None if longest is None else tokens <= longest
    said = f"{tokens:,.0f} prompt tokens would take this long on the wire" + (
        f", not {stated:,.0f}" if stated else ""
    )
    yield Inversion(
        "prompt_tokens",
        tokens,
        (figure.name,),
        f"{figure.text} x {wire.said} / {each:,.0f} B a token",
        plausible,
        said,
    )


def _longest(subject: Subject) -> int | None:
    try:
        return subject.model.max_context
    except Unknown:
        return None
