"""What clients of a closed loop see: requests of one length, each client with one under way at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..errors import InputError
from ..formulas import whole


class Loop(NamedTuple):
    """Prompt and output tokens of every request, and the clients."""

    isl: int
    osl: int
    concurrency: int

    @property
    def context(self) -> float:
        """Mean tokens of a running sequence."""
        return self.isl + self.osl / 2


class Seen(NamedTuple):
    """TTFT and TPOT, seconds, and requests a second: numbers, or arrays of step times perturbed one by one."""

    ttft: Any
    tpot: Any
    rate: Any


def closed_loop(loop: Loop, decode_step: Any, prefill_time: Any, request_latency: Any = 0.0) -> Seen:
    """Return what a closed loop settles to.

    Parameters
    ----------
    decode_step: seconds of a step of all clients' decodes, over ``concurrency * loop.context`` cached tokens in all.
    prefill_time: seconds of one prompt alone. request_latency: the constant of a stack,
    ``kind.stack.parameters.request_latency``. Numbers or arrays of one shape.

    Raises InputError for fewer than one client or output token.

    TPOT 10 + 7 / 128 * 100 ms; a cycle of 115 + 127 * 15.47 ms waits 24.9 ms; TTFT 10 * 1.5 + 100 + 24.9 ms:

    >>> seen = closed_loop(Loop(isl=1024, osl=128, concurrency=8), decode_step=0.01, prefill_time=0.1)
    >>> f"{seen.ttft * 1e3:.0f} ms, {seen.tpot * 1e3:.1f} ms, {seen.rate:.2f} requests/s"
    '140 ms, 15.5 ms, 3.80 requests/s'
    """
    if loop.concurrency < 1 or loop.osl < 1 or loop.isl < 1:
        raise InputError(f"a closed loop needs a client, a prompt and an output token at least, not {loop}")
    for name, time in (("decode_step", decode_step), ("prefill_time", prefill_time)):
        if isinstance(time, int | float) and not 0 < time < math.inf:
            raise InputError(f"{name} must be a time above 0, not {time!r}")
    clients, osl = loop.concurrency, loop.osl
    tpot = whole.closed_loop_tpot(decode_step, clients, osl, prefill_time)
    free = whole.closed_loop_ttft(request_latency, 0.0, decode_step, prefill_time)
    wait = whole.closed_loop_wait(free + (osl - 1) * tpot, clients, prefill_time)
    ttft = whole.closed_loop_ttft(request_latency, wait, decode_step, prefill_time)
    return Seen(ttft, tpot, whole.closed_loop_rate(clients, ttft, osl, tpot))
