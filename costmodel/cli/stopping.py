"""Commands that run long, and end cleanly when they are told to: no part of a file stays, and no process."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from types import FrameType

#: Signals that end a command as an interrupt does; their default is to end it on the spot.
_ENDS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the block and exit with 128 and their number; what is ignored stays ignored."""
    ours = threading.current_thread() is threading.main_thread()
    ends = [number for number in _ENDS if ours and signal.getsignal(number) is signal.SIG_DFL]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in ends:  # once is enough: a second one would stop what cleans up
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in ends:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def workers(count: int) -> Iterator[Executor | None]:
    """Give processes that answer blocks, none for a ``count`` of 1; where the block fails, they drop what they do."""
    if count == 1:
        yield None
        return
    from multiprocessing import active_children

    from .workers import Pool

    others = active_children()
    with Pool(count) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            for worker in active_children():
                if worker not in others:
                    worker.terminate()
            raise
