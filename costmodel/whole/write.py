"""Writing the file of a stack: TOML that :func:`costmodel.inputs.stack.load_stack` reads back."""

from __future__ import annotations

from dataclasses import fields

from ..inputs.stack import DIMENSIONS, Measured, Stack, StackFit
from ..measured.write import DIGITS, quoted
from ..units import format_si
from .calibrate import changed


def stack_toml(stack: Stack) -> str:
    """Return the text of a stack's file."""
    lines = [f"{key} = {quoted(getattr(stack, key))}" for key in ("engine", "version", "date", "source")]
    for gpu, fit in stack.fits.items():
        lines += ["", f"[fits.{gpu}]", *_fit(fit)]
        lines += [f"errors.{measure} = {_errors(found)}" for measure, found in fit.errors.items()]
    return "\n".join(lines) + "\n"


def _fit(fit: StackFit) -> list[str]:
    lines = [f"{name} = {_text(name, value)}" for name, value in changed(fit.parameters).items()]
    lines += ['lent = "request_latency"'] if fit.lent else []
    return [*lines, f"fitted_on = {quoted(', '.join(fit.fitted_on))}"]


def _text(name: str, value: float) -> str:
    if DIMENSIONS[name] == "1":
        return f"{value:.{DIGITS}g}"
    return quoted(format_si(value, DIMENSIONS[name], DIGITS))


def _errors(found: Measured) -> str:
    cells = []
    for name in (f.name for f in fields(found)):
        value = getattr(found, name)
        if value:
            cells.append(f"{name} = {value if isinstance(value, int) else f'{value:.4f}'}")
    return f"{{ {', '.join(cells)} }}"
