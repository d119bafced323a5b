"""A reader of the sizes of a tower: an absent one means that the tower cannot be counted."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import InputError
from ..config import LARGEST, shown

#: Parameters by name of a part: vision_tower, vision_head, audio_tower, projector.
Counts = dict[str, int]


class AbsentField(Exception):
    """A size that a tower needs is not there; the message is its path."""


class UnknownKind(Exception):
    """A tower of a kind whose structure is not known; the message names it."""


class Fields:
    """The fields at ``path`` of a configuration."""

    def __init__(self, data: Mapping[str, object], path: str, where: str) -> None:
        self.data = data
        self.path = path
        self._where = where

    def inside(self, key: str) -> Fields:
        """Return the fields of an object. Raises AbsentField, or InputError where it is none."""
        value = self.data.get(key)
        if value is None:
            raise AbsentField(self.path + key)
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Fields(value, f"{self.path}{key}.", self._where)

    def whole(self, *names: str) -> int:
        """Return a positive whole number that stands under one of these names."""
        name = next((name for name in names if self.data.get(name) is not None), None)
        if name is None:
            raise AbsentField(self.path + names[0])
        value = self.data[name]
        if isinstance(value, list) and value and value[0] == value[-1]:
            value = value[0]  # the equal sides of an image, a patch or a kernel
        if type(value) is not int or not 1 <= value <= LARGEST:
            raise self._wrong(name, "a positive whole number")
        return value

    def whole_or(self, default: int, *names: str) -> int:
        """Return such a number, or the default of the published class."""
        return default if all(self.data.get(name) is None for name in names) else self.whole(*names)

    def flag_or(self, default: bool, *names: str) -> bool:
        """Return true or false, or the default of the published class."""
        name = next((name for name in names if self.data.get(name) is not None), None)
        if name is None:
            return default
        value = self.data[name]
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def entries(self, name: str) -> int:
        """Return the length of a list."""
        value = self.data.get(name)
        if value is None:
            raise AbsentField(self.path + name)
        if not isinstance(value, list):
            raise self._wrong(name, "a list")
        return len(value)

    def share(self, name: str) -> int:
        """Return n of a ratio 1 / n, such as 2 of a downsample ratio of 0.5."""
        value = self.data.get(name)
        if value is None:
            raise AbsentField(self.path + name)
        if isinstance(value, float) and 0 < value <= 1 and abs(1 / value - round(1 / value)) < 1e-9:
            return round(1 / value)
        raise self._wrong(name, "a ratio such as 0.5")

    def _wrong(self, name: str, expected: str) -> InputError:
        return InputError(
            f"{self.path}{name} is {shown(self.data[name])}; expected {expected}", where=self._where
        )
