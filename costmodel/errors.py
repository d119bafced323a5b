"""Errors a user can act on: each names where, what was found, what was expected and the nearest match."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_QUOTED = 60
MOST_HINTS = 6


class CostmodelError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(CostmodelError):
    """Bad usage or bad data (exit code 2). ``problems`` holds every problem found, not only the first."""

    def __init__(self, problems: str | Iterable[str], *, where: str | None = None) -> None:
        self.problems: tuple[str, ...] = (problems,) if isinstance(problems, str) else tuple(problems)
        self.where = where
        super().__init__(self.render())

    def render(self) -> str:
        """Return the message: one line for one problem, a list under the file's name for several."""
        prefix = f"{self.where}: " if self.where else ""
        if len(self.problems) == 1:
            return prefix + self.problems[0]
        lines = "".join(f"\n  - {problem}" for problem in self.problems)
        return f"{prefix}{len(self.problems)} problems:{lines}"


class NoAnswerError(CostmodelError):
    """The question is well posed but has no answer (exit code 1): nothing fits, nothing is stable."""


class DoesNotFitError(NoAnswerError):
    """The weights leave no memory for KV: an answer where it was asked what fits, else a slip of the user."""


def shorten(text: str) -> str:
    """Return ``text`` as messages quote it: its start, where it is longer than a line holds."""
    return text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."


def nearest(text: str, known: Iterable[str], *, cutoff: float = 0.4) -> str | None:
    """Return the known name closest to ``text``, or None when nothing is close: ``cutoff`` of 1 is the same name."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    longer = [name for name in sorted(folded, key=len) if len(text) > 3 and name.startswith(text.lower())]
    if longer:
        return folded[longer[0]]
    match = get_close_matches(text.lower(), folded, n=1, cutoff=cutoff)
    return folded[match[0]] if match else None


def unknown(kind: str, text: str, known: Iterable[str], *, remedy: str | None = None) -> str:
    """Return the sentence for an unknown name: what it was, the nearest match, how to see or pass others."""
    names = sorted(known)
    match = nearest(text, names)
    longer = [name for name in names if len(text) > 2 and name.lower().startswith(text.lower())]
    hint = f"; did you mean {match!r}?" if match else ""
    if 1 < len(longer) <= MOST_HINTS:
        quoted = [repr(name) for name in longer]
        hint = f"; did you mean {', '.join(quoted[:-1])} or {quoted[-1]}?"
    cure = f" {remedy}" if remedy else ""
    return f"unknown {kind} {shorten(text)!r}{hint}{cure}"
