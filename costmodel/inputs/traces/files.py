"""Opening a trace: plain or gzip text, told apart by content, with one message for each failure."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from ...errors import InputError

_GZIP = b"\x1f\x8b"


def _pass_remarks(text: TextIO) -> None:
    """Leave out the lines that say where a file is from. What cannot be read twice has none."""
    if not text.seekable():
        return
    start = text.tell()
    while text.readline().startswith("#"):
        start = text.tell()
    text.seek(start)


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """Give the text of a trace file, line ends as they are, from the first line that is no remark (#).

    Raises InputError, also while the text is read: no such file, a folder, not readable, a damaged gzip
    file, not UTF-8.
    """
    where = str(path)
    try:
        if path.is_dir():
            raise InputError("is a folder; pass the trace file itself", where=where)
        with path.open("rb") as raw:
            data = gzip.GzipFile(fileobj=raw) if raw.peek(2).startswith(_GZIP) else raw
            with TextIOWrapper(data, encoding="utf-8-sig", newline="") as text:
                _pass_remarks(text)
                yield text
    except FileNotFoundError:
        raise InputError("no such trace file", where=where) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: {error.reason} at byte {error.start}", where=where) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"a damaged gzip file: {error}", where=where) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=where) from None
