"""Processes that answer blocks, drop a block when they are told to, and end with the process that started them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import parent_process
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Pool(ProcessPoolExecutor):
    """A pool whose workers drop what they do on SIGTERM, and never while they hand over a result.

    Killed at that moment, a worker would leave the pool waiting for the rest of its result for ever.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, initializer=_begin)

    def submit(self, function: Callable[..., T], /, *given: Any, **named: Any) -> Future[T]:
        """Answer a call in a worker."""
        return super().submit(_droppable, function, *given, **named)


class _Worker:
    """What this process does, where it is a worker."""

    busy = stopped = False


def _begin() -> None:
    for name in ("SIGINT", "SIGHUP"):  # for the process that started this one, which then sends a SIGTERM
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _stop(number: int, frame: FrameType | None) -> None:
    _Worker.stopped = True
    if _Worker.busy:
        sys.exit(128 + number)


def _droppable(function: Callable[..., T], *given: Any, **named: Any) -> T:
    _Worker.busy = True
    try:
        if _Worker.stopped:
            sys.exit(128 + signal.SIGTERM)
        return function(*given, **named)
    finally:
        _Worker.busy = False


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
