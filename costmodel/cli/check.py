"""``costmodel check``."""

from __future__ import annotations

from typing import Any

import click

from .options import answers


@click.command("check")
@click.argument("files", metavar="RECORD|RESULT...", nargs=-1, required=True)
@answers("check")
def command(files: tuple[str, ...], **options: Any) -> object:
    """Examine published figures or a benchmark's result: what is absent, what physics says, what it compares with.

    A RECORD is a TOML file of [[measurement]] tables (metric, value, unit, statistic) with the conditions that the
    report states, or the name of a packaged one (costmodel show records).

    \b
    Examples:
      costmodel check kairos
      costmodel check report.toml --detail
    """
    from ..questions.check import ask_check

    return ask_check(files)
