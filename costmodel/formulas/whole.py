"""From operators to whole steps, and from steps to what a client measures: host time, and a closed loop of requests."""

from __future__ import annotations

from typing import Any

from ..formula import formula
from ..ops import maximum, sqrt

STACK = "fitted to whole steps; parameters and errors stand in the file of the software stack"
LOOP = "derived: each of so many clients sends its next request when the one before is done"


@formula(
    unit="second",
    symbol="t_h",
    source=STACK,
    assumes=("kernels of one layer leave the GPU idle for as long in each",),
)
def host_layers_time(layers: Any, layer_latency: Any) -> Any:
    """Time of a step in which the GPU waits between kernels, layer by layer.

    80 layers at 25 us:

    >>> f"{host_layers_time(layers=80, layer_latency=25e-6) * 1e3:.1f} ms"
    '2.0 ms'
    """
    return layers * layer_latency


@formula(
    unit="second",
    symbol="t_q",
    source=STACK,
    assumes=("the host samples one sequence after the other, while the GPU waits",),
)
def host_sequences_time(sampled: Any, sequence_latency: Any) -> Any:
    """Time of a step in which the host samples a token of each sequence that is due one.

    32 sequences at 0.4 ms:

    >>> f"{host_sequences_time(sampled=32, sequence_latency=0.4e-3) * 1e3:.1f} ms"
    '12.8 ms'
    """
    return sampled * sequence_latency


@formula(
    unit="second",
    symbol="t_f",
    source=STACK,
    assumes=(
        "the host launches every kernel itself (no CUDA graphs), and ahead of the GPU where that is slower",
    ),
)
def host_bound_time(
    kernels_s: Any, layers: Any, layer_floor: Any, sampled: Any, sequence_latency: Any
) -> Any:
    """Time of a step whose kernels (and sampling) take ``kernels_s``, where the host needs so long for each layer.

    80 layers that take the host 0.5 ms each hide 30 ms of kernels and not 10 sequences at 0.4 ms:

    >>> t = host_bound_time(kernels_s=30e-3, layers=80, layer_floor=0.5e-3, sampled=10, sequence_latency=0.4e-3)
    >>> f"{t * 1e3:.0f} ms"
    '44 ms'
    """
    return maximum(kernels_s, layers * layer_floor + sampled * sequence_latency)


@formula(
    unit="second",
    symbol="t_l",
    source=STACK,
    assumes=("what a message has beyond a size takes a slower path",),
)
def large_message_time(message_bytes: Any, large_message: Any, large_message_rate: Any) -> Any:
    """Time that an all-reduce takes longer because its message is larger than its buffers.

    64 MB, of which 32 MB beyond the size pass at 16 GB/s:

    >>> f"{large_message_time(message_bytes=64e6, large_message=32e6, large_message_rate=16e9) * 1e3:.1f} ms"
    '2.0 ms'
    """
    return maximum(0, message_bytes - large_message) / large_message_rate


@formula(
    unit="1/second",
    symbol="X",
    source=f"{LOOP}; Little's law",
)
def closed_loop_rate(concurrency: Any, ttft: Any, osl: Any, tpot: Any) -> Any:
    """Requests a second of a closed loop.

    8 clients whose requests take 0.2 s and 100 steps of 18 ms, 2 s:

    >>> f"{closed_loop_rate(concurrency=8, ttft=0.2, osl=101, tpot=0.018):.2f}"
    '4.00'
    """
    return concurrency / (ttft + (osl - 1) * tpot)


@formula(
    unit="second",
    symbol=r"\mathrm{TPOT}",
    source=LOOP,
    assumes=(
        "while a request decodes, each other client sends one prompt",
        "prompts delay the decodes beside them",
    ),
)
def closed_loop_tpot(decode_step: Any, concurrency: Any, osl: Any, prefill_time: Any) -> Any:
    """TPOT of a closed loop: a decode step, and the prompts of the other clients spread over the output tokens.

    A step of 10 ms; 7 prompts of 0.2 s over 100 tokens add 14 ms:

    >>> f"{closed_loop_tpot(decode_step=0.01, concurrency=8, osl=100, prefill_time=0.2) * 1e3:.0f} ms"
    '24 ms'
    """
    return decode_step + (concurrency - 1) / osl * prefill_time


@formula(
    unit="second",
    symbol=r"\mathrm{TTFT}",
    source=LOOP,
    assumes=("a request arrives in mid-step, and its prompt rides with the decodes of one step",),
)
def closed_loop_ttft(request_latency: Any, queue_wait: Any, decode_step: Any, prefill_time: Any) -> Any:
    """TTFT of a closed loop: the engine's constant, half a step and the wait for other prompts, its own step.

    20 ms, a wait of 30 ms, 5 of a step's 10 ms, and a prompt of 200 ms beside decodes of 10 ms:

    >>> f"{closed_loop_ttft(request_latency=0.02, queue_wait=0.03, decode_step=0.01, prefill_time=0.2) * 1e3:.0f} ms"
    '265 ms'
    """
    return request_latency + queue_wait + decode_step / 2 + prefill_time + decode_step


@formula(
    unit="second",
    symbol=r"\bar W",
    source=f"{LOOP}; M/D/1 and Little's law together, solved for the wait",
    assumes=("a request meets the prompts of the other clients alone", "they come as at random"),
)
def closed_loop_wait(cycle: Any, concurrency: Any, prefill_time: Any) -> Any:
    """Mean wait of a prompt for those of the other clients, where a request takes ``cycle`` without it.

    W = r D / (2 (1 - r)) with r = X D (N - 1) / N and X = N / (cycle + W) is 2 W^2 + 2 (cycle - (N - 1) D) W =
    (N - 1) D^2. 3 clients, prompts of 1 s, cycles of 3 s: 2 W^2 + 2 W = 2, W = 0.618 s:

    >>> f"{closed_loop_wait(cycle=3, concurrency=3, prefill_time=1):.3f}"
    '0.618'
    """
    others = (concurrency - 1) * prefill_time
    free = cycle - others
    return (sqrt(free**2 + 2 * others * prefill_time) - free) / 2
