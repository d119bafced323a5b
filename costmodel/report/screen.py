"""The first screen of ``costmodel recommend``: the verdict and all that carries it, in one terminal's height."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ..decision.results import PoolResult, Recommendation, Split, StrategyResult
from ..evaluate.means import TIER, pool_label
from ..units import format_si
from .flips import beside, unknowns
from .page import Table
from .strategies import comparison, computed_again
from .tiers import lines as gain_lines

WIDTH = 110
WORDS = {
    "colocated": "COLOCATE",
    "chunked": "CHUNK",
    "disaggregated": "DISAGGREGATE",
    "deflected": "DEFLECT",
    "too_close_to_call": "TOO CLOSE TO CALL",
    "none_stable": "NONE STABLE",
}
HINT = "--detail  --explain  -f markdown"
#: Assumptions of the first screen, by their first word; the first three are there anyway.
FIRST = ("control", "trace", "stack", "efficiencies")
#: What the first screen says in fewer words.
BRIEFLY = {
    "control time of a hand-over not": "control not",
    "from the decode side": "from decode",
    " by operator": "",
}


def screen(answer: Recommendation) -> str:
    """Return the first screen as text."""
    lines = [
        *(wrapped(line) for line in unstable(answer.strategies)),
        wrapped(verdict(answer)),
        wrapped(f"  {margin(answer)}", "  "),
        wrapped(f"  {terms(answer)}", "  "),
        wrapped(f"  {why(answer)}", "  "),
        _plain(comparison(answer)),
        *(wrapped(line, "  ") for line in beside_table(answer)),
        *(["", _plain(beside(answer))] if levers(answer) else []),
        *(wrapped(line) for line in _unknown(answer)),
        *(wrapped(line, "  ") for line in footing(answer)),
    ]
    return "\n".join(lines)


def wrapped(text: str, indent: str = "  ") -> str:
    """Return text broken into lines of the screen's width."""
    return "\n".join(textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False))


def _plain(block: Table) -> str:
    """Return a table with the leading blanks of its cells, two blanks between columns."""
    lines = [block.headers, *block.rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def unstable(results: Sequence[StrategyResult]) -> list[str]:
    """Return one line for each strategy with a pool offered more than it can do."""
    lines = []
    for result in results:
        pools = [
            f"the {pool_label(pool.role)} is offered {pool.utilisation:.2f} times its capacity{_more(pool)}"
            for pool in result.pools
            if pool.missing_instances > 0
        ]
        if not result.stable:
            lines.append(f"UNSTABLE {result.name}: {'; '.join(pools)}")
    return lines


def _more(pool: PoolResult) -> str:
    """Say how many instances a pool lacks; of a tier's ports there is one an instance."""
    return "" if pool.role.startswith(TIER) else f" ({pool.missing_instances:.1f} more instances needed)"


def levers(answer: Recommendation) -> bool:
    """False where no input is known to flip or to move anything: a table would only repeat that."""
    known = any(flip.now is not None for flip in answer.flips) or bool(answer.elasticities)
    return known and answer.answered


def _unknown(answer: Recommendation) -> list[str]:
    reasons = unknowns([*answer.flips, *answer.elasticities])
    if not levers(answer):
        return [f"what flips the verdict is unknown: {'; '.join(reasons)}"]
    return [f"  unknown: {reason}" for reason in reasons]


def ranked(answer: Recommendation) -> bool:
    """False where some strategy is stable and none has figures to rank it by."""
    return answer.verdict != "too_close_to_call" or answer.runner_up is not None


def verdict(answer: Recommendation) -> str:
    """Return the verdict with its action."""
    if not ranked(answer):
        return f"NOT RANKED: {answer.margin_reason}"
    return f"{WORDS[answer.verdict]}: {answer.action.removeprefix('no strategy is stable: ')}"


def margin(answer: Recommendation) -> str:
    """Return the objective, the margin in it with its band, and against whom."""
    word = "goodput per GPU" if answer.objective == "goodput_per_gpu" else "mean delay"
    if not ranked(answer):
        return f"By {word}: no margin."
    if answer.margin is None:
        return f"By {word}: no margin: {answer.margin_reason}."
    band = "no band" if answer.margin_low is None else f"{answer.margin_low:.2f}-{answer.margin_high:.2f}"
    times = f"{answer.margin:.2f}x ({band})"
    why_not = f" No band: {answer.margin_reason}." if answer.margin_reason else ""
    if answer.objective == "goodput_per_gpu":
        return f"By {word}: {times} that of the next best ({answer.runner_up}).{why_not}"
    return f"By {word}: the next best ({answer.runner_up}) has {times} of it.{why_not}"


def terms(answer: Recommendation) -> str:
    """Return GPUs, rate and SLOs."""
    slos = [
        f"{name} <= {format_si(value, 'second')}"
        for name, value in (("TTFT", answer.slo_ttft_s), ("TPOT", answer.slo_tpot_s))
        if value is not None
    ]
    goal = f"{', '.join(slos)} at {answer.attainment_target * 100:.3g} %" if slos else "no SLO"
    return f"{answer.hardware}, {answer.workload} at {format_si(answer.rate_per_s, '1/second')}, {goal}"


def why(answer: Recommendation) -> str:
    """Return the three numbers behind the verdict, mean seconds a request; those that exist."""
    words = {
        "copy_s": "the copy costs {} a request",
        "splitting_s": "splitting the GPUs {}",
        "interference_s": "pooling them {} of interference",
    }
    known = [(text, answer.why[key]) for key, text in words.items()]
    parts = [text.format(_seconds(value)) for text, value in known if value is not None]
    again = next((computed_again(r) for r in answer.strategies if r.name == "disaggregated"), 0.0)
    parts += [f"prefixes that it computes again {_seconds(again)}"] if again else []
    return f"Why: {', '.join(parts)}." if parts else "Why: no mean delays exist to compare."


def _seconds(value: float) -> str:
    text = f"{value:.{3 if abs(value) < 0.1 else 2}f}"
    return "0 s" if float(text) == 0 else f"{text} s"


def beside_table(answer: Recommendation) -> list[str]:
    """Return the other splits, and what the decode pool can absorb."""
    lines = []
    for reason in dict.fromkeys(r.reason for r in answer.strategies if r.reason and r.stable):
        lines.append(f"not shown: {reason}")
    for result in answer.strategies:
        if result.stable and result.ttft_reason not in (None, result.reason):
            lines.append(f"no P95 TTFT of {result.name}: {result.ttft_reason}")
    if answer.reuse:
        lines += gain_lines(answer.reuse.strategies)
    if answer.splits_reason:
        lines.append(f"other splits: {answer.splits_reason}")
    elif answer.splits:
        lines.append(f"other splits ({answer.splits[0].strategy}): {', '.join(map(split, answer.splits))}")
    limit = "" if answer.slo_tpot_s is None else f" inside TPOT <= {format_si(answer.slo_tpot_s, 'second')}"
    if answer.deflectable_tokens_per_s is None or answer.deflectable_share is None:
        lines.append(f"decode pool can absorb: {answer.deflectable_reason}")
    else:
        share = f"{answer.deflectable_share:.0%}".replace("%", " %")
        lines.append(
            f"decode pool can absorb {answer.deflectable_tokens_per_s:,.0f} prompt tokens/s{limit} = {share} "
            "of the prefill load"
        )
    return lines


def split(other: Split) -> str:
    """Return another split in a few words."""
    if not other.stable:
        return f"{other.topology} unstable ({other.busiest_pool} {other.utilisation:.2f} x capacity)"
    if other.delay_ratio is None:
        return f"{other.topology} stable ({other.busiest_pool} {other.utilisation:.2f})"
    return f"{other.topology} {other.delay_ratio:.2f} x the mean delay"


def settings(answer: Recommendation) -> str:
    """Return what to paste."""
    return " | ".join(f"{engine} {line}" for engine, line in answer.settings.items())


def footing(answer: Recommendation) -> list[str]:
    """Return settings, assumptions, what is left out, and warnings that are not said above."""
    about = answer.about
    said = tuple(f"{r.name}:" for r in answer.strategies if not r.stable)
    warned = [text for text in about.warnings if not text.startswith(said or ("\0",))]
    assumed = [*about.assumptions[:3], *(t for t in about.assumptions[3:] if t.startswith(FIRST))]
    text = "; ".join(assumed)
    for long, brief in BRIEFLY.items():
        text = text.replace(long, brief)
    return [
        *([f"set: {settings(answer)}"] if answer.settings else []),
        f"assumed: {text}",
        f"not modelled: {about.not_modelled[0]}; {len(about.not_modelled) - 1} more      {HINT}",
        *(f"warning: {text}" for text in warned),
    ]
