"""Writing an efficiency file: TOML that :func:`costmodel.inputs.efficiency.load_efficiency` reads back."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import InputError
from ..inputs.efficiency import SEPARATOR, Efficiency, OperatorFit
from ..operators.catalogue import PARAMETERS
from ..units import format_si

DIGITS = 4


def plain_name(name: str) -> str:
    """Return a name as a file may have it."""
    return "".join(c if c.isalnum() or c in ".-" else "-" for c in name)


def file_name(gpu: str, stack: str) -> str:
    """Return what the file of a GPU and stack is called."""
    return f"{SEPARATOR.join(map(plain_name, (gpu, stack)))}.toml"


def as_toml(file: Efficiency) -> str:
    """Return the text of an efficiency file."""
    lines = [f"{key} = {quoted(getattr(file, key))}" for key in ("gpu", "stack", "date")]
    for fit in file.operators.values():
        lines += ["", f"[operators.{fit.kind}]", f"form = {quoted(fit.form)}"]
        lines += [f"{name} = {_parameter(name, value)}" for name, value in fit.parameters.items()]
        lines += [f"{key} = {_plain(getattr(fit, key))}" for key in _KEYS if _given(fit, key)]
    return "\n".join(lines) + "\n"


_KEYS = (
    "source", "points", "held_out_points", "split", "fitted_mape", "held_out_mape", "held_out_bias",
    "carried_mape", "carried_to", "stack", "borrowed", "note", "fitted_on",
)  # fmt: skip


def _given(fit: OperatorFit, key: str) -> bool:
    return getattr(fit, key) not in (None, ())


def quoted(text: str) -> str:
    """A basic string of TOML: as in JSON, but for characters beyond 16 bits and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return quoted(", ".join(value))
    return quoted(value) if isinstance(value, str) else repr(value)


def _parameter(name: str, value: float) -> str:
    """A parameter as it stands in a file: four digits, of which none is lost on reading it back."""
    known = PARAMETERS[name]
    if known.dimension == "token" or known.choices:
        return f"{value:.0f}"
    return (
        f"{value:.{DIGITS}g}" if known.dimension == "1" else quoted(format_si(value, known.dimension, DIGITS))
    )


def write_whole(contents: Mapping[Path, bytes]) -> None:
    """Write files at once, or none of them. Raises InputError where one cannot be written."""
    beside = {path: path.with_name(f".{os.getpid()}~{path.name}") for path in contents}
    path = Path()
    try:
        for path, content in contents.items():
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            beside[path].write_bytes(content)
        for path in contents:
            beside[path].replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from error
    finally:
        for made in beside.values():
            with suppress(OSError):
                made.unlink()
