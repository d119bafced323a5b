"""What words on a prefix cache say of it: that it answered no prompt, that it did, or that it may have."""

from __future__ import annotations

import re

_COLD = re.compile(r"cold|\boff\b|disabled|\bno\b|\bnone\b|flush|unique|cleared|without|empty")
_WARM = re.compile(
    r"\bwarm|\bhits?\b|repeat|re-?used?\b|second (?:pass|run|round)|persist|populated|offload|external|shared prefix"
)
_ON = re.compile(r"\bon\b|enabled?\b|active|automatic|default|\byes\b|\btrue\b")


def cold(state: str) -> bool:
    """Return whether a cache is stated to have answered no prompt."""
    return bool(_COLD.search(state.lower()))


def warm(state: str) -> bool:
    """Return whether a cache is stated to hold earlier prompts."""
    return bool(_WARM.search(state.lower()))


def may_hit(state: str) -> bool:
    """Return whether a cache is stated as warm or on, and not that no prompt was in it.

    >>> may_hit("prefix caching on"), may_hit("prefix caching enabled, unique prompts"), may_hit("")
    (True, False, False)
    """
    return not cold(state) and (warm(state) or bool(_ON.search(state.lower())))
