"""Writing step times: TOML that :func:`costmodel.inputs.step_times.load_steps` reads back."""

from __future__ import annotations

from collections.abc import Mapping

from ..inputs.efficiency import SEPARATOR
from ..inputs.step_times import COUNTS, KIND, PARAMETERS, PARTS, TEXTS, StepFit
from ..units import format_si
from .write import plain_name, quoted

DIGITS = 4


def file_name(model: str, gpu: str, tp: int, stack: str) -> str:
    """Return what the file of a model's step times is called."""
    names = (model, gpu, f"tp{tp}", stack)
    return f"{SEPARATOR.join(map(plain_name, names))}.toml"


def steps_toml(found: StepFit) -> str:
    """Return the text of a file of step times."""
    lines = [f"kind = {quoted(KIND)}"]
    lines += [f"{key} = {quoted(getattr(found, key))}" for key in TEXTS]
    lines += [f"{key} = {getattr(found, key)}" for key in COUNTS]
    lines += [f"lag = {str(found.lag).lower()}", "", "[steps]"]
    times = {name: getattr(found.steps, f"{name}_s") for name in PARAMETERS}
    lines += [f"{name} = {quoted(format_si(value, 'second', DIGITS))}" for name, value in times.items()]
    for part in PARTS:
        errors: Mapping[str, float] = getattr(found, part)
        lines += ["", f"[{part}]", *(f"{name} = {error:.{DIGITS}f}" for name, error in errors.items())]
    return "\n".join(lines) + "\n"
