"""Reading packaged and user TOML files: every problem of a file is collected and raised as one error."""

from __future__ import annotations

import math
import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from .errors import InputError, nearest, unknown
from .units import Dimension, parse

HARDWARE = "costmodel._hardware"
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Sourced:
    """A value in SI, the text it was read from and where that comes from (the full text of the source)."""

    value: float
    text: str
    source: str


def package_files(package: str) -> Traversable:
    """Return the folder of packaged data, such as ``costmodel._hardware``.

    In a source tree that is not installed the data lies beside the package, under the name's last word.
    """
    try:
        return files(package)
    except ModuleNotFoundError:
        return Path(__file__).parent.parent / package.rpartition("._")[2]


def resource_names(package: str, folder: str) -> tuple[str, ...]:
    """Return the names (without .toml) of the TOML files packaged in ``folder`` of ``package``, sorted."""
    entries = (entry.name for entry in package_files(package).joinpath(folder).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml")))


def is_path(text: str) -> bool:
    """Say whether ``text`` is written as a path: it ends in .toml or holds a separator."""
    return text.endswith(".toml") or "/" in text or "\\" in text


def locate(name_or_path: str | Path, package: str, folder: str, kind: str) -> Traversable | Path:
    """Return the packaged file of that name, else the path: whatever ends in .toml or holds a separator.

    Raises InputError for a name that is neither, with the nearest packaged one.
    """
    text = str(name_or_path)
    names = resource_names(package, folder)
    if text in names:
        return package_files(package).joinpath(folder, f"{text}.toml")
    if isinstance(name_or_path, Path) or is_path(text):
        return Path(text)
    remedy = f"(known: {', '.join(names)}; or give the path of a TOML file)"
    raise InputError(unknown(kind, text, names, remedy=remedy))


def load_toml(source: Traversable | Path | str) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises InputError, naming the file, when it is missing, a folder, unreadable, not UTF-8, empty or not
    TOML (with line and column).
    """
    source = Path(source) if isinstance(source, str) else source
    where = str(source)
    try:
        text = source.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError("no such file", where=where) from None
    except IsADirectoryError:
        raise InputError("is a folder; expected a TOML file", where=where) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"is not UTF-8 text (line {line}, byte {error.start})", where=where) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=where) from None
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"is not TOML: {_with_position(str(error), text)}", where=where) from None
    if not tables:
        raise InputError("is empty; expected TOML keys", where=where)
    return tables


def _with_position(message: str, text: str) -> str:
    """Give line and column where the parser only says "at end of document"."""
    lines = text.split("\n")
    end = f"at line {len(lines)}, column {len(lines[-1]) + 1}, the end of the file"
    return message.replace("at end of document", end)


class Reader:
    """Reads one table of a file and notes every problem; :meth:`close` raises them all as one InputError.

    A key that cannot be read is noted and a placeholder returned, which nobody sees because ``close`` raises.
    """

    def __init__(
        self, table: Mapping[str, Any], where: str, *, path: str = "", problems: list[str] | None = None
    ) -> None:
        self.table = table
        self.where = where
        self.path = path
        self.problems: list[str] = [] if problems is None else problems

    def note(self, problem: str) -> None:
        """Note a problem once."""
        if problem not in self.problems:
            self.problems.append(problem)

    def close(self) -> None:
        """Raise InputError with all problems noted, if any."""
        if self.problems:
            raise InputError(self.problems, where=self.where)

    def name(self, key: str) -> str:
        """Return the dotted name of a key in the file."""
        return f"{self.path}.{key}" if self.path else key

    def keys(self, required: Collection[str], optional: Collection[str] = ()) -> None:
        """Note missing and unknown keys, each with its nearest counterpart."""
        known = [*required, *optional]
        strangers = [key for key in self.table if key not in known]
        for key in required:
            if key not in self.table:
                match = nearest(key, strangers)
                hint = f"; nearest present: {self.name(match)!r}" if match else ""
                self.note(f"missing key {self.name(key)!r}{hint}")
        for key in strangers:
            match = nearest(key, known)
            hint = f"; did you mean {self.name(match)!r}?" if match else ""
            self.note(f"unknown key {self.name(key)!r}{hint}")

    def sub(self, key: str) -> Reader:
        """Return a reader of the table under ``key`` (empty when absent) that shares the list of problems."""
        table = self.table.get(key, {})
        if not isinstance(table, dict):
            self._wrong(key, table, "a table")
            table = {}
        return Reader(table, self.where, path=self.name(key), problems=self.problems)

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        value = self.table.get(key, "")
        if key in self.table and (not isinstance(value, str) or not value.strip()):
            self._wrong(key, value, "a text")
            return ""
        return str(value)

    def choice(self, key: str, allowed: Collection[str]) -> str:
        """Return one of the texts ``allowed``."""
        value = self.text(key)
        if value and value not in allowed:
            self.note(f"{self.name(key)}: {unknown('value', value, allowed)} (one of {', '.join(allowed)})")
        return value

    def number(
        self, key: str, *, low: float = -math.inf, high: float = math.inf, above: bool = False
    ) -> float:
        """Return a finite number from ``low`` (excluded where ``above``) to ``high``."""
        value = self.table.get(key)
        if value is None:
            return low
        good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
        if not good or not low <= value <= high or (above and value == low):
            bounds = f" in {'(' if above else '['}{low:g}, {high:g}]" if math.isfinite(low) else ""
            self._wrong(key, value, f"a number{bounds}")
            return low
        return float(value)

    def fraction(self, key: str) -> float | None:
        """Return a share or an error that is not negative, None where the key is absent."""
        return self.number(key, low=0) if key in self.table else None

    def whole(self, key: str, *, low: int = 0) -> int:
        """Return a whole number that is at least ``low``."""
        value = self.table.get(key, low)
        if isinstance(value, bool) or not isinstance(value, int) or value < low:
            self._wrong(key, value, f"a whole number, at least {low}")
            return low
        return value

    def quantity(self, key: str, dimension: Dimension, *, positive: bool = True) -> float:
        """Return a text such as "6.2 us" in SI."""
        value = self.table.get(key)
        if isinstance(value, str):
            try:
                return parse(value, dimension, self.name(key), positive=positive)
            except InputError as error:
                for problem in error.problems:
                    self.note(problem)
        elif value is not None:
            self._wrong(key, value, 'a quoted text such as "3.35 TB/s"')
        return math.nan

    def _wrong(self, key: str, value: object, expected: str) -> None:
        self.note(f"{self.name(key)}: {value!r} is not {expected}")


def sourced_values(
    reader: Reader,
    schema: Mapping[str, Dimension],
    required: Collection[str],
    *,
    explained: Collection[str] = (),
    may_be_zero: Collection[str] = (),
) -> tuple[dict[str, Sourced], dict[str, str]]:
    """Read [values], [absent] and [sources] of a file: (key -> value in SI, key -> why it is absent).

    Each value is ``{ value = "3.35 TB/s", source = "key of [sources]" }``. ``required`` must be given,
    ``explained`` given or stand in [absent] with a reason; zero is refused except for ``may_be_zero``.
    """
    values, absent, sources = reader.sub("values"), reader.sub("absent"), reader.sub("sources")
    optional = [key for key in schema if key not in required]
    values.keys(required, optional)
    absent.keys((), schema)
    for key in explained:
        if key not in values.table and key not in absent.table:
            values.note(f"missing key {values.name(key)!r}, or the reason under {absent.name(key)!r}")
    origin = {key: sources.text(key) for key in sources.table}
    given: dict[str, Sourced] = {}
    for key in (key for key in schema if key in values.table):
        entry = values.sub(key)
        if not isinstance(values.table[key], dict):
            continue
        entry.keys(("value", "source"))
        cited = entry.text("source")
        if cited and cited not in origin:
            entry.note(f"{entry.name('source')}: {unknown('source', cited, origin)} (not in [sources])")
        number = entry.quantity("value", schema[key], positive=key not in may_be_zero)
        given[key] = Sourced(number, str(entry.table.get("value")), origin.get(cited, cited))
        if key in absent.table:
            values.note(f"{key!r} stands in [values] and in [absent]")
    return given, {key: absent.text(key) for key in absent.table}


def value_of(name: str, values: Mapping[str, Sourced], absent: Mapping[str, str], key: str) -> float:
    """Return the value of ``key``. Raises InputError where it is absent: why, and how to supply it."""
    if key in values:
        return values[key].value
    reason = absent.get(key, "its file does not state it")
    raise InputError(f"{name} has no {key}: {reason}; to supply it, pass a TOML file that states it")


def not_above(reader: Reader, values: Mapping[str, Sourced], smaller: str, larger: str, why: str) -> None:
    """Note a problem where a sustained or visible figure exceeds the peak or nominal one."""
    low, high = values.get(smaller), values.get(larger)
    if low and high and low.value > high.value:
        reader.note(f"values.{smaller}: {low.text!r} exceeds values.{larger}, {high.text!r}: {why}")


def whole_count(reader: Reader, values: Mapping[str, Sourced], key: str) -> None:
    """Note a problem where a count is not whole."""
    found = values.get(key)
    if found and math.isfinite(found.value) and not re.fullmatch(r"[0-9]+", found.text):
        reader.note(f"values.{key}: {found.text!r} is not a whole number")
