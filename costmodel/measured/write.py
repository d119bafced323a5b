"""Writing an efficiency file: TOML that :func:`costmodel.inputs.efficiency.load_efficiency` reads back."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ..errors import InputError
from ..inputs.efficiency import Efficiency, OperatorFit
from ..operators.catalogue import PARAMETERS
from ..units import Dimension, format_si

DIGITS = 4


def file_name(gpu: str, stack: str) -> str:
    """Return what the file of a GPU and stack is called."""
    plain = "".join(c if c.isalnum() or c in ".-" else "-" for c in stack)
    return f"{gpu}--{plain}.toml"


def as_toml(file: Efficiency) -> str:
    """Return the text of an efficiency file."""
    lines = [f"{key} = {json.dumps(getattr(file, key))}" for key in ("gpu", "stack", "date")]
    for fit in file.operators.values():
        lines += ["", f"[operators.{fit.kind}]", f"form = {json.dumps(fit.form)}"]
        lines += [f"{name} = {_parameter(name, value)}" for name, value in fit.parameters.items()]
        lines += [f"{key} = {_plain(getattr(fit, key))}" for key in _KEYS if _given(fit, key)]
    return "\n".join(lines) + "\n"


_KEYS = (
    "source", "points", "held_out_points", "split", "fitted_mape", "held_out_mape", "held_out_bias",
    "carried_mape", "carried_to", "stack", "borrowed", "note", "fitted_on",
)  # fmt: skip


def _given(fit: OperatorFit, key: str) -> bool:
    return getattr(fit, key) not in (None, ())


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return json.dumps(", ".join(value))
    if isinstance(value, float):
        return f"{value:.3f}"
    return json.dumps(value, ensure_ascii=False)


def _text(value: float, dimension: Dimension) -> str:
    """A quantity to four digits; below what its smallest unit shows it is 0."""
    return format_si(value if value >= 1e-13 else 0.0, dimension, DIGITS)


def _parameter(name: str, value: float) -> str:
    known = PARAMETERS[name]
    if known.dimension == "token":
        return f"{value:.0f}"
    if known.dimension != "1":
        return json.dumps(_text(value, known.dimension))
    return f"{value:.0f}" if known.choices else f"{value if value >= 1e-6 else 0:.{DIGITS}g}"


def write_whole(path: Path, text: str) -> None:
    """Write a file at once, or not at all. Raises InputError where it cannot be written."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from error
