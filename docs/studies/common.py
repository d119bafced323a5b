"""What the studies share: tables in markdown, what a command prints, and a search on a grid of rates."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Sequence

from click.testing import CliRunner
from tabulate import tabulate

from costmodel.cli import main as costmodel

Rows = list[tuple[str, ...]]


def table(rows: Iterable[Sequence[str]], header: Sequence[str], align: str | None = None) -> str:
    """A table in markdown. ``align``: of all its columns, as tabulate names it."""
    return tabulate(rows, header, tablefmt="github", disable_numparse=True, stralign=align or "left")


def printed(command: str) -> list[str]:
    """The lines that a command of costmodel prints."""
    arguments = shlex.split(command.removeprefix("costmodel "))
    return CliRunner().invoke(costmodel, arguments, prog_name="costmodel").stdout.splitlines()


def last(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The last whole number for which something holds, which holds for ``low`` and no longer for ``high``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def place(rate: float, step: float) -> int:
    """Which whole power of ``step`` is nearest to a rate."""
    return round(math.log(rate) / math.log(step))
