"""Names of GPUs among words: those that are packaged, and others by their look."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..data import Sourced
from ..inputs.hardware import DTYPES, SCHEMA, Gpu, load_gpu, packaged_name
from .figures import in_si
from .record import Stated
from .wording import RENTED

#: A word that stands for a name among plain words.
BOARD = "BOARD"
#: Longest name, in words and signs: NVIDIA A100 ( SXM4 , 80GB.
_LONGEST = 8
_INSIDE = ("(", ",")
_SIZE = re.compile(r"(?i)[\s-]?\b(\d{2,3})GB\b")
_LOOKS = re.compile(
    r"(?i)(?!sxm|hbm|gen|pcie|nvlink|cx|v\d|box|ddr|ce|nvl)(?:[a-z]{1,5}-?\d{1,4}[a-z0-9-]*|\d{3}[a-z]\d?)"
)


def boards_in(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the GPUs that words name, and the words with each name as one BOARD. Packaged ones come first."""
    names, left, place = list[str](), list[str](), 0
    rented = [word.removeprefix(RENTED).replace("_", " ") for word in words if word.startswith(RENTED)]
    while place < len(words):
        name, width = _longest(words[place : place + _LONGEST])
        if name is None:
            left.append(words[place])
            place += 1
            continue
        other = _or_size(words[place : place + width], words[place + width : place + width + 2])
        names += [name] + ([other] if other else [])
        left.append(BOARD)
        place += width
    left = [BOARD if word.startswith(RENTED) else word for word in left]
    names = names or [name for text in rented if (name := _packaged(text))]
    if not names:
        left = [BOARD if _LOOKS.fullmatch(word) else word for word in words]
    return list(dict.fromkeys(names)), left


def _longest(words: Sequence[str]) -> tuple[str | None, int]:
    for width in range(len(words), 0, -1):
        if words[0] in _INSIDE or words[width - 1] in _INSIDE:
            continue
        name = _packaged(" ".join(word for word in words[:width] if word not in _INSIDE))
        if name is not None:
            return name, width
    return None, 1


def _or_size(name: Sequence[str], after: Sequence[str]) -> str | None:
    """A100 40GB / 80GB: the GPU of the other size."""
    if len(after) < 2 or after[0] not in ("/", "or") or not _SIZE.fullmatch(after[1]):
        return None
    bare = [word for word in name if not _SIZE.fullmatch(word)]
    return _packaged(" ".join([*bare, after[1]]))


def _packaged(text: str) -> str | None:
    """The packaged GPU of a name, whose memory may stand anywhere in it or have its kind beside it."""
    bare = re.sub(r"(?i)[\s-]hbm\w*$", "", text).strip()
    size = _SIZE.search(bare)
    without = (_SIZE.sub("", bare)).strip(" -") if size else ""
    for candidate in (text, bare, f"{without} {size[1]}GB" if size and without else ""):
        name = packaged_name(candidate) if candidate else None
        if name is not None:
            return name
    name = packaged_name(without) if without else None
    return name if size and name is not None and _holds(name, float(size[1])) else None


def _holds(name: str, gigabytes: float) -> bool:
    """Whether a GPU is sold with so many GB."""
    return abs(load_gpu(name).get("memory") / gigabytes / 2**30 - 1) < 0.08


def as_stated(text: str, conditions: Mapping[str, Stated]) -> Gpu | None:
    """A GPU that is not packaged, of what the report says of one; None where it says neither peak nor bandwidth."""
    found: dict[str, Sourced] = {}
    for key, names, dimension in (
        ("peak_flops", tuple(f"peak_{dtype}" for dtype in DTYPES), "flop/second"),
        ("memory_bandwidth", ("memory_bandwidth",), "byte/second"),
        ("memory", ("memory",), "byte"),
    ):
        value = conditions.get(key)
        if not isinstance(value, int | float):
            value = _in_brackets(text, dimension)
        for name in names if value else ():
            found[name] = Sourced(float(value or 0), f"{value:.6g}", "as the report states it")
    if not found.keys() & {"peak_bf16", "memory_bandwidth"}:
        return None
    bare = re.sub(r"^\s*\d+\s*[x×]\s*|\(.*", "", text).strip() or text
    return Gpu(
        bare,
        text,
        "not packaged",
        None,
        found,
        dict.fromkeys(set(SCHEMA) - set(found), "the report does not state it"),
    )


def _in_brackets(text: str, dimension: str) -> float | None:
    """A quantity of a dimension among words such as (864 GB/s, 119.5 TFLOP/s)."""
    for number, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+(?:/s)?)", text):
        value, own = in_si(float(number), unit, None)
        if own == dimension and not (dimension == "byte" and value < 1e9):
            return value
    return None
