"""What clients of a closed loop see: requests of one length, each client with one under way at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """Return what a closed loop settles to, from the step of all clients' decodes and the step of one prompt alone."""
    clients, osl = loop.concurrency, loop.osl
    tpot = whole.closed_loop_tpot(decode_step, clients, osl, prefill_time)
    free = whole.closed_loop_ttft(request_latency, 0.0, decode_step, prefill_time)
    wait = whole.closed_loop_wait(free + (osl - 1) * tpot, clients, prefill_time)
    ttft = whole.closed_loop_ttft(request_latency, wait, decode_step, prefill_time)
    return Seen(ttft, tpot, whole.closed_loop_rate(clients, ttft, osl, tpot))
