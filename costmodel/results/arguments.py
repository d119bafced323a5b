"""Options as engines log them, ``Namespace(a=1, b='x')``, ``{'a': 1}``, ``ServerArgs(...)``: split, never evaluated."""

from __future__ import annotations

import re

#: Characters of options that are read: lists of all of them have some tens of thousands.
_LONGEST = 200_000
_NAME = re.compile(r"""\s*['"]?([A-Za-z_][A-Za-z0-9_]*)['"]?\s*[=:]\s*(.*)""", re.DOTALL)
_OPEN, _CLOSE = "([{", ")]}"


def options_of(text: str) -> dict[str, str]:
    """Return options by name, values as written, without quotes; ends at the bracket that closes them."""
    found = {}
    for part in _parts(text[:_LONGEST]):
        match = _NAME.fullmatch(part)
        if match:
            value = match[2].strip()
            quoted = len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]
            found[match[1]] = value[1:-1] if quoted else value
    return found


def _parts(text: str) -> list[str]:
    """Split at commas that stand in no bracket and no quotes."""
    parts = list[str]()
    depth, quote, start = 0, "", 0
    for place, char in enumerate(text):
        if quote:
            if char == quote and text[place - 1] != "\\":
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:
                return [*parts, text[start:place]]
        elif char == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
