"""The page of ``costmodel break-even``."""

from __future__ import annotations

from ..formulas.threshold import local_cost, remote_advantage, remote_cost
from ..questions.break_even import BreakEven, Value
from .flips import amount
from .page import Block, Code, Heading, Page, Table, shown

NAMES = {
    "tokens": "uncached tokens",
    "bandwidth": "copy bandwidth",
    "batch": "running decodes",
    "chunk": "chunk",
    "wait": "wait at the prefill pool",
}
_UNITS = {"second": "_s", "byte": "_bytes", "byte/second": "_bytes_per_s"}


def page(answer: BreakEven, detail: bool) -> Page:
    """Return the page of an answer; ``detail`` adds the closed form as LaTeX."""
    rows = [
        ("you are at", _value(answer, answer.at, answer.at_reason)),
        ("selfish: the prompt's own time alone", _value(answer, answer.selfish)),
        ("system: with those it delays", _value(answer, answer.system)),
    ]
    if answer.unknown == "tokens":
        consistent = _value(answer, answer.self_consistent, answer.self_consistent_reason)
        rows += [
            ("system, at the observed load", _value(answer, answer.at_observed_load)),
            ("system, at the load it causes itself", consistent),
        ]
    rows += [
        ("regime", _regime(answer)),
        ("numeric root, every piece in place", _value(answer, answer.numeric_root)),
        ("closed form", _value(answer, answer.closed_form_value, answer.closed_form_reason)),
        ("closed form less numeric root", _gap(answer, answer.distance)),
    ]
    if answer.unknown == "tokens":
        rows += [
            ("with u / c chunks", _value(answer, answer.continuous, answer.continuous_reason)),
            ("that less the value", _gap(answer, answer.continuous_distance)),
        ]
    blocks: list[Block] = [Table((), tuple(rows), (False, False))]
    if answer.settings:
        blocks.append("set: " + " | ".join(f"{name} {line}" for name, line in answer.settings.items()))
    if answer.closed_form:
        blocks.append(Code(answer.closed_form))
    blocks += [Heading("Values"), _parameters(answer.parameters)]
    latex = (Code(answer.closed_form_latex, "latex"),) if detail and answer.closed_form_latex else ()
    return Page(_title(answer), tuple(blocks), answer.about, extra=latex)


def explained(answer: BreakEven) -> list[Block]:
    """Return the inequality, and the closed form as LaTeX."""
    form = [Code(answer.closed_form_latex, "latex")] if answer.closed_form_latex else []
    formulas = (Code(formula.latex(), "latex") for formula in (local_cost, remote_cost, remote_advantage))
    return [Heading("Remote prefill pays where the difference is positive"), *formulas, *form]


def _title(answer: BreakEven) -> str:
    name = NAMES[answer.unknown]
    if answer.value is None:
        return f"{answer.model}: no break-even in {name}: {answer.reason}"
    return (
        f"{answer.model}: local and remote prefill cost the same at {_value(answer, answer.value)} ({name})"
    )


def _value(answer: BreakEven, value: float | None, reason: str | None = None) -> str:
    if value is None:
        return f"- ({reason})" if reason else "-"
    if answer.unit == "s":
        return shown("wait_s", value)
    if answer.unit == "tokens":
        return f"{value:,.3g} tokens" if abs(value) < 1 else f"{value:,.1f} tokens"
    return f"{value:,.4g} decodes" if answer.unit == "decodes" else amount(value, answer.unit)


def _gap(answer: BreakEven, value: float | None) -> str:
    """Return a difference, with what is only rounding as it is."""
    return "-" if value is None else f"{value:+.3g} {answer.unit.replace('_per_s', '/s')}"


def _regime(answer: BreakEven) -> str:
    if answer.valid_from is None or answer.valid_to is None:
        return answer.regime
    return f"{answer.regime}: holds over {answer.valid_from:,.6g} .. {answer.valid_to:,.6g} {answer.unit}"


def _parameters(values: tuple[Value, ...]) -> Table:
    rows = tuple(
        (v.name, v.symbol, shown(f"value{_UNITS.get(v.unit, '')}", v.value), v.origin) for v in values
    )
    return Table(("parameter", "symbol", "value", "from"), rows, (False, False, True, False))
