"""Progress on stderr, for anything that takes longer than a second."""

from __future__ import annotations

import sys
import time

import click

_QUIET_S, _EVERY_S = 1.0, 2.0
_CLEAR = "\r\033[K"


class Progress:
    """Called with a message a stage: one line rewritten on a terminal, else a line every two seconds at most."""

    def __init__(self, *, silent: bool = False) -> None:
        self._live = sys.stderr.isatty()
        self._silent = silent
        self._started = time.monotonic()
        self._said = self._started + _QUIET_S - _EVERY_S

    def __call__(self, message: str) -> None:
        """Show a message, unless the command is fast enough to need none."""
        now = time.monotonic()
        wait = _QUIET_S if self._live else _EVERY_S
        if self._silent or now - (self._started if self._live else self._said) < wait:
            return
        self._said = now
        elapsed = f"{now - self._started:.0f} s: {message}"
        click.echo(f"{_CLEAR}{elapsed}" if self._live else elapsed, err=True, nl=not self._live)

    def done(self) -> None:
        """Leave the terminal's line empty for the answer."""
        if self._live and self._said >= self._started + _QUIET_S:
            click.echo(_CLEAR, err=True, nl=False)
