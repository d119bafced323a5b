"""How a figure is written: how far its rounding leaves it open, and what else its unit may have meant."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ..records import Figure

#: How far two counts of the same bytes may differ beside rounding, relative.
SLACK = 0.003
#: A figure rounded more coarsely than this tells decimal from binary no more (they differ by 2.4 to 10 %).
COARSE = 0.022
_PREFIXES = "kMGT"


class Reading(NamedTuple):
    """A unit that may have been meant, by how much the figure grows then, and the slip that it would be."""

    unit: str
    factor: float
    slip: str


def resolution(figure: Figure) -> float:
    """Return half a unit of the last digit that a figure is written with, in its SI unit (of its first number)."""
    number, scale = _number(figure.text), _scale(figure)
    decimals = len(number.partition(".")[2])
    return 0.5 * 10.0**-decimals * scale


def rounding(figure: Figure) -> float:
    """Return the same as a share of the figure; 0 for a figure of zero."""
    return resolution(figure) / figure.value if figure.value else 0.0


def _number(text: str) -> str:
    found = re.match(r"-?\d+(?:\.\d+)?", text)
    return found[0] if found else "0"


def _scale(figure: Figure) -> float:
    written = float(_number(figure.text))
    return figure.value / written if written else 1.0


def readings(figure: Figure) -> list[Reading]:
    """Return what the unit of bytes or bytes a second of a figure may have meant instead.

    The binary prefix for the decimal one (1.024 for k to 1.0995 for T) and the other way round, and bits for bytes.
    """
    found = re.fullmatch(r"([kKMGT])(i?)(B|b|bit)(ps|/s)?", figure.unit.replace("/GPU", ""))
    if found is None:
        return []
    prefix, binary, each, rate = found[1], found[2], found[3], found[4] or ""
    factor = (1024 / 1000) ** (_PREFIXES.index("k" if prefix == "K" else prefix) + 1)
    made = []
    if each == "B" and binary:
        made.append(Reading(f"{prefix}B{rate}", 1 / factor, "binary_as_decimal"))
    elif each == "B":
        made.append(Reading(f"{prefix}iB{rate}", factor, "binary_as_decimal"))
    if each == "B":
        made.append(Reading(f"{prefix}b{rate}", 1 / 8, "bits_as_bytes"))
    else:
        made.append(Reading(f"{prefix}B{rate}", 8.0, "bits_as_bytes"))
    return made


def unit_of_condition(value: float) -> list[Reading]:
    """Return the binary reading of a stated number of bytes that looks decimal: a condition keeps no unit."""
    if value < 1e3 or float(f"{value:.4g}") != value:
        return []
    power = min(4, int(math.log10(value)) // 3)
    return [Reading(f"{_PREFIXES[power - 1]}iB", (1024 / 1000) ** power, "binary_as_decimal")]
