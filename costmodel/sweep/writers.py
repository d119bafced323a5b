"""Where blocks go: CSV, Parquet, a data frame. Files take their names when they are complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..units import format_si
from ..whole_file import file_beside, whole_file
from .blocks import Task, answer, in_order
from .table_text import header, lines
from .tally import Tally

if TYPE_CHECKING:
    from .blocks import Block

#: How a compressed text is to its own: at most this part, for the check that there is room.
_SQUEEZED = 0.05
INSTALL = "pip install 'llm-costmodel[sweep]'"


def _text_of(task: Task, figures: tuple[str, ...]) -> tuple[str, tuple[str, ...], Tally]:
    """Answer a task as text; for any process."""
    block, tally = answer(task), Tally()
    tally.add(block, figures)
    return lines(block), tuple(block), tally


def _block_of(task: Task, figures: tuple[str, ...]) -> tuple[Block, Tally]:
    block, tally = answer(task), Tally()
    tally.add(block, figures)
    return block, tally


def tallied(
    tasks: Iterable[Task], figures: tuple[str, ...], executor: Executor | None
) -> Iterator[tuple[Block, Tally]]:
    """Yield each block with its counts."""
    yield from in_order(partial(_block_of, figures=figures), tasks, executor)


def write_csv(
    path: Path, tasks: Iterable[Task], points: int, figures: tuple[str, ...], executor: Executor | None
) -> Generator[Tally, None, None]:
    """Write blocks as lines and yield the counts of each. Raises InputError where there is no room for all."""
    with whole_file(path) as write:
        first = True
        for text, names, tally in in_order(partial(_text_of, figures=figures), tasks, executor):
            if first:
                squeezed = _SQUEEZED if path.suffix == ".gz" else 1.0
                check_room(path, points * squeezed * len(text) / tally.points)
                write(header(names))
                first = False
            write(text)
            yield tally


def write_parquet(
    path: Path, tasks: Iterable[Task], points: int, figures: tuple[str, ...], executor: Executor | None
) -> Generator[Tally, None, None]:
    """Write blocks as row groups and yield the counts of each. Raises InputError without pyarrow, or room."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(f"{path}: Parquet needs pyarrow ({INSTALL}); or write .csv") from None
    with file_beside(path) as beside:
        writer: Any = None
        try:
            for block, tally in tallied(tasks, figures, executor):
                columns = {name: _arrow(pa, name, column) for name, column in block.items()}
                table = pa.table(columns)
                if writer is None:
                    check_room(path, points * 8.0 * sum(name in block for name in figures))
                    writer = pq.ParquetWriter(beside, table.schema)
                writer.write_table(table)
                yield tally
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from error
        finally:
            if writer is not None:
                writer.close()


def _arrow(pa: Any, name: str, column: Any) -> Any:
    """A column of arrow: null where there is no figure, no reason."""
    if column.dtype == object:
        return pa.array([value or None for value in column.tolist()], type=pa.string())
    return pa.array(column, from_pandas=column.dtype.kind == "f")


def data_frame(blocks: Iterator[Block], points: int) -> Any:
    """Return all blocks as one pandas DataFrame. Raises InputError without pandas, or where memory is too small."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError(f"a data frame needs pandas ({INSTALL})") from None
    import numpy as np

    kept: dict[str, list[Any]] = {}
    for block in blocks:
        if not kept:
            check_memory(points * 8.0 * len(block))
        for name, column in block.items():
            kept.setdefault(name, []).append(column)
    columns: dict[str, Any] = {}
    for name in list(kept):
        whole = np.concatenate(kept.pop(name))
        if whole.dtype == object:
            whole = pd.Categorical([value or None for value in whole])
        columns[name] = whole
    return pd.DataFrame(columns)


def check_room(path: Path, needed: float) -> None:
    """Raise InputError where a file of so many bytes does not fit on its disk."""
    free = shutil.disk_usage(path.absolute().parent).free
    if needed > free:
        raise InputError(
            f"about {format_si(needed, 'byte')} for all points, and {format_si(free, 'byte')} free: sweep fewer, "
            "or write elsewhere",
            where=str(path),
        )


def check_memory(needed: float) -> None:
    """Raise InputError where so many bytes are more than the machine has."""
    have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > have:
        raise InputError(
            f"a data frame of all points takes {format_si(needed, 'byte')}, and this machine has "
            f"{format_si(have, 'byte')}: iterate over the blocks, or write a file"
        )
