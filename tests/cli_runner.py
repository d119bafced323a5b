"""The command line as a user calls it, in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from costmodel.cli import main


def run(*arguments: str) -> Result:
    """Invoke a command and return its result."""
    return CliRunner().invoke(main, arguments, prog_name="costmodel")


def asked(*arguments: str) -> dict[str, Any]:
    """Return the JSON answer of a command that succeeds."""
    result = run(*arguments, "-f", "json")
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer
