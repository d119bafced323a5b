"""Text files written bit by bit that appear only when they are complete."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from .errors import InputError

#: Level of compression: higher ones take several times as long and save a tenth.
_LEVEL = 1


@contextmanager
def whole_file(path: Path) -> Iterator[Callable[[str], None]]:
    """Give a function that writes text to ``path``, compressed where that ends ``.gz``.

    The text goes to a file beside it, which takes its place when the block ends. After an error or an interrupt
    that one is removed, and whatever stood at ``path`` is as before. Raises InputError where it cannot be
    written; other errors of the block pass as they are.
    """
    with file_beside(path) as beside:
        with _naming(path):
            file = _opened(beside, path.suffix == ".gz")

        def write(text: str) -> None:
            try:
                file.write(text)
            except OSError as error:
                raise _failed(path, error) from error

        try:
            yield write
        except BaseException:
            with suppress(OSError):
                file.close()
            raise
        with _naming(path):
            file.close()


@contextmanager
def file_beside(path: Path) -> Iterator[Path]:
    """Give the path of a file beside ``path``, to be written and closed in the block, that then takes its place.

    After an error that file is removed, and whatever stood at ``path`` is as before. Raises InputError where it
    cannot be written.
    """
    beside = path.with_name(f".{os.getpid()}~{path.name}")
    try:
        with _naming(path):
            _check(path)
        yield beside
        with _naming(path):
            beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()


def _check(path: Path) -> None:
    """Refuse what a file must not take the place of: a folder, a device, a pipe."""
    if path.exists() and not path.is_file():
        raise InputError("cannot be written: it is no file", where=str(path))


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors of the system name the file that was asked for, not the one beside it."""
    try:
        yield
    except OSError as error:
        raise _failed(path, error) from error


def _failed(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot be written: {error.strerror or error}", where=str(path))


def _opened(path: Path, compressed: bool) -> TextIO:
    """Open a text file. A compressed one holds neither its name nor a time: the same text, the same bytes."""
    if not compressed:
        return path.open("w", encoding="utf-8", newline="\n")
    return io.TextIOWrapper(_Compressed(path), encoding="utf-8", newline="\n")


class _Compressed(gzip.GzipFile):
    """A compressed file that closes the file below, too."""

    def __init__(self, path: Path) -> None:
        self._below = path.open("wb")
        super().__init__("", "wb", _LEVEL, self._below, mtime=0)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._below.close()
