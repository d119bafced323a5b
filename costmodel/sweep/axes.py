"""Axes of a sweep: lists and ranges in the place of single values, read with the units of the commands."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..data import is_path
from ..errors import InputError, shorten
from ..units import Dimension, parse_option

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Values of an axis; a range of whole numbers takes no memory and may be longer.
MOST_VALUES, MOST_WHOLE = 100_000, 10**9
#: Numbers from here on are not shown: whole ones have no end.
_SHOWN = 1e300
#: Digits to which the values of a range are rounded: 0.1 + 2 * 0.1 is 0.3.
DIGITS = 12


def named(name: str) -> Hashable:
    """Return what two names are compared by: a file by where it lies, however its path is written."""
    return os.path.realpath(name) if is_path(name) else name


@dataclass(frozen=True)
class AxisKind:
    """What an option takes: names, or numbers of one dimension ("count": whole numbers without a unit).

    ``column`` names it in outputs. ``check`` raises InputError for a name that does not exist; ``default`` is what a
    question takes where the option is not given (None: nothing, and there is no column). ``spellings``: other names of
    the same; ``means``: what two names that are the same have in common.
    """

    option: str
    column: str
    help: str
    unit: Dimension | str | None = None
    least: float = 0.0
    most: float = MOST_WHOLE
    check: Callable[[str], object] | None = None
    default: Any = None
    spellings: Mapping[str, str] = field(default_factory=dict, hash=False)
    means: Callable[[str], Hashable] = named

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return self.unit in ("token", "count")

    @property
    def key(self) -> str:
        """Its name in the library: the option's, with underscores."""
        return self.option.lstrip("-").replace("-", "_").lower()


@dataclass(frozen=True)
class Axis:
    """A column of the grid and its values, each once, in the order given."""

    name: str
    values: tuple[Any, ...] | range

    def __len__(self) -> int:
        return len(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        return Axis, (self.name, self.values)

    def at(self, places: NDArray[Any]) -> NDArray[Any]:
        """Return the values at these places."""
        if isinstance(self.values, range):
            return self.values.start + self.values.step * places
        found: NDArray[Any] = self._array[places]
        return found

    @property
    def _array(self) -> NDArray[Any]:
        import numpy as np

        known = self.__dict__.get("_known")
        if known is None:
            known = np.array(self.values, dtype=object if isinstance(self.values[0], str) else None)
            self.__dict__["_known"] = known
        array: NDArray[Any] = known
        return array


def read_axis(kind: AxisKind, given: object) -> Axis:
    """Return the axis that a text (``a,b,c``, ``lo:hi:step``, ``lo:hi*factor``), a value or a sequence describes.

    Raises InputError with every problem of the axis.
    """
    if isinstance(given, str):
        values = _of_text(kind, given)
    elif isinstance(given, range):
        _check_ends(kind, given)
        values = given
    else:
        values = tuple(_of_value(kind, value) for value in _listed(kind, given))
    if not len(values):
        raise InputError(f"{kind.option}: no values")
    if isinstance(values, range):
        return Axis(kind.column, values)
    if len(values) > MOST_VALUES:
        raise InputError(f"{kind.option}: at most {MOST_VALUES:,} values, or a range lo:hi:step")
    _check_names(kind, values)
    _check_once(kind, values)
    return Axis(kind.column, tuple(kind.spellings.get(value, value) for value in values))


def _listed(kind: AxisKind, given: object) -> Iterable[Any]:
    """Return the values of what the library was given: a sequence's, an array's, or the one value that it is."""
    if isinstance(given, bytes | bytearray | memoryview | Mapping | Set):
        raise InputError(f"{kind.option}: pass a value, a list or a text, not {_a(given)}")
    if hasattr(given, "tolist"):  # of numpy
        given = given.tolist()
    return (
        islice(given, MOST_VALUES + 1)
        if isinstance(given, Iterable) and not isinstance(given, str)
        else (given,)
    )


def _a(value: object) -> str:
    """What a value is, for a sentence: a model's own text fills pages."""
    return f"a value of type {type(value).__name__}"


def _check_once(kind: AxisKind, values: Sequence[Any]) -> None:
    seen: dict[Hashable, Any] = {}
    for value in values:
        key = kind.means(kind.spellings.get(value, value)) if kind.unit is None else value
        if key in seen:
            told = f"{value} stands twice" if seen[key] == value else f"{seen[key]} and {value} are the same"
            raise InputError(f"{kind.option}: {told}; every point of a grid is one")
        seen[key] = value


def _check_names(kind: AxisKind, values: Sequence[Any]) -> None:
    problems: list[str] = []
    for value in values if kind.check else ():
        try:
            assert kind.check is not None
            kind.check(kind.spellings.get(value, value))
        except InputError as error:
            problems += [f"{kind.option}: {problem}" for problem in error.problems]
    if problems:
        raise InputError(problems)


def _check_ends(kind: AxisKind, values: range) -> None:
    if not kind.whole:
        raise InputError(f"{kind.option}: a range of whole numbers says nothing here; pass a list of values")
    for value in (values[0], values[-1]) if values else ():
        _of_value(kind, value)


def _of_value(kind: AxisKind, value: Any) -> Any:
    """Check a value of the library's: a name, or a number in SI."""
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if kind.unit is None:
        return _of_name(kind, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        told = shorten(repr(value)) if isinstance(value, str | bool | None) else _a(value)
        raise InputError(f"{kind.option}: {told} is no number")
    if not kind.least <= value <= kind.most:
        shown = "a number this large" if _SHOWN < abs(value) < math.inf else f"{value:g}"
        raise InputError(f"{kind.option}: {shown} does not lie in {_limits(kind)}")
    if kind.whole and value != int(value):
        raise InputError(f"{kind.option}: {value!r} is no whole number")
    return int(value) if kind.whole else float(value)


def _of_name(kind: AxisKind, value: Any) -> str:
    """Check a name of the library's: text, or the path of a file."""
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path if is_path(path) else os.path.join(os.curdir, path)
    if not isinstance(value, str):
        raise InputError(f"{kind.option}: {_a(value)} is no name; pass text, or the path of a file")
    return value


def _limits(kind: AxisKind) -> str:
    return f"{kind.least:,g} .. {kind.most:,.12g}"


def _of_text(kind: AxisKind, text: str) -> Sequence[Any]:
    """Read a list whose parts are values or ranges; a lone range of whole numbers stays one."""
    parts = [part.strip() for part in text.split(",")]
    found: list[Any] = []
    problems: list[str] = []
    for part in parts:
        try:
            if not part:
                raise InputError(f"{kind.option}: {shorten(text)!r} has an empty part")
            values = _part(kind, part)
        except InputError as error:
            problems += error.problems
            continue
        if len(parts) == 1:
            return values
        if len(found) + len(values) > MOST_VALUES:
            raise InputError(f"{kind.option}: more than {MOST_VALUES:,} values; pass one range lo:hi:step")
        found += values
    if problems:
        raise InputError(dict.fromkeys(problems))
    return found


def _part(kind: AxisKind, part: str) -> Sequence[Any]:
    if kind.unit is None:
        return [part]
    if (part.count(":"), part.count("*")) not in _FORMS:
        forms = "lo:hi, lo:hi:step" if kind.whole else "lo:hi:step"
        raise InputError(f"{kind.option}: {shorten(part)!r}: a range is {forms} or lo:hi*factor")
    if ":" not in part:
        return [_number(kind, part)]
    low, _, rest = part.partition(":")
    if "*" in rest:
        high, _, factor = rest.partition("*")
        return _geometric(kind, part, _number(kind, low), _number(kind, high), factor)
    high, _, step = rest.partition(":")
    if not step and ":" in rest:
        raise InputError(f"{kind.option}: {part!r}: the step is empty; write lo:hi or lo:hi:step")
    if not step and not kind.whole:
        raise InputError(f"{kind.option}: {part!r}: write lo:hi:step or lo:hi*factor")
    return _arithmetic(kind, part, _number(kind, low), _number(kind, high), _step(kind, part, step or "1"))


#: Colons and asterisks of a value, and of ranges.
_FORMS = ((0, 0), (1, 0), (2, 0), (1, 1))


def _step(kind: AxisKind, part: str, text: str) -> float:
    found = _parsed(kind, text)
    if found == 0:
        raise InputError(f"{kind.option}: {part!r}: a step of zero never arrives")
    return found


def _number(kind: AxisKind, text: str) -> Any:
    return _of_value(kind, _parsed(kind, text))


def _parsed(kind: AxisKind, text: str) -> float:
    """Read a number with its unit, as the commands do."""
    text = text.strip()
    if kind.unit == "count":
        if not (text.isascii() and text.isdecimal() and len(text) <= 20):
            raise InputError(f"{kind.option}: {shorten(text)!r} is no whole number in digits alone")
        return int(text)
    dimension: Dimension = kind.unit  # type: ignore[assignment]
    return parse_option(text, dimension, kind.option, most=kind.most)


def _check_order(kind: AxisKind, part: str, low: float, high: float) -> None:
    if low > high:
        raise InputError(f"{kind.option}: {part!r} is an empty range: it ends before it begins")


def _arithmetic(kind: AxisKind, part: str, low: Any, high: Any, step: float) -> Sequence[Any]:
    """Values from ``low`` to ``high``, which is one of them where steps arrive at it."""
    _check_order(kind, part, low, high)
    if kind.whole:
        return range(low, high + 1, int(step))
    count = math.floor((high - low) / step * (1 + 1e-12)) + 1
    _check_count(kind, part, count)
    return [float(f"{low + place * step:.{DIGITS}g}") for place in range(count)]


def _geometric(kind: AxisKind, part: str, low: Any, high: Any, text: str) -> Sequence[Any]:
    """Values from ``low`` to ``high``, each ``factor`` times the one before; whole ones are rounded, each once."""
    _check_order(kind, part, low, high)
    factor = parse_option(text.strip(), "1", f"{kind.option}: {part!r}: the factor")
    if factor <= 1:
        raise InputError(f"{kind.option}: {part!r}: a factor must be more than 1")
    if low <= 0:
        raise InputError(f"{kind.option}: {part!r}: a range by factors begins above zero")
    count = math.floor(math.log(high / low) / math.log(factor) + 1e-9) + 1
    _check_count(kind, part, count)
    values = [float(f"{low * factor**place:.{DIGITS}g}") for place in range(count)]
    return list(dict.fromkeys(round(value) for value in values)) if kind.whole else values


def _check_count(kind: AxisKind, part: str, count: int) -> None:
    if count > MOST_VALUES:
        raise InputError(f"{kind.option}: {part!r} is {count:,} values; at most {MOST_VALUES:,}")
