"""A workload by name, file, trace or fixed lengths, with single values replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError
from ..inputs.traces import trace_workload
from ..inputs.workload import LONGEST, Arrivals, Lengths, Request, Slo, Workload
from ..units import format_si
from ..workloads import load_workload, workload_names


@dataclass(frozen=True)
class Changes:
    """What replaces single values of a workload; None leaves one as it is.

    ``isl`` counts cached and uncached prompt tokens. ``no_slo`` drops the SLOs of a packaged workload or file.
    """

    isl: int | None = None
    osl: int | None = None
    cached: int | None = None
    rate: float | None = None
    cv: float | None = None
    slo_ttft: float | None = None
    slo_tpot: float | None = None
    attainment: float | None = None
    no_slo: bool = False
    hit_rate: float | None = None

    def told(self) -> str:
        """Return the values that are set, for a reader."""
        rate = None if self.rate is None else format_si(self.rate, "1/second", 4)
        slos = [None if t is None else format_si(t, "second") for t in (self.slo_ttft, self.slo_tpot)]
        share = None if self.attainment is None else f"{self.attainment:.4g}"
        words = {"ISL": self.isl, "OSL": self.osl, "cached": self.cached, "rate": rate, "CV": self.cv}
        words["hit rate"] = None if self.hit_rate is None else f"{self.hit_rate:.4g}"
        words |= {"TTFT SLO": slos[0], "TPOT SLO": slos[1], "attainment": share}
        said = [f"{word} {value}" for word, value in words.items() if value is not None]
        return ", ".join([*said, *(["no SLO"] if self.no_slo else [])])


def choose_workload(
    name: str | Path | None = None, trace: str | Path | None = None, changes: Changes | None = None
) -> Workload:
    """Return the workload of a name or file, of a trace, or of the fixed lengths in ``changes``.

    Raises InputError for none or two of them, and for values that a workload cannot have.
    """
    asked = changes or Changes()
    if name is not None and trace is not None:
        raise InputError("pass --workload or --trace, not both")
    if asked.no_slo and (asked.slo_ttft is not None or asked.slo_tpot is not None):
        raise InputError("--no-slo drops the SLOs; pass it or --slo-ttft and --slo-tpot, not both")
    if trace is not None:
        return _recorded(trace, asked)
    found = _custom(asked) if name is None else _changed(load_workload(name), asked)
    found = _hit(found, asked)
    longest = {"prompts": found.cached_tokens, "outputs": 0}
    for what, lengths in (("prompts", found.uncached), ("outputs", found.output)):
        longest[what] += 0 if lengths is None else lengths.high
        if longest[what] > LONGEST:
            raise InputError(f"{what} of {longest[what]:,} tokens: at most {LONGEST:,} are followed")
    return found


def _recorded(trace: str | Path, asked: Changes) -> Workload:
    fixed = {"--isl": asked.isl, "--osl": asked.osl, "--cached": asked.cached, "--cv": asked.cv}
    given = [option for option, value in fixed.items() if value is not None]
    if given:
        raise InputError(
            f"{', '.join(given)}: a trace has its own; only --rate and the SLOs replace a trace's"
        )
    found = _hit(trace_workload(trace, _slo(Slo(), asked)), asked)
    if asked.rate is None:
        return found
    told = f"{found.chosen}; gaps scaled to {format_si(asked.rate, '1/second', 4)}"
    return replace(found.at_rate(asked.rate), chosen=told)


def _hit(found: Workload, asked: Changes) -> Workload:
    """Set the share of the requests that find their cached tokens. Raises InputError where there are none to find."""
    if asked.hit_rate is None:
        return found
    check_hits(found.requests or found.typical(1))
    return replace(found, hit_rate=asked.hit_rate)


def check_hits(requests: Sequence[Request]) -> None:
    """Check that a hit rate means something. Raises InputError."""
    if any(request.blocks for request in requests):
        raise InputError("--hit-rate: the trace names its blocks, and what is found follows from them")
    if not any(request.cached_tokens for request in requests):
        raise InputError(
            "--hit-rate: no prompt has cached tokens to find; pass --cached, or a trace that has them"
        )


def _custom(asked: Changes) -> Workload:
    needed = {"--isl": asked.isl, "--osl": asked.osl, "--rate": asked.rate}
    missing = [option for option, value in needed.items() if value is None]
    if len(missing) == len(needed):
        raise InputError(
            f"no workload: pass --workload ({', '.join(workload_names())}, or a TOML file), --trace FILE, or "
            "--isl, --osl and --rate"
        )
    if asked.isl is None or asked.osl is None or asked.rate is None:
        raise InputError(f"fixed lengths need --isl, --osl and --rate; missing: {', '.join(missing)}")
    cached = asked.cached or 0
    return Workload(
        name="custom",
        arrivals=Arrivals(asked.rate, 1.0 if asked.cv is None else asked.cv),
        uncached=_fixed(_uncached(asked.isl, cached)),
        cached_tokens=cached,
        output=_fixed(asked.osl),
        slo=_slo(Slo(), asked),
        chosen=f"fixed lengths, as given: {asked.told()}",
    )


def _changed(found: Workload, asked: Changes) -> Workload:
    """Replace single values. A cached prefix comes before the workload's uncached lengths; ISL counts both."""
    told = asked.told()
    if not told:
        return found
    cached = found.cached_tokens if asked.cached is None else asked.cached
    arrivals = found.arrivals
    return replace(
        found,
        arrivals=replace(
            arrivals,
            rate=arrivals.rate if asked.rate is None else asked.rate,
            cv=arrivals.cv if asked.cv is None else asked.cv,
        ),
        uncached=found.uncached if asked.isl is None else _fixed(_uncached(asked.isl, cached)),
        cached_tokens=cached,
        output=found.output if asked.osl is None else _fixed(asked.osl),
        slo=_slo(found.slo, asked),
        chosen=f"{found.chosen}; changed: {told}",
    )


def _slo(own: Slo, asked: Changes) -> Slo:
    share = own.attainment if asked.attainment is None else asked.attainment
    if asked.no_slo:
        return Slo(attainment=share)
    ttft = own.ttft_s if asked.slo_ttft is None else asked.slo_ttft
    tpot = own.tpot_s if asked.slo_tpot is None else asked.slo_tpot
    return Slo(ttft, tpot, share)


def _uncached(isl: int, cached: int) -> int:
    if cached >= isl:
        raise InputError(f"--cached {cached} leaves no uncached token of --isl {isl}")
    return isl - cached


def _fixed(tokens: int) -> Lengths:
    return Lengths(tokens, 0.0, low=1, high=tokens)
