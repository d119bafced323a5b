"""Blocks of a sweep: points by their numbers, answered here or by any executor, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .asked import question, shared
from .product import Grid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: Columns of as many points: axes, figures, ``refused`` and ``reason``.
    Block = dict[str, NDArray[Any]]

T = TypeVar("T")
#: Blocks that an executor holds at a time, answered or not: memory has an end however long the sweep.
AHEAD = 32
REFUSED, REASON = "refused", "reason"


@dataclass(frozen=True)
class Task:
    """Points ``start`` to ``stop`` (not included) of a grid: all that a process needs to answer them."""

    question: str
    grid: Grid
    start: int
    stop: int


def tasks(name: str, grid: Grid, chunk_points: int) -> Iterator[Task]:
    """Cut a grid into tasks."""
    for start in range(0, grid.points, chunk_points):
        yield Task(name, grid, start, min(grid.points, start + chunk_points))


def answer(task: Task) -> Block:
    """Return the columns of a task; those that are the same in every block are shared, and not to be written to."""
    import numpy as np

    asked = question(task.question)
    pieces: list[Block] = []
    for outer, inner, points in task.grid.pieces(task.start, task.stop):
        figures, reasons = asked.answers(outer, inner, points)
        same = {name: shared(value, points) for name, value in outer.items()}
        refused = shared(False, points) if reasons is None else np.asarray(reasons != "", dtype=bool)
        why = shared("", points) if reasons is None else reasons
        pieces.append({**same, **inner, **figures, REFUSED: refused, REASON: why})
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def in_order(function: Callable[[Task], T], given: Iterable[Task], executor: Executor | None) -> Iterator[T]:
    """Yield the function's values of tasks, in their order whoever is done first."""
    if executor is None:
        yield from map(function, given)
        return
    waiting: deque[Future[T]] = deque()
    try:
        for task in given:
            waiting.append(executor.submit(function, task))
            if len(waiting) >= AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
